"""Markdown notes, passage by passage, with links; Obsidian, Logseq, org and reStructuredText as Markdown."""

import html
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import Literal

import msgspec

from services.memory.ingest.drafting import find_links
from services.memory.ingest.front_matter import FrontMatter, parse_front_matter
from services.memory.ingest.naming import clean_markup, is_day, is_general, make_piece
from services.memory.ingest.passages import BULLET, FENCE, MAX_LEAD, MESSAGE, read_passages
from services.memory.ingest.pieces import (
    MAX_TITLE,
    Document,
    Piece,
    clean_tags,
    find_day,
    find_named_date,
    join_title,
)
from shared.text.markdown import Block, read_blocks

OUTLINE_IMPORTANCE = 0.2  # Of a note itself: it joins its passages, and is not shown in briefings

OUTLINE_KIND = "note"

DATE_LINE = re.compile(
    r"[\s>*_-]*(?:date|datum|created|written)[*_]*\s*:[*_]*\s*(\S[^\n]{0,60})\s*", re.IGNORECASE
)
"""A line that dates the note."""

STATED = 12  # The lines at the top among which it is looked for


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
    matter: FrontMatter


def parse_note(path: str, text: str, known: date) -> Document:
    """The note at ``path`` (relative, with its folders): a piece for it, one for each passage, and its links.

    The note itself is its outline; a note of one passage is that passage. A passage is dated by itself, else
    by the nearest heading that names a day, by the front matter, a line "Date: ..." at the top, or the day
    in the name of the file. ``known`` is the day the file was written.
    """
    matter = parse_front_matter(text, known)
    sections = _sections(text, matter.lines)
    name = path.rpartition("/")[2].rpartition(".")[0]
    top = _find_top(sections)
    named = find_named_date(path)
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
        unread=tuple(f"front matter: {line.strip()[:80]!r} is no field" for line in matter.unread),
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
    is_title = len(line) <= MAX_TITLE and len(line.split()) <= MAX_LEAD and line[-1:] not in (".", "!", "?")
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
            tags=clean_tags([*note.matter.tags, *piece.tags]),
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


_COMMENT = re.compile(r"(?<![\w%])%%(?!%)[^\n]*?%%|(?:^|(?<=\n))%%[ \t]*\n.*?\n%%[ \t]*(?=\n|$)", re.DOTALL)
_HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_QUERIES = frozenset(
    "dataview dataviewjs tasks query button toc {toctree} {contents} {include} {literalinclude} {image}"
    " {figure} {automodule} {autoclass} {autofunction} {currentmodule} {module} {index}".split()
)
"""The languages of blocks that are no text but a question to the program."""
_TAG = re.compile(
    r"`[^`\n]*`|</?(?:a|abbr|b|br|center|details|div|em|figcaption|figure|font|h[1-6]|hr|i|img|kbd|li|ol|p|picture|small|source"
    r"|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul|video)(?:\s[^<>]{0,2000})?/?>",
    re.IGNORECASE,
)
"""HTML in Markdown that shows nothing itself, and code, in which it is text."""
_ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,31}|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_ROLE_OF_HOST = re.compile(r"\{[\w:+.-]+\}`~?([^`<\n]*?)\s*(?:<[^`\n]*>)?`")
_FENCES = re.compile(r"\s*(?::{3,}.*|\([\w:.-]+\)=|\[[^\]^][^\]]*\]:\s+<?(?:https?:|mailto:|[./#])\S*.*)$")
"""Fences, targets and the addresses of links: what MyST and Markdown do not show."""
_FOOTNOTE = re.compile(r"^\s{0,3}\[\^[^\]\s]{1,60}\]:\s*|(?<=\S)\[\^[^\]\s]{1,60}\]")
_BLOCK_ID = re.compile(r"\s\^[A-Za-z0-9-]+$")
# What is marked contains no such mark itself: a line of many open ones is read once, not once for each.
_HIGHLIGHT = re.compile(r"==(?=\S)((?:(?!==).)+)(?<=\S)==")
_STRUCK = re.compile(r"~~(?=\S)(?:(?!~~).)+(?<=\S)~~")
_NO_TEXT = re.compile(r"\s*(?:>\s*)*(?:[-*+]|\d+[.)])?\s*(?:\[[^\]\d]\])?\s*$")
_HIDDEN = re.compile(
    r"^\s*(?:[-*+]\s+)?(?:id|collapsed|icon|public|background-color|heading|query-[\w-]+|logseq\.[\w.-]+)::"
)
_PROPERTY = re.compile(r"^(\s*(?:[-*+]\s+)?[\w-]{1,40})::(?=\s)")
_STATE = re.compile(
    r"^(\s*[-*+]\s+)(?:(TODO|DOING|LATER|NOW|WAITING|WAIT)|(DONE)|CANCELED|CANCELLED):?\s+(?:\[#[A-C]\]\s+)?"
)
_PICTURES = re.compile(r"\s*(?:\[?!\[[^\[\]]*\]\([^()]*\)(?:\]\([^()]*\))?\s*)+$")


def normalise_markup(text: str) -> str:
    """The text without comments, HTML tags, what is struck out, queries, directives, ids of blocks, and lines
    of pictures alone; callouts, highlights, properties, roles and tasks as Markdown has them. It keeps its
    lines.
    """
    lines: list[str] = []
    for is_code, part in groupby(_mark_code(text.split("\n")), key=operator.itemgetter(0)):
        block = "\n".join(line for _, line in part)
        if not is_code:
            block = _drop_comments(block)
            block = _TAG.sub(_leave_lines, block) if "<" in block else block
            block = "\n".join(map(_normalise, block.split("\n")))
            block = _ENTITY.sub(lambda match: html.unescape(match[0]), block) if "&" in block else block
        lines.append(block)
    return "\n".join(lines)


def _drop_comments(block: str) -> str:
    block = _COMMENT.sub(_leave_lines, block)
    end = block.rfind("-->") + 3  # behind the last end every beginning would look for one up to the end
    return _HTML_COMMENT.sub(_leave_lines, block[:end]) + block[end:] if end > 2 else block


def _leave_lines(match: re.Match[str]) -> str:
    if match[0].startswith("`"):
        return match[0]
    return "\n" * match[0].count("\n") or " " * match[0].lower().startswith(("<br", "<hr"))


def _mark_code(lines: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Each line with whether it is of a block of code; those of a query are empty."""
    fence, is_query = "", False
    for line in lines:
        match = FENCE.match(line)
        if not fence:
            is_query = bool(match) and line.strip(" `~\t").lower().partition(" ")[0] in _QUERIES
            fence = match[1] if match else ""
            yield bool(match), "" if is_query else line
        else:
            yield True, "" if is_query else line
            if match and match[1].startswith(fence) and not line.strip(" `~\t"):
                fence = ""


def _normalise(line: str) -> str:
    if _HIDDEN.match(line) or _PICTURES.fullmatch(line) or _FENCES.match(line):
        return ""
    line = _ROLE_OF_HOST.sub(r"`\1`", line)
    line = _FOOTNOTE.sub("", line)
    line = _BLOCK_ID.sub("", line)
    line = _HIGHLIGHT.sub(r"\1", line)
    line = _PROPERTY.sub(r"\1:", line)
    line = _STATE.sub(lambda state: f"{state[1]}[{' ' if state[2] else 'x' if state[3] else '-'}] ", line)
    if not _STRUCK.search(line):
        return line
    left = re.sub(r"(?<=\S)  +", " ", _STRUCK.sub("", line))
    return "" if _NO_TEXT.match(left) else left


_HEADLINE = re.compile(
    r"(?P<stars>\*+)\s+(?:(?P<state>TODO|NEXT|WAITING|DONE|CANCELLED)\s+)?(?P<text>.*?)\s*$"
)
_KEYWORD = re.compile(r"#\+(title|date|author|filetags):\s*(.*)", re.IGNORECASE)
_TAGS = re.compile(r"\s+:([\w@:]+):$")
_STAMP = re.compile(r"[<\[](\d{4}-\d\d-\d\d)(?: [^\W\d_]{2,4}\.?)?(?: [^<>\[\]]{1,30})?[>\]]")


def convert_org(text: str) -> str:
    """An Org text as Markdown, line for line: headlines are headings, those with a state are check boxes."""
    return "\n".join(_convert_org(line) for line in text.split("\n"))


def _convert_org(line: str) -> str:
    line = _STAMP.sub(r"\1", line)
    if headline := _HEADLINE.match(line):
        tags = _TAGS.search(headline["text"])
        words = headline["text"][: tags.start()] if tags else headline["text"]
        words += "".join(f" #{tag}" for tag in tags[1].split(":")) if tags else ""
        if headline["state"]:
            return f"- [{ {'DONE': 'x', 'CANCELLED': '-'}.get(headline['state'], ' ') }] {words}"
        return f"{'#' * min(6, 1 + len(headline['stars']))} {words}"
    if keyword := _KEYWORD.match(line):
        name = keyword[1].lower()
        return {"title": f"# {keyword[2]}", "date": f"Date: {keyword[2]}"}.get(name, "")
    folded = line.strip().lower()
    if folded.startswith(("#+begin_src", "#+begin_example", "#+end_src", "#+end_example")):
        return "```"
    return "" if folded.startswith(("#+", ":properties:", ":end:")) else line


_RULE = re.compile(r"([=\-~^\"'`#*+.:_])\1+\s*$")
_DIRECTIVE = re.compile(r"\s*\.\. (?:(?P<name>[\w:-]+)::\s*(?P<words>.*)|.*)$")
_OPTION = re.compile(r"\s+:[\w-]+:")
_ROLE = re.compile(r":[\w:+.-]+:`~?([^`<]*?)\s*(?:<[^`>]*>)?`")
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]+>`__?|`([^`]+)`__?(?!\w)")
_CODE = frozenset("code code-block sourcecode literalinclude parsed-literal testcode doctest".split())
_TEXT = frozenset(
    "note warning tip hint important caution attention danger error seealso admonition topic sidebar"
    " versionadded versionchanged deprecated versionremoved rubric epigraph container".split()
)
"""Directives whose content is text; that of all others is for the program."""


@dataclass
class _Block:
    """What is indented further than ``indent``, and whether its code has begun."""

    indent: int
    mode: Literal["text", "code", "skip"]
    begun: bool = False


def convert_rst(text: str) -> str:
    """A reStructuredText as Markdown, line for line."""
    converted: list[str] = []
    blocks: list[_Block] = []
    for line in _convert_headings(text.split("\n")):
        depth = len(line) - len(line.lstrip())
        while blocks and line.strip() and depth <= blocks[-1].indent:
            _close(blocks.pop(), converted)
        converted.append(_convert_rst(line, depth, blocks))
    while blocks:
        _close(blocks.pop(), [*converted, ""] if converted[-1] else converted)
    return "\n".join(converted)


def _convert_headings(lines: list[str]) -> list[str]:
    """The lines with the headings of Markdown; their levels are in the order in which their rules come."""
    rules: list[tuple[str, bool]] = []
    converted = list(lines)
    for number in range(1, len(lines)):
        rule, title = _RULE.match(lines[number]), lines[number - 1].strip()
        if not rule or not title or len(lines[number].strip()) < len(title) or _RULE.match(title):
            continue
        over = number > 1 and lines[number - 2].strip() == lines[number].strip()
        if (kind := (rule[1], over)) not in rules:
            rules.append(kind)
        converted[number - 1] = f"{'#' * min(6, 1 + rules.index(kind))} {title}"
        converted[number] = ""
        if over:
            converted[number - 2] = ""
    return converted


def _convert_rst(line: str, depth: int, blocks: list[_Block]) -> str:
    block = blocks[-1] if blocks else None
    if block and block.mode == "skip":
        return ""
    if block and block.mode == "code":
        if block.begun:
            return line
        block.begun = not line.strip()
        return "" if line.strip() else "```"  # options, then the empty line before the code
    if directive := _DIRECTIVE.match(line):
        name = directive["name"] or ""
        mode: Literal["text", "code", "skip"] = (
            "code" if name in _CODE else "text" if name in _TEXT else "skip"
        )
        blocks.append(_Block(depth, mode))
        return _convert_inline(directive["words"]) if mode == "text" else ""
    if block and _OPTION.match(line):
        return ""
    if line.rstrip().endswith("::"):
        blocks.append(_Block(depth, "code"))
        line = line.rstrip()[:-1] if line.strip() != "::" else ""
    return _convert_inline(line.lstrip() if block else line)


def _close(block: _Block, converted: list[str]) -> None:
    """End code at the empty line before what follows it."""
    if block.mode == "code" and block.begun and not converted[-1].strip():
        converted[-1] = "```"


def _convert_inline(line: str) -> str:
    line = _ROLE.sub(r"`\1`", line)
    return _LINK.sub(lambda match: match[1] or match[2], line).replace("``", "`")
