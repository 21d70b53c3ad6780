"""What a file is split into."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from shared.contracts.memory import KINDS

SEPARATOR = " › "  # Between the parts of a title: the file's name, then the headings from outside in

MAX_TITLE = 200
"""The longest title made here, in characters; memory takes 256, and a long file name is to fit beside it."""

MAX_BODY = 2_000
"""The longest body of a piece, in characters: about the 512 tokens that the embedding model reads."""

IMPORTANCE = {
    "decision": 0.65,
    "goal": 0.6,
    "preference": 0.6,
    "pattern": 0.6,
    "task": 0.5,
    "fact": 0.5,
    "event": 0.45,
    "observation": 0.4,
    "episodic": 0.25,
}
"""What a kind is worth to begin with: below .7, which is for what was marked as important."""

DEFAULT_IMPORTANCE = 0.5


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to remember.

    ``key`` identifies it within its note; an empty key means that the text itself decides. But for "note",
    the key of a note itself, it is made of the text, so that the same text anywhere is the same thing.
    ``parent`` is the key of the piece it belongs under (None: under none). ``kind``, ``date``, ``valid_to``
    and ``importance`` are what the file says itself (empty or None if it does not); ``default_kind`` is the
    kind if nothing speaks for another. ``created`` is when the file says
    that it was written, ``prose`` the text without code, to be searched for words. With ``whole``, it is
    stored even if it is thin or like another: it is a record or a note, not a passage. What is ``said``
    a person wrote to others, in a chat or a mail.
    """

    title: str
    body: str
    key: str = ""
    parent: str | None = None
    heading: tuple[str, ...] = ()
    line: int = 1
    kind: str = ""
    default_kind: str = "fact"
    tags: tuple[str, ...] = ()
    date: str = ""
    created: str = ""
    valid_to: str = ""
    importance: float | None = None
    agent: str = ""
    prose: str = ""
    whole: bool = False
    said: bool = False


class NoteLink(msgspec.Struct, frozen=True):
    """A link to another note, by its name or path, and to a heading of it."""

    target: str
    heading: str = ""

    def __str__(self) -> str:
        return f"{self.target}#{self.heading}" if self.heading else self.target


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A file parsed; ``note`` is the name it can be linked by, if so: its first piece is the note itself."""

    pieces: tuple[Piece, ...]
    note: str = ""
    links: tuple[NoteLink, ...] = ()
    properties: dict[str, Any] = {}


class IngestError(Exception):
    """The file cannot be imported; ``str()`` of it says why, in a sentence for its owner."""


def join_title(*parts: str) -> str:
    """The parts of a title with SEPARATOR between them; too long, the inner ones go, then the last is cut."""
    clean = [part for part in (" ".join(part.split()) for part in parts) if part]
    outer, last = clean[:-1], clean[-1] if clean else "untitled"
    while outer and len(SEPARATOR.join([*outer, last])) > MAX_TITLE:
        outer.pop()
    title = SEPARATOR.join([*outer, last])
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1].rstrip() + "…"


def hash_text(*parts: str | Sequence[str]) -> str:
    """A short digest of texts."""
    data = "\0".join(part if isinstance(part, str) else "\1".join(part) for part in parts)
    return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def parse_kind(value: object) -> str:
    """The kind that ``value`` names, else ""; "Decision" and "decisions" are "decision"."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return next((kind for kind in (text, text.removesuffix("s")) if kind in KINDS), "")


def default_importance(kind: str) -> float:
    """The importance that a text of ``kind`` starts with."""
    return IMPORTANCE.get(kind, DEFAULT_IMPORTANCE)
