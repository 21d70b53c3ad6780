"""A stored message as a row of the index, and as a question to the front desk or its answer."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import msgspec

from services.gateway.index.facts import Change
from shared import subjects
from shared.bus import Stored
from shared.contracts import TOKEN, StateChanged
from shared.queries.pieces import Piece
from shared.queries.summaries import summarize
from shared.tasks.speaker import WITNESSES
from shared.views.timeline import MessageRow

_QUESTIONS = subjects.mail(subjects.NEXUS, subjects.USER)
_ANSWERS = subjects.mail(subjects.USER, subjects.NEXUS)


class Letter(NamedTuple):
    """A question (in ``session``; ``cause`` is empty) or an answer (to the question ``cause``)."""

    id: str
    session: str
    cause: str


class _Body(msgspec.Struct):
    type: str = ""
    id: str = ""
    cause: str = ""
    user_session_id: str = ""


_decoder = msgspec.json.Decoder(_Body)


def read_letter(stored: Stored) -> Letter | None:
    """The question or answer that a message is; None for anything else.

    A question without a session of its own begins one that has its id.
    """
    if stored.subject not in (_QUESTIONS, _ANSWERS):
        return None
    try:
        body = _decoder.decode(stored.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if stored.subject == _QUESTIONS and body.type == "question.v1":
        session = body.user_session_id or body.id
        return Letter(body.id, session, "") if TOKEN.fullmatch(session) else None
    if stored.subject == _ANSWERS and body.type == "response.v1" and body.cause:
        return Letter(body.id, "", body.cause)
    return None


STREAMS = subjects.LOG  # The streams that are indexed; a position has a number for each


MAX_DIGITS = 18  # Of a number in a position: larger ones do not fit into the index's columns


class Position(msgspec.Struct, frozen=True):
    """How far the log was read: the last sequences of OFFICE and of MEMORY.

    As text, ``1200-34``, it is the id of an event and the cursor of a page.
    """

    office: int = 0
    memory: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """The position that ``text`` names; raises ValueError."""
        office, dash, memory = text.partition("-")
        digits = dash and text.isascii() and office.isdecimal() and memory.isdecimal()
        if not (digits and max(len(office), len(memory)) <= MAX_DIGITS):
            raise ValueError(f"{text[:40]!r} is no position such as 1200-34")
        return cls(int(office), int(memory))

    def __str__(self) -> str:
        return f"{self.office}-{self.memory}"

    def after(self, stored: Stored) -> "Position":
        """The position after ``stored``."""
        if stored.stream == subjects.OFFICE:
            return Position(stored.seq, self.memory)
        return Position(self.office, stored.seq)

    def includes(self, stream: str, seq: int) -> bool:
        """Whether message ``seq`` of a stream was read before."""
        return seq <= self.of(stream)

    def of(self, stream: str) -> int:
        """The number of one of the streams."""
        return self.office if stream == subjects.OFFICE else self.memory

    def joined(self, other: "Position") -> "Position":
        """What was read by either."""
        return Position(max(self.office, other.office), max(self.memory, other.memory))


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding a message may raise: agents may write anything, also JSON that is nested without end."""


class Header(msgspec.Struct):
    """What says for whom a message is: itself, or what it follows from; ``id`` is its own."""

    id: str = ""
    audience: str = ""
    cause: str = ""
    task_id: str = ""


_SAY_FOR_WHOM = frozenset({subjects.USER, subjects.GATEWAY, *WITNESSES})
"""Whose word counts for whom a message is: another agent hides nothing from people."""
_read_header = msgspec.json.Decoder(Header)
_GOALS = frozenset({"tasks", "state"})
"""The beginnings of subjects of goals, which are the team's though one of the people asked for them alone."""


def read_header(stored: Stored) -> Header:
    """Its header as far as it counts; all is empty in a message that cannot be read."""
    try:
        header = _read_header.decode(stored.data)
    except UNREADABLE:
        return Header()
    if header.audience and subjects.Address.of(stored.subject).sender not in _SAY_FOR_WHOM:
        header.audience = ""
    if stored.subject.partition(".")[0] in _GOALS:
        header.cause = header.task_id = ""
    return header


def make_row(stored: Stored, position: Position, audience: str = "") -> MessageRow:
    """The row of a message; a message that cannot be read is one too, of the type ``unreadable``."""
    summary = summarize(stored.subject, stored.data)
    return MessageRow(
        position=str(position),
        stream=stored.stream,
        seq=stored.seq,
        time=stored.time,
        subject=stored.subject,
        type=summary.kind,
        size=len(stored.data),
        audience=audience,
        **{name: getattr(summary, name) for name in _SUMMARIZED},
    )


_SUMMARIZED = ("sender", "recipient", "goal_id", "task_id", "status", "person", "text")


class Indexed(NamedTuple):
    """A message for the index, with the text that is searched, and what it says of a goal, to or from
    the front desk, of the course of a goal or task, and for figures.
    """

    row: MessageRow
    words: str = ""
    goal: StateChanged | None = None
    letter: Letter | None = None
    piece: Piece | None = None
    facts: Sequence[Change] = ()
    header: Header | None = None  # of a message that is for one of the people alone


MAX_WORDS = 8_000  # The most characters of one message that are searched


class _Texts(msgspec.Struct):
    """What is text in the different messages."""

    text: str = ""
    subject: str = ""
    body: str = ""
    output: str = ""
    error_message: str = ""
    what: str = ""
    why: str = ""
    note: str = ""
    reason: str = ""


_read_texts = msgspec.json.Decoder(_Texts)


def words_of(stored: Stored, row: MessageRow) -> str:
    """The text of a message that is searched: what people and agents wrote, beside the line about it."""
    try:
        found = msgspec.structs.astuple(_read_texts.decode(stored.data))
    except UNREADABLE:
        found = ()
    ids = (row.goal_id, row.task_id)
    return " ".join(filter(None, (row.text, *ids, *found)))[:MAX_WORDS]


def goal_record(stored: Stored) -> StateChanged | None:
    """The record of a goal that the message holds."""
    if not stored.subject.startswith("state.goal."):
        return None
    try:
        return StateChanged.from_json(stored.data)
    except ValueError:
        return None
