"""An office in which much has happened: goals, letters, dead letters, schedules, a job, spending.

The time zone is one in which it is the afternoon, so that "this morning" and "last night" are over.
"""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import uuid4
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


GOALS: tuple[dict[str, Any], ...] = (
    {
        "goal_id": "goal_shopcheck1",
        "text": "Check up on ~/src/shop",
        "took": (0, "09:10", "09:22"),
        "outcome": ResultOutcome.FINDINGS,
        "playbook": "checkup",
        "answer": "14 findings, 1 high. Hard-coded secret in settings.py, line 12 (high); unpinned action in "
        "ci.yml (medium); 12 low. Licence: MIT.",
        "verdict": {"approved": True},
        "report_path": "/tmp/none/report.md",
    },
    {
        "goal_id": "goal_kilntests1",
        "text": "Run the tests of ~/src/kiln",
        "took": (1, "16:00", "16:04"),
        "outcome": ResultOutcome.FAILED,
        "playbook": "tests",
        "answer": "2 of 48 tests fail: test_ramp_down (KeyError: 'slope'), test_overheat (AssertionError).",
    },
    {
        "goal_id": "goal_soilsense1",
        "text": "Research battery-free soil sensors",
        "took": (2, "11:00", "11:40"),
        "answer": "Backscatter sensors need no battery; three suppliers: Farmsense, Terravolt, Humus Labs.",
    },
    {
        "goal_id": "goal_ledgerscan",
        "text": "Run the security scan of ~/src/ledger",
        "took": (3, "10:00", "10:02"),
        "status": TaskStatus.CANCELLED,
        "outcome": ResultOutcome.NONE,
        "reason": "cancelled by a person: wrong branch",
    },
    {
        "goal_id": "goal_shoptests1",
        "text": "Run the tests of ~/src/shop",
        "took": (0, "07:00", "07:03"),
        "context": {"schedule": "s1234567"},
        "playbook": "tests",
        "answer": "All 131 tests pass.",
    },
)
"""The goals that ended: ``took`` is the days ago, and from when until when."""
LETTERS = (
    (
        "frontier",
        (8, "15:00"),
        "Two papers on glaze chemistry",
        "One shows how zinc changes a celadon glaze, the other is a review. I filed both.",
    ),
    ("scout", (5, "09:30"), "Dutch sources", "Shall I include Dutch sources in the research?"),
    (
        "critic",
        (3, "17:20"),
        "Review of the ledger importer",
        "I sent the patch back twice because it swallowed dates before 1970. The third version is approved.",
    ),
    (
        "scout",
        (1, "10:00"),
        "Prices of the soil sensors",
        "The cheapest of the three is Farmsense at 38 euros a piece. Terravolt costs 52, from ten pieces 45. "
        "Humus Labs did not name a price.",
    ),
    (
        "cortex",
        (0, "06:10"),
        "Backup of the photo archive",
        "The backup ended at 03:12. 412 GB were copied; 3 files were unreadable.",
    ),
    (
        "engineer",
        (0, "08:30"),
        "Which branch for the kiln fix?",
        "The patch for test_overheat applies to main and to release-2. Which branch shall I use?",
    ),
)
ANSWERED, AWAITED = "Dutch sources", "Which branch for the kiln fix?"
"""The letter that the person answered, and the one whose sender waits for an answer."""


async def plant(office: Office, now: datetime) -> None:
    """What happened in the last days."""

    def at(days: int, clock: str) -> str:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days)
        hour, minute = map(int, clock.split(":"))
        return (midnight + timedelta(hours=hour, minutes=minute)).isoformat()

    working = GoalTask(
        name="translate",
        task_id="task_guide",
        text="Translate docs/guide.md into Dutch",
        assignee="scout",
        status=TaskStatus.IN_PROGRESS,
        issued=True,
        started_at=(now - timedelta(minutes=19)).isoformat(),
    )
    at_work = Goal(
        goal_id="goal_guidedutch",
        text="Translate docs/guide.md of ~/site into Dutch",
        requester=subjects.USER,
        submitted_at=(now - timedelta(minutes=20)).isoformat(),
        status=TaskStatus.IN_PROGRESS,
        tasks=(working,),
    )
    conductor = await office.connect(subjects.CONDUCTOR)
    for goal in (*(_end_goal(each, at) for each in GOALS), at_work):
        change = StateChanged(
            state=OfficeState.IDLE, goal=goal, goal_id=goal.goal_id, sender=subjects.CONDUCTOR
        )
        await conductor.commit([seal(subjects.goal(goal.goal_id), change)])
    for sender, when, subject, body in LETTERS:
        email = Email(
            sender=sender, recipient=subjects.USER, subject=subject, body=body, created_at=at(*when)
        )
        answer = email.reply("Yes") if subject == ANSWERED else None
        note = SentEmail(sender=sender, email=email, awaited=subject == AWAITED, answer=answer)
        bus = await office.connect(sender)
        await bus.commit([seal(subjects.record(sender, "letter", email.id), note)])
    await _plant_trouble(office, now)


def _end_goal(told: dict[str, Any], at: Callable[[int, str], str]) -> Goal:
    days, begun, ended = told["took"]
    fields = {name: value for name, value in told.items() if name != "took"}
    return Goal(
        requester=subjects.USER,
        submitted_at=at(days, begun),
        ended_at=at(days, ended),
        **{"status": TaskStatus.COMPLETED, "outcome": ResultOutcome.DONE, **fields},
    )


async def _plant_trouble(office: Office, now: datetime) -> None:
    """Dead letters, a request for approval, and what was spent."""
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
)
REMINDED = "remind me tomorrow at 9 to call the kiln supplier"


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
        await put_back(office)
        await _say(office, REMINDED)
        paused = (await _say(office, "list my schedules")).text.split("check the links")[0].split()
        await _say(office, f"/schedule pause {[each for each in paused if _SCHEDULE.fullmatch(each)][-1]}")
        yield office


async def put_back(office: Office) -> None:
    """Plan what of the set-up is not planned: at first all, then what a message ended."""
    planned = (await _say(office, "list my schedules")).text
    for text in SET_UP:
        if " ".join(text.split()[-3:]) not in planned:
            await _say(office, text)


_SCHEDULE = re.compile(r"s[0-9a-f]{7}")


async def _say(office: Office, text: str) -> Response:
    session = f"setup-{uuid4()}"
    question = Question(sender=subjects.USER, recipient=subjects.NEXUS, text=text, user_session_id=session)
    return await ask_nexus(office.user, question, PATIENCE)
