"""An office in which much has happened: goals, letters, dead letters, schedules, a job, spending.

The time zone is one in which it is the afternoon, so that "this morning" and "last night" are over.
"""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from services.cortex.__main__ import Cortex
from shared import subjects
from shared.bus.entry import seal
from shared.contracts import (
    ApprovalRequest,
    DailySpending,
    DeadLetter,
    Email,
    Goal,
    GoalTask,
    OfficeState,
    Question,
    Response,
    ResultOutcome,
    SentEmail,
    StateChanged,
    TaskStatus,
)
from shared.tasks.profiles import load_profile
from tests.bench.desk.ground import PATIENCE, join, open_office
from tests.support.asking import ask_nexus
from tests.support.office import Office
from tests.support.server import ROOT

FACTS = (
    "The night shift of the bakery starts at 4 and Ana runs it.",
    "The budget of the summer festival is 4,000 euros.",
    "Agents of the insurance company call on Thursdays.",
    "The status of the roof repair: the tiles are ordered.",
    "The paper 'Who is up at night: sleep of shift workers' was read by Mirko.",
    "The translation of the menu costs 90 euros.",
    "Deploys happen on Tuesdays at noon.",
)
MORE_FACTS = (
    "Petra is responsible for the billing service.",
    "The key of the practice room hangs beside the kitchen door.",
    "The lease of the hall ends in June.",
    "Open point: the catering of the open day is not booked, Lea takes care of it.",
)
EVENTS = (
    ("Call with Terravolt", 0, "17:00", 30, ""),
    ("Dentist", 1, "15:30", 45, "Marktgasse 4"),
    ("Choir rehearsal", 5, "19:00", 120, "St. Anne"),
    ("Open day", 9, "", 2, "Workshop"),
)
"""Title, days from today, time of day, minutes or whole days, and place."""
HOUR = 14  # In the office's time zone it is about this hour


def office_zone() -> str:
    """The time zone in which it is the afternoon now."""
    return f"Etc/GMT{datetime.now(UTC).hour - HOUR:+d}"


async def _goal(office: Office, name: str, text: str, begun: datetime, **fields: Any) -> None:
    goal = Goal(
        goal_id=f"goal_{name}",
        text=text,
        requester=subjects.USER,
        submitted_at=begun.isoformat(),
        **{"status": TaskStatus.COMPLETED, "outcome": ResultOutcome.DONE, **fields},
    )
    change = StateChanged(state=OfficeState.IDLE, goal=goal, goal_id=goal.goal_id, sender=subjects.CONDUCTOR)
    conductor = await office.connect(subjects.CONDUCTOR)
    await conductor.commit([seal(subjects.goal(goal.goal_id), change)])


async def _letter(
    office: Office,
    sender: str,
    at: datetime,
    subject: str,
    body: str,
    answer: str = "",
    *,
    awaited: bool = False,
) -> None:
    email = Email(
        sender=sender, recipient=subjects.USER, subject=subject, body=body, created_at=at.isoformat()
    )
    reply = email.reply(answer) if answer else None
    note = SentEmail(sender=sender, email=email, awaited=awaited, answer=reply)
    bus = await office.connect(sender)
    await bus.commit([seal(subjects.record(sender, "letter", email.id), note)])


async def plant(office: Office, now: datetime) -> None:
    """What happened in the last days."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)

    def at(days: int, clock: str) -> datetime:
        hour, minute = map(int, clock.split(":"))
        return today - timedelta(days=days) + timedelta(hours=hour, minutes=minute)

    await _goal(
        office,
        "shopcheck1",
        "Check up on ~/src/shop",
        at(0, "09:10"),
        ended_at=at(0, "09:22").isoformat(),
        outcome=ResultOutcome.FINDINGS,
        playbook="checkup",
        answer="14 findings, 1 high. Hard-coded secret in settings.py, line 12 (high); unpinned action in "
        "ci.yml (medium); 12 low. Licence: MIT.",
        verdict={"approved": True},
        report_path="/tmp/none/report.md",
    )
    await _goal(
        office,
        "kilntests1",
        "Run the tests of ~/src/kiln",
        at(1, "16:00"),
        ended_at=at(1, "16:04").isoformat(),
        outcome=ResultOutcome.FAILED,
        playbook="tests",
        answer="2 of 48 tests fail: test_ramp_down (KeyError: 'slope'), test_overheat (AssertionError).",
    )
    await _goal(
        office,
        "soilsense1",
        "Research battery-free soil sensors",
        at(2, "11:00"),
        ended_at=at(2, "11:40").isoformat(),
        answer="Backscatter sensors need no battery; three suppliers: Farmsense, Terravolt, Humus Labs.",
    )
    await _goal(
        office,
        "guidedutch",
        "Translate docs/guide.md of ~/site into Dutch",
        now - timedelta(minutes=20),
        status=TaskStatus.IN_PROGRESS,
        outcome=ResultOutcome.NONE,
        tasks=(
            GoalTask(
                name="translate",
                task_id="task_guide",
                text="Translate docs/guide.md into Dutch",
                assignee="scout",
                status=TaskStatus.IN_PROGRESS,
                issued=True,
                started_at=(now - timedelta(minutes=19)).isoformat(),
            ),
        ),
    )
    await _goal(
        office,
        "ledgerscan",
        "Run the security scan of ~/src/ledger",
        at(3, "10:00"),
        ended_at=at(3, "10:02").isoformat(),
        status=TaskStatus.CANCELLED,
        outcome=ResultOutcome.NONE,
        reason="cancelled by a person: wrong branch",
    )
    await _goal(
        office,
        "shoptests1",
        "Run the tests of ~/src/shop",
        at(0, "07:00"),
        ended_at=at(0, "07:03").isoformat(),
        context={"schedule": "s1234567"},
        playbook="tests",
        answer="All 131 tests pass.",
    )
    await _letter(
        office,
        "frontier",
        at(8, "15:00"),
        "Two papers on glaze chemistry",
        "One shows how zinc changes a celadon glaze, the other is a review. I filed both.",
    )
    await _letter(
        office,
        "scout",
        at(5, "09:30"),
        "Dutch sources",
        "Shall I include Dutch sources in the research?",
        "Yes",
    )
    await _letter(
        office,
        "critic",
        at(3, "17:20"),
        "Review of the ledger importer",
        "I sent the patch back twice because it swallowed dates before 1970. The third version is approved.",
    )
    await _letter(
        office,
        "scout",
        at(1, "10:00"),
        "Prices of the soil sensors",
        "The cheapest of the three is Farmsense at 38 euros a piece. Terravolt costs 52, from ten pieces 45. "
        "Humus Labs did not name a price.",
    )
    await _letter(
        office,
        "cortex",
        at(0, "06:10"),
        "Backup of the photo archive",
        "The backup ended at 03:12. 412 GB were copied; 3 files were unreadable.",
    )
    await _letter(
        office,
        "engineer",
        at(0, "08:30"),
        "Which branch for the kiln fix?",
        "The patch for test_overheat applies to main and to release-2. Which branch shall I use?",
        awaited=True,
    )
    frontier = await office.connect("frontier")
    for number in (101, 102):
        letter = DeadLetter(
            sender="frontier",
            recipient="frontier",
            subject="task.frontier.user.t.new",
            reason="The feed https://feeds.example.org/ceramics answered 410 Gone",
            stream=subjects.OFFICE,
            stream_seq=number,
        )
        await frontier.commit([seal(subjects.dead("frontier"), letter)])
    engineer = await office.connect("engineer")
    request = ApprovalRequest(
        sender="engineer",
        approval_id="a1b2c3d4e5f6a1b2",
        what="pip install -r requirements.txt in ~/src/kiln",
        why="It needs the registry of Python packages",
        reach=("python",),
        goal_id="goal_guidedutch",
        expires_at=(now + timedelta(hours=6)).isoformat(),
    )
    await engineer.commit([seal(subjects.approval_asked("engineer", request.approval_id), request)])
    day, before = now.astimezone(UTC).date(), now.astimezone(UTC).date() - timedelta(days=1)
    scout = await office.connect("scout")
    for bus, when, tokens, cost in (
        (scout, day, 12_900, 0.11),
        (engineer, day, 41_000, 0.62),
        (engineer, before, 20_000, 0.30),
    ):
        spent = DailySpending(day=str(when), sender=bus.name, input_tokens=tokens, output_tokens=0, cost=cost)
        await bus.commit([seal(subjects.record(bus.name, "spending", str(when)), spent)])


SET_UP = (
    "every weekday at 7 run the tests of ~/src/shop",
    "every Sunday at 3 back up the photo archive",
    "on the 1st of every month at 12 check the links of ~/site",
    "tonight rebuild the search index of ~/archive",
    "remind me tomorrow at 9 to call the kiln supplier",
)


def write_events(today: date) -> str:
    """The events of a full calendar, as ICS has them."""
    written = []
    for number, (title, days, clock, lasts, place) in enumerate(EVENTS):
        day = today + timedelta(days=days)
        if clock:
            at = datetime.combine(day, time.fromisoformat(clock))
            when = f"DTSTART:{at:%Y%m%dT%H%M%S}\r\nDTEND:{at + timedelta(minutes=lasts):%Y%m%dT%H%M%S}"
        else:
            when = f"DTSTART;VALUE=DATE:{day:%Y%m%d}\r\nDTEND;VALUE=DATE:{day + timedelta(days=lasts):%Y%m%d}"
        written.append(
            f"BEGIN:VEVENT\r\nUID:e{number}\r\nSUMMARY:{title}\r\nLOCATION:{place}\r\n{when}\r\nEND:VEVENT\r\n"
        )
    return "".join(written)


@asynccontextmanager
async def open_busy(*, full: bool = False) -> AsyncIterator[Office]:
    """The office, with events and more facts if it is ``full``.

    The conductor is not at work in it, and no outside mailbox is set.
    """
    zone = office_zone()
    today = datetime.now(ZoneInfo(zone)).date()
    async with (
        open_office(
            (*FACTS, *MORE_FACTS) if full else FACTS,
            with_desk=True,
            events=write_events(today) if full else "",
            colleagues=("frontier", "scout", "engineer", "critic"),
            MAILROOM_TIME_ZONE=zone,
            MAILROOM_DAY_TOKENS="500000",
            MAILROOM_DAY_COST="5",
            MAILROOM_NIGHT="22:00-06:00",
        ) as office,
        AsyncExitStack() as ends,
    ):
        await plant(office, datetime.now(ZoneInfo(zone)))
        await join(office, ends, Cortex, load_profile(ROOT / "services" / "cortex" / "profile.yaml"))
        for number, text in enumerate(SET_UP):
            await _say(office, text, number)
        paused = (await _say(office, "list my schedules", 7)).text.split("check the links")[0].split()
        await _say(office, f"/schedule pause {[each for each in paused if _SCHEDULE.fullmatch(each)][-1]}", 8)
        yield office


_SCHEDULE = re.compile(r"s[0-9a-f]{7}")


async def _say(office: Office, text: str, number: int) -> Response:
    session = f"setup-{number}"
    question = Question(sender=subjects.USER, recipient=subjects.NEXUS, text=text, user_session_id=session)
    return await ask_nexus(office.user, question, PATIENCE)
