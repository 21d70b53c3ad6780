"""The channels of the bus: each kind of subject with what travels on it."""

from collections.abc import Callable, Iterator
from inspect import getdoc, signature
from typing import Any, NamedTuple

from shared import contracts, subjects
from shared.delivery.mailbox import FoundMails, MailboxQuery
from shared.memory import EmbedQuery, LinkerQuery, ReadQuery, RebuildQuery, RecallMeasured, WrittenQuery
from shared.memory.client import ClassifyQuery
from shared.tasks.submission import Submission
from shared.views.personal import PersonalAnswer, PersonalRequest

Json = dict[str, Any]
Entries = Json | list[Json]  # One JSON object or a list of them


class Channel(NamedTuple):
    """One kind of subject.

    ``address`` has a ``{parameter}`` for each token that varies. ``messages`` are the types of what is sent
    there, ``answer`` is the type of the answer if it takes requests, ``group`` the part of the office.
    """

    name: str
    address: str
    summary: str
    group: str
    messages: tuple[Any, ...]
    answer: Any = None


def _channel(make: Callable[..., str], group: str, *messages: Any, answer: Any = None) -> Channel:
    """The channel of a function of ``subjects``: its name, its parameters and its docstring's first line."""
    address = make(**{name: f"{{{name}}}" for name in signature(make).parameters})
    summary = (getdoc(make) or "").partition("\n")[0].removesuffix(".")
    return Channel(make.__name__, address, summary, group, messages, answer)


PARAMETERS = {
    "order": "The id of a person's order to memory.",
    "agent": "The name of an agent; ``user`` is people.",
    "approval_id": "The id of one request for approval.",
    "assignee": "The agent that works on the task.",
    "budget": "A budget that processes share: of a goal, or of a day.",
    "durable": "The name of a durable consumer.",
    "goal_id": "The id of a goal.",
    "host": "A host that joined, or is to join.",
    "instance": "One process of an agent; of a host that joined it begins with the host's name.",
    "kind": "The kind of record.",
    "name": "A name, unique within its agent.",
    "question_id": "The id of a question.",
    "recipient": "Whose mailbox it is.",
    "record_id": "The id of a record, unique within its kind.",
    "request": "The id of one request to a model server.",
    "requester": "Who asks for it. The broker puts it there, or refuses a wrong one.",
    "sender": "Who sent it. The broker refuses any other sender.",
    "server": "A model server: the beginning of the SHA-256 of its address.",
    "stream": "The name of a stream.",
    "subject": "The whole subject of the original message, with all its tokens.",
    "task_id": "The id of a task.",
    "what": "What happened, in the past tense.",
}
"""What the parameters of addresses mean."""

RECORDS: dict[str, Any] = {
    "briefing": contracts.AgentReport,
    "cognition": contracts.CognitiveMessage,
    "conversation": contracts.Conversation,
    subjects.DELIVERY: contracts.Delivery,
    subjects.DROPPED: contracts.LettersDropped,
    subjects.DUE: contracts.Due,
    "goals": contracts.AgentReport,
    subjects.GOALS_OF: contracts.PersonGoals,
    subjects.INBOX: contracts.InboxChanged,
    "instructions": contracts.Instructions,
    "judged": contracts.AgentReport,
    "learning": (contracts.Experience, contracts.ExperienceIndex),
    "letter": contracts.SentEmail,
    subjects.LIMITS: contracts.PersonLimits,
    "mail": contracts.SentEmail,
    "night": contracts.NightState,
    "overnight": contracts.AgentReport,
    subjects.PARCELS: contracts.ParcelsStored,
    subjects.REPLY: contracts.DeliveryReply,
    "reported": contracts.DiscoveryResult,
    "session": contracts.TaskSession,
    "spending": contracts.DailySpending,
    "thinking": contracts.LoopCheckpoint,
    subjects.TIMETABLE: contracts.Timetable,
}
"""The kinds of records that agents keep, and their types."""

_STEPS = {
    **{step: f"A task is submitted, with priority {name}" for name, step in subjects.NEW.items()},
    subjects.CLAIMED: "A process of the assignee is at work on a task",
    subjects.NOTED: "The process at work on a task noted its progress",
    subjects.ENDED: "A task ended, with its result",
    subjects.CANCELLED: "The requester ended a task",
}
MEMORY_VERBS: dict[str, tuple[str, Any, Any]] = {
    "written": ("The outcome of a write that was stored in the log", WrittenQuery, contracts.MemoryWritten),
    "search": ("Search by meaning and words, best hits first", contracts.MemoryQuery, list[contracts.Hit]),
    "get": ("Nodes by their ids", contracts.GetQuery, list[contracts.Node]),
    "embed": ("The embeddings of texts", EmbedQuery, list[list[float]]),
    "classify": ("What texts or features are, by a fitted classifier", ClassifyQuery, list[dict[str, float]]),
    "read": ("How well passages answer a question", ReadQuery, list[float]),
    "align": ("How near passages come to the words of a question", ReadQuery, list[dict[str, float]]),
    "recall": ("How well search finds planted facts, by day", Json, list[RecallMeasured]),
    "stats": ("Counts, graph version and model of the store", Json, Json),
    "health": ("Whether memory can read and write, and what is wrong if it cannot", Json, Json),
    "list": ("Nodes in the order of their ids, a page at a time", contracts.ListQuery, contracts.NodePage),
    "edges": ("Edges, a page at a time", contracts.EdgesQuery, contracts.EdgePage),
    "traverse": ("Walk the graph from a node", contracts.TraverseQuery, contracts.Traversal),
    "paths": ("The best paths from one node to another", contracts.PathsQuery, list[contracts.Path]),
    "brief": ("The briefing of an agent", contracts.BriefQuery, contracts.Briefing),
    "picture": (
        "The nodes and edges of the graph that are to be drawn",
        contracts.PictureQuery,
        contracts.Picture,
    ),
    "versions": (
        "The versions of the graph and what each changed",
        contracts.VersionsQuery,
        contracts.VersionPage,
    ),
    "history": ("What a node was before", contracts.HistoryQuery, contracts.NodeHistory),
    "add": ("Remember a node or several: each has a title or a text", Entries, contracts.MemoryWritten),
    "link": ("Store an edge or several: each has from and to", Entries, contracts.MemoryWritten),
    "linker": ("The linker's status, or a round of it", LinkerQuery, Json),
    "reindex": ("Build the search indices again from the tables", Json, Json),
    "rebuild": ("Build the store again from its log", RebuildQuery, Json),
}
"""What memory answers: a sentence, and the types of query and answer."""


def channels() -> tuple[Channel, ...]:
    """Every channel, in the order of the document."""
    return (*_work(), *_mail_and_events(), *_memory(), *_timers_and_runtime())


def _work() -> Iterator[Channel]:
    submitted = (Submission, contracts.TaskRequest)
    yield Channel("submissions", subjects.SUBMIT, "A goal is submitted", "work", submitted)
    for priority, subject in subjects.SUBMIT_AS.items():
        if subject != subjects.SUBMIT:
            summary = f"A goal is submitted with the priority {priority}"
            yield Channel(f"submissions_{priority.lower()}", subject, summary, "work", submitted)
    yield _channel(subjects.submitted_by, "work", *submitted)._replace(name="agents_submissions")
    kinds: dict[str, Any] = dict.fromkeys(subjects.NEW.values(), contracts.Task)
    kinds |= dict.fromkeys(subjects.AT_WORK, contracts.TaskChanged)
    for step, summary in _STEPS.items():
        address = subjects.task("{assignee}", "{requester}", "{task_id}", step)
        yield Channel(f"task_{step}", address, summary, "work", (kinds.get(step, contracts.TaskResult),))
    yield _channel(subjects.goal, "work", contracts.StateChanged)
    state = "The open goals by state"
    yield Channel("office_state", subjects.OFFICE_STATE, state, "work", (contracts.StateChanged,))


def _mail_and_events() -> Iterator[Channel]:
    yield _channel(subjects.listing, "runtime", Json, answer=Json)
    asked = (contracts.Email, contracts.Question, contracts.Response)
    yield _channel(
        subjects.mail, "mail", *asked, contracts.AgentReport, contracts.CancelGoal, contracts.StopAnswer
    )
    yield _channel(subjects.words, "mail", contracts.AnswerWords)
    yield _channel(subjects.thoughts, "mail", contracts.TaskThoughts)
    mailbox = "Search a person's own mailbox, by the gateway, which has its password; for nexus alone"
    yield Channel("mailbox", subjects.MAILBOX, mailbox, "mail", (MailboxQuery,), FoundMails)
    personal = "Ask the API as one of the people; the broker appends whose key it is"
    yield Channel("api", f"{subjects.API}.*", personal, "mail", (PersonalRequest,), PersonalAnswer)
    yield _channel(subjects.approval_asked, "mail", contracts.ApprovalRequest)
    yield _channel(subjects.approval_answered, "mail", contracts.ApprovalAnswer)
    happened = (contracts.AccessChanged, contracts.CommandJudged, contracts.CommandConnected)
    found = (contracts.CognitiveMessage, contracts.DiscoveryResult, contracts.TaskPlan)
    yield _channel(subjects.event, "events", *happened, *found)
    changed = "Memory changed"
    yield Channel("graph_version", subjects.GRAPH_VERSION, changed, "events", (contracts.GraphVersion,))
    yield _channel(subjects.dead, "events", contracts.DeadLetter)
    yield _channel(subjects.dropped, "events", contracts.LettersDropped)
    yield _channel(subjects.control, "events", contracts.AgentControl)
    kinds = {each for kind in RECORDS.values() for each in (kind if isinstance(kind, tuple) else (kind,))}
    yield _channel(subjects.record, "events", *sorted(kinds, key=lambda kind: kind.__name__))
    erased = "Messages that held what a person had forgotten were erased"
    yield Channel("erased", subjects.ERASED, erased, "events", (contracts.MessagesErased,))
    yield _channel(subjects.seal, "events", contracts.Seal)
    yield _channel(subjects.archive, "events", contracts.ArchiveOrder)
    archived = "An order to archive was carried out"
    yield Channel("archived", subjects.ARCHIVED, archived, "events", (contracts.MessagesArchived,))
    erasable = "Memory has recorded what is left of these messages: the eraser may erase them"
    yield Channel("erasable", subjects.ERASABLE, erasable, "events", (contracts.MemoryErasable,))
    audit = "Every stored message as the broker publishes it again, in the order of the log"
    envelopes = tuple(contracts.ENVELOPES[tag] for tag in sorted(contracts.ENVELOPES))
    yield Channel("audit", f"{subjects.AUDIT_PREFIX}{{subject}}", audit, "events", envelopes)


def _memory() -> Iterator[Channel]:
    about_writes = (contracts.MemoryRefused, contracts.MemoryErased, contracts.MemoryForgotten)
    yield _channel(subjects.memory_write, "memory", contracts.MemoryWrite, *about_writes)
    yield _channel(subjects.forgetting, "memory", contracts.ErasureOrder)
    for verb, (summary, query, answer) in MEMORY_VERBS.items():
        asked = Channel(f"memory_{verb}", subjects.memory(verb), summary, "memory", (query,), answer)
        yield asked
        if verb in (*subjects.MEMORY_SIGNED_VERBS, *subjects.MEMORY_PEOPLE_VERBS):
            yield asked._replace(
                name=f"{asked.name}_signed",
                address=f"{asked.address}.{{requester}}",
                summary=f"{summary}; as it reaches memory, signed by the broker",
            )


def _timers_and_runtime() -> Iterator[Channel]:
    timed = (contracts.GoalDue, contracts.TimerDue)
    yield _channel(subjects.timer, "timers", *timed)
    yield _channel(subjects.timer_due, "timers", *timed)
    yield _channel(subjects.presence, "runtime", contracts.Presence)
    yield _channel(subjects.taken, "runtime", Json)
    yield _channel(subjects.joining, "runtime", Json, answer=Json)
    yield _channel(subjects.asking, "runtime", Json, answer=Json)
    yield _channel(subjects.lease, "runtime", Json)
    yield _channel(subjects.turn, "runtime", Json)
    yield _channel(subjects.share, "runtime", Json)
    yield _channel(subjects.identity, "runtime", list[str])
    yield _channel(subjects.shared_entry, "runtime", Json)
    yield _channel(subjects.peer, "runtime", Json, answer=dict[str, list[int]])
    yield _channel(subjects.position, "runtime", Json, answer=Json)
    yield _channel(subjects.max_deliveries, "runtime", Json)
