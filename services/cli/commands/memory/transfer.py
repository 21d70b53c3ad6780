"""``mailroom memory export`` and ``import``: all nodes and edges as JSON Lines or Parquet, out and in."""

import contextlib
import hashlib
import itertools
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import IO, Any, BinaryIO

import click
import msgspec

from services.cli.commands.memory.session import ask, at_option, read_pages
from services.cli.commands.options import json_option
from services.cli.output.console import open_progress, print_json, print_result
from services.cli.output.reports import not_written, replaced_file
from shared.contracts import (
    Edge,
    EdgePage,
    EdgesQuery,
    GetQuery,
    ListQuery,
    MemoryWritten,
    Node,
    NodePage,
    generate_id,
)
from shared.contracts.base import amended
from shared.contracts.queries import MAX_PAGE
from shared.errors import ActionError, BusUnavailable, MailroomError, Refused, StartError
from shared.tasks.installed_agents import SERVICES
from shared.text.display import clean
from shared.text.prose import split_title
from shared.views.memory_change import MemoryChange

# --- Parquet ----------------------------------------------------------------------------------------

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


def is_parquet(path: str) -> bool:
    """Whether a path is of Parquet files: by its ending, or because it is a folder."""
    return path.endswith((".parquet", "/")) or Path(path).is_dir()


# --- out --------------------------------------------------------------------------------------------


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
    counts = ask("stats", None, dict[str, Any])
    total = None if at else int(counts.get("nodes", 0)) + int(counts.get("edges", 0))
    with _open_sink(path) as write, open_progress() as bar:
        task = bar.add_task("Writing", total=total)
        known: set[str] = set()

        def write_nodes(nodes: Iterable[Node]) -> None:
            for node in nodes:
                write(dump_record(node))
                known.add(node.id)
                exported.nodes += 1

        for page in read_pages("list", ListQuery(limit=MAX_PAGE, at=at, retired=retired), NodePage):
            write_nodes(page.nodes)
            bar.update(task, completed=exported.nodes)
        for edges in read_pages("edges", EdgesQuery(at=at), EdgePage):
            ends = {end for edge in edges.edges for end in (edge.from_id, edge.to_id)}
            late = sorted(ends - known)  # stored too late to be among the nodes: none may be missing
            for start in range(0, len(late), MAX_PAGE):
                query = GetQuery(ids=tuple(late[start : start + MAX_PAGE]), at=at)
                write_nodes(ask("get", query, list[Node]))
            for edge in edges.edges:
                write(dump_record(edge))
            exported.edges += len(edges.edges)
            bar.update(task, completed=exported.nodes + exported.edges)
    if path != "-":
        text = f"Wrote {exported.nodes:,} nodes and {exported.edges:,} edges to {path}"
        print_result(exported, text, as_json)


@contextlib.contextmanager
def _open_sink(path: str) -> Iterator[Callable[[bytes], object]]:
    """A function that writes a line; ``path`` is replaced at the end, when all lines are written."""
    if path == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
    elif is_parquet(path):
        folder = Path(path)
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
    elif path.endswith((".jsonl", ".ndjson")):
        with replaced_file(Path(path)) as opened:
            yield opened.write
    else:
        raise click.UsageError(f"{path!r} must end in .jsonl or .parquet, or be a folder")


def dump_record(record: Node | Edge) -> bytes:
    """A node or an edge as a line of JSON."""
    kind = b"node" if isinstance(record, Node) else b"edge"
    return b'{"record":"%b",%b\n' % (kind, record.to_json()[1:])


# --- in ---------------------------------------------------------------------------------------------

BATCH_RECORDS = 200  # The most records per write
BATCH_BYTES = 2_000_000  # The most bytes of lines per write, well below the limit of a message
IN_FLIGHT = 3  # Concurrent writes: while one is embedded, the next is read and sent
MAX_SENDS = 20
"""Sends of a write before the import fails: it may queue for minutes while long texts are embedded."""
RETRY_INTERVAL = 1.0  # Seconds between two sends
MAX_SAME_REFUSALS = 20
"""Consecutive refusals for the same reason that end the import, for instance because the disk is full."""
SPOOL_BYTES = 32 * 1024 * 1024
"""Bytes of edges kept in memory until the nodes are stored; more go to a temporary file."""
MAX_SHOWN = 20  # The most refused lines that are printed

Write = Callable[[MemoryChange], MemoryWritten]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A line: a node, to be retired if ``retired``, or an edge."""

    number: int
    line: bytes
    node: Node | None = None
    edge: Edge | None = None
    retired: bool = False


def parse_record(number: int, line: bytes) -> Record:
    """The record of a line; raises ValueError with the problem.

    ``record`` is "node" or "edge"; without it, an object with "from" and "to" is an edge. A node may have
    ``text`` instead of title and body, and ``type`` instead of kind. A node without an id gets one that is
    derived from the line, so that importing it twice adds nothing.
    """
    try:
        data = msgspec.json.decode(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError("it must be a JSON object")
    kind = data.pop("record", "edge" if {"from", "to"} <= data.keys() else "node")
    if kind == "edge":
        edge = Edge.from_dict({"provenance": {"by": "imported"}, **data})
        edge = amended(edge, created_version=0, version=0, retired_version=0)
        return Record(number=number, line=line, edge=edge)
    if kind != "node":
        raise ValueError(f"record must be node or edge, not {str(kind)[:40]!r}")
    if "title" not in data and isinstance(data.get("text"), str):
        data["title"], data["body"] = split_title(data["text"])
    if "type" in data:
        data.setdefault("kind", data["type"])
    if "id" not in data:
        data["id"] = hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()[:32]
    node = Node.from_dict(data)
    bare = amended(node, created_version=0, version=0, retired_version=0)
    return Record(number=number, line=line, node=bare, retired=bool(node.retired_version))


class RejectedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that was not stored, and why."""

    number: int
    line: bytes
    reason: str


class Importer:
    """Stores records by ``write`` and counts them; ``report`` gets the number stored."""

    def __init__(self, write: Write, report: Callable[[int], object]) -> None:
        self._write = write
        self._report = report
        self._ended = threading.Event()
        self.nodes = 0
        self.edges = 0
        self.version = 0
        self.problems: list[RejectedLine] = []

    def run(self, lines: Iterable[bytes]) -> None:
        """Store all lines; raises MailroomError if memory cannot be reached or stores nothing."""
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            self._store_all(self._nodes_of(lines, spool))
            spool.seek(0)
            entries = (entry.partition(b" ") for entry in spool)
            self._store_all(parse_record(int(number), line) for number, _, line in entries)
        self.problems.sort(key=lambda problem: problem.number)

    def _nodes_of(self, lines: Iterable[bytes], spool: IO[bytes]) -> Iterator[Record]:
        """Yield the nodes; keep edges in ``spool`` until all nodes are stored; note invalid lines."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = parse_record(number, line)
            except ValueError as error:
                self.problems.append(RejectedLine(number=number, line=line, reason=str(error)))
                continue
            if record.edge is None:
                yield record
            else:
                spool.write(b"%d %b\n" % (number, line.strip().replace(b"\n", b" ")))

    def _store_all(self, records: Iterator[Record]) -> None:
        """Store records in batches, IN_FLIGHT at once; raises the first error."""
        sent: dict[Future[list[RejectedLine]], list[Record]] = {}

        def take(done: Iterable[Future[list[RejectedLine]]]) -> None:
            for each in done:
                self._count(sent.pop(each), each.result())

        with ThreadPoolExecutor(IN_FLIGHT) as threads:
            try:
                for batch in _batches(records):
                    sent[threads.submit(self._try, batch)] = batch
                    if len(sent) == IN_FLIGHT:
                        take(wait(sent, return_when=FIRST_COMPLETED).done)
                take(list(sent))
            except BaseException:
                self._ended.set()  # what is sent again is given up
                raise

    def _count(self, batch: list[Record], refused: list[RejectedLine]) -> None:
        self.problems += refused
        numbers = {problem.number for problem in refused}
        stored = [record for record in batch if record.number not in numbers]
        self.nodes += sum(record.node is not None for record in stored)
        self.edges += sum(record.edge is not None for record in stored)
        reasons = {problem.reason for problem in refused}
        if len(refused) == len(batch) >= MAX_SAME_REFUSALS and len(reasons) == 1:
            raise MailroomError(
                f"Memory stores nothing at present: {reasons.pop().rstrip('.')}",
                "Run the same command again later: what is stored already is not changed",
            )
        self._report(self.nodes + self.edges)

    def _try(self, batch: list[Record]) -> list[RejectedLine]:
        """Store a batch; if it is refused, store each half, down to the lines that are refused."""
        written = self._send(batch)
        if not written.error:
            self.version = max(self.version, written.version)
            return []
        if len(batch) == 1:
            return [RejectedLine(number=batch[0].number, line=batch[0].line, reason=written.error)]
        middle = len(batch) // 2
        return [*self._try(batch[:middle]), *self._try(batch[middle:])]

    def _send(self, batch: list[Record]) -> MemoryWritten:
        """Send a batch until it is answered; by its id it is applied once."""
        change = MemoryChange(
            id=generate_id(),
            nodes=tuple(record.node for record in batch if record.node is not None),
            edges=tuple(record.edge for record in batch if record.edge is not None),
            retire=tuple(record.node.id for record in batch if record.node is not None and record.retired),
            insist=True,
        )
        for _ in range(MAX_SENDS - 1):
            with contextlib.suppress(BusUnavailable, StartError, Refused):
                return self._write(change)
            if self._ended.wait(RETRY_INTERVAL):
                break
        return self._write(change)


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    for first in records:
        batch, size = [first], len(first.line)
        for record in itertools.islice(records, BATCH_RECORDS - 1):
            batch.append(record)
            size += len(record.line)
            if size >= BATCH_BYTES:
                break
        yield batch


@click.command(name="import")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option(
    "--rejects", metavar="FILE", type=click.File("wb", lazy=True), help="Write refused lines to FILE."
)
@json_option
def import_records(path: str, rejects: BinaryIO | None, as_json: bool) -> None:
    """Import nodes and edges from FILE.

    FILE has JSON Lines, or is a Parquet file or a folder of them; '-' is standard input. Ids are kept, so
    importing twice adds nothing. A line without "record" is an edge if it has "from" and "to", else a node
    with a title or a text. Invalid lines are printed with their numbers; the others are stored.
    """
    from rich.progress import MofNCompleteColumn, TimeElapsedColumn

    columns = ("{task.description}", MofNCompleteColumn(), TimeElapsedColumn())
    with _open_lines(path) as lines, open_progress(*columns) as bar:
        ask("health", None, dict[str, Any])  # fails at once if memory does not run, not after many sends
        task = bar.add_task("Storing", total=None)
        result = Importer(
            lambda change: ask("write", change, MemoryWritten), lambda done: bar.update(task, completed=done)
        )
        result.run(lines)
    for problem in result.problems:
        if rejects is not None:
            rejects.write(problem.line.rstrip(b"\n") + b"\n")
    _print_imported(result, as_json)
    if result.problems:
        sys.exit(1)


def _print_imported(result: Importer, as_json: bool) -> None:
    if as_json:
        problems = [{"line": problem.number, "reason": problem.reason} for problem in result.problems]
        counts = {"nodes": result.nodes, "edges": result.edges, "version": result.version}
        print_json({**counts, "problems": problems})
        return
    click.echo(
        f"Stored {result.nodes:,} nodes and {result.edges:,} edges (graph version {result.version})"
        if result.version
        else "Nothing was stored."
    )
    for problem in result.problems[:MAX_SHOWN]:
        click.echo(f"line {problem.number}: {clean(problem.reason)}", err=True)
    rest = len(result.problems) - MAX_SHOWN
    if rest > 0:
        click.echo(f"and {rest:,} more lines; --json lists all, --rejects FILE keeps them", err=True)


@contextlib.contextmanager
def _open_lines(path: str) -> Iterator[Iterator[bytes]]:
    if path == "-":
        yield sys.stdin.buffer
        return
    if is_parquet(path):
        with read_parquet(Path(path)) as lines:
            yield lines
        return
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise ActionError(f"{path} cannot be read: {error.strerror}", "Name an existing file") from None
