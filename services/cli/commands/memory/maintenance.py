"""``mailroom memory stats``, ``health``, ``linker``, ``reindex`` and ``rebuild``."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from services.cli.commands.memory.session import ask
from services.cli.commands.options import NumberType, json_option
from services.cli.output.console import open_progress, print_result
from shared.text.display import clean
from shared.text.times import format_span

NAME_WIDTH = 22  # Columns of a name, so that values align
POLL_INTERVAL = 0.3  # Seconds between checks of a rebuild's progress
CATCHING_UP = "catching up"  # The status of memory during a rebuild


def format_report(report: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    """A line per value, with its name; nested values are indented by two columns.

    ``done`` of ``total`` is formatted as a percentage, seconds as a span; empty values are omitted.
    """
    for name, value in report.items():
        label = f"{' ' * indent}{clean(name.removesuffix('_seconds').replace('_', ' '))}"
        if isinstance(value, Mapping) and not _is_progress(value):
            if value:
                yield label
                yield from format_report(value, indent + 2)
        elif isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
            yield label
            for entry in value:
                yield from _format_entry(entry, indent + 2)
        elif value not in ("", None, [], ()):
            yield f"{label:<{NAME_WIDTH}} {_format_value(name, value)}".rstrip()
    if _is_progress(report):
        yield f"{' ' * indent}{'progress':<{NAME_WIDTH - indent}} {_format_progress(report)}"


def _format_entry(entry: Mapping[str, Any], indent: int) -> Iterator[str]:
    first = True
    for line in format_report(entry, indent + 2):
        yield f"{line[:indent]}- {line[indent + 2 :]}" if first else line
        first = False


def _format_value(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return _format_progress(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if "seconds" in name:
            return format_span(value)
        if isinstance(value, int):
            return str(value) if "version" in name else f"{value:,}"
        return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(clean(str(part)) for part in value)
    return clean(str(value))


def _is_progress(value: Mapping[str, Any]) -> bool:
    return {"done", "total"} <= value.keys() and all(
        isinstance(value[name], int) for name in ("done", "total")
    )


def _format_progress(value: Mapping[str, Any]) -> str:
    done, total = value["done"], value["total"]
    share = f" ({100 * done / total:.0f} %)" if total else ""
    return f"{done:,} of {total:,}{share}"


@click.command()
@json_option
def stats(as_json: bool) -> None:
    """Show the sizes of memory and its counters."""
    _print(ask("stats", None, dict[str, Any]), as_json)


@click.command()
@json_option
def health(as_json: bool) -> None:
    """Check that memory can read and write.

    Exits with 1 if it cannot.
    """
    report = ask("health", None, dict[str, Any])
    _print(report, as_json)
    if report.get("status") not in ("ok", CATCHING_UP):
        sys.exit(1)


@click.command()
@click.argument("action", type=click.Choice(["status", "trigger", "consolidate"]), default="status")
@click.option("--edges", is_flag=True, help="Also the last edges it made, and why; all are counted by kind.")
@click.option("--limit", type=NumberType(1, 1_000), default=20, show_default=True, help="The most to show.")
@json_option
def linker(action: str, edges: bool, limit: int, as_json: bool) -> None:
    """Show the linker's status, or start a round of it.

    'trigger' links now what was written; 'consolidate' makes one event of many old ones.
    Consolidating makes one event of five and more that are alike and a week old, as is done every week.

    With --edges, each edge has its rule, the cosine it was found by, its weight, and when it was made.
    """
    report = ask("linker", {"action": action, "edges": limit if edges else 0}, dict[str, Any])
    rest = {name: value for name, value in report.items() if name != "made"}
    lines = [*format_report(rest), *(line for edge in report.get("made", ()) for line in _format_edge(edge))]
    print_result(report, "\n".join(lines), as_json)


def _format_edge(edge: Mapping[str, Any]) -> Iterator[str]:
    """Two lines: when and why it was made, and what it joins."""
    rule = clean(str(edge.get("rule") or edge.get("by") or ""))
    score = f" {edge['score']:.2f}" if "score" in edge else ""
    made = clean(str(edge["made_at"]))[:16].replace("T", " ")
    weight = f"weight {edge['weight']:.2f}, version {edge['version']}"
    yield f"{made}  {edge['relation']} by {rule}{score}, {weight}"
    start, end = (clean(str(edge[f"{side}_title"] or edge[side]))[:34] for side in ("from", "to"))
    yield f"  {start} -> {end}"


@click.command()
@json_option
def reindex(as_json: bool) -> None:
    """Rebuild the search indices from the store."""
    _print(ask("reindex", None, dict[str, Any]), as_json)


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--force", is_flag=True, help="Even if the beginning of the log is lost.")
@json_option
def rebuild(yes: bool, force: bool, as_json: bool) -> None:
    """Rebuild memory from the log of all writes.

    It answers and stores as before meanwhile.
    """
    if not yes:
        click.confirm("Rebuild the whole memory from its log?", abort=True, err=True)
    ask("rebuild", {"force": force}, dict[str, Any])
    with open_progress() as bar:
        task = bar.add_task("Rebuilding memory", total=None)
        while (progress := (report := ask("health", None, dict[str, Any])).get("rebuilding")) is not None:
            bar.update(task, completed=progress["done"], total=progress["total"])
            time.sleep(POLL_INTERVAL)
    if failed := report.get("rebuild_failed"):
        click.echo(f"Error: Memory was not rebuilt: {clean(str(failed))}", err=True)
        sys.exit(1)
    print_result(report, f"Memory was rebuilt, at graph version {report.get('version')}.", as_json)


def _print(report: dict[str, Any], as_json: bool) -> None:
    print_result(report, "\n".join(format_report(report)), as_json)
