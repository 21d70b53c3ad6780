"""Conversations with the front desk: what an answer asks back, and what nexus remembers of what was said."""

from typing import Annotated, Literal

from shared.contracts.base import (
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
    at_most,
    text_up_to,
)

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
