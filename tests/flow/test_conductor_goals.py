"""The conductor at work on a real server: goals handed out, reviewed, reported, ended, whatever comes."""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from services.conductor import goal_runner, planner
from services.conductor.__main__ import Conductor
from services.conductor.planner import Planner
from services.conductor.playbook import Playbook, PlaybookStep
from services.conductor.review import MAX_REVIEWS
from services.conductor.state_machine import ALLOWED
from shared import subjects
from shared.agent.base import Agent
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import TaskState, read_task_state
from shared.contracts import (
    AgentReport,
    CancelGoal,
    Goal,
    OfficeState,
    ResultOutcome,
    StateChanged,
    TaskResult,
    TaskStatus,
    Verdict,
)
from shared.errors import ActionError
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from tests.support.team import Team, open_team

pytestmark = pytest.mark.timeout(30)

APPROVE = Verdict(approved=True)
PLANS = {
    "one": {"a": ()},
    "two": {"a": (), "b": ()},
    "chain": {"a": (), "b": ("a",), "c": ("b",)},
    "diamond": {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")},
    "unstaffed": {"a": ()},
}


class Planned(Conductor):
    """A conductor with the playbooks of this test."""

    async def on_start(self) -> None:
        await super().on_start()
        self.playbooks = {name: _playbook(name, tasks) for name, tasks in PLANS.items()}
        self.planner = Planner(self.playbooks, self.context.memory)


def _playbook(name: str, tasks: Mapping[str, tuple[str, ...]]) -> Playbook:
    assignee = "typist" if name == "unstaffed" else "worker"
    steps = tuple(
        PlaybookStep(
            name=task,
            assignee=assignee,
            action="do",
            text=f"Do {task}",
            params={"name": task},
            depends_on=needs,
        )
        for task, needs in tasks.items()
    )
    return Playbook(name=name, description=name, examples=(name,), tasks=steps)


class Worker(Agent):
    """Does what the test says for a task of that name; else it says that it is done."""

    async def on_start(self) -> None:
        self.done: list[str] = []
        self.contexts: dict[str, Mapping[str, Any]] = {}
        self.ways: dict[str, Callable[[], Outcome]] = {}
        self.gate = asyncio.Event()
        self.gate.set()

    @register_action("Do something", {"name": "What"})
    async def do(self, name: str) -> Outcome:
        """The outcome the test chose."""
        await self.gate.wait()
        self.done.append(name)
        self.contexts[name] = self.context.task.context
        return self.ways.get(name, lambda: Outcome(output=f"{name} is done"))()


class Judge(Agent):
    """A critic whose verdicts the test writes: the next one of the list, and approval after the last."""

    async def on_start(self) -> None:
        self.verdicts: list[Any] = []
        self.asked: list[Mapping[str, Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    @register_action("Review", {"results": "The results", "repo": "The repository"})
    async def review(self, results: dict[str, Any], repo: str = "") -> Outcome:
        """The next verdict."""
        await self.gate.wait()
        self.asked.append(results)
        verdict = self.verdicts.pop(0) if self.verdicts else APPROVE
        if isinstance(verdict, Exception):
            raise verdict
        if isinstance(verdict, Verdict):
            return Outcome(output="judged", data={"verdict": verdict.to_dict()})
        return Outcome(output="judged", data=verdict)


class Stage:
    """A conductor, a worker and a critic."""

    def __init__(self, team: Team, worker: Worker, judge: Judge) -> None:
        self.team, self.worker, self.judge = team, worker, judge
        self.user = team.user

    async def submit(
        self, goal_id: str, context: Mapping[str, Any] | None = None, text: str = "do it"
    ) -> None:
        body = {"text": text, "goal_id": goal_id, "context": dict(context or {})}
        await self.user.store(subjects.SUBMIT, json.dumps(body).encode())

    async def ended(self, goal_id: str) -> Goal:
        while True:
            goal = await self.goal(goal_id)
            if goal is not None and goal.status.final:
                return goal
            await asyncio.sleep(0.01)

    async def goal(self, goal_id: str) -> Goal | None:
        stored = await self.user.last(subjects.OFFICE, subjects.goal(goal_id))
        return StateChanged.from_json(stored.data).goal if stored else None

    async def until(self, condition: Callable[[Goal], object], goal_id: str = "g1") -> None:
        while (goal := await self.goal(goal_id)) is None or not condition(goal):
            await asyncio.sleep(0.01)

    async def play(self, goal_id: str, context: Mapping[str, Any]) -> Goal:
        """Submit a goal, and check once it has ended that its states followed each other as they may."""
        await self.submit(goal_id, context)
        goal = await self.ended(goal_id)
        changes = [StateChanged.from_json(data) for data in await self.messages(subjects.goal(goal_id))]
        assert changes[0].previous is OfficeState.IDLE
        for before, after in itertools.pairwise(changes):
            assert after.previous is before.state
            assert after.state in ALLOWED[before.state]
        assert sum(change.goal is not None and change.goal.status.final for change in changes) == 1
        return goal

    async def letter(self, goal_id: str) -> AgentReport:
        reports = [AgentReport.from_json(data) for data in await self.messages("mail.user.conductor")]
        (report,) = [report for report in reports if report.goal_id == goal_id]
        return report

    async def messages(self, subject: str) -> list[bytes]:
        request = {"seq": 1, "next_by_subj": subject, "batch": 1_000}
        return [stored.data async for stored in self.user.read(subjects.OFFICE, request)]

    async def state(self, assignee: str, task_id: str) -> TaskState:
        state = await read_task_state(self.user, assignee, "conductor", task_id)
        assert state is not None
        return state


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    names = ["conductor", "critic", "engineer", "memory", "worker"]
    async with open_team(tmp_path, names) as team:
        await team.join(Planned, Profile(name="conductor", description="Conducts.", concurrency=8))
        worker = await team.join(Worker, Profile(name="worker", description="Works."))
        judge = await team.join(Judge, Profile(name="critic", description="Judges."))
        yield Stage(team, worker, judge)


def refuse(*redo: str, why: str = "too short") -> Verdict:
    return Verdict(approved=False, reasons=(why,), redo=redo)


def fail(reason: str) -> Callable[[], Outcome]:
    def way() -> Outcome:
        raise ActionError(reason)

    return way


# --- the course ----------------------------------------------------------------------------------


async def test_a_goal_is_planned_done_reviewed_and_reported(stage: Stage) -> None:
    goal = await stage.play("g1", {"assignee": "worker", "action": "do", "params": {"name": "x"}})
    assert goal.status is TaskStatus.COMPLETED
    report = Path(goal.report_path)
    assert report == stage.team.config.outputs / "g1" / "report.md"
    assert "x is done" in report.read_text()
    letter = await stage.letter("g1")
    assert letter.output_paths == (str(report),)
    assert letter.summary == goal.answer == "x is done"
    told = {"status": "completed", "outcome": "done", "text": "do it", "review": "Nothing was checked."}
    assert letter.metadata == told
    assert stage.judge.asked[0]["task"]["output"] == "x is done"


async def test_tasks_wait_for_those_they_depend_on_and_get_their_results(stage: Stage) -> None:
    stage.worker.ways["a"] = lambda: Outcome(output="A", data={"n": 1}, evidence_refs=("a:1",))
    goal = await stage.play("g1", {"playbook": "diamond"})
    assert goal.status is TaskStatus.COMPLETED
    assert stage.worker.done[0] == "a"
    assert sorted(stage.worker.done[1:3]) == ["b", "c"]
    assert stage.worker.done[3:] == ["d"]
    given = stage.worker.contexts["b"]["inputs"]["a"]
    assert (given["output"], given["metadata"], given["evidence_refs"]) == ("A", {"n": 1}, ["a:1"])
    assert sorted(stage.worker.contexts["d"]["inputs"]) == ["b", "c"]
    assert "inputs" not in stage.worker.contexts["a"]


async def test_the_critic_sends_back_and_what_builds_on_it_is_done_again(stage: Stage) -> None:
    stage.judge.verdicts = [refuse("b"), APPROVE]
    goal = await stage.play("g1", {"playbook": "chain"})
    assert stage.worker.done == ["a", "b", "c", "b", "c"]
    assert stage.worker.contexts["b"]["feedback"] == ["too short"]
    assert (goal.reviews, goal.verdict["approved"], goal.reason) == (2, True, "")
    assert [task.task_id for task in goal.tasks] == ["g1-a-1", "g1-b-2", "g1-c-2"]


async def test_the_critic_is_asked_three_times_at_most(stage: Stage) -> None:
    stage.judge.verdicts = [refuse("a", why=f"fault {number}") for number in range(1, 9)]
    goal = await stage.play("g1", {"playbook": "one"})
    assert stage.worker.done == ["a"] * MAX_REVIEWS
    assert len(stage.judge.asked) == MAX_REVIEWS
    assert goal.status is TaskStatus.COMPLETED
    assert goal.reason == "the review did not approve: fault 3"


async def test_without_a_verdict_a_goal_ends_and_says_so(stage: Stage) -> None:
    unreadable = "the critic's verdict cannot be read: "
    answers = {
        "g1": (ActionError("I have no opinion"), "I have no opinion"),
        "g2": ({}, "the critic gave no verdict"),
        "g3": ({"verdict": {"approved": "perhaps"}}, unreadable),
        "g4": ({"verdict": [1]}, unreadable),
    }
    for goal_id, (answer, reason) in answers.items():
        stage.judge.verdicts = [answer]
        goal = await stage.play(goal_id, {"playbook": "one"})
        assert goal.status is TaskStatus.COMPLETED
        assert goal.outcome is ResultOutcome.NOT_CHECKED
        assert goal.verdict["checked"]["unjudged"][0].startswith(reason)
        assert f"Not judged: {reason}"[:40] in (await stage.letter(goal_id)).metadata["review"]
        assert goal.report_path


async def test_a_goal_fails_with_the_reasons_where_nothing_was_done(stage: Stage) -> None:
    stage.worker.ways["a"] = fail("The well is dry")
    goal = await stage.play("g1", {"playbook": "chain"})
    assert goal.status is TaskStatus.FAILED
    assert goal.reason.startswith(
        "a: The well is dry; b: skipped: it needs 'a', which ended as failed; c: skipped"
    )
    assert stage.worker.done == ["a"]
    assert "The well is dry" in Path(goal.report_path).read_text()
    assert (await stage.letter("g1")).metadata["status"] == "failed"


async def test_what_can_be_done_is_done_where_something_fails(stage: Stage) -> None:
    stage.worker.ways["b"] = fail("It is broken")
    goal = await stage.play("g1", {"playbook": "diamond"})
    assert goal.status is TaskStatus.COMPLETED
    assert [str(task.status) for task in goal.tasks] == ["completed", "failed", "completed", "cancelled"]


# --- who may say what ----------------------------------------------------------------------------


async def test_nobody_ends_another_s_task_or_review(stage: Stage) -> None:
    """Every agent may write to the conductor, under its own name and no other."""
    engineer, worker = await stage.team.connect("engineer"), await stage.team.connect("worker")
    stage.worker.gate.clear()
    stage.judge.gate.clear()
    await stage.submit("g1", {"playbook": "one"})
    await stage.until(lambda goal: goal.tasks and goal.tasks[0].issued)
    ended = subjects.task("engineer", "conductor", "g1-a-1", subjects.ENDED)
    mail = subjects.mail("conductor", "engineer")
    for subject in (ended, mail):
        await forge(engineer, subject, "g1-a-1", output="never mind")
        await forge(engineer, subject, "g1-a-1", agent="worker")
    other = subjects.task("engineer", "conductor", "g1-a-2", subjects.ENDED)
    await forge(engineer, other, "g1-a-1")
    # Nor does its own assignee, in another way than by the task's last step.
    await forge(worker, subjects.mail("conductor", "worker"), "g1-a-1", output="as good as done")
    stage.worker.gate.set()
    await stage.until(lambda goal: goal.status is TaskStatus.REVIEW)
    for subject in (subjects.task("engineer", "conductor", "g1-review-1", subjects.ENDED), mail):
        await forge(engineer, subject, "g1-review-1", metadata={"verdict": APPROVE.to_dict()})
    await asyncio.sleep(0.2)
    goal = await stage.goal("g1")
    assert goal is not None
    assert goal.status is TaskStatus.REVIEW
    assert goal.tasks[0].summary == "a is done"
    stage.judge.gate.set()
    assert (await stage.ended("g1")).status is TaskStatus.COMPLETED
    reasons = [json.loads(letter)["reason"] for letter in await stage.messages("dead.conductor")]
    assert Counter(reasons) == {
        "it is the result of 'worker', but 'engineer' sent it": 2,
        f"it is a result of 'g1-a-1', but was published on '{other}'": 1,
        "it is a result of 'g1-a-1', but was published on 'mail.conductor.engineer'": 1,
        "it is a result of 'g1-a-1', but was published on 'mail.conductor.worker'": 1,
        "it is a result of 'g1-review-1', but was published on 'mail.conductor.engineer'": 1,
    }


async def forge(bus: Bus, subject: str, task_id: str, **fields: Any) -> None:
    forged = TaskResult(
        sender=bus.name,
        recipient="conductor",
        task_id=task_id,
        goal_id="g1",
        status=TaskStatus.COMPLETED,
        **{"agent": bus.name, "output": "x", **fields},
    )
    await bus.commit([seal(subject, forged)])


async def test_a_goal_in_review_can_be_cancelled(stage: Stage) -> None:
    stage.judge.gate.clear()
    await stage.submit("g1", {"playbook": "one"})
    await stage.until(lambda goal: goal.status is TaskStatus.REVIEW)
    letter = CancelGoal(sender="user", recipient="conductor", goal_id="g1", reason="too late")
    await stage.team.write(letter, "conductor")
    goal = await stage.ended("g1")
    assert (goal.status, goal.reason) == (TaskStatus.CANCELLED, "cancelled by user: too late")
    assert "a is done" in Path(goal.report_path).read_text()  # what was done is not lost
    assert (await stage.state("critic", "g1-review-1")).status is TaskStatus.CANCELLED
    assert (await stage.state("worker", "g1-a-1")).status is TaskStatus.COMPLETED


async def test_a_goal_ends_at_its_deadline_and_not_before(stage: Stage) -> None:
    stage.worker.gate.clear()
    deadline = datetime.now(UTC).replace(microsecond=900_000) + timedelta(seconds=1)
    body = {"text": "x", "goal_id": "g1", "deadline": deadline.isoformat(), "context": {"playbook": "one"}}
    await stage.user.store(subjects.SUBMIT, json.dumps(body).encode())
    goal = await stage.ended("g1")
    assert (goal.status, goal.reason) == (TaskStatus.TIMEOUT, "its deadline passed before it was done")
    assert datetime.fromisoformat(goal.ended_at) >= deadline
    assert (await stage.state("worker", "g1-a-1")).status is TaskStatus.TIMEOUT


# --- what cannot be planned ----------------------------------------------------------------------


UNPLANNABLE: list[tuple[dict[str, Any], str]] = [
    (
        {"assignee": "typist", "action": "type"},
        "There is no agent 'typist'. There are conductor, cortex",
    ),
    ({"assignee": "user", "action": "think"}, "There is no agent 'user'. There are "),
    ({"playbook": "unstaffed"}, "There is no agent 'typist'. There are "),
    (
        {"action": "do"},
        "The context names an action, but assignee must be a non-empty string. Add",
    ),
    ({"assignee": "The Worker", "action": "do"}, "assignee must be a name"),
    ({"assignee": ["worker"], "action": "do"}, "assignee must be a name"),
    ({"assignee": "worker", "action": "do", "params": [1]}, "params in the context must be an object"),
    ({"playbook": "dance"}, "There is no playbook 'dance'. There are one, two, chain"),
    ({"playbook": ["one"]}, "There is no playbook \"['one']\""),
]
UNDOABLE: list[tuple[dict[str, Any], str]] = [
    ({"action": "dance"}, "task: worker has no action 'dance'. Its actions are do"),
    ({}, "task: worker cannot work out what to do from words without a model"),
    ({"action": "do", "params": {}}, "task: do: its parameter name is missing"),
    (
        {"action": "do", "speed": 3},
        "task: do: its parameter name is missing, and it has no parameter 'speed'",
    ),
]


async def test_a_goal_that_cannot_be_planned_fails_at_once(stage: Stage) -> None:
    for number, (context, said) in enumerate(UNPLANNABLE):
        goal = await stage.play(f"g{number}", context)
        assert goal.status is TaskStatus.FAILED
        assert said in goal.reason
        assert goal.answer == goal.reason
        assert goal.report_path == ""
        assert (await stage.letter(goal.goal_id)).summary == goal.reason
    assert stage.worker.done == []


async def test_a_task_that_cannot_be_done_as_asked_says_what_can(stage: Stage) -> None:
    for number, (context, said) in enumerate(UNDOABLE):
        goal = await stage.play(f"g{number}", {"assignee": "Worker ", **context})
        assert goal.status is TaskStatus.FAILED
        assert goal.reason.startswith(said)


async def test_an_agent_that_is_down_but_on_the_roster_is_waited_for(stage: Stage) -> None:
    await stage.submit("g1", {"assignee": "engineer", "action": "run_tests"})
    await stage.until(lambda goal: goal.tasks and goal.tasks[0].issued)
    goal = await stage.goal("g1")
    assert goal is not None
    assert goal.status is TaskStatus.IN_PROGRESS
    assert (await stage.state("engineer", goal.tasks[0].task_id)).status is TaskStatus.PENDING


async def test_without_memory_a_goal_in_words_fails_after_a_while(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "MEMORY_TIMEOUT", 0.3)
    monkeypatch.setattr(planner, "MEMORY_RETRY", 0.1)
    goal = await stage.play("g1", {})
    assert goal.status is TaskStatus.FAILED
    assert goal.reason.startswith("The memory daemon does not answer")
    assert "See whether it runs with 'mailroom status'" in goal.reason


# --- reports -------------------------------------------------------------------------------------


async def test_a_report_that_cannot_be_written_fails_the_goal_and_says_where(stage: Stage) -> None:
    stage.team.config.outputs.write_text("a file where the folder should be")
    goal = await stage.play("g1", {"playbook": "one"})
    assert goal.status is TaskStatus.FAILED
    where = stage.team.config.outputs / "g1" / "report.md"
    assert goal.reason.startswith(f"the report could not be written to {where}: ")
    assert "a is done" in goal.answer
    assert (await stage.letter("g1")).output_paths == ()


async def test_a_check_up_whose_parts_cannot_be_read_says_so(stage: Stage) -> None:
    checkup = PlaybookStep(
        name="tests", assignee="worker", action="do", text="Test", params={"name": "tests"}
    )
    conductor = stage.team.processes[0].agent
    conductor.playbooks["checkup"] = Playbook(
        name="checkup", description="d", examples=("e",), tasks=(checkup,), report="checkup"
    )
    stage.worker.ways["tests"] = lambda: Outcome(output="ok", data={"tests": {"passed": "many"}})
    goal = await stage.play("g1", {"playbook": "checkup"})
    assert goal.status is TaskStatus.COMPLETED
    assert "its data cannot be read" in Path(goal.report_path).read_text()


# --- the office as a whole -----------------------------------------------------------------------


async def test_the_board_follows_the_goals(stage: Stage) -> None:
    stage.worker.gate.clear()
    await stage.submit("g1", {"playbook": "one"})
    await stage.submit("g2", {"playbook": "one"})
    planned = {"g1": OfficeState.EXECUTING, "g2": OfficeState.EXECUTING}
    board = await posted(stage, lambda board: board.active == planned)
    assert board.state is OfficeState.EXECUTING
    stage.worker.gate.set()
    board = await posted(stage, lambda board: not board.active)
    assert board.state is OfficeState.IDLE


async def posted(stage: Stage, condition: Callable[[StateChanged], object]) -> StateChanged:
    while True:
        stored = await stage.user.last(subjects.OFFICE, subjects.OFFICE_STATE)
        if stored is not None and condition(board := StateChanged.from_json(stored.data)):
            return board
        await asyncio.sleep(0.02)


async def test_a_board_that_cannot_list_every_goal_is_still_posted_once_a_change(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goal_runner, "MAX_LISTED", 1)
    stage.worker.gate.clear()
    for number in range(3):
        await stage.submit(f"g{number}", {"playbook": "one"})
        await stage.until(lambda goal: goal.tasks, f"g{number}")
    await asyncio.sleep(2 * goal_runner.POST_EVERY)
    posts = len(await stage.messages(subjects.OFFICE_STATE))
    await asyncio.sleep(3 * goal_runner.POST_EVERY)
    assert len(await stage.messages(subjects.OFFICE_STATE)) == posts
    board = await posted(stage, lambda board: board.active)
    assert len(board.active) == 1


async def test_a_conductor_that_comes_back_knows_what_goes_on(stage: Stage) -> None:
    stage.worker.gate.clear()
    await stage.submit("g1", {"playbook": "one"})
    await posted(stage, lambda board: board.active)
    conductor = stage.team.processes[0].agent
    await stage.team.leave(conductor)
    await stage.team.join(Planned, conductor.context.profile)
    board = await posted(stage, lambda board: board.sender)
    assert board.active == {"g1": OfficeState.EXECUTING}
    stage.worker.gate.set()
    assert (await stage.ended("g1")).status is TaskStatus.COMPLETED
    await posted(stage, lambda board: not board.active)


async def test_two_conductors_share_the_goals_and_end_each_once(stage: Stage) -> None:
    await stage.team.join(Planned, Profile(name="conductor", description="Conducts.", concurrency=4))
    for number in range(20):
        await stage.submit(f"g{number}", {"playbook": "diamond"})
    for number in range(20):
        assert (await stage.ended(f"g{number}")).status is TaskStatus.COMPLETED
        assert await stage.letter(f"g{number}")
    assert sorted(stage.worker.done) == sorted("abcd" * 20)
    assert await stage.messages("dead.*") == []
