"""The states of a goal: what follows from a result or a verdict, and that every goal ends."""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.conductor.review import MAX_REVIEWS, apply_verdict, review_task, send_back
from services.conductor.state_machine import (
    ALLOWED,
    advance,
    all_ended,
    end,
    mark_issued,
    outcome_of_goal,
    ready_tasks,
    record_result,
    skip_blocked,
    state_of,
    status_of,
    task_for,
)
from shared import subjects
from shared.contracts import (
    Goal,
    GoalTask,
    OfficeState,
    ResultOutcome,
    TaskPriority,
    TaskResult,
    TaskStatus,
    Verdict,
)

COMPLETED, FAILED, TIMEOUT, CANCELLED = (
    TaskStatus.COMPLETED,
    TaskStatus.FAILED,
    TaskStatus.TIMEOUT,
    TaskStatus.CANCELLED,
)
ENDS = [COMPLETED, FAILED, TIMEOUT, CANCELLED]


def goal(**depends_on: str) -> Goal:
    """A planned goal; ``goal(a="", b="a", c="a b")`` has three tasks."""
    tasks = tuple(
        GoalTask(
            name=name, task_id=f"g-{name}-1", text=name, assignee="scout", depends_on=tuple(needs.split())
        )
        for name, needs in depends_on.items()
    )
    return Goal(
        goal_id="g", text="do it", requester="user", submitted_at="2026-01-02T03:04:05+00:00", tasks=tasks
    )


def named(goal: Goal, name: str) -> GoalTask:
    return next(task for task in goal.tasks if task.name == name)


def result(task: GoalTask, status: TaskStatus = COMPLETED, **more: Any) -> TaskResult:
    fields = {
        "sender": task.assignee,
        "output": "done",
        "error_message": "" if status is COMPLETED else "it broke",
    }
    return TaskResult(task_id=task.task_id, agent=task.assignee, status=status, **{**fields, **more})


def finish(goal: Goal, name: str, status: TaskStatus = COMPLETED) -> Goal:
    return record_result(goal, result(named(goal, name), status))


def statuses(goal: Goal) -> dict[str, TaskStatus]:
    return {task.name: task.status for task in goal.tasks}


def refuse(*redo: str) -> Verdict:
    return Verdict(approved=False, reasons=("not good enough",), redo=redo)


APPROVE = Verdict(approved=True, reasons=("it holds",))


# --- results -------------------------------------------------------------------------------------


def test_a_result_is_recorded_once() -> None:
    issued = advance(goal(a="", b="")).goal
    once = finish(issued, "a")
    assert statuses(once) == {"a": COMPLETED, "b": TaskStatus.IN_PROGRESS}
    assert named(once, "a").summary == "done"
    assert named(once, "a").ended_at
    assert record_result(once, result(named(issued, "a"), FAILED)) is once
    assert record_result(once, result(named(issued, "a"))) is once


def test_a_result_of_another_round_is_no_news() -> None:
    issued = advance(goal(a="")).goal
    stale = msgspec.structs.replace(result(named(issued, "a")), task_id="g-a-0")
    assert record_result(issued, stale) is issued


def test_only_the_assignee_can_end_a_task() -> None:
    """Any agent may write to the conductor, under its own name."""
    issued = advance(goal(a="")).goal
    assert record_result(issued, result(named(issued, "a"), sender="engineer")) is issued


@pytest.mark.parametrize("status", [status for status in TaskStatus if not status.final])
def test_a_result_that_is_no_end_changes_nothing(status: TaskStatus) -> None:
    issued = advance(goal(a="")).goal
    assert record_result(issued, result(named(issued, "a"), status)) is issued


def test_the_summary_is_the_first_line_of_the_reason_or_the_output() -> None:
    issued = advance(goal(a="", b="")).goal
    told = record_result(issued, result(named(issued, "a"), FAILED, error_message="\n why \nthen"))
    told = record_result(told, result(named(issued, "b"), output="x" * 500))
    assert named(told, "a").summary == "why "
    assert named(told, "b").summary == "x" * 200


def test_what_needs_a_lost_task_is_skipped_down_the_chain() -> None:
    issued = advance(goal(a="", b="a", c="b", d="")).goal
    lost = finish(issued, "a", TIMEOUT)
    assert statuses(lost) == {"a": TIMEOUT, "b": CANCELLED, "c": CANCELLED, "d": TaskStatus.IN_PROGRESS}
    assert named(lost, "b").summary == "skipped: it needs 'a', which ended as timeout"
    assert named(lost, "c").summary == "skipped: it needs 'b', which ended as cancelled"
    assert ready_tasks(lost) == []
    assert not all_ended(lost)
    assert all_ended(finish(lost, "d"))


def test_skipping_twice_changes_nothing() -> None:
    tasks = finish(advance(goal(a="", b="a")).goal, "a", FAILED).tasks
    assert skip_blocked(tasks) == tasks


# --- handing out ---------------------------------------------------------------------------------


def test_tasks_are_ready_once_all_they_need_is_done() -> None:
    plan = goal(a="", b="", c="a b", d="a")
    assert [task.name for task in ready_tasks(plan)] == ["a", "b"]
    issued = mark_issued(plan, ready_tasks(plan))
    assert ready_tasks(issued) == []
    assert issued.status is TaskStatus.IN_PROGRESS
    assert named(issued, "a").started_at
    assert named(issued, "c").status is TaskStatus.PENDING
    assert [task.name for task in ready_tasks(finish(issued, "a"))] == ["d"]
    assert [task.name for task in ready_tasks(finish(finish(issued, "a"), "b"))] == ["c", "d"]


def test_a_task_carries_what_it_builds_on_and_the_critic_s_reasons() -> None:
    plan = msgspec.structs.replace(
        goal(a="", b="a"), verdict=refuse("b").to_dict(), deadline="2027-01-01T00:00:00+00:00"
    )
    task = msgspec.structs.replace(named(plan, "b"), action="sum_up", params={"n": 1})
    handed = task_for(plan, task, {"a": {"output": "42"}})
    assert handed.context == {
        "action": "sum_up",
        "params": {"n": 1},
        "inputs": {"a": {"output": "42"}},
        "feedback": ["not good enough"],
    }
    assert (handed.assignee, handed.requester, handed.goal_id) == ("scout", "conductor", "g")
    assert handed.depends_on == ("g-a-1",)
    assert handed.deadline == plan.deadline
    assert task_for(goal(a=""), named(plan, "a"), {}).context == {"request": "do it"}
    whole = msgspec.structs.replace(named(plan, "a"), text=plan.text)
    assert task_for(goal(a=""), whole, {}).context == {}


@pytest.mark.parametrize("priority", TaskPriority)
def test_a_review_goes_before_the_work_of_new_goals(priority: TaskPriority) -> None:
    order = list(subjects.NEW)
    review = review_task(msgspec.structs.replace(goal(a=""), priority=priority, review_task_id="r"), {})
    assert order.index(review.priority) < order.index(priority) or priority in ("URGENT", "HIGH")
    assert order.index(review.priority) <= order.index("HIGH")
    assert (review.priority is TaskPriority.URGENT) == (priority is TaskPriority.URGENT)


def test_a_review_names_the_results_and_the_repository() -> None:
    asked = advance(finish(advance(goal(a="")).goal, "a")).goal
    review = review_task(msgspec.structs.replace(asked, parameters={"repo": "/r"}), {"a": {"output": "x"}})
    assert review.task_id == "g-review-1"
    assert review.assignee == "critic"
    told = {"output": "x", "repo": "/r", "task": "a"}
    assert review.context == {"action": "review", "params": {"results": {"a": told}, "repo": "/r"}}


def test_a_review_gets_the_repository_of_each_task() -> None:
    asked = advance(finish(finish(advance(goal(a="", b="")).goal, "a"), "b")).goal
    first, second = asked.tasks
    tasks = (msgspec.structs.replace(first, params={"repo": "/a"}), second)
    results = {"a": {}, "b": {}}
    for context in ({"repo": "/b"}, {"params": {"folder": "/b", "repo": "relative"}}):
        params = review_task(msgspec.structs.replace(asked, tasks=tasks, context=context), results).context[
            "params"
        ]
        assert [result["repo"] for result in params["results"].values()] == ["/a", "/b"]
        assert params["repo"] == ""


def test_what_a_goal_came_to_follows_from_its_tasks_and_the_verdict() -> None:
    def came_to(decision: str = "approved", playbook: str = "", **tasks: str) -> str:
        ended = [
            GoalTask(
                name=name,
                task_id=name,
                text="x",
                assignee="worker",
                status=FAILED if outcome == "failed" else COMPLETED,
                outcome=ResultOutcome(outcome),
                action="read_history" if name == "history" else "",
            )
            for name, outcome in tasks.items()
        ]
        verdict = {"approved": decision == "approved", "decision": decision} if decision else {}
        plan = msgspec.structs.replace(goal(a=""), tasks=tuple(ended), verdict=verdict, playbook=playbook)
        return str(end(plan, *status_of(plan)).outcome)

    assert came_to(a="done", b="") == "done"
    assert came_to(a="done", b="not_checked") == "not_checked"
    assert came_to(a="done_with_findings", b="not_checked") == "done_with_findings"
    assert came_to(a="done", b="failed") == "failed"
    assert came_to(a="failed") == "failed"
    assert came_to(a="done", b="failed", playbook="checkup") == "not_checked"
    assert came_to(a="done", history="not_checked", playbook="checkup") == "done"
    assert came_to(history="not_checked") == "not_checked"
    assert came_to("not_checked", a="done") == "not_checked"
    assert came_to("", a="done") == "not_checked"
    assert came_to("sent_back", a="done_with_findings") == "failed"
    assert outcome_of_goal(goal(a="")) == ""


# --- verdicts ------------------------------------------------------------------------------------


def reviewed(plan: Goal) -> Goal:
    """``plan`` with everything completed, on the critic's desk."""
    while (step := advance(plan)).issued:
        plan = step.goal
        for task in step.issued:
            plan = record_result(plan, result(task))
    return step.goal


def test_what_is_sent_back_takes_along_what_builds_on_it() -> None:
    again = send_back(reviewed(goal(a="", b="a", c="b", d="")), refuse("a"))
    assert statuses(again) == {
        "a": TaskStatus.PENDING,
        "b": TaskStatus.PENDING,
        "c": TaskStatus.PENDING,
        "d": COMPLETED,
    }
    assert [task.task_id for task in again.tasks] == ["g-a-2", "g-b-2", "g-c-2", "g-d-1"]
    assert not any(task.issued or task.summary or task.ended_at for task in again.tasks[:3])
    assert again.review_task_id == ""
    assert [task.name for task in ready_tasks(again)] == ["a"]


def test_what_is_sent_back_without_what_it_needs_is_skipped_again() -> None:
    """Or nobody would ever do it, and the goal would stand until its deadline."""
    lost = finish(advance(goal(a="", b="a")).goal, "a", FAILED)
    again = send_back(advance(lost).goal, refuse("b"))
    assert all_ended(again)
    judged = apply_verdict(advance(lost).goal, refuse("b"))
    assert statuses(judged) == {"a": FAILED, "b": CANCELLED}
    assert judged.reason == "the review did not approve: not good enough"


def test_approved_work_is_over() -> None:
    judged = apply_verdict(reviewed(goal(a="")), APPROVE)
    assert all_ended(judged)
    assert judged.verdict["approved"]
    assert judged.reason == ""


@pytest.mark.parametrize("redo", [(), ("nobody",)])
def test_a_refusal_that_names_no_task_is_over(redo: tuple[str, ...]) -> None:
    judged = apply_verdict(reviewed(goal(a="")), refuse(*redo))
    assert all_ended(judged)
    assert judged.reason == "the review did not approve: not good enough"


def test_the_last_refusal_is_told_and_not_acted_upon() -> None:
    plan = goal(a="")
    for number in range(1, MAX_REVIEWS + 1):
        on_desk = reviewed(plan)
        assert on_desk.reviews == number
        plan = apply_verdict(on_desk, refuse("a"))
    assert all_ended(plan)
    assert plan.verdict["approved"] is False
    assert status_of(plan) == (COMPLETED, "")


# --- the end -------------------------------------------------------------------------------------


def test_a_goal_fails_where_nothing_of_it_was_done() -> None:
    issued = advance(goal(a="", b="a", c="")).goal
    lost = finish(finish(issued, "a", FAILED), "c", TIMEOUT)
    status, reason = status_of(lost)
    assert status is FAILED
    assert reason == "a: it broke; b: skipped: it needs 'a', which ended as failed; c: it broke"
    assert status_of(finish(finish(issued, "a", FAILED), "c")) == (COMPLETED, "")


def test_ending_closes_what_is_open_and_keeps_what_is_done() -> None:
    half = finish(advance(goal(a="", b="")).goal, "a")
    ended = end(half, CANCELLED, "no longer wanted", answer="x")
    assert statuses(ended) == {"a": COMPLETED, "b": CANCELLED}
    assert named(ended, "b").summary == "no longer wanted"
    assert (ended.status, ended.reason, ended.answer) == (CANCELLED, "no longer wanted", "x")
    assert state_of(ended) is OfficeState.IDLE
    assert ended.ended_at


def test_a_goal_whose_tasks_were_all_called_off_is_not_reviewed() -> None:
    step = advance(finish(advance(goal(a="", b="a")).goal, "a", CANCELLED))
    assert step.over
    assert not step.review


def test_every_state_may_follow_some_state_and_end() -> None:
    assert set(ALLOWED) == set(OfficeState)
    assert all(OfficeState.IDLE in after or state is OfficeState.IDLE for state, after in ALLOWED.items())


# --- any goal, whatever happens to it ------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn) -> Goal:
    names = "abcdef"[: draw(st.integers(1, 6))]
    return goal(
        **{
            name: " ".join(draw(st.sets(st.sampled_from(names[:at] or " ")))).strip()
            for at, name in enumerate(names)
        }
    )


verdicts = st.builds(
    Verdict,
    approved=st.sampled_from([True, False, False]),
    redo=st.lists(st.sampled_from([*"abcdef", "nobody"]), max_size=3).map(tuple),
)


class Run:
    """Plays a goal as the conductor does, and checks each step of it."""

    def __init__(self, plan: Goal, choose: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.goal = plan
        self.choose = choose
        self.out: list[GoalTask] = []
        self.done: dict[str, TaskStatus] = {}
        self.handed_out: list[str] = []
        self.reviews = 0
        self.state = OfficeState.PLANNING

    def play(self) -> None:
        self.step()
        for _ in itertools.count():
            if self.goal.status.final:
                return
            assert self.out, f"nobody works on {self.goal}, and it has not ended"
            self.receive(self.choose(st.sampled_from(self.out)))

    def receive(self, task: GoalTask) -> None:
        self.out.remove(task)
        if task.name == "review":
            self.move(apply_verdict(self.goal, self.choose(verdicts)))
            if all_ended(self.goal):
                self.finish()
            else:
                self.step()
            return
        ending = self.choose(st.sampled_from([COMPLETED, COMPLETED, *ENDS]))
        self.done[task.task_id] = ending
        before = self.goal
        self.move(record_result(before, result(task, ending)))
        assert record_result(self.goal, result(task, ending)) is self.goal
        if self.goal is not before:
            self.step()

    def step(self) -> None:
        step = advance(self.goal)
        for task in step.issued:
            self.check_ready(task)
            self.out.append(task)
            self.handed_out.append(task.task_id)
        self.move(step.goal)
        if step.review:
            assert not self.out, "reviewed while work is out"
            self.reviews += 1
            self.out.append(
                GoalTask(name="review", task_id=step.goal.review_task_id, text="x", assignee="critic")
            )
        if step.over:
            self.finish()

    def check_ready(self, task: GoalTask) -> None:
        for name in task.depends_on:
            needed = named(self.goal, name)
            assert needed.status is COMPLETED
            assert self.done[needed.task_id] is COMPLETED

    def finish(self) -> None:
        status, reason = status_of(self.goal)
        self.move(end(self.goal, status, reason))

    def move(self, goal: Goal) -> None:
        state = state_of(goal)
        assert state is self.state or state in ALLOWED[self.state], (self.state, state)
        self.goal, self.state = goal, state


@settings(max_examples=300, deadline=None)
@given(plan=plans(), data=st.data())
def test_any_goal_ends_whatever_happens_to_it(plan: Goal, data: st.DataObject) -> None:
    run = Run(plan, data.draw)
    run.play()
    assert all_ended(run.goal)
    assert run.reviews <= MAX_REVIEWS
    assert len(run.handed_out) == len(set(run.handed_out)), "a task was handed out twice"
    completed = any(task.status is COMPLETED for task in run.goal.tasks)
    assert run.goal.status is (COMPLETED if completed else FAILED)
    assert Goal.from_json(run.goal.to_json()) == run.goal


@settings(max_examples=100, deadline=None)
@given(plan=plans(), data=st.data())
def test_a_goal_can_be_called_off_at_any_moment(plan: Goal, data: st.DataObject) -> None:
    run = Run(plan, data.draw)
    run.step()
    for _ in range(data.draw(st.integers(0, 8))):
        if run.out and not run.goal.status.final:
            run.receive(data.draw(st.sampled_from(run.out)))
    if run.goal.status.final:
        return
    cancelled_record = end(run.goal, CANCELLED, "stop")
    assert OfficeState.IDLE in ALLOWED[run.state]
    assert all_ended(cancelled_record)
    for task in run.out:
        assert record_result(cancelled_record, result(task)) is cancelled_record
