"""The figures: rows of one table, and the same as JSON."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure: its value, the bound it is held against, whether its target is met (None: it has none)."""

    measure: str
    name: str
    value: float
    unit: str
    bound: str = ""
    bound_value: float | None = None
    target: str = ""
    met: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The value over its bound."""
        return self.value / self.bound_value if self.bound_value else None

    def to_dict(self) -> dict[str, Any]:
        return {**msgspec.structs.asdict(self), "ratio": self.ratio}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a figure: a least or greatest ratio to its bound, or a least or greatest value."""

    least_ratio: float | None = None
    most_ratio: float | None = None
    least: float | None = None
    most: float | None = None

    def met(self, value: float, bound_value: float | None) -> bool | None:
        """Whether ``value`` will do; None where nothing is asked."""
        if self.most is not None:
            return value <= self.most
        if self.least is not None:
            return value >= self.least
        if self.least_ratio is not None and bound_value:
            return value >= self.least_ratio * bound_value
        if self.most_ratio is not None and bound_value:
            return value <= self.most_ratio * bound_value
        return None

    def __str__(self) -> str:
        if self.most is not None:
            return f"<= {self.most:g}"
        if self.least is not None:
            return f">= {self.least:,.0f}"
        if self.most_ratio is not None:
            return f"<= {self.most_ratio:.3g} x"
        return f">= {self.least_ratio:.3g} x" if self.least_ratio is not None else ""


NO_TARGET = Target()


def at_least(ratio: float) -> Target:
    """At least ``ratio`` times the bound."""
    return Target(least_ratio=ratio)


def at_least_value(value: float) -> Target:
    """At least ``value``, in the figure's unit."""
    return Target(least=value)


def at_most_times(ratio: float) -> Target:
    """At most ``ratio`` times the bound."""
    return Target(most_ratio=ratio)


def at_most(value: float) -> Target:
    """At most ``value``, in the figure's unit."""
    return Target(most=value)


def compare(
    measure: str,
    name: str,
    value: float,
    unit: str,
    bound: str = "",
    bound_value: float | None = None,
    target: Target = NO_TARGET,
    note: str = "",
) -> Row:
    """The row of ``value`` beside its bound."""
    return Row(
        measure=measure,
        name=name,
        value=value,
        unit=unit,
        bound=bound,
        bound_value=bound_value,
        target=str(target),
        met=target.met(value, bound_value),
        note=note,
    )


def print_table(rows: Sequence[Row], title: str) -> None:
    """Print the rows; a row's note stands below it."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    table = Table(title=title, title_justify="left", pad_edge=False)
    for heading in ("name", "value", "unit", "bound", "of it", "ratio", "target", "met"):
        right = heading in {"value", "of it", "ratio"}
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    measure = ""
    for row in rows:
        if measure and row.measure != measure:
            table.add_section()
        measure = row.measure
        table.add_row(*_cells(row))
    console.print(table)


def _cells(row: Row) -> list[str]:
    met = {True: "yes", False: "[red]no[/red]", None: ""}[row.met]
    name = f"{row.name}\n  [dim]{row.note}[/dim]" if row.note else row.name
    return [
        name,
        _number(row.value),
        row.unit,
        row.bound,
        _number(row.bound_value),
        _number(row.ratio),
        row.target,
        met,
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
