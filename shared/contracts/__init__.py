"""Every envelope and body that travels on the bus, and how to read one of unknown type."""

from typing import get_args

import msgspec

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
from shared.contracts.cognition import (
    CognitiveContext,
    CognitiveMessage,
    DailySpending,
    LoopCheckpoint,
    MessageType,
)
from shared.contracts.learning import Experience, ExperienceIndex
from shared.contracts.mail import (
    AgentReport,
    CancelGoal,
    ContextItem,
    ContextPacket,
    DiscoveryResult,
    Email,
    Question,
    Response,
    RoutingDecision,
    SentEmail,
    SessionStatus,
    TaskSession,
)
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
    ApprovalAnswer,
    ApprovalRequest,
    CommandJudged,
    CommandVerdict,
    DeadLetter,
    Effect,
    Goal,
    GoalDue,
    GoalTask,
    OfficeState,
    Presence,
    Reminder,
    ReminderDue,
    Reminders,
    ReminderStatus,
    StateChanged,
    TaskChanged,
)
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
    | SentEmail
    | LoopCheckpoint
    | DailySpending
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
