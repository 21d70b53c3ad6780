"""The desk's tools in a running office: what is kept, what is started and stopped, what is added and told."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import (
    DailySpending,
    Email,
    Goal,
    OfficeState,
    Question,
    Response,
    ResultOutcome,
    SentEmail,
    StateChanged,
    TaskStatus,
)
from shared.text.display import shorten_id
from tests.support.asking import ask_nexus
from tests.support.office import Office
from tests.support.waiting import eventually

NOW = "2026-03-18T13:05:00+00:00"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Office]:
    """An office of nexus, memory and the conductor, with a calendar that does not exist yet."""
    running = Office(
        tmp_path,
        MAILROOM_CALENDAR=str(tmp_path / "calendar.ics"),
        MAILROOM_TIME_ZONE="Europe/Berlin",
        MAILROOM_LINKER_INTERVAL="1000000",
    )
    try:
        await running.open(["memory", "nexus", "conductor"])
        yield running
    finally:
        await running.close()


async def say(desk: Office, text: str, session: str = "") -> Response:
    question = Question(sender="user", recipient="nexus", text=text, user_session_id=session, created_at=NOW)
    return await ask_nexus(desk.user, question, 30)


async def test_what_the_desk_does_and_tells(desk: Office) -> None:
    # what it is told is kept, and found again; a statement is kept after a yes alone
    kept = await say(desk, "Please remember that the caretaker of the hall is called Ibrahim")
    assert (kept.route_used, kept.outcome) == ("tool:remember", ResultOutcome.DONE)
    found = await say(desk, "What is the caretaker of the hall called?")
    assert found.citations == kept.citations
    assert "Ibrahim" in found.text
    heard = await say(desk, "The kiln of the pottery was repaired by Noor", "s1")
    assert heard.route_used in ("tool:statement", "tool:correct")
    assert "remember" in heard.text
    assert not heard.citations
    assert (await say(desk, "yes", "s1")).route_used == "tool:remember"

    # what corrects a memory says what was held; what is to be forgotten is found, and erased by no word
    now = await say(desk, "Actually, the caretaker of the hall is called Selma now")
    assert now.route_used in ("tool:correct", "tool:remember")
    assert "Until now memory held: The caretaker of the hall is called Ibrahim" in now.text
    # one sentence ends what it names, and nothing else; it is taken back by a word
    await say(desk, "remember that Jonas works on Mondays", "s3")
    await say(desk, "remember that the spare key is with Mr Ochs", "s3")
    moved = await say(desk, "no longer, it's with the Meiers now, not Ochs", "s3")
    assert "I shall remember: The spare key is with the Meiers" in moved.text
    assert "Until now memory held: The spare key is with Mr Ochs" in moved.text
    assert (await say(desk, "who has the spare key?", "s4")).text.startswith(
        "The spare key is with the Meiers"
    )
    assert "Taken back" in (await say(desk, "take that back", "s3")).text
    assert (await say(desk, "who has the spare key?", "s5")).text.startswith("The spare key is with Mr Ochs")
    await say(desk, "correction: Jonas does not work on Fridays", "s6")
    assert "Before that" not in (await say(desk, "does Jonas work on Mondays?", "s7")).text
    kept = await say(desk, "remember that the porter of the annex lives in Oslo", "s9")
    other = await say(desk, "correction: the porter of the annex is Selma", "s9")
    assert other.citations != kept.citations
    assert "Oslo" in (await say(desk, "where does the porter of the annex live?", "s10")).text
    liked = await say(desk, "by the way i prefer short answers", "s8")
    assert (liked.route_used, bool(liked.citations)) == ("tool:remember", True)

    for text in ("forget that thing about the caretaker", "Please delete everything you know about the kiln"):
        told = await say(desk, text)
        assert told.route_used == "tool:forget"
        assert ("mailroom memory forget" in told.text, bool(told.citations)) == (True, True)
    assert "Memory holds nothing like that" in (await say(desk, "forget my aunt's telephone number")).text
    assert "days, from" in (await say(desk, "how many days until christmas")).text

    # work starts from a request alone, and is stopped by a word
    for text in ("Have the tests been run?", "I ran the tests of /srv/shop", "Please don't run the tests"):
        assert (await say(desk, text)).goal_id == ""
    started = await say(desk, "Find out why the nightly job fails", "s2")
    assert started.goal_id

    async def known() -> bool:
        return await desk.goal(started.goal_id) is not None

    await eventually(known, 10)
    told = await say(desk, "which goals are there?")
    assert started.goal_id in told.text
    goal = await desk.goal(started.goal_id)
    assert goal is not None
    if not goal.status.final:
        await say(desk, f"/stop {started.goal_id}")
        assert (await desk.finished(started.goal_id)).status is TaskStatus.CANCELLED

    # what is on a schedule is stopped by its words; what only one run is to be left out of is asked about
    await say(desk, "every night at 2 run the linter of ~/depot")
    await say(desk, "every Friday at 9 write a summary of the tide tables")
    asked = await say(desk, "skip the linter tonight")
    assert (asked.route_used, "I cannot leave out a single run" in asked.text) == ("tool:stop", True)
    assert "Nothing that I can stop has these words" in (await say(desk, "cancel the bread order goal")).text
    assert "is removed" in (await say(desk, "stop the nightly linter")).text
    assert "is removed" not in (await say(desk, "stop the nightly linter")).text
    assert "is removed" in (await say(desk, "unschedule the tide tables")).text

    # the calendar is written, once for each message, and read
    added = await say(desk, "Put lunch with Ana on Friday at 12 in my calendar")
    assert added.text == "Added to the calendar: lunch with Ana, Friday 20 March 2026 at 12:00"
    assert "lunch with Ana" in (await say(desk, "What is on my calendar on Friday?")).text
    assert "On which day?" in (await say(desk, "Add the harvest supper to the calendar please")).text

    # what agents spent and wrote is told
    scout = await desk.connect("scout")
    spent = DailySpending(day="2026-03-18", sender="scout", input_tokens=12_000, output_tokens=900, cost=0.11)
    letter = Email(sender="scout", recipient="user", subject="The licence", body="It is Apache-2.0.")
    note = SentEmail(sender="scout", email=letter)
    await scout.commit(
        [
            seal(subjects.record("scout", "spending", "2026-03-18"), spent),
            seal(subjects.record("scout", "letter", letter.id), note),
        ]
    )
    assert "Today: 12,900 tokens, $0.11." in (await say(desk, "How many tokens have been used today?")).text
    for text in ("What did scout write me?", "newest letter", "is there mail about a licence"):
        assert f"mailroom mail show {shorten_id(letter.id)}" in (await say(desk, text)).text
    reply = (await say(desk, "Reply to scout: that is fine, we keep it")).text
    assert f"mailroom mail reply {shorten_id(letter.id)} 'that is fine, we keep it'" in reply
    assert "There is no server to send mail with" in (await say(desk, "email me the morning briefing")).text
    assert "No letters from critic" in (await say(desk, "any mail from the critic?")).text
    agents = (await say(desk, "who is down?")).text
    assert ("scout: not at work" in agents, "conductor: " in agents) == (True, False)
    up = (await say(desk, "who is up?")).text
    assert ("scout: " in up, "conductor: " in up) == (False, True)
    assert (await say(desk, "any dead letters?")).text == "No dead letters."
    told = (await say(desk, "give me a quick picture of what was cancelled today, I report upwards")).text
    assert "goals that were cancelled between" in told or "cancelled, " in told
    assert "quick" not in told
    assert (await say(desk, "which goals about trains are running?")).text.startswith("No goals")
    goals = [StateChanged.from_json(data).goal for _, _, data in await desk.stored("state.goal.*")]
    failed = {
        goal.goal_id for goal in goals if goal is not None and goal.failed
    }  # one was perhaps stopped in time
    waiting = (await say(desk, "What waits for me?")).text.splitlines()
    assert len(waiting) == 1 + len(failed), waiting
    assert (waiting[0][2:7], {each[:9] for each in waiting[1:]}) == ("thing", {"- Failed:"})
    assert (await say(desk, "what is 12% of 340")).text == "12% of 340 = 40.8"


THE_AGENTS = (
    "which agents are there?",
    "show me all agents",
    "who works in this office?",
    "what agents do i have",
    "who are my colleagues",
    "who all works here",
)
OF_A_THING = (
    "how many requests does one token get?",
    "how many requests per minute may a token make?",
    "how long is an api token valid",
    "What did the lathe cost?",
    "what does the new oven cost",
    "what did the second van cost us?",
    "who wrote calc?",
    "who built the calc",
    "who is the author of calc?",
    "who has written calc",
)
"""What memory is asked, though it has words of the office."""


async def test_what_is_asked_of_the_office_and_what_of_a_thing(desk: Office) -> None:
    goal = Goal(
        goal_id="goal_calccheck",
        text="Check up on ~/src/calc",
        requester=subjects.USER,
        submitted_at=NOW,
        ended_at=NOW,
        status=TaskStatus.COMPLETED,
        outcome=ResultOutcome.FINDINGS,
        answer="Tests: 3 passed, 1 failed in 0.2 s (pytest, from x).\n- test_add: 3 != 4 (test_calc.py:7)",
    )
    change = StateChanged(state=OfficeState.IDLE, goal=goal, goal_id=goal.goal_id, sender=subjects.CONDUCTOR)
    conductor = await desk.connect(subjects.CONDUCTOR)
    await conductor.commit([seal(subjects.goal(goal.goal_id), change)])
    for text in THE_AGENTS:
        told = await say(desk, text)
        assert (text, told.route_used) == (text, "tool:goals")
        assert all(f"- {name}: " in told.text for name in ("conductor", "nexus", "scout")), told.text
    for text in OF_A_THING:
        assert (text, (await say(desk, text)).route_used) == (text, "nexus")
    for text in ("which test broke", "what tests failed?", "name the failing tests"):
        assert "test_add: 3 != 4" in (await say(desk, text)).text
    told = await say(desk, "what just happened")
    assert (told.route_used, told.text.count(goal.goal_id)) == ("tool:goals", 1)
    told = await say(desk, "how do things stand?")
    assert told.text.count(goal.goal_id) <= 1
