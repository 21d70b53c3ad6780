"""Every envelope and body that travels on the bus, and how to read one of unknown type."""

from typing import Union

import msgspec

from shared.contracts.base import (
    MAX_TEXT,
    NAME,
    TOKEN,
    Contract,
    Envelope,
    decoding,
    generate_id,
    generate_iso_timestamp,
    generate_task_id,
)
from shared.contracts.checkup import (
    Checked,
    CommandRecord,
    Connection,
    DriftRule,
    Finding,
    HistoryReading,
    Inspection,
    NotChecked,
    Preparation,
    RepositoryReading,
    Severity,
    Statement,
    TestFailure,
    TestRun,
    TestSuite,
    ToolRun,
    Verdict,
)
from shared.contracts.cognition import (
    CognitiveContext,
    CognitiveMessage,
    DailySpending,
    Experience,
    ExperienceIndex,
    Failure,
    LoopCheckpoint,
    MessageType,
    Pattern,
    PatternOrigin,
)
from shared.contracts.delivery import (
    Delivery,
    DeliveryKind,
    DeliveryReply,
    DeliveryStatus,
    ReplyOutcome,
    Urgency,
)
from shared.contracts.emails import (
    AgentReport,
    AnswerWords,
    AskedBack,
    CancelGoal,
    Choice,
    ContextItem,
    ContextPacket,
    Conversation,
    ConversationTurn,
    DiscoveryResult,
    Email,
    Mentioned,
    Question,
    Response,
    RoutingDecision,
    SentEmail,
    SessionStatus,
    StopAnswer,
    TaskSession,
    TaskThoughts,
    Told,
)
from shared.contracts.memory import (
    KINDS,
    Briefing,
    BriefingSection,
    Edge,
    EdgeKey,
    ErasedMessage,
    ErasureOrder,
    GraphVersion,
    MemoryErasable,
    MemoryErased,
    MemoryForgotten,
    MemoryRefused,
    MemoryWrite,
    MemoryWritten,
    MessagesErased,
    Node,
    Rejection,
    Relation,
    Source,
)
from shared.contracts.queries import (
    BriefQuery,
    ChangeOfNode,
    Direction,
    EdgePage,
    EdgesQuery,
    GetQuery,
    HistoryQuery,
    Hit,
    ListQuery,
    MemoryQuery,
    NodeChange,
    NodeHistory,
    NodePage,
    NodeState,
    Path,
    PathsQuery,
    Picture,
    PictureEdge,
    PictureNode,
    PictureQuery,
    Standing,
    Strategy,
    Traversal,
    TraverseQuery,
    VersionChange,
    VersionPage,
    VersionsQuery,
    Visit,
)
from shared.contracts.records import (
    AgentControl,
    ApprovalAnswer,
    ApprovalRequest,
    Change,
    CommandConnected,
    CommandJudged,
    CommandVerdict,
    DeadLetter,
    Effect,
    Goal,
    GoalDue,
    GoalTask,
    InboxChanged,
    Instruction,
    Instructions,
    LettersDropped,
    OfficeState,
    Parcel,
    ParcelsStored,
    PersonGoals,
    PersonLimits,
    Presence,
    PutAside,
    Setback,
    StateChanged,
    StoredObject,
    TaskChanged,
)
from shared.contracts.task import (
    GoalBudget,
    ResultOutcome,
    Said,
    Span,
    SpanKind,
    Task,
    TaskPlan,
    TaskPriority,
    TaskRequest,
    TaskResult,
    TaskStatus,
    TaskStep,
)
from shared.contracts.timetable import Due, DueKind, DueStatus, NightState, TimerDue, Timetable
from shared.contracts.trail import AccessAct, AccessChanged, ArchiveOrder, MessagesArchived, Seal

ENVELOPES = {str(cls.__struct_config__.tag): cls for cls in Envelope.__subclasses__()}
"""The envelope classes by their ``type``: every subclass of Envelope above."""

_decoder: msgspec.json.Decoder[Envelope] = msgspec.json.Decoder(Union[tuple(ENVELOPES.values())])  # noqa: UP007


class _Tag(msgspec.Struct):
    type: str | None = None


def decode(data: bytes, *, checked: bool = False) -> Envelope:
    """The envelope in ``data``; raises ValueError with a reason for people.

    ``checked`` says that the same was decoded before: values are then not checked again, types are.
    """
    decoding.now, decoding.checked = True, checked
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise ValueError(_reason(data, error)) from None
    finally:
        decoding.now = decoding.checked = False


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
        name = tag.partition(".")[0]
        known = ", ".join(sorted(each for each in ENVELOPES if each.partition(".")[0] == name))
        return f"unknown envelope type {tag[:60]!r}" + (f": this version reads {known}" if known else "")
    text = str(error)
    # It may quote the message, so it is cut in the middle: the field is named at its end.
    return f"{tag}: {text if len(text) <= 600 else f'{text[:400]} ... {text[-200:]}'}"
