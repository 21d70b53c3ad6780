"""How a goal ended, for people: its state, the answer or the reason, and the first screen of its report."""

import re

from rich.console import Console
from rich.text import Text

from services.cli.moment import format_span, seconds_between
from services.cli.screen import SIGNS, STYLES, clean, clean_block, print_block
from shared.contracts import Goal

ANSWER_WITHIN = 10
"""Lines at the top of a report among which its answer begins."""
MIN_LINES = 20
"""Lines of a report that are shown where the screen is smaller, or none."""


def print_outcome(goal: Goal, console: Console) -> None:
    """Say how a goal ended: its state, the answer or the reason, where the report lies, its first screen."""
    status = str(goal.status)
    took = format_span(seconds_between(goal.submitted_at, goal.ended_at))
    console.print(Text.assemble((f"{SIGNS[status]} {status}", STYLES[status]), f" in {took}"))
    if goal.reason and not _is_told(goal.reason, goal.answer):
        print_block(f"Reason: {clean(goal.reason)}", console)
    if goal.answer:
        print_block(f"\n{clean_block(goal.answer).strip()}", console)
    if goal.report_path:
        console.print(f"\nReport: {clean(goal.report_path)}", soft_wrap=True)
        _print_first_screen(goal, console)


def _is_told(reason: str, answer: str) -> bool:
    """Whether the answer begins with the reason, which may name the task first; either may be cut short."""
    told, whole, bare = (
        clean(text).replace("`", "").rstrip("…") for text in (answer, reason, reason.partition(": ")[2])
    )
    return any(text and told and (told.startswith(text) or text.startswith(told)) for text in (whole, bare))


def _print_first_screen(goal: Goal, console: Console) -> None:
    lines = _untold(read_lines(goal.report_path), goal.answer)
    room = max(MIN_LINES, console.height - 8) if console.is_terminal else MIN_LINES
    if not lines:
        return
    console.print()
    for line in lines[:room]:
        print_block(_unescaped(line), console, hang=2 if line.startswith("- ") else 0)
    if len(lines) > room:
        console.print(f"... {len(lines) - room} more line{'s' * (len(lines) > room + 1)}", style="dim")


def _untold(lines: list[str], answer: str) -> list[str]:
    """The lines of a report after those of the answer, where it begins with them; else all."""
    told = _bare(answer)
    first = _bare(answer.strip().partition("\n")[0])
    begin = next((at for at, line in enumerate(lines[:ANSWER_WITHIN]) if first and _bare(line) == first), 0)
    while begin < len(lines) and _bare(lines[begin]) in told:
        begin += 1
    return lines[begin:]


def _bare(text: str) -> str:
    return clean(re.sub(r"[*`\\]", "", text))


def _unescaped(line: str) -> str:
    """A line of Markdown without its backslashes, but for those in code."""
    return re.sub(r"(`[^`]*`)|\\([!-/:-@\[-`{-~])", lambda found: found[1] or found[2], line)


def read_lines(path: str) -> list[str]:
    """The lines of a report, printable; none where it lies on another machine."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return clean_block(file.read(1_000_000)).splitlines()
    except OSError:
        return []
