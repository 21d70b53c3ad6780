"""Files in JetStream's object store: put whole, read back by their digest, bounded, removed by their owner.

The layout is that of NATS's own clients, so ``nats object ls`` shows it: chunks on ``$O.<bucket>.C.<key>``,
then what they are on ``$O.<bucket>.M.<name>``. An object counts once that is stored: a process that is killed
before leaves chunks that nobody refers to, which ``sweep`` removes.
"""

import asyncio
import contextlib
import hmac
import json
import os
import secrets
import time
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from shared.bus import stores
from shared.bus.connection import Bus
from shared.contracts import StoredObject
from shared.errors import BusError, BusUnavailable, Refused

WINDOW = 4  # Chunks that are on their way at the same time
PATIENCE = 30.0  # Seconds that the server may take to store a chunk, or to give one
PAGE = 8  # Chunks of one request
UNFINISHED = 3_600.0
"""Seconds after which chunks that no object refers to are removed: no object takes so long to be stored."""


async def put_object(bus: Bus, bucket: str, name: str, file: BinaryIO) -> StoredObject:
    """Store what is left to read of ``file`` as ``name``, in the place of what had this name.

    Raises Refused if the store is full, or if it is more than an object may have, BusUnavailable if the
    server does not answer.
    """
    size = os.fstat(file.fileno()).st_size - file.tell()
    if size > stores.MAX_OBJECT:
        raise Refused(
            f"{name} has {size:,} bytes, and {stores.MAX_OBJECT:,} are the most that travel at once",
            "Leave out large files with .gitignore, or work where they are",
        )
    # The time tells what nobody finished; the rest makes the key one that nobody can guess.
    key = f"{int(time.time()):x}-{secrets.token_hex(12)}"
    hashing, count, waiting = sha256(), 0, deque[asyncio.Task[object]]()
    try:
        while chunk := await asyncio.to_thread(file.read, stores.CHUNK):
            hashing.update(chunk)
            storing = bus.store(stores.chunks(bucket, key), chunk, timeout=PATIENCE)
            waiting.append(asyncio.ensure_future(storing))
            count += 1
            if len(waiting) == WINDOW:
                await waiting.popleft()
        while waiting:
            await waiting.popleft()
        found = StoredObject(bucket=bucket, key=key, name=name, size=size, digest=hashing.hexdigest())
        before = await _read_meta(bus, bucket, name)
        await bus.store(
            stores.meta(bucket, _encode(name)),
            _format_meta(found, count),
            headers={"Nats-Rollup": "sub"},
            timeout=PATIENCE,
        )
    except BusError as error:
        await asyncio.gather(*waiting, return_exceptions=True)  # before what is stored of them is removed
        with contextlib.suppress(BusError):
            await _purge(bus, bucket, stores.chunks(bucket, key))
        if isinstance(error, BusUnavailable):
            raise
        raise Refused(
            f"The store {bucket} takes no more: {error.cause}", "It is swept as goals end"
        ) from None
    if before:
        await _purge(bus, bucket, stores.chunks(bucket, before))
    return found


async def get_object(bus: Bus, wanted: StoredObject, target: Path) -> None:
    """Write an object to the new file ``target``; nothing is there unless all of it has the digest.

    Raises BusError if it is gone, cut short or altered.
    """
    stream, subject = stores.stream_of(wanted.bucket), stores.chunks(wanted.bucket, wanted.key)
    hashing, size, start = sha256(), 0, 1
    try:
        with target.open("xb") as file:
            while size < wanted.size:
                request = {"seq": start, "next_by_subj": subject, "batch": PAGE}
                before = start
                async for stored in bus.read(stream, request, timeout=PATIENCE):
                    start, size = stored.seq + 1, size + len(stored.data)
                    if size > wanted.size:
                        break
                    hashing.update(stored.data)
                    await asyncio.to_thread(file.write, stored.data)
                if start == before or size > wanted.size:
                    break
        if size != wanted.size or not hmac.compare_digest(hashing.hexdigest(), wanted.digest):
            raise BusError(
                f"{wanted.name} in {wanted.bucket} is not what was stored: {size:,} of {wanted.size:,} bytes"
                if size != wanted.size
                else f"{wanted.name} in {wanted.bucket} is not what was stored: its digest differs"
            )
    except BaseException:
        target.unlink(missing_ok=True)
        raise


async def remove_object(bus: Bus, bucket: str, name: str) -> None:
    """Remove an object of one's own; does nothing if there is none."""
    if key := await _read_meta(bus, bucket, name):
        await _purge(bus, bucket, stores.meta(bucket, _encode(name)))
        await _purge(bus, bucket, stores.chunks(bucket, key))


async def sweep(bus: Bus, bucket: str, keep: Callable[[str], bool], *, age: float = UNFINISHED) -> int:
    """Remove what is older than ``age`` seconds of a store of one's own unless ``keep`` of its name says so.

    And what nobody finished. Returns how much that was.
    """
    answer = await _call(bus, stores.info(bucket), {"subjects_filter": ">"})
    held = answer.get("state", {}).get("subjects") or {}
    used, removed = set[str](), 0
    for subject in held:
        if subject.split(".")[2] == "M":
            stored = await bus.last(stores.stream_of(bucket), subject)
            name, key = _parse_meta(stored.data if stored else b"")
            if keep(name) or _begun(key) > time.time() - age:
                used.add(key)
            else:
                await _purge(bus, bucket, subject)
                await _purge(bus, bucket, stores.chunks(bucket, key))
                removed += 1
    for subject in held:
        kind, key = subject.split(".")[2:4]
        if kind == "C" and key not in used and _begun(key) < time.time() - UNFINISHED:
            await _purge(bus, bucket, subject)
            removed += 1
    return removed


def _begun(key: str) -> float:
    try:
        return float(int(key.partition("-")[0], 16))
    except ValueError:
        return 0.0


def _encode(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode()


def _format_meta(found: StoredObject, chunks: int) -> bytes:
    """What NATS's own clients read of it."""
    digest = urlsafe_b64encode(bytes.fromhex(found.digest)).decode()
    meta = {"name": found.name, "bucket": found.bucket, "nuid": found.key, "size": found.size}
    more = {"chunks": chunks, "digest": f"SHA-256={digest}", "deleted": False}
    return json.dumps({**meta, **more, "options": {"max_chunk_size": stores.CHUNK}}).encode()


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    nuid: str = ""


def _parse_meta(data: bytes) -> tuple[str, str]:
    try:
        found = msgspec.json.decode(data, type=_Meta)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "", ""
    return found.name, found.nuid


async def _read_meta(bus: Bus, bucket: str, name: str) -> str:
    """The key of the object ``name``; empty if there is none."""
    stored = await bus.last(stores.stream_of(bucket), stores.meta(bucket, _encode(name)))
    return _parse_meta(stored.data)[1] if stored else ""


async def _purge(bus: Bus, bucket: str, subject: str) -> None:
    await _call(bus, stores.purge(bucket), {"filter": subject})


async def _call(bus: Bus, subject: str, body: object) -> dict[str, dict[str, dict[str, int]]]:
    answer = json.loads(await bus.request(subject, json.dumps(body).encode(), timeout=PATIENCE))
    if error := answer.get("error"):
        raise BusError(f"The server refused {subject}: {error.get('description')}")
    return dict(answer)
