"""How submissions are read, and what one becomes: a goal, another turn of one, an order to an agent."""

import difflib
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from services.conductor.state_machine import BY_MODEL, add_dependents, begin_again, decision_of
from shared import subjects
from shared.agent.process import UNPAUSABLE
from shared.contracts import (
    AgentControl,
    AgentReport,
    Goal,
    GoalBudget,
    Instruction,
    ResultOutcome,
    Said,
    Task,
    TaskPriority,
    TaskRequest,
    TaskStatus,
    decode,
)
from shared.errors import ActionError, Reject
from shared.tasks.said import words_in
from shared.tasks.speaker import WITNESSES
from shared.tasks.submission import MAX_BYTES, Submission
from shared.text.display import flatten
from shared.trace import current_trace

MAX_AHEAD = timedelta(days=89)  # The latest deadline from now: the server keeps timers for 90 days
MAX_DEPTH = 2  # Goals that a goal may lie in: a step of a step's plan has no plan of its own


REQUEST = "task_request.v1"
PENDING = ("", "pending")


class PlainTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task as a memory entry has it: ``{"text": "...", "type": "task", "metadata": {...}}``.

    The other fields may stand beside ``text`` or in ``metadata``; what else is there is ignored.
    """

    text: str = ""
    metadata: dict[str, Any] = {}
    task_id: str = ""
    assignee: str = ""
    status: str = ""
    priority: TaskPriority = TaskPriority.MEDIUM
    deadline: str = ""
    context_refs: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()


REFERRING = ("context_refs", "evidence_refs")
BESIDE = ("context_refs", "deadline")  # What a TaskRequest may have beside its own fields
IN_CONTEXT = ("assignee", "action", "params", "repo", "playbook")
"""What belongs into the context of a submission."""
ALIKE = 0.8
"""How like a known field (difflib's ratio) an unknown one is that is taken for a mistake of writing."""


def read_submission(data: bytes) -> Submission:
    """The submission in ``data``; raises Reject with the reason."""
    try:
        submission = _read(data)
        # References that its context names, as -c of the command does, become its own.
        named = {name: submission.context[name] for name in REFERRING if name in submission.context}
        if named:
            context = {name: value for name, value in submission.context.items() if name not in named}
            stated = {**msgspec.structs.asdict(submission), **named, "context": context}
            submission = msgspec.convert(stated, Submission)
    except msgspec.ValidationError as error:
        raise Reject(f"the submission is wrong: {error}") from None
    except (ValueError, RecursionError) as error:
        raise Reject(
            f'the submission cannot be read: {error}. It must be JSON such as {{"text": "..."}}'
        ) from None
    if len(data) > MAX_BYTES:
        raise Reject(
            f"the submission has {len(data):,} bytes; the limit is {MAX_BYTES:,}",
            "Put what it needs into files, and name their paths",
        )
    return submission


def _read(data: bytes) -> Submission:
    values = msgspec.json.decode(data)
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    kind = values.get("type")
    if kind == "task":
        return _read_task(msgspec.convert(values, PlainTask))
    if kind is None and "task_description" not in values:
        _require_understood(values, Submission.__struct_fields__, IN_CONTEXT)
        return msgspec.convert(values, Submission)
    request = decode(data if kind else msgspec.json.encode({**values, "type": REQUEST}))
    if not isinstance(request, TaskRequest):
        raise ValueError(f"a {values['type']} is no submission")
    _require_understood(values, (*TaskRequest.__struct_fields__, *BESIDE), IN_CONTEXT)
    beside = {name: values[name] for name in BESIDE if name in values}
    own = {name: getattr(request, name) for name in ("context", "priority", "evidence_refs")}
    named = {"text": request.task_description, "goal_id": request.task_id}
    return msgspec.convert({**beside, **own, **named}, Submission)


def _require_understood(values: Iterable[str], known: Sequence[str], in_context: Container[str]) -> None:
    """Raise ValueError for a field that is not known and was meant: a misspelt one, or one of the context.

    Others may be those of a later version, and do no harm.
    """
    for name in set(values) - {*known, "type"}:
        if name in in_context:
            raise ValueError(f"{name} is no field of it; put it into context")
        if near := difflib.get_close_matches(name, known, n=1, cutoff=ALIKE):
            raise ValueError(f"{name[:40]!r} is no field of it; did you mean {near[0]}?")


def _read_task(task: PlainTask) -> Submission:
    """The goal of a plain task, of one task for its assignee."""
    beside = {name: getattr(task, name) for name in PlainTask.__struct_fields__ if name != "metadata"}
    known = [name for name in PlainTask.__struct_fields__ if name not in ("metadata", "text")]
    _require_understood(task.metadata, (*known, *Task.__struct_fields__), ())
    about = msgspec.convert({**beside, **{k: v for k, v in task.metadata.items() if k in known}}, PlainTask)
    if about.status.lower() not in PENDING:
        raise ValueError(f"a task that is {about.status[:40]!r} is not begun; send it as 'pending'")
    return Submission(
        text=about.text,
        goal_id=about.task_id,
        context={"assignee": about.assignee.lower()} if about.assignee else {},
        priority=about.priority,
        deadline=about.deadline,
        context_refs=about.context_refs,
        evidence_refs=about.evidence_refs,
    )


def as_senders(submission: Submission, sender: str) -> Submission:
    """A submission of ``sender`` as it counts: people's goals are no parts, agents' are no person's.

    Those of agents are at most HIGH: URGENT is left to people, so that no number of an agent's goals fills
    the lane of a person's urgent tasks. Whom an agent wants one for, and which person that is, counts from a
    witness alone.
    """
    if sender == subjects.USER:
        # Whose day's budget it is follows from who submits it.
        own = submission.budget and GoalBudget(tokens=submission.budget.tokens, cost=submission.budget.cost)
        return msgspec.structs.replace(
            submission, part_of="", cause="", starts_from=(), depth=0, asker="", budget=own
        )
    urgent = submission.priority is TaskPriority.URGENT
    return msgspec.structs.replace(
        submission,
        person=submission.person if sender in WITNESSES and submission.requester == subjects.USER else "",
        priority=TaskPriority.HIGH if urgent else submission.priority,
        asker=submission.asker if sender in WITNESSES else "",
    )


def open_goal(
    submission: Submission, seq: int, stored_at: int, timeout: float, budget: GoalBudget | None = None
) -> Goal:
    """The goal of a submission; without an id, it gets one from the sequence and time it was stored at.

    Its deadline is in UTC; the default is ``timeout`` seconds after ``stored_at`` (nanoseconds since 1970).
    Raises Reject for one more than MAX_AHEAD ahead. It has ``budget`` unless the submission names one.
    """
    moment = datetime.fromtimestamp(stored_at / 1e9, UTC)
    goal_id = submission.goal_id or f"goal_{moment:%Y%m%d_%H%M%S_%f}_{seq}"
    return Goal(
        goal_id=goal_id,
        text=submission.text,
        requester=submission.requester,
        priority=submission.priority,
        context=submission.context,
        context_refs=submission.context_refs,
        evidence_refs=submission.evidence_refs,
        traceparent=current_trace(),
        deadline=deadline_of(submission, stored_at, timeout),
        said=submission.said,
        person=submission.person,
        part_of=submission.part_of,
        cause=submission.cause,
        starts_from=submission.starts_from,
        depth=submission.depth,
        asker=submission.asker,
        budget=budget_of(submission.budget or budget, goal_id),
        submitted_at=moment.isoformat(timespec="microseconds"),
    )


def budget_of(budget: GoalBudget | None, goal_id: str) -> GoalBudget | None:
    """``budget`` as that of a goal, unless it is that of another one already; None if it limits nothing."""
    if budget is None or not (budget.tokens or budget.cost or budget.person):
        return None
    return budget if budget.goal_id else msgspec.structs.replace(budget, goal_id=goal_id)


def _replaced(goal: Goal, budget: GoalBudget) -> GoalBudget | None:
    """Another ``budget`` for a goal; what its person may use in a day stays."""
    known = goal.budget or GoalBudget()
    kept = {name: getattr(known, name) for name in ("person", "day_tokens", "day_cost")}
    return budget_of(msgspec.structs.replace(budget, **kept), goal.goal_id)


def deadline_of(submission: Submission, stored_at: int, timeout: float) -> str:
    """The deadline of a submission stored at ``stored_at`` (nanoseconds since 1970), in UTC.

    The default is ``timeout`` seconds after that. Raises Reject for one more than MAX_AHEAD ahead.
    """
    text, begin = submission.deadline, datetime.fromtimestamp(stored_at / 1e9, UTC)
    if not text:
        return (begin + min(MAX_AHEAD, timedelta(seconds=timeout))).isoformat()
    try:
        named = datetime.fromisoformat(text)
        deadline = (named if named.tzinfo else named.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        reason = f"the submission is wrong: deadline {text[:40]!r} lies outside of the calendar"
        raise Reject(reason) from None
    if deadline > begin + MAX_AHEAD:
        raise Reject(f"the submission is wrong: deadline lies more than {MAX_AHEAD.days} days ahead")
    return deadline.isoformat()


# --- ids that are in use ----------------------------------------------------------------------------

QUOTED = 80  # The most characters that are quoted of the goal that has the id


def is_same_goal(goal: Goal, known: Goal) -> bool:
    """Whether both ask for the same: then the second submission is a repetition.

    What an agent submits in a person's name is not the same: the person's own words allow more.
    """
    asked = ("text", "requester", "context", *REFERRING)
    same = all(getattr(goal, name) == getattr(known, name) for name in asked)
    return same and bool(goal.said) == bool(known.said)


def format_taken(known: Goal) -> str:
    """Why a submission is refused whose id ``known`` has."""
    text = flatten(known.text, QUOTED)
    return f"its id {known.goal_id!r} is that of another goal, of {known.requester}: {text!r}"


def format_earlier(goal: Goal) -> str:
    """A goal before another one, for a prompt: what was asked, and what it came to."""
    said = flatten(goal.answer or goal.reason, 500)
    return f"- {flatten(goal.text, 500)} -> {goal.standing}{f': {said}' if said else ''}"


def answer_mail(goal: Goal, known: Goal) -> AgentReport:
    """The mail that tells the requester of ``goal`` what became of the submission."""
    same = is_same_goal(goal, known)
    status = str(known.status).replace("_", " ")
    repeated = f"Submitted before, at {known.submitted_at}: the goal is {status}, and nothing new begins"
    refused = f"Not begun, because {format_taken(known)}. Submit it again with another id, or with none"
    return AgentReport(
        sender=subjects.CONDUCTOR,
        recipient=goal.requester,
        goal_id=goal.goal_id,
        report_id=goal.goal_id,
        agent=subjects.CONDUCTOR,
        report_type="repeated" if same else "refused",
        summary=repeated if same else refused,
        metadata={"status": str(known.status) if same else "refused", "text": goal.text[:500]},
    )


Sign = Callable[[str, str], Said | None]  # Signs a person's words until a deadline


# --- goals that people retry, resume or add words to, and what they want of agents ------------------

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
    if earlier.budget and not submission.budget:
        again["budget"] = GoalBudget(tokens=earlier.budget.tokens, cost=earlier.budget.cost)
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


def continue_goal(
    goal: Goal, said: Instruction, sign: Sign, deadline: str, budget: GoalBudget | None = None
) -> Continued:
    """``goal`` with a person's words; one that has ended goes on, until ``deadline``.

    It may use ``budget`` in all, if that is given. Its completed tasks are kept, unless the review sent them
    back; the others are done again. Raises ActionError if there is nothing to be done again.
    """
    if not (goal.status.final or said.text.strip() or budget):
        cure = "Add to it with --say '...', or raise its budget with --budget"
        raise ActionError(f"The goal {goal.goal_id} runs", cure)
    until = deadline if goal.status.final else goal.deadline
    before = goal.said.text if goal.said else ""
    told = msgspec.structs.replace(
        goal,
        instructions=(*goal.instructions, said),
        said=sign("\n".join(filter(None, (before, said.text))), until) or goal.said,
        budget=_replaced(goal, budget) if budget else goal.budget,
    )
    if not goal.status.final:
        return Continued(told)
    goal = told
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
        question="",
        deadline=until,
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
