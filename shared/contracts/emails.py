"""Mail between agents and people, and conversations: what is asked back, and what nexus keeps of them."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from shared.contracts.base import (
    MAX_TEXT,
    AgentName,
    Contract,
    Count,
    Envelope,
    OptionalPerson,
    OptionalTimestamp,
    OptionalToken,
    Text,
    Timestamp,
    Token,
    Unit,
    at_most,
    generate_iso_timestamp,
    require_token,
    text_up_to,
)
from shared.contracts.task import ResultOutcome

MAX_CHOICES = 9  # The most choices of a question that is asked back
MAX_TURNS = 6  # The most turns that a conversation keeps: the last ones
MAX_TOLD = 20  # Statements of a conversation that are known in it though they are not kept, the last ones
MAX_MENTIONED = 20  # The most things that an answer mentioned which are kept
CUT = 600  # The most characters of a text that a conversation keeps
SLOT = "{answer}"  # Where a template has the short answer


class Choice(Contract, frozen=True, kw_only=True):
    """One answer to a question that is asked back: as it is shown, and the whole message that it stands for.

    An empty ``text`` does nothing.
    """

    label: Annotated[str, text_up_to(200)]
    text: Annotated[str, at_most(4_000)] = ""


class AskedBack(Contract, frozen=True, kw_only=True):
    """What an answer asks back; a short answer settles it.

    ``choices`` are settled by their number, their words, "yes" (the only one) or "no" (nothing).
    ``template`` is a whole message with ``{answer}`` where another short answer goes, such as a time; what it
    ``expects`` says which fit: ``time`` takes words of a time, ``text`` any few words, ``choice`` none.
    """

    choices: Annotated[tuple[Choice, ...], at_most(MAX_CHOICES, "entries")] = ()
    template: Annotated[str, at_most(4_000)] = ""
    expects: Literal["choice", "time", "text"] = "choice"


class Email(Envelope, frozen=True, kw_only=True, tag="email.v1"):
    """An email in natural language; ``in_reply_to`` is the id of the email it answers.

    ``hops`` counts the agents that passed the matter on by email before this one.
    """

    sender: AgentName
    recipient: AgentName
    subject: Annotated[str, at_most(500)] = ""
    body: Annotated[str, at_most(MAX_TEXT)]
    in_reply_to: OptionalToken = ""
    user_session_id: str = ""
    hops: Count = 0

    def reply(self, body: str, **fields: Any) -> "Email":
        """The recipient's answer with ``body``, in the same thread; ``fields`` are others, such as its id."""
        return Email(
            sender=self.recipient,
            recipient=self.sender,
            subject=f"Re: {self.subject}"[:500] if self.subject else "",
            body=body,
            in_reply_to=self.id,
            user_session_id=self.user_session_id,
            cause=self.id,
            goal_id=self.goal_id,
            **fields,
        )


class CancelGoal(Envelope, frozen=True, kw_only=True, tag="cancel_goal.v1"):
    """A request to the conductor to end a goal and every task of it that is still open."""

    reason: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("goal_id", self.goal_id)


class SessionStatus(StrEnum):
    """Whether an agent works on a thread, or waits for what comes next in it."""

    RUNNING = "RUNNING"
    WAITING = "WAITING"


class TaskSession(Envelope, frozen=True, kw_only=True, tag="task_session.v1"):
    """A thread of emails as one agent knows it; ``session_id`` is the id of its first email.

    ``history`` are the messages of the conversation: role and text.
    """

    session_id: Token
    original_sender: AgentName
    user_session_id: str = ""
    status: SessionStatus = SessionStatus.RUNNING
    history: tuple[dict[str, Any], ...] = ()


class SentEmail(Envelope, frozen=True, kw_only=True, tag="correspondence.v1"):
    """An email that an agent sent: its thread, and the answer once there is one.

    ``awaited``: a handler waits for the answer, so it opens no thread of its own.
    """

    email: Email = msgspec.field(name="letter")
    session_id: str = ""
    awaited: bool = False
    answer: Email | None = None


class RoutingDecision(Contract, frozen=True, kw_only=True):
    """The route of a message: an agent, ``nexus`` itself, or ``tool:<name>``."""

    route: Annotated[str, text_up_to(100)]
    rationale: str
    tool_name: str = ""


class ContextItem(Contract, frozen=True, kw_only=True):
    """One statement in a context packet, with the memory node it comes from."""

    text: str
    evidence_id: str
    score: float = 0.0


class ContextPacket(Contract, frozen=True, kw_only=True):
    """What memory knows about a message, open questions, and assumptions.

    ``best`` is the highest cosine of a bullet's memory to the query; 0 if it was not measured.
    """

    query: Text
    bullets: tuple[ContextItem, ...] = ()
    unknowns: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    best: Unit = 0.0


class Question(Envelope, frozen=True, kw_only=True, tag="question.v1"):
    """A person's question to nexus; the Response comes by mail.

    ``history`` are the last messages of its session before it, oldest first: role (user, assistant) and text.
    """

    text: Text
    user_session_id: str = ""
    history: Annotated[tuple[dict[str, Any], ...], at_most(20, "entries")] = ()


class Response(Envelope, frozen=True, kw_only=True, tag="response.v1"):
    """The answer to a message; ``citations`` are memory ids, task ids or addresses.

    ``outcome`` is FAILED if what the message asks for was not done, such as a reminder that was not set.
    ``asks`` is what it asks back; ``understood`` is the whole message that a short one was taken for.
    """

    text: Text
    citations: tuple[str, ...] = ()
    route_used: Annotated[str, text_up_to(100)] = "nexus"
    context_used: ContextPacket | None = None
    confidence: Unit = 0.0
    outcome: ResultOutcome = ResultOutcome.NONE
    asks: AskedBack | None = None
    understood: Annotated[str, at_most(4_000)] = ""


class DiscoveryResult(Envelope, frozen=True, kw_only=True, tag="discovery_result.v1"):
    """Papers and news found for a query; ``citations`` are arXiv ids and addresses."""

    task_id: Token
    completed_at: Timestamp = msgspec.field(default_factory=generate_iso_timestamp)
    agent: AgentName
    query: Text
    papers: tuple[dict[str, Any], ...] = ()
    news_items: tuple[dict[str, Any], ...] = ()
    citations: tuple[str, ...] = ()
    summary: str = ""
    output_path: str = ""


class AgentReport(Envelope, frozen=True, kw_only=True, tag="agent_report.v1"):
    """A summary an agent writes for people, such as a research brief or an execution summary."""

    report_id: Token
    agent: AgentName
    report_type: Annotated[str, text_up_to(200)]
    summary: Text
    findings: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


class Mentioned(Contract, frozen=True, kw_only=True):
    """Something that an answer named, by its id ``ref``; ``text`` is what was said of it.

    It is a goal, a reminder, a job, a schedule, an approval, a memory, or (without an id) a line of a list.
    """

    what: Literal["goal", "reminder", "job", "schedule", "approval", "memory", "line"]
    ref: Annotated[str, at_most(200)] = ""
    text: Annotated[str, at_most(CUT)] = ""


class ConversationTurn(Contract, frozen=True, kw_only=True):
    """A message of a conversation and its answer; ``meant`` is the whole message that it was taken for.

    ``state`` is ``waiting`` until it is answered, and ``stopped`` if the person ended it. ``assignee`` and
    ``task_id`` name the task that nexus gave out for it, ``route`` what answered; ``failed`` says that what
    was asked for was not done.
    """

    id: Token
    text: Annotated[str, at_most(CUT)]
    meant: Annotated[str, at_most(CUT)] = ""
    answer: Annotated[str, at_most(CUT)] = ""
    route: Annotated[str, at_most(100)] = ""
    state: Literal["waiting", "answered", "stopped"] = "waiting"
    failed: bool = False
    assignee: str = ""
    task_id: OptionalToken = ""
    goal_id: OptionalToken = ""
    asked_at: OptionalTimestamp = ""


class Told(Contract, frozen=True, kw_only=True):
    """A fact that the message ``id`` of a conversation told, and that is not kept."""

    id: Token
    text: Annotated[str, at_most(CUT)]
    asked_at: OptionalTimestamp = ""


class Conversation(Envelope, frozen=True, kw_only=True, tag="conversation.v1"):
    """The record of a conversation with nexus: its last turns, what was asked back, named and told.

    It belongs to ``owner`` (empty: the one at the machine), or to an agent, the ``asker``. ``title`` is its
    first message, ``questions`` counts them all; ``created_at`` is when it went on last.
    """

    session_id: Annotated[str, text_up_to(128)]
    asker: AgentName
    title: Annotated[str, at_most(200)] = ""
    owner: OptionalPerson = ""
    begun_at: Timestamp
    questions: Count = 0
    turns: Annotated[tuple[ConversationTurn, ...], at_most(MAX_TURNS, "entries")] = ()
    asks: AskedBack | None = None
    mentioned: Annotated[tuple[Mentioned, ...], at_most(MAX_MENTIONED, "entries")] = ()
    told: Annotated[tuple[Told, ...], at_most(MAX_TOLD, "entries")] = ()


class StopAnswer(Envelope, frozen=True, kw_only=True, tag="stop_answer.v1"):
    """A request of a person to nexus to end what it does for the question ``question_id`` of a session."""

    question_id: Token
    session_id: Annotated[str, text_up_to(128)]


class AnswerWords(Contract, frozen=True, kw_only=True):
    """Words of the answer to a question as a model writes it, in order; they are not stored.

    ``number`` counts from 0; with 0 the answer begins (again).
    """

    question_id: Token
    number: Count
    text: Text


class TaskThoughts(Contract, frozen=True, kw_only=True):
    """The end of what a model has written by now for a task of an agent, ``written`` characters in all.

    It is not stored. Without a text the model has ended its message.
    """

    agent: AgentName
    goal_id: OptionalToken = ""
    task_id: Token
    text: Text = ""
    written: Count = 0
