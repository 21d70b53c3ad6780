"""What a briefing is made of: lines with their sources, and sections of them."""

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from shared.web.quoting import clean

MAX_LINE = 300  # The most characters of a line, without its sources
MAX_LINES = 20  # The most lines of a section
_MARKUP = str.maketrans({"[": "(", "]": ")", "<": "‹", ">": "›", "`": "'", "|": "/"})
"""Characters by which text from elsewhere could pass for a source, a link or HTML."""
_OPENED_BY = {
    "goal": "mailroom show {}",
    "task": "mailroom show {}",
    "approval": "mailroom approvals list",
    "mail": "mailroom mail list",
    "dead": "mailroom dead show {}",
    "reminder": "mailroom reminders list",
    "memory": "mailroom memory get {}",
    "spending": "mailroom kpi --agents",
    "news": "mailroom news show {}",
}
"""The command that shows a source, by its kind."""
_PAGES = {
    "goal": "/goals/{}",
    "approval": "/",
    "mail": "/",
    "dead": "/",
    "reminder": "/timetable",
    "calendar": "/timetable",
    "job": "/timetable",
    "memory": "/memory/{}",
    "spending": "/figures",
}
"""Where the dashboard shows a source, by its kind."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where a line comes from: ``kind`` and ``id``; the id of kinds ``web`` and ``service`` is an address."""

    kind: str
    id: str

    @property
    def label(self) -> str:
        """As a line of text names it."""
        if self.kind in ("web", "file"):
            return self.id
        if self.kind == "service":
            return urlsplit(self.id).netloc
        return f"arXiv:{self.id}" if self.kind == "arxiv" else f"{self.kind} {self.id}".strip()

    @property
    def command(self) -> str:
        """The command that shows it; empty if none does."""
        return _OPENED_BY.get(self.kind, "").format(self.id)

    @property
    def link(self) -> str:
        """Its address, or its path in the dashboard; empty if there is none."""
        if self.kind in ("web", "service"):
            return self.id if self.id.startswith(("http://", "https://")) else ""
        if self.kind == "arxiv":
            return f"https://arxiv.org/abs/{quote(self.id, safe='/.')}"
        return _PAGES.get(self.kind, "").format(quote(self.id, safe=""))

    @property
    def reference(self) -> str:
        """As evidence names it."""
        return self.id if self.kind in ("memory", "web", "service", "file") else f"{self.kind}:{self.id}"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One statement and its sources; ``short`` is how the head tells it, if not as ``text``.

    ``inline``: its sources stand within the text. ``detail`` is what a model may know beside it, and is not
    kept.
    """

    text: str
    sources: tuple[Source, ...] = ()
    short: str = ""
    score: float = 0.0
    inline: bool = False
    detail: str = ""

    @property
    def told(self) -> str:
        """The statement with its sources in brackets."""
        return self.text if self.inline else f"{self.text}{cite(self.sources)}"

    def data(self) -> dict[str, Any]:
        """As JSON: the text, and of each source what it is and how to open it."""
        sources = [
            {"kind": each.kind, "id": each.id, "label": each.label, "open": each.command, "link": each.link}
            for each in self.sources
        ]
        return {**msgspec.structs.asdict(self), "detail": "", "sources": sources}


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A section: its lines, possibly none, and a sentence about what is missing and why.

    ``missed``: its source could not be read, so that it is worth another try.
    """

    key: str = ""
    title: str = ""
    lines: tuple[Line, ...] = ()
    problem: str = ""
    missed: bool = False

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "key": self.key,
            "title": self.title,
            "lines": [each.data() for each in self.lines],
            "problem": self.problem,
            "missed": self.missed,
        }


def line(text: str, *sources: Source, short: str = "", score: float = 0.0) -> Line:
    """A line of text from elsewhere, made harmless, with its sources."""
    return Line(text=plain(text), sources=sources, short=plain(short), score=score)


def plain(text: str, limit: int = MAX_LINE) -> str:
    """``text`` on one line, without characters that could pass for a source, a link or HTML."""
    return clean(text.translate(_MARKUP), limit)


def cite(sources: Iterable[Source]) -> str:
    """The sources in brackets, as they follow a statement."""
    labels = dict.fromkeys(each.label for each in sources)
    return "".join(f" [{label}]" for label in labels)


def read_section(data: dict[str, Any]) -> Section:
    """A section as ``data`` made it."""
    return Section(
        key=data["key"],
        title=data["title"],
        lines=tuple(map(read_line, data["lines"])),
        problem=data["problem"],
        missed=data["missed"],
    )


def read_line(data: dict[str, Any]) -> Line:
    """A line as ``data`` made it."""
    sources = tuple(Source(kind=each["kind"], id=each["id"]) for each in data["sources"])
    return Line(**{**data, "sources": sources})


def merge_sections(
    before: Sequence[Section], fresh: Sequence[Section], live: frozenset[str]
) -> list[Section]:
    """``before`` with what ``fresh`` adds: a section never loses what it told, but for the ``live`` ones.

    Those tell what is true now, so the fresh one replaces the earlier one, if it could be read.
    """
    found = {each.key: each for each in fresh}
    merged = [_merge(each, found.pop(each.key, None), each.key in live) for each in before]
    return [*merged, *found.values()]


def _merge(before: Section, fresh: Section | None, is_live: bool) -> Section:
    if fresh is None:
        return before
    if is_live and not fresh.missed:
        return fresh
    told = {_identity(each) for each in before.lines}
    new = tuple(each for each in fresh.lines if _identity(each) not in told)
    missed = fresh.missed and before.missed
    return msgspec.structs.replace(
        before,
        lines=(*before.lines, *new),
        # what could be read once is not told to be missing later
        problem=fresh.problem if missed or not fresh.missed else before.problem,
        missed=missed,
    )


def added_lines(before: Sequence[Section], after: Sequence[Section], *, but: frozenset[str]) -> list[Section]:
    """The sections of ``after`` with the lines alone that ``before`` does not have; ``but`` some sections."""
    told = {each.key: {_identity(one) for one in each.lines} for each in before}
    found = [
        msgspec.structs.replace(
            each,
            lines=tuple(one for one in each.lines if _identity(one) not in told.get(each.key, set())),
            problem="",
        )
        for each in after
        if each.key not in but or not told.get(each.key)
    ]
    return [each for each in found if each.lines]


def _identity(one: Line) -> str:
    about = one.sources[0].id if one.sources else ""
    words = re.sub(r"\W+", " ", one.text).casefold().strip()
    return f"{about} {words}"
