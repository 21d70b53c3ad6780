"""The sealer: seals over the messages of the log, whether it lost its end, and the witnesses of it."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.bulk import BulkReader, Span
from shared.bus.elsewhere import store_elsewhere
from shared.bus.entry import seal as make_entry
from shared.contracts import Seal
from shared.delivery.outlets import request
from shared.errors import BusError, Conflict, MailroomError
from shared.files import write_atomically
from shared.log import logger
from shared.queries.records import last_sequence
from shared.queries.seals import SEALS, WITNESSED, Witnessed, name_of, read_witnessed
from shared.settings import Settings
from shared.skills.mail import read_server, submit_message, write_message
from shared.trail.archives import read_erasures
from shared.trail.seals import (
    MARK,
    NO_MARK,
    SPAN,
    find_void,
    make_leaf,
    make_seal,
    marks_of,
    parse_seal,
    read_kept,
    read_seals,
    without_marks,
)

INTERVAL = 60.0  # Seconds after which what was written is sealed, however little it is
PAUSE = 1.0  # Seconds for which what arrives is collected
SILENCE = 10.0  # Seconds after which the streams are looked at although nothing was heard
SEAL_RETRY = 5.0
ARRIVED, ARRIVED_BYTES = 8_000, 16 * 1024 * 1024
"""Messages, and their bytes, that wait at most as they were heard."""
LARGE = 1024 * 1024  # The bytes of messages that are hashed in another thread
READ_TIMEOUT = 30.0

log = logger(__name__)


class _StreamSealer:
    """Seals one stream. ``sealed`` is the last seal, of whichever process."""

    def __init__(self, bus: Bus, stream: str) -> None:
        self.sealed: Seal | None = None
        self._bus, self._stream = bus, stream
        self._arrived: list[Stored] = []
        self._size = 0
        self._place = 0
        """Where the last seal stands in OFFICE."""
        self._leaves: list[bytes | None] = []
        self._waiting_since = 0.0
        """When the first message that is no seal was read since the last one; 0 if there is none."""

    async def load(self, reader: BulkReader) -> None:
        """Begin after the last seal that there is; put on record what the stream lost of what was sealed."""
        stored = await self._bus.last(subjects.OFFICE, subjects.seal(self._stream))
        self.sealed = parse_seal(stored.data, self._stream) if stored else None
        self._place = stored.seq if stored else 0
        self._leaves, self._waiting_since = [], 0.0
        if stored is not None and self.sealed is None:
            raise BusError(f"The last seal of {self._stream}, number {stored.seq} of OFFICE, cannot be read")
        if self.sealed is not None:
            await self._find_loss(reader, self.sealed)

    async def _find_loss(self, reader: BulkReader, last: Seal) -> None:
        """Compare the end of what was sealed with what there is; if that is not there any more, or others
        are, seal what is left of it in a way that says so.
        """
        known = {last.number: last}
        marks = dict(enumerate(marks_of(last), last.first))

        async def find_others(found: Sequence[Stored]) -> list[int]:
            if found and found[0].seq < min(marks, default=last.last + 1):
                known.update(await self._read_standing())
                for each in known.values():
                    marks.update(enumerate(marks_of(each), each.first))
            wanted = [marks.get(each.seq, NO_MARK) for each in found]
            leaves = [make_leaf(each)[:MARK] for each in found]
            compared = zip(found, wanted, leaves, strict=True)
            return [each.seq for each, mark, leaf in compared if mark not in (NO_MARK, leaf)]

        there = Span(self._stream, ">", 1, await last_sequence(self._bus, self._stream))
        lost = await find_lost(reader, there, last.last, find_others)
        if not lost:
            return
        standing = known | await self._read_standing()
        first = next((each.first for each in standing.values() if each.first <= lost <= each.last), lost)
        left: list[Stored] = []
        async for page in reader.read(there._replace(start=first, end=lost - 1), READ_TIMEOUT):
            left += page
        lost = min(await find_others(left), default=lost)
        made = (await read_erasures(self._bus, self._stream)).leaves | _make_leaves(left)
        leaves = [made.get(seq) for seq in range(first, lost)]
        log.error("end_of_log_lost", stream=self._stream, first=lost, last=last.last)
        await self._commit(make_seal(self._stream, last, leaves, self._bus.name, first))

    async def _read_standing(self) -> dict[int, Seal]:
        """All seals by their numbers, without those over what was lost before."""
        void = await find_void(self._bus, self._stream)
        seals = [seal async for _, seal in read_seals(self._bus, self._stream) if seal is not None]
        return {seal.number: seal for seal in seals if seal.number not in void}

    def hear(self, stored: Stored) -> None:
        """Take a message as it is stored; of more than ARRIVED the streams are read."""
        self._size += len(stored.data)
        if len(self._arrived) == ARRIVED or self._size > ARRIVED_BYTES:
            self._arrived, self._size = [], len(stored.data)
        self._arrived.append(stored)

    async def advance(self, reader: BulkReader, *, look: bool) -> None:
        """Take what is new, and seal what is to be sealed by now; ``look`` for what was not heard."""
        arrived, self._arrived, self._size = self._arrived, [], 0
        new = [stored for stored in arrived if stored.seq > self._reached]
        if look or (new and (new[0].seq != self._reached + 1 or new[-1].seq - new[0].seq + 1 != len(new))):
            # Read from the stream what follows
            end, start = await last_sequence(self._bus, self._stream), self._reached + 1
            if start > end + 1:
                raise BusError(
                    f"The last seal of {self._stream} covers messages that there are not: {start - 1}"
                )
            if start <= end:
                async for page in reader.read(Span(self._stream, ">", start, end), READ_TIMEOUT):
                    await self._take(page)
        elif new:
            await self._take(new)
        if self.due_in() <= 0:
            await self._seal(len(self._leaves))

    async def _take(self, page: Sequence[Stored]) -> None:
        self._leaves += await self._leaves_of(page)
        while len(self._leaves) >= SPAN:
            await self._seal(SPAN)

    def due_in(self) -> float:
        """Seconds until what was read is to be sealed; endless if it is nothing but seals."""
        if not self._waiting_since:
            return float("inf")
        return self._waiting_since + INTERVAL - time.monotonic()

    @property
    def _reached(self) -> int:
        return (self.sealed.last if self.sealed else 0) + len(self._leaves)

    async def _leaves_of(self, page: Sequence[Stored]) -> list[bytes | None]:
        """The commitments to a page of messages, and to what was erased between them."""
        if sum(len(stored.data) for stored in page) > LARGE:
            made = await asyncio.to_thread(_make_leaves, page)
        else:
            made = _make_leaves(page)
        first, last = self._reached + 1, page[-1].seq
        if len(made) < last - first + 1:  # the record of an erasure comes before it
            made = (await read_erasures(self._bus, self._stream)).leaves | made
        if not self._waiting_since and not all(stored.subject.startswith("seal.") for stored in page):
            self._waiting_since = time.monotonic()
        return [made.get(seq) for seq in range(first, last + 1)]

    async def _seal(self, number: int) -> None:
        """Seal the next messages; raises Conflict if another process did so first."""
        await self._commit(make_seal(self._stream, self.sealed, self._leaves[:number], self._bus.name))
        self._leaves = self._leaves[number:]
        # What is left came within one reading: it is sealed later than it might be, by seconds.
        self._waiting_since = time.monotonic() if self._leaves else 0.0

    async def _commit(self, seal: Seal) -> None:
        subject = subjects.seal(self._stream)
        (self._place,) = await self._bus.commit([make_entry(subject, seal, expect=self._place)])
        self.sealed = seal


def _make_leaves(page: Sequence[Stored]) -> dict[int, bytes]:
    return {stored.seq: make_leaf(stored) for stored in page}


class Sealer:
    """Follows both streams of the log. One process at a time seals: each seal names the one before it.

    It is told of messages as they are stored (``hear``), and reads from the streams what it did not hear.
    ``changed`` returns when there may be something new; ``sealed`` are the last seals.
    """

    def __init__(self, bus: Bus, changed: Callable[[], Awaitable[None]]) -> None:
        self._bus, self._changed = bus, changed
        self._streams = [_StreamSealer(bus, stream) for stream in subjects.LOG]
        self._by_name = dict(zip(subjects.LOG, self._streams, strict=True))
        self._told = asyncio.Event()

    @property
    def sealed(self) -> list[Seal]:
        """The last seal of each stream that has one."""
        return [each.sealed for each in self._streams if each.sealed is not None]

    def hear(self, stored: Stored) -> None:
        """Take a message as it is stored."""
        self._by_name[stored.stream].hear(stored)

    async def wait(self) -> None:
        """Return when there is a new seal."""
        await self._told.wait()

    async def run(self) -> None:
        """Seal until cancelled; what fails is tried again."""
        while True:
            reader = self._bus.bulk_reader()
            try:
                for each in self._streams:
                    await each.load(reader)
                look = True
                while True:
                    before = self.sealed
                    for each in self._streams:
                        await each.advance(reader, look=look)
                    if self.sealed != before:
                        self._told.set()
                        self._told = asyncio.Event()
                    due = min(each.due_in() for each in self._streams)
                    try:
                        async with asyncio.timeout(max(0.0, min(SILENCE, due))):
                            await self._changed()
                            await asyncio.sleep(PAUSE)
                        look = False
                    except TimeoutError:
                        look = True
            except Conflict:
                log.info("another_process_seals")
            except (BusError, OSError) as error:
                log.warning("not_sealed_yet", reason=str(error))
            except Exception:  # the log is to be sealed all the same
                log.exception("sealing_failed")
            finally:
                await reader.close()
            await asyncio.sleep(SEAL_RETRY)


RETRY, LATEST = 10.0, 600.0
"""Seconds until a witness is tried again that took no seal: twice as many each time, at most."""
MAIL_EVERY = 3600.0  # Seconds between two mails to a witness: one seal stands for all before it

OWN_SIZE, OWN_KEPT = 1024 * 1024, 500
"""The bytes from which on the gateway's own file is shortened to so many seals of each stream."""


class Witnesses:
    """Gives each witness of the settings the last seal of each stream, as often as there is a new one.

    The gateway's own file is one more: a server that finds a stream damaged may cut its end off.
    What a witness did not take is told by doctor and tried again; nothing waits for it.
    """

    def __init__(self, config: Settings, sealer: Sealer) -> None:
        self._config, self._sealer = config, sealer
        self._known = read_witnessed(config)

    async def run(self) -> None:
        """Serve all witnesses until cancelled."""
        own = str(self._config.gateway / SEALS)
        await asyncio.gather(*(self._serve(each) for each in (own, *self._config.audit_witness)))

    async def _serve(self, witness: str) -> None:
        pause = RETRY
        while True:
            known = self._known.setdefault(name_of(witness), Witnessed())
            new = [seal for seal in self._sealer.sealed if seal.number > known.seals.get(seal.stream, 0)]
            if not new:
                await self._sealer.wait()
                continue
            if witness.startswith("mailto:"):
                await asyncio.sleep(known.at + MAIL_EVERY - time.time())
                new = [seal for seal in self._sealer.sealed if seal.number > known.seals.get(seal.stream, 0)]
            reason = await self._give(witness, new)
            if not reason:
                seals = known.seals | {seal.stream: seal.number for seal in new}
                self._note(witness, Witnessed(seals=seals, at=time.time()))
                pause = RETRY
                continue
            log.warning("not_witnessed_yet", witness=name_of(witness), reason=reason)
            self._note(witness, msgspec.structs.replace(known, problem=reason))
            await asyncio.sleep(pause)
            pause = min(2 * pause, LATEST)

    async def _give(self, witness: str, seals: list[Seal]) -> str:
        """Why a witness did not take them; empty if it did."""
        lines = b"".join(without_marks(seal).to_json() + b"\n" for seal in seals)
        try:
            if witness.startswith("mailto:"):
                what = ", ".join(f"{seal.stream} up to {seal.last:,}" for seal in seals)
                text = (
                    "Keep this mail. With it you can prove later that nothing before was changed: put the "
                    "following lines into a file, and run: mailroom audit verify --from FILE\n\n"
                ) + lines.decode()
                mail_id, to = f"seal.{seals[0].chain[:32]}", witness.removeprefix("mailto:")
                message = write_message(self._config, to, f"Sealed: {what}", text, mail_id)
                refused = await submit_message(read_server(self._config), message, self._config.http_timeout)
                return str(refused or "")
            if witness.startswith(("http://", "https://")):
                headers = {"content-type": "application/jsonl", "user-agent": "mailroom"}
                await request("POST", witness, headers=headers, content=lines)
            elif witness.startswith(("nats://", "tls://")):
                for seal in seals:
                    await store_elsewhere(witness, without_marks(seal).to_json(), seal.id)
            else:
                await asyncio.to_thread(_append, Path(witness), lines)
                if witness == str(self._config.gateway / SEALS):
                    await asyncio.to_thread(_shorten, Path(witness))
        except (MailroomError, OSError) as error:
            return str(error)
        return ""

    def _note(self, witness: str, state: Witnessed) -> None:
        self._known[name_of(witness)] = state
        try:
            write_atomically(self._config.gateway / WITNESSED, msgspec.json.encode(self._known))
        except OSError as error:  # a full disk: after a restart the witness gets the same seal again
            log.warning("not_noted", reason=str(error))


def _append(path: Path, lines: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    with os.fdopen(handle, "ab") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def _shorten(path: Path) -> None:
    """Keep the last seals of each stream alone: each holds for all before it, and the file is bounded."""
    if path.stat().st_size <= OWN_SIZE:
        return
    seals = read_kept(path)
    last = [[seal for seal in seals if seal.stream == stream][-OWN_KEPT:] for stream in subjects.LOG]
    write_atomically(path, b"".join(seal.to_json() + b"\n" for each in last for seal in each))


PAGE = 1_000


async def find_lost(
    reader: BulkReader,
    span: Span,
    known: int,
    find_others: Callable[[Sequence[Stored]], Awaitable[list[int]]],
) -> int:
    """The first message of a stream up to ``known`` that it lost; 0 if it lost none.

    ``span`` is what the stream has now. ``find_others`` says which of these messages are others than were
    known at their places. The stream is compared from its end on, back to one that is the same. A message
    that is missing between others tells nothing: it may have been erased.
    """
    end = min(span.end, known)
    lost = end + 1 if end < known else 0
    size, until = 1, end
    while until >= span.start:
        begin = max(span.start, until - size + 1)
        found: list[Stored] = []
        async for page in reader.read(span._replace(start=begin, end=until), READ_TIMEOUT):
            found += page
        others = await find_others(found)
        lost = min(others, default=lost)
        if len(others) < len(found):
            break
        size, until = min(2 * size, PAGE), begin - 1
    return lost
