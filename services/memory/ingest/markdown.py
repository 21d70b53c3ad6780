"""Markdown notes: each passage is a piece below the note; links lead to others."""

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime

import msgspec

from services.memory.ingest import fields
from services.memory.ingest.dates import find_day
from services.memory.ingest.drafting import find_links
from services.memory.ingest.naming import clean_markup, is_day, is_general, make_piece
from services.memory.ingest.passages import BULLET, MAX_LEAD, MESSAGE, read_passages
from services.memory.ingest.pieces import Document, Piece, join_title
from shared.text.markdown import Block, read_blocks

OUTLINE_IMPORTANCE = 0.2
"""Of a note itself: it joins its passages, and is not shown in briefings."""

OUTLINE_KIND = "note"

DATE_LINE = re.compile(
    r"[\s>*_-]*(?:date|datum|created|written)[*_]*\s*:[*_]*\s*(\S[^\n]{0,60})\s*", re.IGNORECASE
)
"""A line that dates the note."""

STATED = 12
"""The lines at the top among which it is looked for."""


class NoteSection(msgspec.Struct, frozen=True):
    """The text under a heading of ``level``; ``path`` names the headings from outside in.

    ``line`` is where the text begins; ``prose`` has the same lines, and empty ones for code.
    """

    path: tuple[str, ...]
    level: int
    line: int
    text: str
    prose: str


class NoteContext(msgspec.Struct, frozen=True, kw_only=True):
    """What all pieces of a note have in common; days without a year are read by the day ``known``."""

    title: str
    opening: str
    is_titled: bool
    dated: str
    default_kind: str
    known: date
    matter: fields.FrontMatter


def parse_note(path: str, text: str, known: date) -> Document:
    """The note at ``path`` (relative, with its folders): a piece for it, one for each passage, and its links.

    The note itself is its outline; a note of one passage is that passage. A passage is dated by itself, else
    by the nearest heading that names a day, by the front matter, a line "Date: ..." at the top, or the day
    in the name of the file. ``known`` is the day the file was written.
    """
    matter = fields.parse_front_matter(text)
    sections = _sections(text, matter.lines)
    name = path.rpartition("/")[2].rpartition(".")[0]
    top = _find_top(sections)
    named = fields.find_named_date(path)
    stated = matter.date or _find_stated_date(sections, known) or find_day(top, known) or named
    dated = stated or find_top_day(sections[0].text, known)
    reference = datetime.fromisoformat(dated).date() if dated else known
    opening = "" if top or stated else _find_opening(sections[0].text, known)
    title = matter.title or top or opening or name
    note = NoteContext(
        title=title,
        opening=opening,
        is_titled=bool(matter.title or top or opening) or not is_general(name),
        dated=dated,
        default_kind="event" if named else "fact",
        known=reference,
        matter=matter,
    )
    outer = len(sections[1].path) if top else 0
    sections = [msgspec.structs.replace(section, path=section.path[outer:]) for section in sections]
    pieces = [piece for section in sections for piece in _section_pieces(note, section)]
    prose = "\n".join([matter.text, *(section.prose for section in sections)])
    return Document(
        pieces=_with_outline(note, pieces, sections),
        note=name,
        links=find_links(prose),
        properties=matter.properties,
    )


def _sections(text: str, skipped: int) -> list[NoteSection]:
    """The sections in their order; the first is the text before the first heading, mostly empty."""
    lines = text.split("\n")
    lines[:skipped] = [""] * skipped
    prose = list(lines)
    headings: list[Block] = []
    for block in read_blocks("\n".join(lines), tables=False, inline=False):
        is_heading = block.kind == "heading" and not block.nested
        if is_heading or block.kind == "code":
            prose[block.start : block.end] = [""] * (block.end - block.start)
        if is_heading:
            headings.append(block)
    ends = [block.start for block in headings] + [len(lines)]
    first = NoteSection(
        (), 0, skipped + 1, "\n".join(lines[skipped : ends[0]]), "\n".join(prose[skipped : ends[0]])
    )
    return [first] + [
        NoteSection(
            path=tuple(map(clean_markup, block.path)),
            level=block.level,
            line=block.end + 1,
            text="\n".join(lines[block.end : end]),
            prose="\n".join(prose[block.end : end]),
        )
        for block, end in zip(headings, ends[1:], strict=True)
    ]


def _find_top(sections: Sequence[NoteSection]) -> str:
    """The only heading of the first level, if the note begins with it: it names the note."""
    first, *rest = sections
    tops = [section for section in rest if len(section.path) == 1]
    is_top = not first.text.strip() and len(tops) == 1 and tops[0] is rest[0] and tops[0].level == 1
    return rest[0].path[-1] if is_top else ""


def _find_stated_date(sections: Sequence[NoteSection], known: date) -> str:
    """The date in a line such as "Date: 2026-01-22" before the second heading."""
    lines = "\n".join(section.text for section in sections[:2]).split("\n")
    stated = (match[1] for line in lines[:STATED] if (match := DATE_LINE.match(line)))
    return next((day for text in stated if (day := find_day(text, known))), "")


def find_top_day(text: str, known: date) -> str:
    """The day that a first line names, as the title of a note without headings does; "" if it does not."""
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    is_title = len(line.split()) <= MAX_LEAD and line[-1:] not in (".", "!", "?")
    return find_day(line, known) if is_title and not BULLET.match(line) and not MESSAGE.match(line) else ""


def _find_opening(text: str, known: date) -> str:
    """A first line by itself that names a day, with more below it: it is the note's title."""
    first, _, more = text.strip().partition("\n\n")
    return first if more.strip() and "\n" not in first and find_top_day(first, known) else ""


def _section_pieces(note: NoteContext, section: NoteSection) -> Iterator[Piece]:
    headed = next((day for name in reversed(section.path) if (day := find_day(name, note.known))), "")
    for passage in read_passages(section.text, section.path[-1] if section.path else note.title):
        if DATE_LINE.fullmatch(passage.text) or is_day(passage.text) or passage.text == note.opening:
            continue
        piece = make_piece(passage, section.path, headed or note.dated, note.known, note.title)
        yield msgspec.structs.replace(
            piece,
            parent="note",
            line=section.line + passage.line,
            kind=note.matter.kind or piece.kind,
            default_kind=piece.default_kind if piece.default_kind != "fact" else note.default_kind,
            tags=fields.clean_tags([*note.matter.tags, *piece.tags]),
            created=note.matter.created if piece.date == note.matter.created else "",
            valid_to=note.matter.valid_to,
            importance=note.matter.importance,
            agent=note.matter.agent,
        )


def _with_outline(
    note: NoteContext, pieces: Sequence[Piece], sections: Sequence[NoteSection]
) -> tuple[Piece, ...]:
    """The pieces below one for the note itself; a single piece without a heading is the note."""
    matter = note.matter
    if len(pieces) == 1 and not pieces[0].heading:
        title = join_title(note.title) if note.is_titled else pieces[0].title
        whole = msgspec.structs.replace(pieces[0], key="note", parent=None, title=title, whole=True)
        return (whole,)
    names = dict.fromkeys(section.path[-1] for section in sections if section.path and section.path[-1])
    outline = Piece(
        title=join_title(note.title),
        body=f"Sections: {', '.join(names)[:1_500]}" if names else "",
        key="note",
        kind=matter.kind or OUTLINE_KIND,
        tags=matter.tags,
        date=note.dated,
        created=matter.created if note.dated == matter.created else "",
        valid_to=matter.valid_to,
        importance=OUTLINE_IMPORTANCE if matter.importance is None else matter.importance,
        agent=matter.agent,
        whole=True,
    )
    return (outline, *pieces)
