"""Lines on their way into memory: in batches, nodes before edges, each refused line told from the others."""

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from services.cli.memory.records import BATCH_BYTES, BATCH_RECORDS, Record, read_record
from shared.contracts import MemoryWrite
from shared.errors import BusUnavailable, MailroomError, Refused

if TYPE_CHECKING:
    from shared.memory import Memory

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
