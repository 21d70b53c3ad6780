"""What the front desk may read of the office, tried with its own credentials, and what it makes of it."""

from datetime import UTC, datetime, timedelta

import pytest

from shared import subjects
from shared.bus.entry import Entry, seal
from shared.contracts import (
    ApprovalAnswer,
    ApprovalRequest,
    DailySpending,
    DeadLetter,
    Email,
    Goal,
    InboxChanged,
    OfficeState,
    PutAside,
    SentEmail,
    StateChanged,
    TaskStatus,
)
from shared.errors import BusUnavailable
from shared.queries.office import OfficeReader
from shared.queries.records import read_goals
from tests.support.server import Server

SOON = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
NOW = datetime.now(UTC).isoformat()


def asked(number: int) -> Entry:
    request = ApprovalRequest(
        sender="critic",
        recipient="user",
        approval_id=f"a{number}",
        what="reach example.org",
        expires_at=SOON,
    )
    return seal(subjects.approval_asked("critic", f"a{number}"), request, expect=0)


def goal(goal_id: str, status: TaskStatus) -> Entry:
    known = Goal(
        goal_id=goal_id, text="Run the tests", requester="user", status=status, submitted_at=NOW, ended_at=NOW
    )
    change = StateChanged(sender="conductor", goal_id=goal_id, state=OfficeState.IDLE, goal=known)
    return seal(subjects.goal(goal_id), change)


async def test_it_knows_what_waits_what_failed_and_what_was_spent(server: Server) -> None:
    critic, user = await server.connect("critic"), await server.connect(subjects.USER)
    conductor, nexus = await server.connect("conductor"), await server.connect("nexus")
    await critic.commit([asked(1), asked(2)])
    digest = ApprovalRequest.from_json(asked(1).payload).digest
    answer = ApprovalAnswer(sender="user", recipient="critic", approval_id="a1", granted=True, digest=digest)
    await user.commit([seal(subjects.approval_answered("critic", "a1"), answer, expect=0)])
    await conductor.commit([goal("g1", TaskStatus.IN_PROGRESS), goal("g2", TaskStatus.FAILED)])
    letter = Email(sender="critic", recipient="user", subject="Which?", body="This one?")
    sent = SentEmail(sender="critic", email=letter, awaited=True)
    dead = DeadLetter(
        sender="critic", reason="It is no task", subject="mail.critic.user", stream="OFFICE", stream_seq=1
    )
    spent = DailySpending(sender="critic", day="2026-11-23", input_tokens=1200, cost=0.5, calls=2)
    await critic.commit(
        [
            seal(subjects.record("critic", "letter", letter.id), sent, expect=0),
            seal(subjects.record("critic", "spending", "2026-11-23"), spent, expect=0),
            seal(subjects.dead("critic"), dead),
        ]
    )
    office = OfficeReader(nexus)
    goals = await office.goals()
    assert {each.goal_id: each.status for each in goals} == {"g1": "in_progress", "g2": "failed"}
    waiting = await office.waiting(goals)
    assert [each.approval_id for each in waiting.approvals] == ["a2"]
    assert [each.id for each in waiting.questions] == [letter.id]
    (left,) = waiting.dead_letters
    assert (left.agent, left.count, left.last.reason) == ("critic", 1, "It is no task")
    assert [each.goal_id for each in waiting.failed_goals] == ["g2"]
    assert await OfficeReader(user).waiting(await read_goals(user)) == waiting
    assert await OfficeReader(user, 100).waiting(await read_goals(user)) == waiting
    gateway = await server.connect(subjects.ADMIN)  # this office has none
    aside = [
        PutAside(id=each, agent="critic", by="ada", created_at=NOW)
        for each in ("failed_goal:g2", "dead_letter:0")
    ]
    record = InboxChanged(sender="gateway", put_aside=tuple(aside))
    await gateway.commit([seal(subjects.PUT_ASIDE, record, expect=0)])
    waiting = await office.waiting(goals)
    assert (len(waiting.failed_goals), waiting.dead_letters[0].count, waiting.count) == (0, 1, 3)
    assert [each.cost for each in await office.spending("2026-11-23")] == [0.5]
    await conductor.commit([goal("g1", TaskStatus.COMPLETED)])
    assert {each.goal_id: each.status for each in await office.goals()}["g1"] == "completed"
    assert await office.spending("2026-11-22") == []


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.API.DIRECT.GET.OFFICE",
        "$JS.API.DIRECT.GET.OFFICE.mail.critic.conductor",
        "$JS.API.DIRECT.GET.OFFICE.task.critic.conductor.t1.new",
        "$JS.API.DIRECT.GET.OFFICE.record.critic.thinking.t1",
        "$JS.API.DIRECT.GET.MEMORY",
        subjects.listing(subjects.MEMORY),
        "$JS.API.STREAM.PURGE.OFFICE",
    ],
)
async def test_it_reads_nothing_else(server: Server, subject: str) -> None:
    nexus = await server.connect("nexus")
    with pytest.raises(BusUnavailable):
        await nexus.request(subject, b'{"seq":1,"batch":1}', timeout=0.3)


@pytest.mark.parametrize("subject", ["state.goal.g1", "dead.critic", "record.critic.spending.2026-11-23"])
async def test_no_other_agent_reads_that(server: Server, subject: str) -> None:
    engineer = await server.connect("engineer")
    for request in (f"$JS.API.DIRECT.GET.OFFICE.{subject}", subjects.listing(subjects.OFFICE)):
        with pytest.raises(BusUnavailable):
            await engineer.request(request, b"", timeout=0.3)
