"""Conversations with the front desk: sessions, their turns, and what is done for an answer."""

from datetime import timedelta

import msgspec

from shared.contracts import AskedBack, ContextItem

LIFETIME = timedelta(days=30)  # How long a conversation can be continued after what was said last


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation: how it began, who asked, how many questions there were, and the latest answer."""

    session_id: str
    title: str
    person: str
    begun_at: str
    last_at: str
    questions: int
    last_answer: str
    next: int
    """The cursor of the sessions after this one."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the desk answered; ``citations`` are nodes of memory, addresses and tasks.

    ``goal_id`` is the goal that it started, ``outcome`` is ``failed`` if what was asked for was not done,
    ``context`` are the memories that the answer was made from, ``unknowns`` the words that none of them has.
    ``asks`` is what it asks back, ``understood`` the whole message that a short one was taken for.
    """

    id: str
    at: str
    text: str
    citations: tuple[str, ...] = ()
    route: str = ""
    confidence: float = 0.0
    outcome: str = ""
    goal_id: str = ""
    context: tuple[ContextItem, ...] = ()
    unknowns: tuple[str, ...] = ()
    asks: AskedBack | None = None
    understood: str = ""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer; ``state`` is ``waiting``, ``answered`` or ``refused`` (with the ``reason``).

    ``seq`` is the question's place in the audit.
    """

    id: str
    session_id: str
    at: str
    person: str
    text: str
    seq: int
    state: str = "waiting"
    reason: str = ""
    answer: Answer | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, oldest turn first; ``earlier`` is the cursor of the turns before, 0 for none."""

    session_id: str
    turns: list[Turn]
    earlier: int = 0


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent does for an answer: it was asked (``asked``), began (``begun``), says how far it is
    (``noted``) or has ended (``ended``).
    """

    agent: str
    step: str
    task_id: str
    text: str
    at: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question that is stored: its id, its session, and the position of the log from which to follow."""

    id: str
    session_id: str
    position: str
