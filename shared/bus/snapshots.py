"""Whole streams taken from the server and given back to one: messages, sequences, times and durables."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import nats.errors

from shared import subjects
from shared.bus.client import BusClient
from shared.bus.connecting import connect_once, read_seed, require_more_time
from shared.errors import BusError, BusUnavailable

CHUNK = 256 * 1024  # Bytes of one message of a snapshot
KNOWN_WAIT = 5.0  # Seconds within which a server must know where chunks go
SILENCE = 30.0  # Seconds without a chunk after which a snapshot is given up
END = ("", "204")  # The status of its last message, if nothing went wrong
ANSWER = 300.0  # Seconds that the server has to answer: at its end a restored stream is read through


class Snapshots:
    """A connection of the admin that takes streams from the server, or gives them back.

    A snapshot is the stream of chunks that nats-server makes of its files: its own compression, in frames of
    at most 1 MiB that are the same in the next snapshot as long as the messages in them are.
    """

    def __init__(self, client: BusClient) -> None:
        self._client = client

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, seed: Path) -> AsyncIterator[Self]:
        """The connection, with the admin's ``seed``; raises BusUnavailable or Denied."""
        secret = read_seed(subjects.ADMIN, seed)
        client = BusClient()
        try:
            await connect_once(client, url, secret, name="admin-snapshots")
        except Exception as error:
            require_more_time(error, subjects.ADMIN, url, float("-inf"))
        try:
            yield cls(client)
        finally:
            await client.close()

    async def names(self) -> list[str]:
        """The streams of the office."""
        return await self._list("STREAM.NAMES", "streams")

    async def state(self, stream: str) -> dict[str, Any]:
        """How many messages a stream has, and which; empty if there is none of this name."""
        found: dict[str, Any] = (await self._call(f"STREAM.INFO.{stream}", missing=True)).get("state", {})
        return found

    async def floors(self, stream: str) -> dict[str, int]:
        """Up to which message each durable of a stream has everything acknowledged."""
        infos = await self._list(f"CONSUMER.LIST.{stream}", "consumers")
        return {
            each["name"]: each["ack_floor"]["stream_seq"]
            for each in infos
            if each["config"].get("durable_name")
        }

    async def last(self, stream: str, subject: str) -> bytes | None:
        """The payload of the last message on ``subject``; None if there is none."""
        answer = await self._call(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject}, missing=True)
        return base64.b64decode(answer["message"].get("data", "")) if "message" in answer else None

    @asynccontextmanager
    async def take(self, stream: str) -> AsyncIterator[tuple[dict[str, Any], AsyncIterator[bytes]]]:
        """The configuration and state of a stream, and its snapshot, frame by frame.

        Raises BusError if the server breaks it off, BusUnavailable if it falls silent.
        """
        inbox, arrived = self._client.new_inbox(), asyncio.Queue[tuple[str, bytes, bytes]]()

        def receive(_: str, reply: str, headers: bytes, data: bytes) -> None:
            arrived.put_nowait((reply, headers, data))

        subscription = await self._client.subscribe_directly(inbox, receive)
        await self._client.flush()
        try:
            request = {"deliver_subject": inbox, "chunk_size": CHUNK}
            yield await self._call(f"STREAM.SNAPSHOT.{stream}", request), self._frames(stream, arrived)
        finally:
            await subscription.unsubscribe()

    async def _frames(
        self, stream: str, arrived: "asyncio.Queue[tuple[str, bytes, bytes]]"
    ) -> AsyncIterator[bytes]:
        held = bytearray()
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    reply, headers, data = await arrived.get()
            except TimeoutError:
                raise BusUnavailable(f"The snapshot of {stream} stood still for {SILENCE:g} s") from None
            if not data:
                status = headers[9:].decode(errors="replace").strip()
                if held or status[:3] not in END:
                    reason = status or "its end is missing"
                    raise BusError(f"The snapshot of {stream} was broken off: {reason}")
                return
            held += data
            # A frame is its kind in one byte, its length in three, and as many bytes
            while len(held) >= 4 and len(held) >= (end := 4 + int.from_bytes(held[1:4], "little")):
                yield bytes(held[:end])
                del held[:end]
            if reply:  # the server sends no further than its window without
                await self._client.answer(reply, b"")

    async def put(
        self, stream: str, taken: Mapping[str, Any], frames: Iterable[bytes], replicas: int = 1
    ) -> dict[str, Any]:
        """Make a stream of a snapshot, on so many servers; returns its state. None may have this name."""
        config = {**taken["config"], "num_replicas": replicas}
        begun = await self._call(f"STREAM.RESTORE.{stream}", {"config": config, "state": taken["state"]})
        for frame in frames:
            await self._ask(begun["deliver_subject"], frame)
        answer = await self._ask(begun["deliver_subject"], b"")
        state: dict[str, Any] = answer["state"]
        return state

    async def set_back(self, stream: str, durable: str, floor: int) -> None:
        """Have a durable deliver again what comes after the message ``floor``."""
        await self._call(f"CONSUMER.RESET.{stream}.{durable}", {"seq": floor + 1})

    async def _list(self, verb: str, key: str) -> list[Any]:
        found: list[Any] = []
        while True:
            page = await self._call(verb, {"offset": len(found)})
            found += page[key] or []
            if not page[key] or len(found) >= page["total"]:
                return found

    async def _call(self, verb: str, body: object = None, *, missing: bool = False) -> dict[str, Any]:
        return await self._ask(f"$JS.API.{verb}", json.dumps(body or {}).encode(), missing=missing)

    async def _ask(self, subject: str, payload: bytes, *, missing: bool = False) -> dict[str, Any]:
        until = time.monotonic() + KNOWN_WAIT
        while True:
            try:
                reply = await self._client.request(subject, payload, timeout=ANSWER)
                break
            except nats.errors.NoRespondersError as error:
                # All servers of a cluster know a moment later who takes the chunks.
                if time.monotonic() > until:
                    raise BusUnavailable(f"Nobody answers on {subject!r}") from error
                await asyncio.sleep(0.05)
            except (nats.errors.Error, TimeoutError) as error:
                reason = error or "too late"
                raise BusUnavailable(f"The server did not answer on {subject!r}: {reason}") from None
        answer: dict[str, Any] = json.loads(reply.data) if reply.data else {}
        if (refused := answer.get("error")) and not (missing and refused.get("code") == 404):
            raise BusError(
                f"The server refused {subject!r}: {refused.get('description')} ({refused.get('err_code')})"
            )
        return answer
