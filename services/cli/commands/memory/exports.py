"""``mailroom memory export``: all nodes and edges as JSON Lines or Parquet; reading and writing Parquet."""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec

from services.cli.commands.memory.session import at_option, call_memory
from services.cli.commands.options import json_option
from services.cli.installed_agents import SERVICES
from services.cli.output.console import open_console, print_result
from services.cli.output.reports import not_written, replaced_file
from shared.contracts import Edge, EdgesQuery, ListQuery, Node
from shared.contracts.queries import MAX_PAGE
from shared.errors import ActionError
from shared.memory import Memory

_MODULE = (sys.executable, "-m", "services.memory.storage.parquet")


@contextlib.contextmanager
def write_parquet(folder: Path) -> Iterator[Callable[[bytes], object]]:
    """Takes JSON lines and writes nodes.parquet and edges.parquet in ``folder``; raises ActionError."""
    with _converter("to", folder, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the error below says why it ended
            yield process.stdin.write
            process.stdin.close()


@contextlib.contextmanager
def read_parquet(path: Path) -> Iterator[Iterator[bytes]]:
    """The JSON lines of a Parquet file or of a folder of them, nodes first; raises ActionError at the end."""
    with _converter("from", path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout


@contextlib.contextmanager
def _converter(
    direction: str, path: Path, *, stdin: int, stdout: int | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Only memory imports Arrow (an import rule), so a process of its code converts Parquet."""
    command = (*_MODULE, direction, str(path.absolute()))
    process = subprocess.Popen(
        command, cwd=SERVICES.parent, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE
    )
    try:
        yield process
        assert process.stderr is not None
        output = process.stderr.read().decode("utf-8", "replace").strip()
        if process.wait():
            raise ActionError(output.splitlines()[-1] if output else "Parquet could not be converted")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Exported(msgspec.Struct, kw_only=True):
    """The number of records written to ``path``."""

    path: str
    nodes: int = 0
    edges: int = 0


@click.command()
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--retired", is_flag=True, help="Include retired nodes.")
@at_option
@json_option
def export(path: str, retired: bool, at: int, as_json: bool) -> None:
    """Export memory to FILE.

    FILE.jsonl gets a line of JSON per node and edge, and '-' writes these lines to standard output. A
    folder, or FILE.parquet, gets nodes.parquet and edges.parquet. Concurrent writes may be included or not;
    --at exports exactly one graph version. 'mailroom memory import' reads all of these.
    """
    exported = Exported(path=path)
    with _open_sink(path) as write:
        call_memory(lambda memory: _export(memory, write, at, retired, exported))
    if path != "-":
        text = f"Wrote {exported.nodes:,} nodes and {exported.edges:,} edges to {path}"
        print_result(exported, text, as_json)


async def _export(
    memory: Memory, write: Callable[[bytes], object], at: int, retired: bool, exported: Exported
) -> None:
    from rich.progress import Progress

    counts = await memory.stats()
    known: set[str] = set()
    with Progress(console=open_console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        total = None if at else int(counts.get("nodes", 0)) + int(counts.get("edges", 0))
        task = bar.add_task("Writing", total=total)
        async for node in memory.iterate_nodes(ListQuery(limit=MAX_PAGE, at=at, retired=retired)):
            write(dump_node(node))
            known.add(node.id)
            exported.nodes += 1
            bar.advance(task)
        async for edge in memory.iterate_edges(EdgesQuery(at=at)):
            await _add_ends(memory, edge, at, known, write, exported)
            write(dump_edge(edge))
            exported.edges += 1
            bar.advance(task)


async def _add_ends(
    memory: Memory, edge: Edge, at: int, known: set[str], write: Callable[[bytes], object], exported: Exported
) -> None:
    """Write the ends of an edge that were stored too late to be among the nodes, so that none is missing."""
    missing = {edge.from_id, edge.to_id} - known
    for node in await memory.get(*missing, at=at) if missing else ():
        write(dump_node(node))
        known.add(node.id)
        exported.nodes += 1


@contextlib.contextmanager
def _open_sink(path: str) -> Iterator[Callable[[bytes], object]]:
    """A function that writes a line; ``path`` is replaced at the end, when all lines are written."""
    if path == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
    elif is_parquet(path):
        with _parquet(Path(path)) as write:
            yield write
    elif path.endswith((".jsonl", ".ndjson")):
        with replaced_file(Path(path)) as file:
            yield file.write
    else:
        raise click.UsageError(f"{path!r} must end in .jsonl or .parquet, or be a folder")


def is_parquet(path: str) -> bool:
    """Whether a path is of Parquet files: by its ending, or because it is a folder."""
    return path.endswith((".parquet", "/")) or Path(path).is_dir()


@contextlib.contextmanager
def _parquet(folder: Path) -> Iterator[Callable[[bytes], object]]:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as part:
            with write_parquet(Path(part)) as write:
                yield write
            folder.mkdir(exist_ok=True)
            for file in sorted(Path(part).iterdir()):
                file.replace(folder / file.name)
    except OSError as error:
        raise not_written(folder, error) from None


def dump_node(node: Node) -> bytes:
    """A node as a line of JSON."""
    return _dump(b"node", node)


def dump_edge(edge: Edge) -> bytes:
    """An edge as a line of JSON."""
    return _dump(b"edge", edge)


def _dump(kind: bytes, content: Node | Edge) -> bytes:
    return b'{"record":"%b",%b\n' % (kind, content.to_json()[1:])
