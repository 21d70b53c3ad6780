"""Printing: for people through rich, for programs as JSON."""

import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shared.text.display import clean

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

_STATUSES = {
    "submitted": ("·", "dim"),
    "pending": ("·", "dim"),
    "in_progress": ("▶", "cyan"),
    "review": ("?", "magenta"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "timeout": ("✗", "red"),
    "cancelled": ("-", "yellow"),
}
"""The symbol and the style of each status of goals and tasks."""
_OUTCOMES = {
    "done": ("✓", "green"),
    "done_with_findings": ("!", "yellow"),
    "not_checked": ("?", "magenta"),
    "failed": ("✗", "red"),
}
"""The same for what completed goals and tasks came to."""


def open_console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is, without markup and automatic highlighting."""
    return Console(highlight=False, markup=False, emoji=False, stderr=stderr)


def open_progress(*columns: "str | ProgressColumn") -> "Progress":
    """Bars on standard error that vanish at the end; nothing where that is no terminal."""
    from rich.progress import Progress

    return Progress(
        *columns or Progress.get_default_columns(),
        console=open_console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )


def colour(text: str, name: str | None) -> str:
    """``text`` in a colour for ``click.echo``; unchanged for None and if NO_COLOR is set."""
    return click.style(text, fg=name) if name and not open_console().no_color else text


def format_status(status: str, text: str = "") -> tuple[str, str]:
    """The symbol of a status before ``text`` (default: the status), and the style."""
    symbol, style = _STATUSES[status]
    return f"{symbol} {text or status}", style


def format_end(status: str, outcome: str, text: str = "") -> tuple[str, str]:
    """The same with what it came to, if it completed and that is known."""
    if status != "completed" or not outcome:
        return format_status(status, text)
    symbol, style = _OUTCOMES[outcome]
    return f"{symbol} {text or outcome.replace('_', ' ')}", style


def status_style(status: str) -> str:
    """The style of a status; empty for any other text."""
    return _STATUSES.get(status, ("", ""))[1]


def shorten(text: str, limit: int) -> str:
    """``text`` on one line of at most ``limit`` characters."""
    line = clean(text[: 4 * limit])
    return line if len(line) <= limit else line[: limit - 1] + "…"


def wrap(text: str, width: int, *, hang: int = 0) -> str:
    """``text`` with lines wrapped at ``width``, continuation lines indented by ``hang``, by 2 in a list.

    A word longer than a line, such as a path, is not broken, so that it can be copied.
    """
    wrapper = textwrap.TextWrapper(
        width=width, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )

    def fill(line: str) -> str:
        wrapper.subsequent_indent = " " * (hang or 2 * line.startswith("- "))
        return wrapper.fill(line)

    return "\n".join(map(fill, text.split("\n")))


def print_block(text: str, console: Console, *, hang: int = 0, lead: int = 0, style: str = "") -> None:
    """Print text, wrapped on a terminal, with ``style`` for the first ``lead`` characters.

    On a terminal tables of Markdown are tables of its width.
    """
    if console.is_terminal and (found := _TABLE.search(text)):
        for part in (text[: found.start()].rstrip("\n"), found, text[found.end() :].lstrip("\n")):
            if isinstance(part, re.Match):
                console.print(_read_table(part[0]))
            elif part:
                print_block(part, console, hang=hang, lead=lead, style=style)
                lead = 0
        return
    shown = Text(wrap(text, console.width, hang=hang) if console.is_terminal else text)
    shown.stylize(style, 0, lead)
    console.print(shown, soft_wrap=True)


_TABLE = re.compile(r"(?m)^\|.*\|[ ]*\n\|[ :|-]+\|[ ]*(?:\n\|.*\|[ ]*)*$")
_CELL = re.compile(r"\s*((?:\\.|[^|\\])*?)\s*\|")


def _read_table(text: str) -> Table:
    """A table of Markdown, whose long cells are wrapped."""
    head, _, *rows = (_CELL.findall(line.strip()[1:]) for line in text.splitlines())
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in head:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        cells = [re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", cell) for cell in row[: len(head)]]
        table.add_row(*map(Text, cells))
    return table


def print_rest(left: Mapping[str, int], *, as_json: bool) -> None:
    """Say how many of each agent are not listed; beside JSON on standard error."""
    if left := {name: number for name, number in left.items() if number}:
        who = ", ".join(f"{number:,} more of {name}" for name, number in sorted(left.items()))
        click.echo(f"and {who}: --limit lists more, --agent those of one agent", err=as_json)


def print_more(number: int, *, as_json: bool, how: str = "--limit lists more") -> None:
    """Say that ``number`` more are not listed, if any, and how to see them; beside JSON on standard error."""
    if number:
        click.echo(f"and {number:,} more: {how}", err=as_json)


def print_wrapped(text: Text, console: Console, *, hang: int = 2) -> None:
    """Print styled text: on a terminal wrapped between words, continuation lines indented by ``hang``."""
    if not console.is_terminal:
        console.print(text, soft_wrap=True)
        return
    first, *rest = text.wrap(console, console.width - hang)
    console.print(first)
    for line in rest:
        console.print(Text(" " * hang) + line)


def print_facts(facts: dict[str, str]) -> None:
    """Print a line ``name: value`` for each value that is not empty."""
    for name, value in facts.items():
        if value:
            click.echo(f"{click.style(clean(name), bold=True)}: {clean(value)}")


def print_line(text: Text, console: Console) -> None:
    """Print one line: cut to the width of a terminal, whole elsewhere."""
    if console.is_terminal:
        console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
    else:
        console.print(text, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_result(value: Any, text: str, as_json: bool) -> None:
    """Print a value as JSON, or else the text about it."""
    if as_json:
        print_json(value)
    else:
        click.echo(text)


def print_json_line(value: Any) -> None:
    """Print a value as a line of JSON."""
    click.echo(msgspec.json.encode(value))


def make_table(*columns: str, right: Iterable[str] = ()) -> Table:
    """A table without borders; its columns are cut to the width, those in ``right`` align right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        table.add_column(column, no_wrap=True, overflow="ellipsis", justify=justify)
    return table
