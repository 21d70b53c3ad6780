"""Lists of the command among thousands: pages that say what more there is, at the cost of a page."""

import resource
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import pytest_asyncio

from shared import subjects
from shared.bus.records import MAX_PROCESSES
from shared.contracts import (
    Due,
    DueKind,
    Email,
    Goal,
    OfficeState,
    Presence,
    StateChanged,
    TaskStatus,
    Timetable,
)
from shared.operations import letters
from shared.timetable import contents_record, due_record
from tests.support.server import ROOT, Server, mailroom_command

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

MANY = 6_000
SEARCHED = 10_000
BEYOND = 3.0
"""Seconds of processor time that a list may take beyond a command that prints its version: to connect takes a
third of one, to read all that is here several."""
NOW = datetime.now(UTC)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    running = Server(tmp_path_factory.mktemp("office"))
    try:
        await running.start()
        running.announce()
        await fill(running)
        running.start_gateway()
        yield running
    finally:
        await running.close()


async def publish(server: Server, name: str, messages: list[tuple[str, bytes]]) -> None:
    """Have ``name`` store messages, as any client with its key may."""
    async with server.raw_client(name) as client:
        for number, (subject, data) in enumerate(messages[:-1]):
            await client.publish(subject, data)
            if number % 500 == 0:
                await client.flush()
        await client.flush()
    async with server.connection(name) as bus:
        await bus.store(*messages[-1], timeout=60)  # those before it are stored once it is


async def fill(server: Server) -> None:
    """Store MANY goals and reminders, and twice as many mails, as their agents may."""

    goals = [make_goal(n, open_since=None) for n in range(MANY)]
    goals[7] = make_goal(7, open_since=NOW - timedelta(days=9))
    active = {"goal-7": OfficeState.EXECUTING}
    board = StateChanged(sender="conductor", state=OfficeState.EXECUTING, active=active)
    changes = [
        (
            subjects.goal(goal.goal_id),
            StateChanged(sender="conductor", state=OfficeState.IDLE, goal=goal).to_json(),
        )
        for goal in goals
    ]
    await publish(server, "conductor", [*changes, (subjects.OFFICE_STATE, board.to_json())])
    reminders = [
        Due(
            sender="nexus",
            due_id=f"r{n}",
            what=DueKind.MAIL,
            text=f"Water plant {n}",
            requester="user",
            at=(NOW + timedelta(hours=n)).isoformat(),
        )
        for n in range(MANY)
    ]
    contents = Timetable(sender="nexus", ids=tuple(each.due_id for each in reminders))
    kept = [(due_record(each.due_id), each.to_json()) for each in reminders]
    await publish(server, "nexus", [*kept, (contents_record(), contents.to_json())])
    mails = [
        Email(sender="critic", recipient="user", subject=f"Subject {n}", body=f"Is it {find(n)}so?")
        for n in range(2 * MANY)
    ]
    await publish(server, "critic", [(subjects.mail("user", "critic"), mail.to_json()) for mail in mails])


def find(number: int) -> str:
    """What only two mails say: one that a search reads first, and one beyond what it reads at a time."""
    return "the Ärger" if number in (2 * MANY - 10, 10) else ""


def make_goal(number: int, *, open_since: datetime | None) -> Goal:
    at = open_since or NOW - timedelta(seconds=MANY - number)
    return Goal(
        goal_id=f"goal-{number}",
        text=f"Do {number}. " + "Mind what was said before. " * 40,
        requester="user",
        status=TaskStatus.IN_PROGRESS if open_since else TaskStatus.COMPLETED,
        submitted_at=at.isoformat(),
        ended_at="" if open_since else at.isoformat(),
    )


def listed(server: Server, *arguments: str) -> tuple[str, str]:
    """What a command prints, within BEYOND seconds of processor time beyond that of one that does nothing."""

    def spend(*words: str) -> tuple[float, "subprocess.CompletedProcess[str]"]:
        command, own = mailroom_command(*words), server.environment
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done

    nothing, _ = spend("--version")
    taken, done = spend(*arguments)
    assert done.returncode == 0, done.stderr
    assert taken - nothing < BEYOND, arguments
    assert len(done.stdout.splitlines()) < 300
    return done.stdout, done.stderr


async def test_goals_are_a_page_of_the_open_ones_and_those_that_changed_last(server: Server) -> None:
    text, _ = listed(server, "tasks")
    assert f"goal-{MANY - 1} " in text
    assert "goal-7 " in text  # open for days, and nothing changed since
    assert text.count("\ngoal-") + text.startswith("goal-") == 30
    assert f"and {MANY - 30:,} more: --limit lists more" in text
    text, told = listed(server, "tasks", "--limit", "5", "--json")
    assert [each["goal_id"] for each in msgspec.json.decode(text)] == [
        "goal-7",
        *(f"goal-{MANY - n}" for n in (4, 3, 2, 1)),
    ]
    assert f"and {MANY - 5:,} more: --limit lists more" in told


async def test_reminders_are_a_page_of_the_next(server: Server) -> None:
    text, _ = listed(server, "reminders", "list")
    assert "Water plant 29" in text
    assert "Water plant 30" not in text
    assert f"and {MANY - 30:,} more: --limit lists more" in text
    text, told = listed(server, "reminders", "list", "--limit", "2", "--json")
    assert [each["due_id"] for each in msgspec.json.decode(text)] == ["r0", "r1"]
    assert f"and {MANY - 2:,} more" in told


async def test_an_agent_that_writes_thousands_of_presences_hides_no_other(server: Server) -> None:
    for agent, number in (("scout", 1), ("critic", MANY)):
        presences = [
            Presence(
                sender=agent, agent=agent, instance=f"i{n}", version="1", actions={"read": "Reads. " * 99}
            )
            for n in range(number)
        ]
        named = [(subjects.presence(agent, each.instance), each.to_json()) for each in presences]
        await publish(server, agent, named)
    text, _ = listed(server, "agents")
    assert f"critic  {MAX_PROCESSES} processes (no more are read)" in text
    assert "scout  1 process, " in text
    text, _ = listed(server, "status")
    assert "critic" in text


async def test_mail_is_searched_back_from_the_latest(server: Server) -> None:
    assert letters.SEARCHED == SEARCHED
    text, _ = listed(server, "mail", "list", "--contains", "the ärger")
    assert text.count(" the Ärger") == 1
    assert f"Subject {2 * MANY - 10}" in text
    place = text.rpartition("There is older mail: --before ")[2].split()[0]
    text, _ = listed(server, "mail", "list", "--contains", "the ärger", "--before", place)
    assert "Subject 10:" in text
    assert "There is older mail" not in text
    text, told = listed(server, "mail", "list", "--contains", "so?", "--limit", "3", "--json")
    found = msgspec.json.decode(text)
    assert [each["subject"] for each in found] == [f"Subject {2 * MANY - n}" for n in (3, 2, 1)]
    assert f"--before {found[0]['number']} searches it" in told
    text, _ = listed(server, "mail", "list", "--from", "critic", "--before", str(found[0]["number"]))
    assert f"Subject {2 * MANY - 4}:" in text
    assert f"Subject {2 * MANY - 3}:" not in text
