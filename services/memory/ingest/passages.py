"""A text by its passages: a paragraph, a bullet, a message of a chat, a whole table or block of code each."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from services.memory.ingest.splitting import FENCE, split_text
from shared.text.sentences import split_sentences

Form = Literal["paragraph", "bullet", "message", "table", "code"]

LONG = 600
"""Characters from which a paragraph is split at its sentences, into parts of at most that many."""

MAX_GAP = 20
"""The most blank lines within a bullet."""

BULLET = re.compile(
    r"(?P<indent>\s*)(?P<mark>[-*+•–]|\d{1,3}[.)]|[a-z][)])\s+(?:\[(?P<box>[ xX\-/])\]\s+)?(?=\S)"
)
"""The beginning of a list item, with its check box."""

_STAMP = r"(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4}[ T,]+\s*)?\d{1,2}:\d\d(?::\d\d)?(?:\s?[AaPp][Mm])?"
MESSAGE = re.compile(
    rf"\s*\[?(?P<when>{_STAMP})\]?\s*[-–]?\s*<?(?P<who>[^\W\d_][^:<>\n\[\]]{{0,39}}?)>?:\s+(?=\S)"
)
"""The beginning of a message in the export of a chat: when, and who."""

_TABLE = re.compile(r"\s*\|.*\|\s*$|\s*[^|]+(?:\|[^|]+)+$")
_RULE = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")
_BREAK = re.compile(r"\s*(?:([-*_=~])\s*)(?:\1\s*){2,}$")
_FULL = re.compile(r"[.!?][\"')\]”’]*$")


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """One passage as it is written, from line ``line`` on (counted from 0).

    ``box`` is that of a check list: "" for none, " " for one that is open, else it is done. ``above`` has the
    bullets that a bullet is below, outermost first.
    """

    line: int
    text: str
    form: Form
    box: str = ""
    above: tuple[str, ...] = ()


def read_passages(text: str) -> Iterator[Passage]:
    """The passages of a text without headings.

    Lists are read bullet by bullet, the nested ones too. Code and tables stay whole up to 2,000 characters,
    and with the line before them if that ends in a colon. Longer paragraphs are split at their sentences; in
    a block whose lines are all whole sentences, each line is a passage.
    """
    for passage in _join_code(list(_read_blocks(text.split("\n")))):
        if passage.form in ("code", "table"):
            for offset, part in split_text(passage.text):
                yield msgspec.structs.replace(passage, line=passage.line + offset, text=part)
        else:
            yield from _split_long(passage)


def _read_blocks(lines: Sequence[str]) -> Iterator[Passage]:
    number = 0
    open_bullets: list[tuple[int, str]] = []
    while number < len(lines):
        line = lines[number]
        if not line.strip() or _BREAK.match(line):
            number += 1
            continue
        bullet = BULLET.match(line)
        if bullet is None or not line[:1].isspace():
            open_bullets = open_bullets if bullet else []
        end, form = _find_end(lines, number)
        text = "\n".join(part.rstrip() for part in lines[number:end]).rstrip()
        if form == "bullet" and bullet:
            indent = len(bullet["indent"].expandtabs(4))
            open_bullets = [pair for pair in open_bullets if pair[0] < indent]
            above = tuple(outer for _, outer in open_bullets)
            yield Passage(line=number, text=_dedent(text), form=form, box=bullet["box"] or "", above=above)
            open_bullets.append((indent, line[bullet.end() :].strip()))
        elif form == "paragraph":
            yield from _read_paragraph(number, lines[number:end])
        else:
            yield Passage(line=number, text=text, form=form)
        number = end


def _find_end(lines: Sequence[str], start: int) -> tuple[int, Form]:
    """The line after the block that begins at ``start``, and its form."""
    line = lines[start]
    if fence := FENCE.match(line):
        return _end_of_code(lines, start, fence[1]), "code"
    if bullet := BULLET.match(line):
        return _end_of_bullet(lines, start, len(bullet["indent"].expandtabs(4))), "bullet"
    following = lines[start + 1] if start + 1 < len(lines) else ""
    if _TABLE.match(line) and ((_RULE.match(following) and "|" in following) or line.lstrip()[0] == "|"):
        return _end_where(lines, start, lambda other: bool(_TABLE.match(other))), "table"
    if line.startswith(("    ", "\t")):
        return _end_where(lines, start, lambda other: other.startswith(("    ", "\t"))), "code"
    return _end_of_paragraph(lines, start), "paragraph"


def _end_of_code(lines: Sequence[str], start: int, fence: str) -> int:
    for number in range(start + 1, len(lines)):
        match = FENCE.match(lines[number]) or FENCE.match(lines[number].lstrip())
        if match and match[1].startswith(fence) and not lines[number].strip(" `~\t"):
            return number + 1
    return len(lines)


def _end_of_bullet(lines: Sequence[str], start: int, indent: int) -> int:
    """Lines that follow on, and what is indented after a blank line, up to the next bullet."""
    number = start + 1
    while number < len(lines):
        line = lines[number]
        if FENCE.match(line.lstrip()) and line[:1].isspace():
            number = _end_of_code(lines, number, line.strip()[:3])
            continue
        if not line.strip():
            places = range(number, min(number + MAX_GAP, len(lines)))
            following = next((lines[place] for place in places if lines[place].strip()), "")
            inside = len(following) - len(following.lstrip()) > indent
            if not inside or BULLET.match(following):
                return number
        elif BULLET.match(line) or FENCE.match(line) or MESSAGE.match(line):
            return number
        number += 1
    return number


def _end_of_paragraph(lines: Sequence[str], start: int) -> int:
    number = start + 1
    while number < len(lines) and lines[number].strip():
        if BULLET.match(lines[number]) or FENCE.match(lines[number]) or _BREAK.match(lines[number]):
            break
        number += 1
    return number


def _end_where(lines: Sequence[str], start: int, belongs: Callable[[str], bool]) -> int:
    number = start + 1
    while number < len(lines) and lines[number].strip() and belongs(lines[number]):
        number += 1
    return number


def _read_paragraph(start: int, lines: Sequence[str]) -> Iterator[Passage]:
    said = [number for number, line in enumerate(lines) if MESSAGE.match(line)]
    if said and said[0] == 0:
        for first, end in zip(said, [*said[1:], len(lines)], strict=True):
            text = "\n".join(lines[first:end]).strip()
            yield Passage(line=start + first, text=text, form="message")
    elif len(lines) > 1 and all(_FULL.search(line.rstrip()) for line in lines):
        for number, line in enumerate(lines, start):
            yield Passage(line=number, text=line.strip(), form="paragraph")
    else:
        text = "\n".join(line.rstrip() for line in lines).strip("\n")
        yield Passage(line=start, text=text, form="paragraph")


def _join_code(passages: Sequence[Passage]) -> Iterator[Passage]:
    """The passages, code and tables together with the line that introduces them."""
    waiting: Passage | None = None
    for passage in passages:
        if waiting and passage.form in ("code", "table"):
            yield msgspec.structs.replace(
                waiting, text=f"{waiting.text}\n\n{passage.text}", form=passage.form
            )
            waiting = None
            continue
        if waiting:
            yield waiting
        waiting = passage if passage.form == "paragraph" and passage.text.endswith(":") else None
        if not waiting:
            yield passage
    if waiting:
        yield waiting


def _split_long(passage: Passage) -> Iterator[Passage]:
    if len(passage.text) <= LONG:
        yield passage
        return
    parts = [""]
    for sentence in split_sentences(passage.text.replace("\n", " ")):
        if parts[-1] and len(parts[-1]) + 1 + len(sentence) > LONG:
            parts.append("")
        parts[-1] = f"{parts[-1]} {sentence}".strip()
    for part in parts:
        for _, piece in split_text(part):
            yield msgspec.structs.replace(passage, text=piece)


def _dedent(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first.strip(), *(line[2:] if line[:2].isspace() else line for line in rest)])
