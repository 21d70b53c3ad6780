"""Goals that people retry, resume or add words to, and what they want of agents: pure functions."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from services.conductor.state_machine import BY_MODEL, add_dependents, begin_again, decision_of
from services.conductor.submission import open_goal
from shared import subjects
from shared.agent.process import UNPAUSABLE
from shared.contracts import (
    AgentControl,
    AgentReport,
    Goal,
    Instruction,
    Instructions,
    ResultOutcome,
    Said,
    TaskStatus,
)
from shared.errors import ActionError, Reject
from shared.tasks.said import words_in
from shared.tasks.submission import Submission

Sign = Callable[[str, str], Said | None]  # Signs a person's words until a deadline


REPEATED = ("text", "context", "context_refs", "evidence_refs", "priority")
"""What a goal that repeats another one takes over from it."""


class Continued(NamedTuple):
    """A goal with what a person added; ``again``: it had ended and goes on; ``plan``: with another plan."""

    goal: Goal
    again: bool = False
    plan: bool = False


def retry_goal(
    submission: Submission, earlier: Goal | None, seq: int, stored_at: int, timeout: float
) -> tuple[Goal, str]:
    """A new goal with text, context and instructions of ``earlier``; and why it cannot begin, if so."""
    if earlier is None:
        asked = msgspec.structs.replace(submission, text=f"Retry {submission.retry}", retry="")
        reason = f"There is no goal {submission.retry!r} to retry. 'mailroom tasks' lists them"
        return open_goal(asked, seq, stored_at, timeout), reason
    again = {name: getattr(earlier, name) for name in REPEATED}
    asked = msgspec.structs.replace(submission, **again, retry="")
    goal = open_goal(asked, seq, stored_at, timeout)
    goal = msgspec.structs.replace(
        goal, retry_of=earlier.goal_id, instructions=earlier.instructions, said=earlier.said
    )
    running = (
        f"The goal {earlier.goal_id} still runs. Add to it with: mailroom resume {earlier.goal_id} --say "
        f"'...', or end it with: mailroom cancel {earlier.goal_id}"
    )
    return goal, "" if earlier.status.final else running


def words_of(goal: Goal) -> str:
    """What a person said in a goal that a person submitted, instructions included."""
    refs = (*goal.context_refs, *goal.evidence_refs)
    return "\n".join([words_in(goal.text, goal.context), *refs, *(each.text for each in goal.instructions)])


def continue_goal(goal: Goal, said: Instruction, sign: Sign, deadline: str) -> Continued:
    """``goal`` with a person's words; one that has ended goes on, until ``deadline``.

    Its completed tasks are kept, unless the review sent them back; the others are done again. Raises
    ActionError if there is nothing to be done again.
    """
    if not goal.status.final and not said.text.strip():
        raise ActionError(f"The goal {goal.goal_id} runs", "Add what is to be said to it: --say '...'")
    until = deadline if goal.status.final else goal.deadline
    before = goal.said.text if goal.said else ""
    told = msgspec.structs.replace(
        goal,
        instructions=(*goal.instructions, said),
        said=sign("\n".join(filter(None, (before, said.text))), until) or goal.said,
    )
    return _reopen(told, until) if goal.status.final else Continued(told)


def _reopen(goal: Goal, deadline: str) -> Continued:
    again = {task.name for task in goal.tasks if task.status is not TaskStatus.COMPLETED}
    if decision_of(goal) == "sent_back":
        again |= {str(name) for name in goal.verdict.get("redo", ())}
    again = add_dependents(goal, again)
    if goal.tasks and not again and goal.playbook != BY_MODEL:
        raise ActionError(
            f"Every task of {goal.goal_id} completed", f"Begin it again with: mailroom retry {goal.goal_id}"
        )
    opened = msgspec.structs.replace(
        goal,
        tasks=begin_again(goal, again, f"r{len(goal.instructions)}"),
        status=TaskStatus.IN_PROGRESS if goal.tasks else TaskStatus.PENDING,
        outcome=ResultOutcome.NONE,
        verdict={},
        review_task_id="",
        report_path="",
        answer="",
        reason="",
        thinking="",
        deadline=deadline,
        ended_at="",
    )
    return Continued(opened, again=True, plan=bool(goal.tasks) and not again)


def instruction_of(submission: Submission, seq: int, stored_at: int) -> Instruction:
    """What a submission says about a goal; without an id, its sequence identifies it."""
    return Instruction(
        id=submission.request_id or f"say-{seq}",
        text=submission.text,
        person=submission.person,
        given_at=datetime.fromtimestamp(stored_at / 1e9, UTC).isoformat(timespec="microseconds"),
    )


def record_of(goal: Goal) -> Instructions:
    """The record from which agents at work on ``goal`` learn what was added."""
    return Instructions(
        sender=subjects.CONDUCTOR, goal_id=goal.goal_id, instructions=goal.instructions, said=goal.said
    )


def refusal_of(goal_id: str, request_id: str, reason: str) -> AgentReport:
    """The mail that tells a person why a goal was not continued."""
    return AgentReport(
        sender=subjects.CONDUCTOR,
        recipient=subjects.USER,
        goal_id=goal_id,
        report_id=request_id,
        agent=subjects.CONDUCTOR,
        report_type="refused",
        summary=reason,
        metadata={"status": "refused"},
    )


def next_control(known: AgentControl | None, submission: Submission, seq: int) -> AgentControl | None:
    """The record after what ``submission``, stored as ``seq``, wants; None if that is done already.

    Raises Reject for an agent that cannot be paused.
    """
    wanted = submission.control
    assert wanted is not None
    if wanted.do == "pause" and (why := UNPAUSABLE.get(wanted.agent)):
        raise Reject(f"{wanted.agent} cannot be paused: {why}", "It can be restarted")
    if wanted.agent in subjects.RESERVED_NAMES:
        raise Reject(f"{wanted.agent!r} is no agent that can be controlled", "'mailroom agents' lists them")
    request_id = submission.request_id or f"control-{seq}"
    before = known or AgentControl(agent=wanted.agent, do=wanted.do)
    if known is not None and known.request_id == request_id:
        return None
    return AgentControl(
        sender=subjects.CONDUCTOR,
        agent=wanted.agent,
        do=wanted.do,
        paused=before.paused if wanted.do == "restart" else wanted.do == "pause",
        restarts=before.restarts + (wanted.do == "restart"),
        request_id=request_id,
        asked_by=submission.person,
    )
