"""Mail between agents and people: emails and their threads, questions and answers, reports."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from shared.contracts.base import (
    MAX_TEXT,
    AgentName,
    Contract,
    Count,
    Envelope,
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
from shared.contracts.conversation import AskedBack
from shared.contracts.task import ResultOutcome


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
