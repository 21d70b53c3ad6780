"""Parts of the log that others can check: all of it as a bundle, or one message with its proof."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import IO, Any

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import Seal
from shared.queries.records import last_sequence
from shared.trail.archives import read_archives, read_erasures, read_log
from shared.trail.bundle_file import erased_line, message_line, seal_line
from shared.trail.seals import find_void, make_leaf, path_of, read_seals, without_marks

READ_TIMEOUT = 30.0


class Written(msgspec.Struct, kw_only=True):
    """What a bundle has."""

    messages: int = 0
    erased: int = 0
    seals: int = 0


async def write_bundle(
    bus: Bus, file: IO[bytes], folder: Path | None = None, report: Callable[[str], None] = lambda _: None
) -> Written:
    """Write the log to a file: a line of JSON for each message, erased message and seal, in this order.

    A seal stands after the last of its messages; one over what the stream lost is marked as void, and stands
    after the seal before it. What follows the last seal is in it too, without one. What was archived is read
    from its bundles, in ``folder`` or where they were written. Raises OSError if the file cannot be written,
    NotFound if a bundle is away.
    """
    written = Written()
    for stream in subjects.LOG:
        await _write_stream(bus, stream, file, folder, written, report)
    return written


async def _write_stream(
    bus: Bus,
    stream: str,
    file: IO[bytes],
    folder: Path | None,
    written: Written,
    report: Callable[[str], None],
) -> None:
    end = await last_sequence(bus, stream)
    leaves, reached = (await read_erasures(bus, stream)).leaves, 0
    archives, void = await read_archives(bus, folder), await find_void(bus, stream)
    async with aclosing(read_seals(bus, stream)) as seals:
        seal = await _next_seal(seals)

        async def take_due(lines: list[bytes], reached: int) -> None:
            nonlocal seal
            while seal is not None and (seal.number in void or seal.last <= reached):
                line = seal_line(without_marks(seal)) | ({"void": True} if seal.number in void else {})
                lines.append(msgspec.json.encode(line))
                written.seals += 1
                seal = await _next_seal(seals)

        pages = read_log(bus, stream, 1, end, timeout=READ_TIMEOUT, archives=archives, whole=True)
        async for page in pages:
            lines: list[bytes] = []
            for stored in page:
                for seq in range(reached + 1, stored.seq + 1):
                    await take_due(lines, seq - 1)
                    if seq == stored.seq:
                        lines.append(msgspec.json.encode(message_line(stored)))
                        written.messages += 1
                    elif leaf := leaves.get(seq):
                        lines.append(msgspec.json.encode(erased_line(stream, seq, leaf)))
                        written.erased += 1
                reached = stored.seq
            await asyncio.to_thread(file.write, b"\n".join((*lines, b"")))
            report(f"{stream}: {reached:,} of {end:,} messages written")
        last: list[bytes] = []
        await take_due(last, end)
        await asyncio.to_thread(file.write, b"\n".join((*last, b"")) if last else b"")


async def _next_seal(seals: Any) -> Seal | None:
    async for _, seal in seals:
        if seal is not None:
            found: Seal = seal
            return found
    return None


async def prove(bus: Bus, stream: str, seq: int, folder: Path | None = None) -> dict[str, Any] | None:
    """The proof of one message: itself, the hashes beside its path, and the seal. None if it has no seal.

    Raises NotFound if its bundle is away.
    """
    seal = await _find_seal(bus, stream, seq)
    if seal is None:
        return None
    leaves = dict((await read_erasures(bus, stream)).leaves)
    found: Stored | None = None
    archives = await read_archives(bus, folder)
    pages = read_log(bus, stream, seal.first, seal.last, timeout=READ_TIMEOUT, archives=archives, whole=True)
    async for page in pages:
        leaves |= {stored.seq: make_leaf(stored) for stored in page}
        found = next((stored for stored in page if stored.seq == seq), found)
    if found is None:
        return None
    there = [each for each in range(seal.first, seal.last + 1) if each in leaves]
    path = path_of([leaves[each] for each in there], there.index(seq))
    return {
        **message_line(found),
        "path": [{"side": "left" if before else "right", "hash": beside.hex()} for before, beside in path],
        "seal": without_marks(seal).to_dict(),
    }


async def _find_seal(bus: Bus, stream: str, seq: int) -> Seal | None:
    void = await find_void(bus, stream)
    async with aclosing(read_seals(bus, stream)) as seals:
        async for _, seal in seals:
            if seal is not None and seal.first <= seq <= seal.last and seal.number not in void:
                return seal
    return None
