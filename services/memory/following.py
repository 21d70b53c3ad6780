"""Copies of memory beside the one that writes: what they ask it for, and how it answers.

The log alone makes a copy. What would take long to make again comes from the writer: vectors, and how far its
upkeep is.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from services.memory.engine import MemoryEngine
from services.memory.maintenance import UPKEEP
from services.memory.writes.change import embedded_text
from services.memory.writes.log_follower import LogFollower
from shared import subjects
from shared.bus import Bus
from shared.errors import BusError
from shared.log import logger

if TYPE_CHECKING:
    from services.memory.storage.tables import Vectors

EVERY = 2.0  # Seconds between two words of a copy to the writer
GONE = 7.0  # Seconds after the last word of a copy until it counts as gone
PATIENCE = 10.0  # Seconds for which a copy waits for vectors that the writer is about to make
PAUSE = 0.25  # Seconds between two questions for them
ASK_TIMEOUT = 5.0  # Seconds that the writer has for an answer

LEADER, ANNOUNCED = "writer", "announced"
"""The last parts of two subjects of memory's own account: what copies ask, and what they hear."""

log = logger(__name__)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy says of itself, and the texts (node, digest) of which it wants the vectors."""

    instance: str
    host: str
    reader: bool
    version: int
    forgetting: bool
    texts: list[tuple[str, bytes]] = []


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The writer's answer: ``base`` is the version before the log's first message; a row of float32 for each
    text that it ``knows``, of zeros if it has no vector of it yet; notes of upkeep, if no texts were named.
    """

    base: int
    model: str
    knows: list[bool] = []
    vectors: bytes = b""
    notes: dict[str, str] = {}


class Copies:
    """The copies that the writer knows of, and what it tells them."""

    def __init__(self, engine: MemoryEngine, follower: LogFollower, bus: Bus) -> None:
        self._engine, self._follower, self._bus = engine, follower, bus
        self._heard: dict[str, tuple[Asked, float]] = {}

    async def open(self) -> None:
        """Answer copies, and tell them from now on what is announced."""
        self._follower.announcer.told = self._tell
        await self._bus.answer(subjects.peer(self._bus.name, LEADER), self._answer)

    def list(self) -> list[dict[str, object]]:
        """The copies that are there: how far behind each is, in versions; whether it only reads; whether it
        still holds what is to be forgotten.
        """
        now = time.monotonic()
        self._heard = {name: each for name, each in self._heard.items() if now - each[1] < GONE}
        return [
            {
                "instance": each.instance,
                "host": each.host,
                "kind": "reader" if each.reader else "standby",
                "behind": max(self._engine.version - each.version, 0),
                "forgetting": each.forgetting,
            }
            for each, _ in self._heard.values()
        ]

    async def _tell(self) -> None:
        if self._heard:
            await self._bus.publish(subjects.peer(self._bus.name, ANNOUNCED), b"")

    async def _answer(self, _: str, data: bytes) -> bytes:
        asked = msgspec.msgpack.decode(data, type=Asked)
        self._heard[asked.instance] = (asked, time.monotonic())
        told = Told(base=self._follower.base, model=self._engine.embedder.model_name)
        if not asked.texts:
            notes = {name: await self._engine.read_note(name) for name in UPKEEP}
            return msgspec.msgpack.encode(msgspec.structs.replace(told, notes=notes))
        nodes = {node.id: node for node in await self._engine.get([node_id for node_id, _ in asked.texts])}
        texts = {key: _digest(embedded_text(node)) for key, node in nodes.items()}
        knows = [texts.get(node_id) == digest for node_id, digest in asked.texts]
        known = [node_id for (node_id, _), is_known in zip(asked.texts, knows, strict=True) if is_known]
        vectors = (await self._engine.read_vectors(known)).tobytes() if known else b""
        return msgspec.msgpack.encode(msgspec.structs.replace(told, knows=knows, vectors=vectors))


class Following:
    """A copy of memory as it follows the log, until ``stop``."""

    def __init__(
        self, engine: MemoryEngine, follower: LogFollower, bus: Bus, host: str, *, reader: bool
    ) -> None:
        self._engine, self._follower, self._bus = engine, follower, bus
        self._host, self._reader = host, reader
        self._tasks: list[asyncio.Task[None]] = []

    async def ask_base(self) -> int:
        """The version before the log's first message; waits until a writer answers."""
        while True:
            try:
                return (await self._ask()).base
            except BusError as error:
                log.info("no_writer_yet", reason=str(error))
                await asyncio.sleep(1)

    async def start(self) -> None:
        """Begin to follow."""
        await self._bus.subscribe(subjects.peer(self._bus.name, ANNOUNCED), self._hear)
        self._engine.find_vectors = self._find_vectors
        works = (self._follower.follow(), self._engine.keep_embedding(), self._keep_asking())
        self._tasks = [asyncio.create_task(work) for work in works]

    async def stop(self) -> None:
        """End it: the copy stays as it is."""
        self._engine.find_vectors = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _hear(self, _: str, __: bytes, ___: dict[str, str]) -> None:
        self._follower.heard.set()

    async def _ask(self, texts: Sequence[tuple[str, bytes]] = ()) -> Told:
        asked = Asked(
            instance=self._bus.instance,
            host=self._host,
            reader=self._reader,
            version=self._engine.version,
            forgetting="forgetting" in self._follower.status(),
            texts=[*texts],
        )
        subject = subjects.peer(self._bus.name, LEADER)
        answer = await self._bus.request(subject, msgspec.msgpack.encode(asked), timeout=ASK_TIMEOUT)
        return msgspec.msgpack.decode(answer, type=Told)

    async def _keep_asking(self) -> None:
        """Tell the writer how far this copy is, and keep the notes of its upkeep."""
        kept: dict[str, str] = {}
        while True:
            try:
                for name, note in (await self._ask()).notes.items():
                    if note and note != kept.get(name):
                        await self._engine.write_note(name, note)
                        kept[name] = note
            except (BusError, ValueError, OSError) as error:
                log.info("writer_silent", reason=str(error))
            await asyncio.sleep(EVERY)

    async def _find_vectors(self, texts: Sequence[tuple[str, int, str]]) -> "Vectors | None":
        """The writer's vectors of texts; None if they have to be made here."""
        import numpy as np

        wanted = [(node_id, _digest(text)) for node_id, _, text in texts]
        until = time.monotonic() + PATIENCE
        while True:
            try:
                told = await self._ask(wanted)
            except BusError:
                return None
            if told.model != self._engine.embedder.model_name:
                return None
            rows = np.frombuffer(told.vectors, np.float32).reshape(sum(told.knows), -1)
            if rows.any(axis=1).all() or time.monotonic() > until:
                break
            await asyncio.sleep(PAUSE)
        vectors = np.zeros((len(texts), self._engine.embedder.dimensions), np.float32)
        vectors[np.flatnonzero(told.knows)] = rows
        lacking = np.flatnonzero(~vectors.any(axis=1)).tolist()
        if lacking:
            vectors[lacking] = await self._engine.embed([texts[place][2] for place in lacking])
        return vectors


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=12).digest()
