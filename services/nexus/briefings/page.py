"""A briefing as a page of Markdown, 80 columns wide."""

import textwrap
from collections.abc import Iterable, Sequence
from datetime import date, datetime, tzinfo

from services.nexus.briefings.lines import MAX_LINES, Line, Section, plain
from shared.clock import format_moment

WIDTH = 80
"""Columns; only an address or a path that is longer goes beyond."""


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
