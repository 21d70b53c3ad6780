"""What memory tells of itself, nested as it is, as lines people can read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from services.cli.moment import format_span
from services.cli.screen import clean

WIDTH = 22
"""Columns of a name, so that the values stand below each other."""


def render(report: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    """A line for each value, by its name; what is nested stands below its name, two columns in.

    What is done out of a total is told as a share; seconds are told as a span; what is empty is left out.
    """
    for name, value in report.items():
        label = f"{' ' * indent}{clean(name.removesuffix('_seconds').replace('_', ' '))}"
        if isinstance(value, Mapping) and not _is_progress(value):
            if value:
                yield label
                yield from render(value, indent + 2)
        elif _is_list_of_maps(value):
            yield label
            for entry in value:
                yield from _entry(entry, indent + 2)
        elif value not in ("", None, [], ()):
            yield f"{label:<{WIDTH}} {_show(name, value)}".rstrip()
    if _is_progress(report):
        yield f"{' ' * indent}{'progress':<{WIDTH - indent}} {_progress(report)}"


def _entry(entry: Mapping[str, Any], indent: int) -> Iterator[str]:
    first = True
    for line in render(entry, indent + 2):
        yield f"{line[:indent]}- {line[indent + 2 :]}" if first else line
        first = False


def _show(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return _progress(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(name, value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(clean(str(part)) for part in value)
    return clean(str(value))


def _number(name: str, value: float) -> str:
    if "seconds" in name:
        return format_span(value)
    if isinstance(value, int):
        return str(value) if "version" in name else f"{value:,}"
    return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"


def _is_progress(value: Mapping[str, Any]) -> bool:
    return {"done", "total"} <= value.keys() and all(
        isinstance(value[name], int) for name in ("done", "total")
    )


def _progress(value: Mapping[str, Any]) -> str:
    done, total = value["done"], value["total"]
    share = f" ({100 * done / total:.0f} %)" if total else ""
    return f"{done:,} of {total:,}{share}"


def _is_list_of_maps(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)
