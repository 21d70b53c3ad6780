"""Briefings: sections gathered side by side, each within its time, and written as one page."""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from datetime import date, datetime, time, tzinfo
from pathlib import Path

import msgspec

from shared.clock import tell
from shared.errors import ConfigError, MailroomError
from shared.web.quoting import clean

KINDS = ("morning", "evening")
LINE = 400
"""The most characters of a line."""
LINES = 20
"""The most lines of a section."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a briefing: its lines, or the one sentence that says why there are none."""

    title: str
    lines: tuple[str, ...] = ()
    problem: str = ""
    evidence: tuple[str, ...] = ()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a source has to tell: lines, and a remark where it is not all; nothing is an answer too."""

    lines: tuple[str, ...] = ()
    remark: str = ""
    evidence: tuple[str, ...] = ()


async def gather_sections(sources: Mapping[str, tuple[Awaitable[Found], float]]) -> list[Section]:
    """The sections by title, asked for side by side; a source has so many seconds.

    One that fails or is too slow becomes a sentence; the others do not wait for it longer than that.
    """
    return list(
        await asyncio.gather(*(_gather(title, source, limit) for title, (source, limit) in sources.items()))
    )


async def _gather(title: str, source: Awaitable[Found], limit: float) -> Section:
    try:
        async with asyncio.timeout(limit):
            found = await source
    except TimeoutError:
        return Section(title=title, problem=f"It could not be told within {limit:g} s.")
    except (MailroomError, OSError, ValueError) as error:
        return Section(title=title, problem=f"It could not be told: {str(error).rstrip('.')}.")
    return Section(title=title, lines=found.lines, problem=found.remark, evidence=found.evidence)


def compose_page(
    kind: str, day: date, made_at: datetime, sections: Sequence[Section], zone: tzinfo | None
) -> str:
    """The briefing as Markdown; what comes from elsewhere is one line each."""
    parts = [
        f"# {kind.capitalize()} briefing, {day:%A} {day.day} {day:%B %Y}",
        f"Made on {tell(made_at, zone)}.",
    ]
    for section in sections:
        shown = [f"- {clean(line, LINE)}" for line in section.lines[:LINES]]
        if len(section.lines) > LINES:
            shown.append(f"- ... and {len(section.lines) - LINES} more")
        remark = [clean(section.problem, 2 * LINE)] if section.problem else []
        lines = [*shown, *(["", *remark] if shown and remark else remark)] or ["Nothing."]
        parts.append("\n".join([f"## {section.title}", "", *lines]))
    return "\n\n".join(parts) + "\n"


def save_page(text: str, folder: Path, day: date) -> Path:
    """Write the page of a day as ``YYYY-MM-DD.md``, whole or not at all; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{day.isoformat()}.md"
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".briefing-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def read_clock(text: str, option: str) -> time | None:
    """The time of day of an option such as ``07:00``, None for an empty one; raises ConfigError."""
    if not text:
        return None
    try:
        clock = time.fromisoformat(text)
    except ValueError:
        clock = None
    if clock is None or clock.tzinfo is not None:
        raise ConfigError(
            f"The option {option!r} of the nexus profile is {text[:40]!r}, which is no time of day",
            "Write it as in 07:00",
        )
    return clock
