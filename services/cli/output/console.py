"""What commands print: for people through rich, for programs as JSON."""

import textwrap
from collections.abc import Iterable
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

STYLES = {
    "pending": "dim",
    "in_progress": "cyan",
    "review": "magenta",
    "completed": "green",
    "failed": "red",
    "timeout": "red",
    "cancelled": "yellow",
    "submitted": "dim",
}
"""How the states of goals and tasks look."""

SIGNS = {
    "pending": "·",
    "in_progress": "▶",
    "review": "?",
    "completed": "✓",
    "failed": "✗",
    "timeout": "✗",
    "cancelled": "-",
    "submitted": "·",
}
"""The same for those who see no colour."""


def open_console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is: no markup, no guessing what to highlight."""
    return Console(highlight=False, markup=False, emoji=False, stderr=stderr)


def colour(text: str, name: str | None) -> str:
    """``text`` in a colour for ``click.echo``; as it is for None, and where NO_COLOR is set."""
    return click.style(text, fg=name) if name and not open_console().no_color else text


def clean(text: str) -> str:
    """``text`` on one line, without anything that could steer a terminal."""
    return " ".join(clean_block(text).split())


def clean_block(text: str) -> str:
    """``text`` with its lines, without anything that could steer a terminal."""
    return "".join(map(_plain, text.replace("\r\n", "\n").expandtabs(4)))


def _plain(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    return " " if character.isspace() else ""


def shorten(text: str, limit: int) -> str:
    """``text`` on one line of at most ``limit`` characters."""
    line = clean(text[: 4 * limit])
    return line if len(line) <= limit else line[: limit - 1] + "…"


def wrap(text: str, width: int, *, hang: int = 0) -> str:
    """``text`` with its lines broken between words at ``width``, the further ones ``hang`` columns in.

    What is longer than a line, such as a path, stays whole, so that it can be copied.
    """
    lines = textwrap.TextWrapper(
        width=width,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(lines.fill(line) for line in text.split("\n"))


def print_block(text: str, console: Console, *, hang: int = 0, lead: int = 0, style: str = "") -> None:
    """Print text: wrapped between words on a terminal, with the lines it has where it goes elsewhere.

    The first ``lead`` characters have the ``style``.
    """
    shown = Text(wrap(text, console.width, hang=hang) if console.is_terminal else text)
    shown.stylize(style, 0, lead)
    console.print(shown, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_json_line(value: Any) -> None:
    """Print a value as one line of JSON."""
    click.echo(msgspec.json.encode(value))


def make_table(*columns: str, fold: Iterable[str] = (), right: Iterable[str] = ()) -> Table:
    """A table without frame: ``fold`` columns wrap, the others are cut; ``right`` ones hold numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for column in columns:
        wraps = column in fold
        table.add_column(
            column,
            no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis",
            justify="right" if column in right else "left",
        )
    return table


def print_line(text: Text, console: Console) -> None:
    """Print one line: cut to the width of a terminal, whole where it goes elsewhere."""
    if console.is_terminal:
        console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
    else:
        console.print(text, soft_wrap=True)
