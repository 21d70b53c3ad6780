"""Long texts into pieces, at paragraphs, else at lines, else at blanks."""

import re
from collections.abc import Iterator

from services.memory.ingest.fields import LEADING, find_leading_date
from services.memory.ingest.pieces import MAX_BODY, Piece, join_title

LOG_LINES = 40
"""The most lines of a log in one piece."""

LOG_IMPORTANCE = 0.25
"""Below the .3 that briefings begin at: a log is to be found by a search, not to fill everyone's briefing."""

FENCE = re.compile(r"\s{0,3}(```+|~~~+)")


def split_text(text: str, limit: int = MAX_BODY) -> list[tuple[int, str]]:
    """Stretches of at most ``limit`` characters, each with the number of its first line, counted from 0.

    They end at blank lines outside of code if possible, else at the end of a line, else at a space.
    """
    parts: list[tuple[int, str]] = []
    for line, block in _blocks(text, limit):
        if parts and len(parts[-1][1]) + 2 + len(block) <= limit:
            first, there = parts[-1]
            gap = "\n" * max(1, line - first - there.count("\n"))
            parts[-1] = (first, there + gap[:2] + block)
        else:
            parts.append((line, block))
    return parts


def _blocks(text: str, limit: int) -> Iterator[tuple[int, str]]:
    """Paragraphs and whole code blocks; those that are too long as lines or parts of lines."""
    block: list[str] = []
    start = 0
    fence = ""
    for number, line in enumerate([*text.split("\n"), ""]):
        if block and not line.strip() and not fence:
            yield from _within(start, block, limit)
            block = []
        if not block:
            start = number
            if not line.strip():
                continue
        match = FENCE.match(line)
        if match and not fence:
            fence = match[1]
        elif match and match[1].startswith(fence) and not line.strip(" `~"):
            fence = ""
        block.append(line.rstrip())
    if block:  # code that nothing ends
        yield from _within(start, block, limit)


def _within(start: int, lines: list[str], limit: int) -> Iterator[tuple[int, str]]:
    whole = "\n".join(lines).rstrip()
    if len(whole) <= limit:
        yield start, whole
        return
    for number, line in enumerate(lines, start):
        begin = 0
        while len(line) - begin > limit:
            blank = line.rfind(" ", begin + limit // 2, begin + limit)
            end = begin + limit if blank < 0 else blank
            if part := line[begin:end].strip():
                yield number, part
            begin = end
        if rest := line[begin:].strip():
            yield number, rest


def first_words(text: str, limit: int = 80) -> str:
    """The beginning of the first line, without bullets and marks, cut at a word."""
    line = next((line for line in text.splitlines() if line.strip(" \t#>*-+=_`~")), "")
    line = " ".join(line.strip(" \t#>*-+=_`~").split())
    if len(line) <= limit:
        return line
    return line[: max(line.rfind(" ", limit // 2, limit), limit // 2)].rstrip(" ,;:.") + "…"


def parse_log(stem: str, text: str) -> tuple[Piece, ...]:
    """A log as stretches of lines; what follows a line with a time, such as a traceback, stays with it."""
    return tuple(
        Piece(
            title=join_title(stem, first_words(part)),
            body=part,
            line=line + offset + 1,
            kind="event",
            date=find_leading_date(part),
            importance=LOG_IMPORTANCE,
            whole=True,
        )
        for line, stretch in _stretches(_entries(text))
        for offset, part in split_text(stretch)
    )


def _entries(text: str) -> Iterator[tuple[int, list[str]]]:
    lines = text.split("\n")
    dated = sum(1 for line in lines[:1_000] if LEADING.match(line[:200])) * 5 >= len(lines[:1_000])
    entry: list[str] = []
    start = 0
    for number, line in enumerate(lines):
        begins = LEADING.match(line[:200]) if dated else not line[:1].isspace()
        if entry and (begins or len(entry) >= LOG_LINES):
            yield start, entry
            entry = []
        if not entry:
            start = number
        if line.strip():
            entry.append(line.rstrip())
    if entry:
        yield start, entry


def _stretches(entries: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, str]]:
    lines: list[str] = []
    start = 0
    for number, entry in entries:
        size = sum(map(len, lines)) + len(lines) + sum(map(len, entry)) + len(entry)
        if lines and (len(lines) + len(entry) > LOG_LINES or size > MAX_BODY):
            yield start, "\n".join(lines)
            lines = []
        if not lines:
            start = number
        lines += entry
    if lines:
        yield start, "\n".join(lines)
