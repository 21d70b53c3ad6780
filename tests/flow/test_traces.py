"""One trace runs through all that follows from a submission, over processes, kills and people's answers."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import CancelGoal, StateChanged, Task, TaskChanged, TaskStatus
from shared.operations.approvals import answer_request, find_approvals, read_approvals
from shared.trace import HEADER, continue_trace, current_trace, headers_of, join_trace, trace_id
from tests.support.office import Office
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.waiting import eventually

CLERK = '''"""An agent for tests: does what leaves messages of every kind."""
from shared.agent.base import Agent
from shared.agent.process import run
from shared.contracts import Node
from shared.tasks.actions import register_action


WAIT = {"seconds": 1.5}


class Clerk(Agent):
    """Remembers, asks a person, and has another agent work."""

    @register_action("Do some of everything", {})
    async def handle_case(self) -> str:
        """The answer of the other agent."""
        await self.context.judge_command("rm -rf /")
        await self.context.memory.add(Node(id="case-1", title="A case is open", body="It is about tea."))
        await self.context.approvals.require("close the case")
        result = await self.context.delegation.run("slow", "Wait", action="wait", params=WAIT)
        return f"{result.output}, attempt {self.context.current_task.attempt} of the clerk"


if __name__ == "__main__":
    run(Clerk, __file__)
'''
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
async def office(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Office]:
    """An office of the agents that a test names."""
    environment = install_slow_agent(tmp_path)
    home = tmp_path / "agents" / "clerk"
    home.mkdir()
    (home / "profile.yaml").write_text("name: clerk\ndescription: Handles cases.\n")
    (home / "__main__.py").write_text(CLERK)
    running = Office(tmp_path, **environment)
    try:
        await running.open(request.param)
        yield running
    finally:
        await running.close()


def agents(*names: str) -> pytest.MarkDecorator:
    """Have the office of a test open with these agents."""
    return pytest.mark.parametrize("office", [names], indirect=True, ids=["-".join(names)])


async def logged(bus: Bus) -> list[Stored]:
    """Everything both streams of the log hold, with the senders' headers."""
    found: list[Stored] = []
    for stream in subjects.LOG:
        seq = 1
        while page := [
            each async for each in bus.read(stream, {"seq": seq, "batch": 500, "next_by_subj": ">"})
        ]:
            found += page
            seq = page[-1].seq + 1
    return found


def trace_of(stored: Stored) -> str:
    return trace_id(stored.headers.get(HEADER, ""))


@agents("conductor", "critic", "memory", "slow", "clerk")
async def test_one_goal_is_one_trace_over_processes_that_are_killed(office: Office) -> None:
    context = {"assignee": "clerk", "action": "handle_case", "params": {}}
    body = {"text": "Close the case", "goal_id": "tea-1", "context": context}
    await office.user.store(subjects.SUBMIT, msgspec.json.encode(body), headers={HEADER: PARENT})
    await eventually(lambda: find_approvals(office.user, ""))
    office.kill("clerk")
    office.start("clerk")
    office.kill("conductor")
    office.start("conductor")
    (asked,) = (await read_approvals(office.user)).approvals
    await answer_request(office.user, asked.request.approval_id, True, "")
    await eventually(lambda: office.claimed("slow"))
    office.kill("slow")
    office.start("slow")
    goal = await office.finished("tea-1", 60.0)
    assert goal.status is TaskStatus.COMPLETED, goal.reason
    assert "attempt 2 of the clerk" in goal.answer
    assert trace_id(goal.traceparent) == TRACE

    messages = await logged(office.user)
    ours = [each for each in messages if "tea-1" in each.subject or b"tea-1" in each.data]
    strangers = {each.subject for each in ours if trace_of(each) != TRACE}
    assert strangers <= {subjects.OFFICE_STATE}, strangers  # which is about all goals
    kinds = {msgspec.json.decode(each.data).get("type", "") for each in messages if trace_of(each) == TRACE}
    assert kinds >= {
        "",  # the submission
        "task.v1",
        "task_changed.v2",
        "task_result.v1",
        "state_changed.v1",
        "agent_report.v1",
        "approval_request.v1",
        "approval_answer.v1",
        "command_judged.v1",
        "memory_write.v1",
    }
    claims = [each for each in ours if each.subject.endswith(f".{subjects.CLAIMED}")]
    assert max(TaskChanged.from_json(each.data).attempt for each in claims) == 2
    tasks = [Task.from_json(each.data) for each in ours if each.subject.endswith(".new")]
    assert {trace_id(task.traceparent) for task in tasks} == {TRACE}
    assert all(each.headers[HEADER].endswith("-00") for each in ours if each.subject != subjects.OFFICE_STATE)


@agents("slow")
async def test_what_has_no_trace_gets_the_same_one_in_every_attempt(office: Office) -> None:
    task = Task(
        task_id="t1",
        text="Wait",
        assignee="slow",
        requester=subjects.USER,
        context={"action": "wait", "params": {"seconds": 1.5}},
    )
    subject = subjects.task("slow", subjects.USER, "t1", subjects.NEW["MEDIUM"])
    await office.user.store(subject, task.to_json())
    await eventually(lambda: office.claimed("slow"))
    office.kill("slow")
    office.start("slow")
    assert (await office.result("slow", "t1")).attempt == 2
    steps = [each for each in await logged(office.user) if ".t1." in each.subject]
    assert trace_of(steps[0]) == ""
    assert len({trace_of(each) for each in steps[1:]}) == 1
    assert trace_of(steps[-1])


@agents("conductor", "critic", "slow")
async def test_a_cancelled_goal_ends_in_its_own_trace(office: Office) -> None:
    await office.submit(slow_goal("g2", 20.0))
    await eventually(lambda: office.claimed("slow"))
    request = CancelGoal(sender=subjects.USER, recipient=subjects.CONDUCTOR, goal_id="g2", reason="enough")
    subject = subjects.mail(subjects.CONDUCTOR, subjects.USER)
    await office.user.store(subject, request.to_json(), headers={HEADER: PARENT})
    goal = await office.finished("g2")
    records = [each for each in await logged(office.user) if each.subject == subjects.goal("g2")]
    assert StateChanged.from_json(records[-1].data).goal == goal
    assert {trace_of(each) for each in records} == {trace_id(goal.traceparent)}
    assert trace_id(goal.traceparent) != TRACE


@pytest.mark.parametrize(
    ("parent", "valid"),
    [
        (PARENT, True),
        (PARENT[:-2] + "03", True),
        ("cc" + PARENT[2:] + "-what-comes-later", True),
        (PARENT + "-more", False),
        ("ff" + PARENT[2:], False),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (PARENT.upper(), False),
        (PARENT + "\r\nNats-Msg-Id: x", False),
        ("", False),
        ("x" * 10_000, False),
    ],
)
def test_a_traceparent_is_read_as_the_standard_has_it(parent: str, valid: bool) -> None:
    assert (trace_id(parent) == TRACE) == valid
    continue_trace(parent)
    assert (trace_id(current_trace()) == TRACE) == valid
    assert current_trace().startswith("00-")
    assert current_trace()[36:52] not in parent


def test_the_origin_decides_the_trace_of_what_has_none() -> None:
    found = []
    for origin in ("OFFICE 1 2", "OFFICE 1 2", "OFFICE 1 3", "", ""):
        continue_trace("", origin)
        found.append(trace_id(current_trace()))
    assert found[0] == found[1]
    assert len(set(found)) == 4
    join_trace("")
    assert trace_id(current_trace()) == found[-1]
    join_trace(PARENT)
    before = current_trace()
    join_trace(PARENT)
    assert current_trace() == before
    assert headers_of(f"00-{secrets.token_hex(16)}-00f067aa0ba902b7-01") == {HEADER: before}
