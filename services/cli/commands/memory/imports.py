"""``mailroom memory import``: nodes and edges from JSON lines or Parquet."""

import asyncio
import contextlib
import hashlib
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from services.cli.commands.memory.exports import is_parquet
from services.cli.commands.memory.session import ask
from services.cli.commands.options import json_option
from services.cli.output.console import clean, open_console, print_json
from shared.contracts import Edge, MemoryWrite, Node
from shared.contracts.base import amended
from shared.errors import ActionError, BusUnavailable, MailroomError, Refused
from shared.text.title import split_title

if TYPE_CHECKING:
    from shared.memory import Memory


BATCH_RECORDS = 200
"""The most records of one write."""
BATCH_BYTES = 2_000_000
"""The bytes of lines after which a write is full, well below what a message may hold."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a line says: a node (``retired``: a tombstone), or an edge."""

    number: int
    line: bytes
    node: Node | None = None
    edge: Edge | None = None
    retired: bool = False


def read_record(number: int, line: bytes) -> Record:
    """What a line says; raises ValueError with what is wrong with it.

    ``record`` says whether it is a node or an edge; without it, what has "from" and "to" is an edge. A node
    may have a ``text`` instead of title and body, and ``type`` for kind. One without an id gets the same id
    whenever the line is read, so that reading it twice adds nothing.
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
    node = _node(data)
    return Record(number=number, line=line, node=_bare(node), retired=bool(node.retired_version))


def _node(data: dict[str, Any]) -> Node:
    if "title" not in data and isinstance(data.get("text"), str):
        data["title"], data["body"] = split_title(data["text"])
    if "type" in data:
        data.setdefault("kind", data["type"])
    if "id" not in data:
        data["id"] = hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()[:32]
    return Node.from_dict(data)


def _edge(data: dict[str, Any]) -> Edge:
    edge = Edge.from_dict({"provenance": {"by": "imported"}, **data})
    return amended(edge, created_version=0, version=0, retired_version=0)


def _bare(node: Node) -> Node:
    return amended(node, created_version=0, version=0, retired_version=0)


IN_FLIGHT = 3
"""Writes on their way at once: while one is embedded, the next is read and sent."""
TRIES = 20
"""How often a write is sent until it is given up: embedding long texts can keep it in line for minutes."""
PAUSE = 1.0
"""Seconds between two tries."""
SAME = 20
"""Refusals for one and the same reason, with nothing stored between them, that end the import: the disk is
full, say."""
SPOOL = 32 * 1024 * 1024
"""Bytes of edges kept in memory until the nodes are stored; more go to a temporary file."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A line that was not stored, and why."""

    number: int
    line: bytes
    reason: str


class Intake:
    """Stores records and counts them; ``tell`` hears how many are done."""

    def __init__(self, memory: "Memory", tell: Callable[[int], object]) -> None:
        self._memory = memory
        self._tell = tell
        self.nodes = 0
        self.edges = 0
        self.version = 0
        self.problems: list[Problem] = []

    async def run(self, lines: Iterable[bytes]) -> None:
        """Store all lines; raises MailroomError where memory cannot be reached or stores nothing."""
        with tempfile.SpooledTemporaryFile(max_size=SPOOL) as spool:
            await self._store_all(self._nodes_of(lines, spool))
            spool.seek(0)
            await self._store_all(_read_spool(spool))
        self.problems.sort(key=lambda problem: problem.number)

    def _nodes_of(
        self, lines: Iterable[bytes], spool: "tempfile.SpooledTemporaryFile[bytes]"
    ) -> Iterator[Record]:
        """The nodes among the lines; edges are laid aside, wrong lines noted."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = read_record(number, line)
            except ValueError as error:
                self.problems.append(Problem(number=number, line=line, reason=str(error)))
                continue
            if record.edge is None:
                yield record
            else:
                spool.write(b"%d %b\n" % (number, line.strip().replace(b"\n", b" ")))

    async def _store_all(self, records: Iterator[Record]) -> None:
        """Store records in batches, a few on their way at once."""
        batches = _batches(records)
        running: set[asyncio.Task[None]] = set()
        try:
            while batch := await asyncio.to_thread(_take, batches):
                running.add(asyncio.create_task(self._store(batch)))
                if len(running) >= IN_FLIGHT:
                    ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for task in ended:
                        task.result()
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()

    async def _store(self, batch: list[Record]) -> None:
        refused = await self._try(batch)
        self.problems += refused
        reasons = {problem.reason for problem in refused}
        if len(refused) == len(batch) >= SAME and len(reasons) == 1:
            raise MailroomError(
                f"Memory stores nothing at present: {reasons.pop().rstrip('.')}",
                "Run the same command again later: what is stored already stays as it is",
            )
        self._tell(self.nodes + self.edges)

    async def _try(self, batch: list[Record]) -> list[Problem]:
        """Store a batch, or if it is refused each half of it, down to the lines that are to blame."""
        from shared.memory import WriteRefused

        try:
            self.version = max(self.version, await self._send(_as_write(batch)))
        except WriteRefused as refused:
            if len(batch) == 1:
                return [Problem(number=batch[0].number, line=batch[0].line, reason=str(refused))]
            middle = len(batch) // 2
            return [*await self._try(batch[:middle]), *await self._try(batch[middle:])]
        self.nodes += sum(record.node is not None for record in batch)
        self.edges += sum(record.edge is not None for record in batch)
        return []

    async def _send(self, write: MemoryWrite) -> int:
        """Send a write until it is answered: its id makes sure that it counts once."""
        from shared.memory import WriteRefused

        for rest in reversed(range(TRIES)):
            try:
                return (await self._memory.write(write)).version
            except WriteRefused:
                raise
            except (BusUnavailable, Refused):
                if not rest:
                    raise
                await asyncio.sleep(PAUSE)
        raise AssertionError("unreachable")


def _take(batches: Iterator[list[Record]]) -> list[Record]:
    return next(batches, [])


def _as_write(batch: list[Record]) -> MemoryWrite:
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


def _read_spool(spool: "tempfile.SpooledTemporaryFile[bytes]") -> Iterator[Record]:
    for entry in spool:
        number, _, line = entry.partition(b" ")
        yield read_record(int(number), line)


SHOWN = 20
"""The most refused lines that are told one by one."""


@click.command(name="import")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option(
    "--rejects", metavar="FILE", type=click.File("wb", lazy=True), help="Write the refused lines there."
)
@json_option
def import_records(path: str, rejects: BinaryIO | None, as_json: bool) -> None:
    """Store the nodes and edges of FILE.

    FILE holds JSON lines, or is a Parquet file or a folder of them; '-' is standard input. Ids are kept, so
    doing it twice adds nothing. A line without "record" is a node with a title or a text, or an edge if it
    has "from" and "to". A line that is wrong is told with its number, and the others are stored.
    """
    with _open_lines(path) as lines:
        result = ask(lambda memory: _import(memory, lines))
    for problem in result.problems:
        if rejects is not None:
            rejects.write(problem.line.rstrip(b"\n") + b"\n")
    _tell(result, as_json)
    if result.problems:
        sys.exit(1)


async def _import(memory: "Memory", lines: Iterator[bytes]) -> Intake:
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    console = open_console(stderr=True)
    await memory.health()  # a daemon that is away is told at once, not after many tries
    with Progress(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("Storing", total=None)
        intake = Intake(memory, lambda done: bar.update(task, completed=done))
        await intake.run(lines)
    return intake


def _tell(result: Intake, as_json: bool) -> None:
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
    for problem in result.problems[:SHOWN]:
        click.echo(f"line {problem.number}: {clean(problem.reason)}", err=True)
    rest = len(result.problems) - SHOWN
    if rest > 0:
        click.echo(f"and {rest:,} lines more; --json tells all, --rejects FILE keeps them", err=True)


@contextlib.contextmanager
def _open_lines(path: str) -> Iterator[Iterator[bytes]]:
    from services.cli.commands.memory.exports import reading

    if path == "-":
        yield sys.stdin.buffer
        return
    if is_parquet(path):
        with reading(Path(path)) as lines:
            yield lines
        return
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise ActionError(f"{path} cannot be read: {error.strerror}", "Name a file that is there") from None
