"""Submissions: what is published on tasks.submit, and the goal it becomes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from shared import subjects
from shared.contracts import TOKEN, AgentReport, Goal, Said, TaskPriority, TaskRequest, decode
from shared.contracts.base import MAX_TEXT, require_name, require_text, require_timestamp
from shared.contracts.records import MAX_INSTRUCTION
from shared.errors import Reject
from shared.text.shorten import flatten
from shared.trace import current_trace

MAX_GOAL_ID = 80
"""Characters of a goal's id, with which the ids of its tasks begin."""
MAX_BYTES = 1_000_000
"""Bytes of a submission, whose content is repeated in the goal's record and its tasks."""
MAX_AHEAD = timedelta(days=89)
"""The latest deadline from now: the server keeps timers for 90 days."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A goal as text; ``{"text": "..."}`` is enough.

    The sender may choose ``goal_id``, so that sending it again starts no second goal. ``said`` is what
    a person said to the agent that submits it. People may instead name a goal to ``retry`` as a new one, or
    to ``resume`` with ``text`` (``request_id`` then tells repetitions apart).
    """

    text: str = ""
    retry: str = ""
    resume: str = ""
    request_id: str = ""
    goal_id: str = ""
    requester: str = "user"
    context: dict[str, Any] = {}
    priority: TaskPriority = TaskPriority.MEDIUM
    deadline: str = ""
    said: Said | None = None

    def __post_init__(self) -> None:
        if self.retry and (self.resume or self.text or self.context):
            raise ValueError("retry goes without resume, text and context: the goal has them")
        if self.text or not (self.retry or self.resume):
            require_text("text", self.text, MAX_INSTRUCTION if self.resume else MAX_TEXT)
        for field in ("retry", "resume", "request_id"):
            if (value := getattr(self, field)) and not TOKEN.fullmatch(value):
                raise ValueError(f"{field} must be 1 to 128 letters, digits, '_' or '-'")
        require_name("requester", self.requester)
        if self.goal_id and not TOKEN.fullmatch(self.goal_id):
            raise ValueError("goal_id must be 1 to 128 letters, digits, '_' or '-'")
        if len(self.goal_id) > MAX_GOAL_ID:
            raise ValueError(f"goal_id has more than {MAX_GOAL_ID} characters")
        if self.deadline:
            require_timestamp("deadline", self.deadline)


def read_submission(data: bytes) -> Submission:
    """The submission in ``data``; raises Reject with the reason."""
    try:
        submission = _read(data)
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
    if "type" not in values:
        return msgspec.convert(values, Submission)
    request = decode(data)
    if not isinstance(request, TaskRequest):
        raise ValueError(f"a {values['type']} is no submission")
    return Submission(
        text=request.task_description,
        goal_id=request.task_id if len(request.task_id) <= MAX_GOAL_ID else "",
        context=request.context,
        priority=request.priority,
    )


def open_goal(submission: Submission, seq: int, stored_at: int, timeout: float) -> Goal:
    """The goal of a submission; without an id, it gets one from the sequence and time it was stored at.

    Its deadline is in UTC; the default is ``timeout`` seconds after ``stored_at`` (nanoseconds since 1970).
    Raises Reject for one more than MAX_AHEAD ahead.
    """
    moment = datetime.fromtimestamp(stored_at / 1e9, UTC)
    return Goal(
        goal_id=submission.goal_id or f"goal_{moment:%Y%m%d_%H%M%S_%f}_{seq}",
        text=submission.text,
        requester=submission.requester,
        priority=submission.priority,
        context=submission.context,
        traceparent=current_trace(),
        deadline=_deadline(submission.deadline, moment, timeout).isoformat(),
        said=submission.said,
        submitted_at=moment.isoformat(timespec="microseconds"),
    )


def deadline_of(submission: Submission, stored_at: int, timeout: float) -> str:
    """The deadline of a submission stored at ``stored_at``, as open_goal sets it. Raises Reject."""
    moment = datetime.fromtimestamp(stored_at / 1e9, UTC)
    return _deadline(submission.deadline, moment, timeout).isoformat()


def _deadline(text: str, begin: datetime, timeout: float) -> datetime:
    if not text:
        return begin + min(MAX_AHEAD, timedelta(seconds=timeout))
    try:
        named = datetime.fromisoformat(text)
        deadline = (named if named.tzinfo else named.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise Reject(
            f"the submission is wrong: deadline {text[:40]!r} lies outside of the calendar"
        ) from None
    if deadline > begin + MAX_AHEAD:
        raise Reject(f"the submission is wrong: deadline lies more than {MAX_AHEAD.days} days ahead")
    return deadline


# --- ids that are in use ----------------------------------------------------------------------------

QUOTED = 80
"""The most characters that are quoted of the goal that has the id."""


def is_another_submission(goal: Goal, known: Goal) -> bool:
    """Whether ``goal`` comes from another message than ``known``, rather than from the same one again."""
    return goal.submitted_at != known.submitted_at


def is_same_goal(goal: Goal, known: Goal) -> bool:
    """Whether both ask for the same: then the second submission is a repetition.

    What an agent submits in a person's name is not the same: the person's own words allow more.
    """
    same = (goal.text, goal.requester, goal.context) == (known.text, known.requester, known.context)
    return same and bool(goal.said) == bool(known.said)


def format_repeated(known: Goal) -> str:
    """What became of a submission that repeats ``known``."""
    status = str(known.status).replace("_", " ")
    return f"Submitted before, at {known.submitted_at}: the goal is {status}, and nothing new begins"


def format_taken(known: Goal) -> str:
    """Why a submission is refused whose id ``known`` has."""
    text = flatten(known.text, QUOTED)
    return f"its id {known.goal_id!r} is that of another goal, of {known.requester}: {text!r}"


def answer_mail(goal: Goal, known: Goal) -> AgentReport:
    """The mail that tells the requester of ``goal`` what became of the submission."""
    same = is_same_goal(goal, known)
    refused = f"Not begun, because {format_taken(known)}. Submit it again with another id, or with none"
    return AgentReport(
        sender=subjects.CONDUCTOR,
        recipient=goal.requester,
        goal_id=goal.goal_id,
        report_id=goal.goal_id,
        agent=subjects.CONDUCTOR,
        report_type="repeated" if same else "refused",
        summary=format_repeated(known) if same else refused,
        metadata={"status": str(known.status) if same else "refused", "text": goal.text[:500]},
    )
