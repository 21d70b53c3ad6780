"""Prints what happened inside tasks: each thought, call, command and memory, as they began."""

import json
import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from services.cli.output.console import print_json
from shared.contracts import TaskResult
from shared.errors import NotFound
from shared.text.display import clean, clean_block, count
from shared.text.times import format_clock, format_span, seconds_between
from shared.views.timeline import Activity, Row, RowKind, TaskDetails

NARROW, WIDE = 40, 120  # The least and the most columns that are used; elsewhere than on a terminal it is 80
MAX_LINES = {"thought": 14, "given": 5, "output": 7, "result": 30}
"""Lines of a text that are shown; --json has all of it."""
MAX_ROWS = 400  # Rows of one task that are shown
NAMES = {
    RowKind.MODEL: "thinks",
    RowKind.ACTION: "action",
    RowKind.COMMAND: "runs",
    RowKind.MEMORY: "memory",
    RowKind.EFFECT: "effect",
    RowKind.APPROVAL: "asks you",
}
"""What a row of a kind begins with."""
_MARKS = {
    "done": ("✓", "green"),
    "granted": ("✓", "green"),
    "done_with_findings": ("!", "yellow"),
    "not_checked": ("?", "magenta"),
    "cancelled": ("-", "yellow"),
    "killed": ("✗", "red"),
    "running": ("▶", "cyan"),
    "waiting": ("‖", "magenta"),
}
"""The symbol and style of each status of a row; any other failed."""


def print_activity(activity: Activity, console: Console, *, as_json: bool) -> None:
    """Print what happened inside a goal or task; raises NotFound if nothing is on record."""
    if as_json:
        print_json(activity)
        return
    if not (activity.tasks or activity.conductor):
        raise NotFound("Nothing is on record of it yet")
    width = max(NARROW, min(WIDE, console.width)) if console.is_terminal else 80
    printer = _Printer(console, width)
    rows = [row for details in activity.tasks for row in details.rows]
    printer.begin = min(row.start for row in (*activity.conductor, *rows))
    printer.line(f"{format_clock(printer.begin)}, then seconds since", "dim")
    if activity.conductor:
        printer.line("")
        printer.rows(activity.conductor, 0)
    for details in activity.tasks:
        printer.task(details)
    printer.line("")
    calls = [row for row in activity.conductor if row.kind in (RowKind.MODEL, RowKind.MORE)]
    used: list[Row | TaskDetails] = [*activity.tasks, *calls]
    read, written = sum(each.input_tokens for each in used), sum(each.output_tokens for each in used)
    cached = sum(each.cached_tokens for each in used)
    tokens = _format_tokens(read, written, sum(each.cost for each in used), cached)
    printer.line(f"{count(len(activity.tasks), 'task')}, {tokens or 'no model was asked'}")


def _format_tokens(read: int, written: int, cost: float, cached: int = 0) -> str:
    if not (read or written or cost):
        return ""
    price = f", ${cost:,.4f}" if cost else ""
    known = f" ({100 * cached / read:.0f} % cached)" if cached and read else ""
    return f"{read:,} tokens in{known}, {written:,} out{price}"


class _Printer:
    """Prints lines no longer than ``width``; ``begin`` is when the first row began."""

    def __init__(self, console: Console, width: int) -> None:
        self._console = console
        self._width = width
        self.begin = ""

    def line(self, text: str, style: str = "") -> None:
        """Print one line, cut to the width."""
        short = text if len(text) <= self._width else text[: self._width - 1] + "…"
        self._console.print(Text(short, style=style), soft_wrap=True)

    def task(self, details: TaskDetails) -> None:
        """Print a task, what happened in it, and its result."""
        if not details.rows:
            return
        head, *inside = details.rows
        self.line("")
        symbol, style = _MARKS.get(head.status, ("✗", "red"))
        took = f"  {format_span(seconds_between(head.start, head.end))}" + ("" if head.end else " so far")
        self.line(f"{symbol} {head.agent}: {clean(head.name)}{took}", f"bold {style}")
        self.line(f"  {details.task_id}", "dim")
        if details.task is not None:
            self._text(details.task.text, 2, MAX_LINES["given"])
            if params := details.task.context.get("params"):
                self._text(_format_params(json.dumps(params, ensure_ascii=False)), 2, 5, "dim")
        self.rows(inside[:MAX_ROWS], 2)
        if len(inside) > MAX_ROWS:
            self.line(f"  … {count(len(inside) - MAX_ROWS, 'further row')}: --json has them", "dim")
        for judged in details.judged:
            self._text(f"policy: {judged.verdict} ({judged.rule}): {judged.command}", 2, 3, "yellow")
        for connected in details.connections:
            for each in connected.connections[:10]:
                verdict = f"{each.received:,} bytes" if each.allowed else f"refused: {each.why}"
                self._text(f"connected: {each.host}:{each.port} {verdict}", 2, 2, "dim")
        if details.result is not None:
            self._result(details.result)

    def rows(self, rows: Sequence[Row], indent: int) -> None:
        """Print rows, those within others further to the right."""
        depth: dict[str, int] = {}
        for row in rows:
            depth[row.id] = min(depth.get(row.parent, -1) + 1, 5)
            self._row(row, indent + 2 * depth[row.id])

    def _row(self, row: Row, indent: int) -> None:
        symbol, style = _MARKS.get(row.status, ("✗", "red"))
        since = f"+{max(0.0, seconds_between(self.begin, row.start)):.3f}"
        took = format_span(seconds_between(row.start, row.end)) if row.end else "goes on"
        tokens = _format_tokens(row.input_tokens, row.output_tokens, row.cost, row.cached_tokens)
        name, kind = clean(row.name), NAMES.get(row.kind, "")
        facts = ", ".join(filter(None, (took, tokens)))
        # The name of a model says least, and what it cost must not be cut off.
        words = [kind, facts, name] if row.kind is RowKind.MODEL else [kind, name, facts]
        self.line(f"{' ' * indent}{symbol} {since}  {'  '.join(filter(None, words))}", style)
        if row.worker and row.kind is RowKind.ATTEMPT:
            self.line(" " * (indent + 4) + f"process {row.worker}", "dim")
        if row.instead_of:
            self._text(f"instead of {row.instead_of}, which could not answer", indent + 4, 1, "dim")
        if row.note:
            self._text(row.note, indent + 4, 2, "dim")
        if row.kind in (RowKind.ACTION, RowKind.COMMAND, RowKind.MEMORY):
            self._text(_format_params(row.input), indent + 4, MAX_LINES["given"])
        if row.output:
            lines = MAX_LINES["thought" if row.kind is RowKind.MODEL else "output"]
            self._text(row.output, indent + 4, lines, "" if row.kind is RowKind.MODEL else "dim")

    def _result(self, result: TaskResult) -> None:
        self.line(f"  result: {result.status}{f', {result.outcome}' if result.outcome else ''}", "bold")
        self._text(result.error_message, 4, 6, "red")
        self._text(result.output, 4, MAX_LINES["result"])
        for title, names in (("evidence", result.evidence_refs), ("files", result.output_paths)):
            if names:
                more = f" and {len(names) - 8} more" if len(names) > 8 else ""
                self._text(f"{title}: {', '.join(names[:8])}{more}", 4, 4, "dim")

    def _text(self, text: str, indent: int, most: int, style: str = "") -> None:
        width = max(self._width - indent, 20)
        whole = clean_block(text[:50_000]).strip().splitlines()
        lines = [
            part for line in whole for part in textwrap.wrap(line, width, break_on_hyphens=False) or [""]
        ]
        for line in lines[:most]:
            self.line(" " * indent + line, style)
        if len(lines) > most:
            self.line(" " * indent + f"… {count(len(lines) - most, 'further line')}: --json has them", "dim")


def _format_params(text: str) -> str:
    """The parameters in a JSON text, one a line; the text itself if it is no object."""
    try:
        params = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    if not isinstance(params, dict):
        return text
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in params.items()
    )
