"""The channels of the bus: each kind of subject with what travels on it."""

from typing import Any

import msgspec

from shared import subjects
from shared.contracts import (
    ENVELOPES,
    AccessChanged,
    AgentControl,
    AgentReport,
    AnswerWords,
    ApprovalAnswer,
    ApprovalRequest,
    ArchiveOrder,
    Briefing,
    BriefQuery,
    CancelGoal,
    CognitiveMessage,
    CommandConnected,
    CommandJudged,
    Conversation,
    DailySpending,
    DeadLetter,
    Delivery,
    DeliveryReply,
    DiscoveryResult,
    Due,
    EdgePage,
    EdgesQuery,
    Email,
    ErasureOrder,
    Experience,
    ExperienceIndex,
    GetQuery,
    GoalDue,
    GraphVersion,
    HistoryQuery,
    Hit,
    InboxChanged,
    Instructions,
    Layout,
    LayoutQuery,
    LettersDropped,
    ListQuery,
    LoopCheckpoint,
    MemoryErasable,
    MemoryErased,
    MemoryForgotten,
    MemoryQuery,
    MemoryRefused,
    MemoryWrite,
    MemoryWritten,
    MessagesArchived,
    MessagesErased,
    NightState,
    Node,
    NodeHistory,
    NodePage,
    Path,
    PathsQuery,
    Presence,
    Question,
    Response,
    Seal,
    SentEmail,
    StateChanged,
    StopAnswer,
    Task,
    TaskChanged,
    TaskPlan,
    TaskRequest,
    TaskResult,
    TaskSession,
    TimerDue,
    Timetable,
    Traversal,
    TraverseQuery,
    VersionPage,
    VersionsQuery,
)
from shared.delivery.mailbox import FoundMails, MailboxQuery
from shared.memory import EmbedQuery, LinkerQuery, ReadQuery, RebuildQuery, RecallMeasured, WrittenQuery
from shared.memory.client import ClassifyQuery
from shared.tasks.submission import Submission

Entries = dict[str, Any] | list[dict[str, Any]]  # One JSON object or a list of them


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of subject.

    ``address`` has a ``{parameter}`` for each token that varies. ``messages`` are the types of what is sent
    there, ``answer`` is the type of the answer if it takes requests, ``group`` the part of the office.
    """

    name: str
    address: str
    summary: str
    group: str
    messages: tuple[Any, ...] = ()
    answer: Any = None


PARAMETERS = {
    "order": "The id of a person's order to memory.",
    "agent": "The name of an agent; ``user`` is people.",
    "approval_id": "The id of one request for approval.",
    "assignee": "The agent that works on the task.",
    "durable": "The name of a durable consumer.",
    "goal_id": "The id of a goal.",
    "instance": "One process of an agent.",
    "kind": "The kind of record.",
    "name": "A name, unique within its agent.",
    "question_id": "The id of a question.",
    "recipient": "Whose mailbox it is.",
    "record_id": "The id of a record, unique within its kind.",
    "requester": "Who asks for it. The broker puts it there, or refuses a wrong one.",
    "sender": "Who sent it. The broker refuses any other sender.",
    "stream": "The name of a stream.",
    "subject": "The whole subject of the original message, with all its tokens.",
    "task_id": "The id of a task.",
    "what": "What happened, in the past tense.",
}
"""What the parameters of addresses mean."""

EVENTS = (AccessChanged, CommandJudged, CommandConnected, CognitiveMessage, DiscoveryResult, TaskPlan)
"""The envelopes that agents publish as events; the graph's version has a channel of its own."""
RECORDS: dict[str, Any] = {
    "briefing": AgentReport,
    "cognition": CognitiveMessage,
    "conversation": Conversation,
    subjects.DELIVERY: Delivery,
    subjects.DROPPED: LettersDropped,
    subjects.DUE: Due,
    "goals": AgentReport,
    subjects.INBOX: InboxChanged,
    "instructions": Instructions,
    "judged": AgentReport,
    "learning": (Experience, ExperienceIndex),
    "letter": SentEmail,
    "mail": SentEmail,
    "night": NightState,
    "overnight": AgentReport,
    subjects.REPLY: DeliveryReply,
    "reported": DiscoveryResult,
    "session": TaskSession,
    "spending": DailySpending,
    "thinking": LoopCheckpoint,
    subjects.TIMETABLE: Timetable,
}
"""The kinds of records that agents keep, and their types."""

_STEPS = {
    **{step: ("A task is submitted, with priority " + name, Task) for name, step in subjects.NEW.items()},
    subjects.CLAIMED: ("A process of the assignee is at work on a task", TaskChanged),
    subjects.NOTED: ("The process at work on a task noted its progress", TaskChanged),
    subjects.ENDED: ("A task ended, with its result", TaskResult),
    subjects.CANCELLED: ("The requester ended a task", TaskResult),
}
MEMORY_VERBS: dict[str, tuple[str, Any, Any]] = {
    "written": ("The outcome of a write that was stored in the log", WrittenQuery, MemoryWritten),
    "search": ("Search by meaning and words, best hits first", MemoryQuery, list[Hit]),
    "get": ("Nodes by their ids", GetQuery, list[Node]),
    "embed": ("The embeddings of texts", EmbedQuery, list[list[float]]),
    "classify": ("What texts or features are, by a fitted classifier", ClassifyQuery, list[dict[str, float]]),
    "read": ("How well passages answer a question", ReadQuery, list[float]),
    "align": ("How near passages come to the words of a question", ReadQuery, list[dict[str, float]]),
    "recall": ("How well search finds planted facts, by day", dict[str, Any], list[RecallMeasured]),
    "stats": ("Counts, graph version and model of the store", dict[str, Any], dict[str, Any]),
    "health": (
        "Whether memory can read and write, and what is wrong if it cannot",
        dict[str, Any],
        dict[str, Any],
    ),
    "list": ("Nodes in the order of their ids, a page at a time", ListQuery, NodePage),
    "edges": ("Edges, a page at a time", EdgesQuery, EdgePage),
    "traverse": ("Walk the graph from a node", TraverseQuery, Traversal),
    "paths": ("The best paths from one node to another", PathsQuery, list[Path]),
    "brief": ("The briefing of an agent", BriefQuery, Briefing),
    "layout": ("The graph with a place for each node, to be drawn", LayoutQuery, Layout),
    "versions": ("The versions of the graph and what each changed", VersionsQuery, VersionPage),
    "history": ("What a node was before", HistoryQuery, NodeHistory),
    "add": ("Remember a node or several: each has a title or a text", Entries, MemoryWritten),
    "link": ("Store an edge or several: each has from and to", Entries, MemoryWritten),
    "linker": ("The linker's status, or a round of it", LinkerQuery, dict[str, Any]),
    "reindex": ("Build the search indices again from the tables", dict[str, Any], dict[str, Any]),
    "rebuild": ("Build the store again from its log", RebuildQuery, dict[str, Any]),
}
"""What memory answers: a sentence, and the types of query and answer."""


def channels() -> tuple[Channel, ...]:
    """Every channel, in the order of the document."""
    return (*_work(), *_people(), *_records(), *_trail(), *_memory(), *_timers(), *_runtime())


def _work() -> list[Channel]:
    return [
        Channel(
            name="submissions",
            address=subjects.SUBMIT,
            summary="A goal is submitted",
            group="work",
            messages=(Submission, TaskRequest),
        ),
        *(
            Channel(
                name=f"submissions_{priority.lower()}",
                address=subject,
                summary=f"A goal is submitted with the priority {priority}",
                group="work",
                messages=(Submission, TaskRequest),
            )
            for priority, subject in subjects.SUBMIT_AS.items()
            if subject != subjects.SUBMIT
        ),
        Channel(
            name="agents_submissions",
            address=subjects.submitted_by("{agent}"),
            summary="What an agent submits on tasks.submit, as it is stored",
            group="work",
            messages=(Submission, TaskRequest),
        ),
        *(_task_step(step, summary, kind) for step, (summary, kind) in _STEPS.items()),
        Channel(
            name="goal",
            address=subjects.goal("{goal_id}"),
            summary="The record of a goal: its state after each change",
            group="work",
            messages=(StateChanged,),
        ),
        Channel(
            name="office_state",
            address=subjects.OFFICE_STATE,
            summary="The open goals by state",
            group="work",
            messages=(StateChanged,),
        ),
    ]


def _task_step(step: str, summary: str, kind: Any) -> Channel:
    address = subjects.task("{assignee}", "{requester}", "{task_id}", step)
    return Channel(name=f"task_{step}", address=address, summary=summary, group="work", messages=(kind,))


def _people() -> list[Channel]:
    return [
        Channel(
            name="listing",
            address=subjects.listing("{stream}"),
            summary="The subjects of a stream; the answer is the server's STREAM.INFO",
            group="runtime",
            messages=(dict[str, Any],),
            answer=dict[str, Any],
        ),
        Channel(
            name="mail",
            address=subjects.mail("{recipient}", "{sender}"),
            summary="Mail: emails, questions and answers, reports, requests to cancel and to stop",
            group="mail",
            messages=(Email, Question, Response, AgentReport, CancelGoal, StopAnswer),
        ),
        Channel(
            name="words",
            address=subjects.words("{question_id}"),
            summary="The words of an answer as a model writes it; sent by nexus alone, stored by nothing",
            group="mail",
            messages=(AnswerWords,),
        ),
        Channel(
            name="mailbox",
            address=subjects.MAILBOX,
            summary="Search a person's own mailbox, by the gateway, which has its password; for nexus alone",
            group="mail",
            messages=(MailboxQuery,),
            answer=FoundMails,
        ),
        Channel(
            name="approval_asked",
            address=subjects.approval_asked("{agent}", "{approval_id}"),
            summary="An agent asks a person for permission",
            group="mail",
            messages=(ApprovalRequest,),
        ),
        Channel(
            name="approval_answered",
            address=subjects.approval_answered("{agent}", "{approval_id}"),
            summary="A person's answer",
            group="mail",
            messages=(ApprovalAnswer,),
        ),
    ]


def _records() -> list[Channel]:
    kinds = {each for kind in RECORDS.values() for each in (kind if isinstance(kind, tuple) else (kind,))}
    return [
        Channel(
            name="event",
            address=subjects.event("{agent}", "{what}"),
            summary="Something that happened to an agent",
            group="events",
            messages=EVENTS,
        ),
        Channel(
            name="graph_version",
            address=subjects.GRAPH_VERSION,
            summary="Memory changed",
            group="events",
            messages=(GraphVersion,),
        ),
        Channel(
            name="dead",
            address=subjects.dead("{agent}"),
            summary="A message that could not be handled, with the reason",
            group="events",
            messages=(DeadLetter,),
        ),
        Channel(
            name="dropped",
            address=subjects.dropped("{agent}"),
            summary="Which dead letters of an agent were dropped or sent again; they stay in the log",
            group="events",
            messages=(LettersDropped,),
        ),
        Channel(
            name="control",
            address=subjects.control("{agent}"),
            summary="What people want of an agent: pause, resume, restart",
            group="events",
            messages=(AgentControl,),
        ),
        Channel(
            name="record",
            address=subjects.record("{agent}", "{kind}", "{record_id}"),
            summary="A record of an agent's own; the last message on its subject is its state",
            group="events",
            messages=tuple(sorted(kinds, key=lambda kind: kind.__name__)),
        ),
    ]


def _trail() -> list[Channel]:
    return [
        Channel(
            name="erased",
            address=subjects.ERASED,
            summary="Messages that held what a person had forgotten were erased",
            group="events",
            messages=(MessagesErased,),
        ),
        Channel(
            name="seal",
            address=subjects.seal("{stream}"),
            summary="A seal over the messages of a stream since the seal before",
            group="events",
            messages=(Seal,),
        ),
        Channel(
            name="archive",
            address=subjects.archive("{stream}"),
            summary="A person's order to delete on the server what lies in a verified bundle",
            group="events",
            messages=(ArchiveOrder,),
        ),
        Channel(
            name="archived",
            address=subjects.ARCHIVED,
            summary="An order to archive was carried out",
            group="events",
            messages=(MessagesArchived,),
        ),
        Channel(
            name="erasable",
            address=subjects.ERASABLE,
            summary="Memory has recorded what is left of these messages: the eraser may erase them",
            group="events",
            messages=(MemoryErasable,),
        ),
        Channel(
            name="audit",
            address=f"{subjects.AUDIT_PREFIX}{{subject}}",
            summary="Every stored message as the broker publishes it again, in the order of the log",
            group="events",
            messages=tuple(ENVELOPES[tag] for tag in sorted(ENVELOPES)),
        ),
    ]


def _memory() -> list[Channel]:
    made = [
        Channel(
            name="memory_write",
            address=subjects.memory_write("{agent}"),
            summary="A write to memory; memory itself also records here what it refused and what it erased",
            group="memory",
            messages=(MemoryWrite, MemoryRefused, MemoryErased, MemoryForgotten),
        ),
        Channel(
            name="forgetting",
            address=subjects.forgetting("{order}"),
            summary="What is to be erased in OFFICE too, from people to the eraser",
            group="memory",
            messages=(ErasureOrder,),
        ),
    ]
    for verb, (summary, query, answer) in MEMORY_VERBS.items():
        channel = Channel(
            name=f"memory_{verb}",
            address=subjects.memory(verb),
            summary=summary,
            group="memory",
            messages=(query,),
            answer=answer,
        )
        made.append(channel)
        if verb in (*subjects.MEMORY_SIGNED_VERBS, *subjects.MEMORY_PEOPLE_VERBS):
            stored = msgspec.structs.replace(
                channel,
                name=f"{channel.name}_signed",
                address=f"{channel.address}.{{requester}}",
                summary=f"{summary}; as it reaches memory, signed by the broker",
            )
            made.append(stored)
    return made


def _timers() -> list[Channel]:
    return [
        Channel(
            name="timer",
            address=subjects.timer("{agent}", "{name}"),
            summary="A timer is set; the header Nats-Schedule has its time",
            group="timers",
            messages=(GoalDue, TimerDue),
        ),
        Channel(
            name="timer_due",
            address=subjects.timer_due("{agent}"),
            summary="A timer is due",
            group="timers",
            messages=(GoalDue, TimerDue),
        ),
    ]


def _runtime() -> list[Channel]:
    return [
        Channel(
            name="presence",
            address=subjects.presence("{agent}", "{instance}"),
            summary="The directory entry of one process, which expires unless it is renewed",
            group="runtime",
            messages=(Presence,),
        ),
        Channel(
            name="lease",
            address=subjects.lease("{name}"),
            summary="An exclusive right and the process that holds it",
            group="runtime",
            messages=(dict[str, Any],),
        ),
        Channel(
            name="identity",
            address=subjects.identity("{name}"),
            summary="The public keys of an identity, written by the admin",
            group="runtime",
            messages=(list[str],),
        ),
        Channel(
            name="peer",
            address=subjects.peer("{agent}", "{instance}"),
            summary="One process asks another of the same agent what it has in hand",
            group="runtime",
            messages=(dict[str, Any],),
            answer=dict[str, list[int]],
        ),
        Channel(
            name="position",
            address=subjects.position("{stream}", "{durable}"),
            summary="How far a durable is; the answer is the server's CONSUMER.INFO",
            group="runtime",
            messages=(dict[str, Any],),
            answer=dict[str, Any],
        ),
        Channel(
            name="max_deliveries",
            address=subjects.max_deliveries("{stream}", "{durable}"),
            summary="The server gave up delivering a message",
            group="runtime",
            messages=(dict[str, Any],),
        ),
    ]
