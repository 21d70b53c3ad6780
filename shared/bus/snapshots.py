"""A stream with its durables as a file, and back on any number of servers, to the byte."""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nats.errors

from shared.bus.connection import Bus
from shared.bus.provision import ask
from shared.errors import BusError, BusUnavailable, NoResponders
from shared.files import sync_folder

CHUNK = 128 * 1024
PENDING = 512  # Chunks that may wait here to be written
KNOWN_WAIT = 5.0  # Seconds within which a server must know where chunks go
WAIT = 60.0  # Seconds until the next chunk, or the answer to one, must have come


async def save_stream(bus: Bus, stream: str, path: Path) -> dict[str, Any]:
    """Write a snapshot of a stream to ``path``, synced; returns its configuration, its state and the digest.

    As the admin, while nobody writes. Raises BusError.
    """
    inbox, digest = bus._client.new_inbox(), hashlib.sha256()
    subscription = await bus._client.subscribe(inbox, pending_bytes_limit=PENDING * CHUNK)
    try:
        body = {"deliver_subject": inbox, "no_consumers": False, "chunk_size": CHUNK, "jsck": True}
        answer = await ask(bus, f"STREAM.SNAPSHOT.{stream}", body)
        with path.open("wb") as file:
            while (chunk := await subscription.next_msg(timeout=WAIT)).data:
                file.write(chunk.data)
                digest.update(chunk.data)
                if chunk.reply:
                    await chunk.respond(b"")
            if (status := (chunk.headers or {}).get("Status", "204")) not in ("", "204"):
                raise BusError(f"The snapshot of {stream} failed: {chunk.headers} ({status})")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except (TimeoutError, nats.errors.Error) as error:
        raise BusUnavailable(f"The snapshot of {stream} broke off: {error or type(error).__name__}") from None
    finally:
        await subscription.unsubscribe()
    return {"config": answer["config"], "state": answer["state"], "sha256": digest.hexdigest()}


async def restore_stream(bus: Bus, saved: Mapping[str, Any], path: Path, replicas: int) -> None:
    """Make a stream from a snapshot, on so many servers; raises BusError if it is not what was saved."""
    config = {**saved["config"], "num_replicas": replicas}
    stream = config["name"]
    body = {"config": config, "state": saved["state"]}
    deliver = (await ask(bus, f"STREAM.RESTORE.{stream}", body))["deliver_subject"]
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            if answer := await _hand_over(bus, deliver, chunk):
                _require(json.loads(answer), stream)
    if digest.hexdigest() != saved["sha256"]:
        raise BusError(f"The snapshot {path} is damaged: its digest is another")
    state = _require(json.loads(await _hand_over(bus, deliver, b"")), stream)["state"]
    # What expires meanwhile is gone; and the first message of an empty stream is 0 or 1.
    keys = ("last_seq",) if config.get("max_age") else ("last_seq", "messages")
    if any(state[key] != saved["state"][key] for key in keys):
        raise BusError(f"{stream} came back as {state}, and was {saved['state']}")


async def _hand_over(bus: Bus, deliver: str, chunk: bytes) -> bytes:
    """The answer to a chunk; who takes it is known to all servers of a cluster a moment later."""
    until = time.monotonic() + KNOWN_WAIT
    while True:
        try:
            return await bus.request(deliver, chunk, timeout=WAIT)
        except NoResponders:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.05)


def _require(answer: dict[str, Any], stream: str) -> dict[str, Any]:
    """An answer of the server; raises BusError if it is an error."""
    if error := answer.get("error"):
        raise BusError(f"The server refused {stream}: {error.get('description')} ({error.get('err_code')})")
    return answer
