"""A briefing as a page of Markdown, 80 columns wide, and its head of at most five lines."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import date, datetime, tzinfo

from services.nexus.briefings.lines import MAX_LINE, MAX_LINES, Line, Section, cite, plain
from shared.clock import format_moment
from shared.text.display import format_list

WIDTH = 80  # Columns; only an address or a path that is longer goes beyond


def format_page(
    kind: str,
    day: date,
    made_at: datetime,
    head: Sequence[Line],
    sections: Sequence[Section],
    additions: Sequence[tuple[datetime, Sequence[Section]]],
    zone: tzinfo | None,
) -> str:
    """The page: the head, what was added later (the latest first), the sections; none of them is empty."""
    parts = [
        f"# {format_title(kind, day)}",
        _wrap(each.told for each in head),
        f"Made on {format_moment(made_at, zone)}.",
    ]
    for moment, added in reversed(additions):
        lines = [f"{each.title}: {one.told}" for each in added for one in each.lines]
        parts.append(f"## Added at {moment.astimezone(zone):%H:%M}\n\n{_wrap(lines)}")
    parts += [text for each in sections if (text := format_section(each))]
    return "\n\n".join(part for part in parts if part) + "\n"


def format_title(kind: str, day: date) -> str:
    """``Morning briefing, Monday 23 November 2026``."""
    return f"{kind.capitalize()} briefing, {day:%A} {day.day} {day:%B %Y}"


def format_section(section: Section) -> str:
    """A section with its heading; empty if it has nothing to tell."""
    told = [each.told for each in section.lines[:MAX_LINES]]
    if len(section.lines) > MAX_LINES:
        told.append(f"... and {len(section.lines) - MAX_LINES} more")
    remark = textwrap.fill(plain(section.problem, 800), WIDTH, break_on_hyphens=False, break_long_words=False)
    parts = [text for text in (_wrap(told), remark) if text]
    return "\n\n".join([f"## {section.title}", *parts]) if parts else ""


def _wrap(lines: Iterable[str]) -> str:
    return "\n".join(
        textwrap.fill(
            line,
            WIDTH,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    )


_CLOCK = re.compile(r"\d\d:\d\d")
MOST = 5  # The most lines of a head
NAMED = 3  # How many things a line of the head names
SHORT = 90  # The most characters of one of them
_BEGINNINGS = {
    "waits": "Waits for you",
    "failed": "Failed",
    "due": "Due",
    "night": "The night brought",
    "new": "New for you",
    "done": "Done",
    "missed": "Missed",
    "learned": "Learned",
    "spent": "Spent",
    "tomorrow": "Tomorrow",
}
ORDER = {
    "morning": ("waits", "failed", "due", "night", "new"),
    "evening": ("done", "missed", "learned", "spent", "tomorrow"),
}
"""The lines of each kind's head, in their order."""
QUIET = {
    "morning": "A quiet night: nothing waits.",
    "evening": "A quiet day: nothing was done, and nothing was missed.",
}
_WITH = {"due": ("calendar",)}  # Sections that are told in the line of another
_LOUD = {"morning": ("waits", "failed", "due", "night"), "evening": ("done", "missed")}
"""What keeps a night or a day from being quiet."""


def make_head(kind: str, sections: Sequence[Section]) -> tuple[Line, ...]:
    """The head of a briefing, in a model's words where there are some.

    A section that could not be read is told as such: nothing is called quiet that is not known.
    """
    by_key = {each.key: each for each in sections}
    lines = []
    for key in ORDER[kind]:
        found = [by_key[each] for each in (key, *_WITH.get(key, ())) if each in by_key]
        told = tuple(one for each in found for one in each.lines)
        if key == "due":
            told = tuple(sorted(told, key=_rank_due))
        if told:
            lines.append(found[0].told or _sum_up(key, told))
    loud = [by_key[key] for key in _LOUD[kind] if key in by_key]
    if not any(each.lines for each in loud):
        missed = [each.title for each in loud if each.missed]
        quiet = f"Not known yet: {format_list(missed)}." if missed else QUIET[kind]
        lines.insert(0, Line(text=quiet))
    return tuple(lines[:MOST])


def _rank_due(one: Line) -> tuple[int, str]:
    """What is late and the deadlines until tomorrow, then today by the hour, whole days, later deadlines."""
    clock = _CLOCK.match(one.text)
    if clock:
        return 1, clock[0]
    if any(source.kind == "calendar" for source in one.sources):
        return 2, ""
    return (3 if one.score < -1 else 0), ""


def _sum_up(key: str, lines: Sequence[Line]) -> Line:
    """The first things of a section, each with its source, and how many more there are."""
    named = lines[:NAMED]
    room = MAX_LINE // len(named)
    parts = [
        f"{plain(each.short or each.text, min(SHORT, room)).rstrip('.')}{cite(each.sources[:1])}"
        for each in named
    ]
    more = len(lines) - len(named)
    text = "; ".join(parts) + (f"; and {more} more" if more else "")
    return Line(
        text=f"{_BEGINNINGS[key]}: {text}.",
        inline=True,
        sources=tuple(source for each in named for source in each.sources[:1]),
    )
