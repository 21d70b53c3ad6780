"""Every envelope and body that travels on the bus, and how to read one of unknown type."""

from typing import get_args

import msgspec

from shared.contracts.approval import ApprovalAnswer, ApprovalRequest, CommandJudged, CommandVerdict
from shared.contracts.base import (
    MAX_TEXT,
    NAME,
    TOKEN,
    Contract,
    Envelope,
    generate_id,
    generate_iso_timestamp,
    generate_task_id,
)
from shared.contracts.checkup import (
    DriftRule,
    Finding,
    HistoryReading,
    Inspection,
    RepositoryReading,
    Severity,
    Statement,
    TestFailure,
    TestRun,
    ToolRun,
    Verdict,
)
from shared.contracts.cognition import CognitiveContext, CognitiveMessage, MessageType
from shared.contracts.conversation import (
    Correspondence,
    SessionStatus,
    Spending,
    TaskSession,
    Thinking,
)
from shared.contracts.learning import Experience, ExperienceIndex
from shared.contracts.mail import CancelGoal, Email
from shared.contracts.memory import (
    KINDS,
    Briefing,
    BriefingSection,
    Edge,
    EdgeKey,
    GraphVersion,
    MemoryRefused,
    MemoryWrite,
    MemoryWritten,
    Node,
    Rejection,
    Relation,
    Source,
)
from shared.contracts.queries import (
    BriefQuery,
    Direction,
    EdgePage,
    EdgesQuery,
    GetQuery,
    Hit,
    ListQuery,
    MemoryQuery,
    NodePage,
    Path,
    PathsQuery,
    Strategy,
    Traversal,
    TraverseQuery,
    Visit,
)
from shared.contracts.records import (
    DeadLetter,
    Effect,
    Goal,
    GoalDue,
    GoalTask,
    OfficeState,
    Presence,
    StateChanged,
    TaskChanged,
)
from shared.contracts.reminder import Reminder, ReminderDue, Reminders, ReminderStatus
from shared.contracts.report import AgentReport, DiscoveryResult
from shared.contracts.routing import ContextItem, ContextPacket, Question, Response, RoutingDecision
from shared.contracts.task import Task, TaskPlan, TaskPriority, TaskRequest, TaskResult, TaskStatus, TaskStep

AnyEnvelope = (
    Email
    | CancelGoal
    | Task
    | TaskRequest
    | TaskPlan
    | TaskResult
    | DiscoveryResult
    | AgentReport
    | Question
    | Response
    | CognitiveMessage
    | TaskChanged
    | StateChanged
    | GoalDue
    | DeadLetter
    | Presence
    | MemoryWrite
    | MemoryWritten
    | MemoryRefused
    | GraphVersion
    | Briefing
    | CommandJudged
    | ApprovalRequest
    | ApprovalAnswer
    | TaskSession
    | Correspondence
    | Thinking
    | Spending
    | Reminders
    | ReminderDue
    | Experience
    | ExperienceIndex
)
"""Every type of envelope that this version reads."""

ENVELOPES: dict[str, type[Envelope]] = {str(cls.__struct_config__.tag): cls for cls in get_args(AnyEnvelope)}
"""The envelope classes by their ``type``."""

_decoder: msgspec.json.Decoder[AnyEnvelope] = msgspec.json.Decoder(AnyEnvelope)


class _Tag(msgspec.Struct):
    type: str | None = None


def decode(data: bytes) -> AnyEnvelope:
    """The envelope in ``data``; raises ValueError with a reason a person understands."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise ValueError(_reason(data, error)) from None


def _reason(data: bytes, error: Exception) -> str:
    if not data:
        return "the message is empty"
    if isinstance(error, UnicodeError):
        return f"not valid UTF-8: {error}"
    try:
        tag = msgspec.json.decode(data, type=_Tag).type
    except msgspec.ValidationError:
        return "not an envelope: it must be a JSON object with a 'type' such as \"task.v1\""
    except (msgspec.DecodeError, RecursionError, UnicodeError) as broken:
        return f"not valid JSON: {broken}"
    if tag is None:
        return "not an envelope: the field 'type' is missing, such as \"task.v1\""
    if tag not in ENVELOPES:
        return f"unknown envelope type {tag[:60]!r}: this version reads {', '.join(sorted(ENVELOPES))}"
    return f"{tag}: {_cut(str(error))}"


def _cut(text: str) -> str:
    """At most about 600 characters of a reason that may quote the message, its end with the field kept."""
    return text if len(text) <= 600 else f"{text[:400]} ... {text[-200:]}"


__all__ = [
    "ENVELOPES",
    "KINDS",
    "MAX_TEXT",
    "NAME",
    "TOKEN",
    "AgentReport",
    "AnyEnvelope",
    "ApprovalAnswer",
    "ApprovalRequest",
    "BriefQuery",
    "Briefing",
    "BriefingSection",
    "CancelGoal",
    "CognitiveContext",
    "CognitiveMessage",
    "CommandJudged",
    "CommandVerdict",
    "ContextItem",
    "ContextPacket",
    "Contract",
    "Correspondence",
    "DeadLetter",
    "Direction",
    "DiscoveryResult",
    "DriftRule",
    "Edge",
    "EdgeKey",
    "EdgePage",
    "EdgesQuery",
    "Effect",
    "Email",
    "Envelope",
    "Experience",
    "ExperienceIndex",
    "Finding",
    "GetQuery",
    "Goal",
    "GoalDue",
    "GoalTask",
    "GraphVersion",
    "HistoryReading",
    "Hit",
    "Inspection",
    "ListQuery",
    "MemoryQuery",
    "MemoryRefused",
    "MemoryWrite",
    "MemoryWritten",
    "MessageType",
    "Node",
    "NodePage",
    "OfficeState",
    "Path",
    "PathsQuery",
    "Presence",
    "Question",
    "Rejection",
    "Relation",
    "Reminder",
    "ReminderDue",
    "ReminderStatus",
    "Reminders",
    "RepositoryReading",
    "Response",
    "RoutingDecision",
    "SessionStatus",
    "Severity",
    "Source",
    "Spending",
    "StateChanged",
    "Statement",
    "Strategy",
    "Task",
    "TaskChanged",
    "TaskPlan",
    "TaskPriority",
    "TaskRequest",
    "TaskResult",
    "TaskSession",
    "TaskStatus",
    "TaskStep",
    "TestFailure",
    "TestRun",
    "Thinking",
    "ToolRun",
    "Traversal",
    "TraverseQuery",
    "Verdict",
    "Visit",
    "decode",
    "generate_id",
    "generate_iso_timestamp",
    "generate_task_id",
]
