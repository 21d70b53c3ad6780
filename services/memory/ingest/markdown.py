"""Markdown notes: the beginning is the note itself, each section a piece below it; links lead to others."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from services.memory.ingest import fields
from services.memory.ingest.drafting import find_links
from services.memory.ingest.pieces import Document, Piece, classify, hash_text, join_title
from services.memory.ingest.splitting import split_text
from shared.text.markdown import Block, read_blocks

OUTLINE_IMPORTANCE = 0.2
"""Of a note without text before its sections: it joins these, and is not shown in briefings."""

OUTLINE_KIND = "note"

SHOWN_LINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|!?\[([^\[\]]*)\]\([^()]*\)")
MARKS = re.compile(r"[*`~]+|(?<!\w)_+|_+(?!\w)|<[^<>]*>|\s#+\s*$")


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
    """What all pieces of a note have in common."""

    name: str
    title: str
    date: str
    default_kind: str
    matter: fields.FrontMatter


def parse_note(path: str, text: str) -> Document:
    """The note at ``path`` (relative, with its folders): one piece for it, one for each section, and its
    links.

    The text before the first heading, or under a heading of the first level at the top, is the note itself;
    without it, an outline is. A note that is named by a day is dated by it.
    """
    matter = fields.parse_front_matter(text)
    sections = _sections(text, matter.lines)
    name = path.rpartition("/")[2].rpartition(".")[0]
    lead, rest = _split_lead(sections)
    title = matter.title or (lead.path[-1] if lead.path else "") or name
    dated = matter.date or fields.find_named_date(path)
    default = "event" if fields.find_named_date(path) else "fact"
    place = NoteContext(name=name, title=title, date=dated, default_kind=default, matter=matter)
    outer = len(lead.path)
    rest = [msgspec.structs.replace(section, path=section.path[outer:]) for section in rest]
    pieces = (*_lead_pieces(place, lead, rest), *_section_pieces(place, rest))
    prose = "\n".join([matter.text, *(section.prose for section in sections)])
    return Document(pieces=pieces, note=name, links=find_links(prose), properties=matter.properties)


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
            path=tuple(map(_clean, block.path)),
            level=block.level,
            line=block.end + 1,
            text="\n".join(lines[block.end : end]),
            prose="\n".join(prose[block.end : end]),
        )
        for block, end in zip(headings, ends[1:], strict=True)
    ]


def _clean(heading: str) -> str:
    shown = SHOWN_LINK.sub(lambda match: match[1] or match[2] or "", heading)
    return " ".join(MARKS.sub("", shown).split())


def _split_lead(sections: list[NoteSection]) -> tuple[NoteSection, list[NoteSection]]:
    """The section that is the note itself, maybe under the only first-level heading, and the rest."""
    first, *rest = sections
    tops = [section for section in rest if len(section.path) == 1]
    if not first.text.strip() and len(tops) == 1 and tops[0] is rest[0] and tops[0].level == 1:
        return rest[0], rest[1:]
    return first, rest


def _lead_pieces(place: NoteContext, lead: NoteSection, rest: Sequence[NoteSection]) -> Iterator[Piece]:
    matter = place.matter
    if lead.text.strip():
        yield from _parts(place, lead, "", None, ())
        return
    outline = ", ".join(
        dict.fromkeys(section.path[-1] for section in rest if section.path and section.path[-1])
    )
    yield Piece(
        title=join_title(place.title),
        body=f"Sections: {outline[:1_500]}" if outline else "",
        key="note",
        line=1,
        kind=matter.kind or OUTLINE_KIND,
        tags=matter.tags,
        date=place.date,
        valid_to=matter.valid_to,
        importance=OUTLINE_IMPORTANCE if matter.importance is None else matter.importance,
        agent=matter.agent,
        whole=True,
    )


def _section_pieces(place: NoteContext, sections: Sequence[NoteSection]) -> Iterator[Piece]:
    seen: dict[tuple[str, ...], int] = {}
    keys: dict[tuple[str, ...], str] = {}
    for section in sections:
        seen[section.path] = seen.get(section.path, 0) + 1
        if not section.text.strip():
            keys.pop(section.path, None)
            continue
        key = hash_text("section", section.path, str(seen[section.path]))
        above = (section.path[:depth] for depth in range(len(section.path) - 1, 0, -1))
        parent = next((keys[path] for path in above if path in keys), "note")
        keys[section.path] = key
        yield from _parts(place, section, key, parent, section.path)


def _parts(
    place: NoteContext, section: NoteSection, key: str, parent: str | None, path: tuple[str, ...]
) -> Iterator[Piece]:
    """A section as one piece, or as several below its first."""
    matter = place.matter
    first = key or "note"
    headed = next((date for heading in reversed(path) if (date := fields.find_date(heading))), "")
    for number, (line, part, prose) in enumerate(_split(section)):
        dated = headed or fields.find_leading_date(part)
        default = classify("", (place.title,), "event" if dated else place.default_kind)
        yield Piece(
            title=join_title(place.title, *path, *([f"({number + 1})"] if number else [])),
            body=part,
            key=hash_text("part", first, part) if number else first,
            parent=first if number else parent,
            heading=path,
            line=line,
            kind=matter.kind or classify(prose, path, default),
            tags=fields.clean_tags([*matter.tags, *fields.find_tags(prose)]),
            date=dated or place.date,
            valid_to=matter.valid_to,
            importance=matter.importance,
            agent=matter.agent,
            prose=prose,
            whole=not key and not number,
        )


def _split(section: NoteSection) -> Iterator[tuple[int, str, str]]:
    """The line, the text and the prose of each part of a section."""
    parts = split_text(section.text)
    lines = section.prose.split("\n")
    starts = [line for line, _ in parts]
    shared = {line for line, after in pairwise(starts) if line == after}
    for line, part, end in zip(starts, (part for _, part in parts), [*starts[1:], len(lines)], strict=True):
        broken = line in shared  # a line too long for one part
        yield section.line + line, part, part if broken else "\n".join(lines[line:end])
