"""What a file is split into."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

SEPARATOR = " › "
"""Between the parts of a title: the file's name, then the headings from outside in."""

MAX_TITLE = 200
"""The longest title made here, in characters; memory takes 256, and a long file name is to fit beside it."""

MAX_BODY = 2_000
"""The longest body of a piece, in characters: about the 512 tokens that the embedding model reads."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to remember.

    ``key`` tells it from the others of its note, and stays when its text changes; an empty key means that the
    text itself decides, so that the same text anywhere is the same thing. ``parent`` is the key of the piece
    it belongs under (None: under none). ``kind``, ``date``, ``valid_to`` and ``importance`` are what the file
    says itself (empty or None where it does not). ``prose`` is the text without code, to be searched for
    words. With ``whole``, it is stored even where it is thin or like another: it is a record or a note, not a
    passage.
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
    valid_to: str = ""
    importance: float | None = None
    agent: str = ""
    prose: str = ""
    whole: bool = False


class Link(msgspec.Struct, frozen=True):
    """A link to another note, by its name or path, and to a heading of it."""

    target: str
    heading: str = ""

    def __str__(self) -> str:
        return f"{self.target}#{self.heading}" if self.heading else self.target


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A file taken apart; ``note`` is the name it can be linked by, if so: its first piece stands for it."""

    pieces: tuple[Piece, ...]
    note: str = ""
    links: tuple[Link, ...] = ()
    properties: dict[str, Any] = {}


class Unfit(Exception):
    """The file cannot be taken in; ``str()`` of it says why, in a sentence for whoever dropped it."""


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
