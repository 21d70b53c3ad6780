"""``mailroom memory import``: nodes and edges from JSON Lines or Parquet, stored in batches."""

import asyncio
import contextlib
import hashlib
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

import click
import msgspec
import tenacity

from services.cli.commands.memory.exports import is_parquet, read_parquet
from services.cli.commands.memory.session import call_memory
from services.cli.commands.options import json_option
from services.cli.output.console import open_console, print_json
from shared.contracts import Edge, MemoryWrite, Node
from shared.contracts.base import amended
from shared.errors import ActionError, BusUnavailable, MailroomError, Refused
from shared.memory import Memory, WriteRefused
from shared.text.display import clean
from shared.text.prose import split_title

BATCH_RECORDS = 200  # The most records per write
BATCH_BYTES = 2_000_000  # The most bytes of lines per write, well below the limit of a message


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
        return Record(number=number, line=line, edge=_edge(data))
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


def _edge(data: dict[str, Any]) -> Edge:
    edge = Edge.from_dict({"provenance": {"by": "imported"}, **data})
    return amended(edge, created_version=0, version=0, retired_version=0)


IN_FLIGHT = 3  # Concurrent writes: while one is embedded, the next is read and sent
MAX_SENDS = 20
"""Sends of a write before the import fails: it may queue for minutes while long texts are embedded."""
RETRY_INTERVAL = 1.0  # Seconds between two sends
MAX_SAME_REFUSALS = 20
"""Consecutive refusals for the same reason that end the import, for instance because the disk is full."""
SPOOL_BYTES = 32 * 1024 * 1024
"""Bytes of edges kept in memory until the nodes are stored; more go to a temporary file."""


class RejectedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that was not stored, and why."""

    number: int
    line: bytes
    reason: str


class Importer:
    """Stores records and counts them; ``report`` gets the number stored."""

    def __init__(self, memory: Memory, report: Callable[[int], object]) -> None:
        self._memory = memory
        self._report = report
        self.nodes = 0
        self.edges = 0
        self.version = 0
        self.problems: list[RejectedLine] = []

    async def run(self, lines: Iterable[bytes]) -> None:
        """Store all lines; raises MailroomError if memory cannot be reached or stores nothing."""
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            await self._store_all(self._nodes_of(lines, spool))
            spool.seek(0)
            await self._store_all(_read_spool(spool))
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

    async def _store_all(self, records: Iterator[Record]) -> None:
        """Store records in batches, IN_FLIGHT at once; raises the first error."""
        batches = _batches(records)
        slots = asyncio.Semaphore(IN_FLIGHT)
        try:
            async with asyncio.TaskGroup() as group:
                while batch := await asyncio.to_thread(next, batches, None):
                    await slots.acquire()
                    group.create_task(self._store(batch)).add_done_callback(lambda _: slots.release())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _store(self, batch: list[Record]) -> None:
        refused = await self._try(batch)
        self.problems += refused
        reasons = {problem.reason for problem in refused}
        if len(refused) == len(batch) >= MAX_SAME_REFUSALS and len(reasons) == 1:
            raise MailroomError(
                f"Memory stores nothing at present: {reasons.pop().rstrip('.')}",
                "Run the same command again later: what is stored already is not changed",
            )
        self._report(self.nodes + self.edges)

    async def _try(self, batch: list[Record]) -> list[RejectedLine]:
        """Store a batch; if it is refused, store each half, down to the lines that are refused."""
        try:
            self.version = max(self.version, await self._send(_to_write(batch)))
        except WriteRefused as refused:
            if len(batch) == 1:
                return [RejectedLine(number=batch[0].number, line=batch[0].line, reason=str(refused))]
            middle = len(batch) // 2
            return [*await self._try(batch[:middle]), *await self._try(batch[middle:])]
        self.nodes += sum(record.node is not None for record in batch)
        self.edges += sum(record.edge is not None for record in batch)
        return []

    async def _send(self, write: MemoryWrite) -> int:
        """Send a write until it is answered; by its id it is applied once."""
        passing = tenacity.retry_if_exception_type((BusUnavailable, Refused))
        sending = tenacity.AsyncRetrying(
            retry=passing & tenacity.retry_if_not_exception_type(WriteRefused),
            stop=tenacity.stop_after_attempt(MAX_SENDS),
            wait=tenacity.wait_fixed(RETRY_INTERVAL),
            reraise=True,
        )
        return (await sending(self._memory.write, write)).version


def _to_write(batch: list[Record]) -> MemoryWrite:
    return MemoryWrite(
        nodes=tuple(record.node for record in batch if record.node is not None),
        edges=tuple(record.edge for record in batch if record.edge is not None),
        retire=tuple(record.node.id for record in batch if record.node is not None and record.retired),
        insist=True,
    )


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    for first in records:
        batch, size = [first], len(first.line)
        for record in itertools.islice(records, BATCH_RECORDS - 1):
            batch.append(record)
            size += len(record.line)
            if size >= BATCH_BYTES:
                break
        yield batch


def _read_spool(spool: IO[bytes]) -> Iterator[Record]:
    for entry in spool:
        number, _, line = entry.partition(b" ")
        yield parse_record(int(number), line)


MAX_SHOWN = 20  # The most refused lines that are printed


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
    with _open_lines(path) as lines:
        result = call_memory(lambda memory: _import(memory, lines))
    for problem in result.problems:
        if rejects is not None:
            rejects.write(problem.line.rstrip(b"\n") + b"\n")
    _print_result(result, as_json)
    if result.problems:
        sys.exit(1)


async def _import(memory: Memory, lines: Iterator[bytes]) -> Importer:
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    console = open_console(stderr=True)
    await memory.health()  # fails at once if memory does not run, not after many sends
    with Progress(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("Storing", total=None)
        importer = Importer(memory, lambda done: bar.update(task, completed=done))
        await importer.run(lines)
    return importer


def _print_result(result: Importer, as_json: bool) -> None:
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
