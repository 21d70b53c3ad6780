"""Memory's embedding model and classifiers, asked in the test's own process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import cast

import msgspec

from services.memory.classifier import Classifiers
from services.memory.local_model import LocalEmbedder
from shared import settings, subjects
from shared.bus import Bus
from shared.errors import BusError
from shared.memory import ClassifyQuery, Memory
from tests.support.team import Team


@cache
def open_models() -> tuple[LocalEmbedder, Classifiers]:
    """Opened once in a process."""
    models = settings.load().models
    embedder = LocalEmbedder(models)
    return embedder, Classifiers(embedder, models)


class _InProcess:
    """A bus on which memory answers in this process: what is asked and told is encoded as on a real one."""

    name = "tester"

    async def request(
        self, subject: str, payload: bytes, timeout: float = 0.0, headers: object = None
    ) -> bytes:
        embedder, classifiers = open_models()
        if subject == subjects.memory("classify"):
            query = msgspec.json.decode(payload, type=ClassifyQuery)
            return msgspec.json.encode(classifiers.classify(query))
        if subject == subjects.memory("embed"):
            return msgspec.json.encode(embedder.embed(msgspec.json.decode(payload)["texts"]).tolist())
        raise BusError("there is no store")


class ClassifyingMemory(Memory):
    """The client of memory, for what needs no store."""

    def __init__(self) -> None:
        super().__init__(cast(Bus, _InProcess()))


MEMORY: Memory = ClassifyingMemory()


def open_endpoint() -> Callable[[bytes], Awaitable[bytes]]:
    """The endpoint of memory, for tests that play the daemon on a bus; the models are open by then."""
    _, classifiers = open_models()

    async def classify(payload: bytes) -> bytes:
        query = msgspec.json.decode(payload, type=ClassifyQuery)
        return msgspec.json.encode(await asyncio.to_thread(classifiers.classify, query))

    return classify


async def serve_memory(daemon: Bus, endpoints: Mapping[str, Callable[[bytes], Awaitable[bytes]]]) -> None:
    """Answer as the memory daemon does, to every requester the same."""

    def for_anybody(answer: Callable[[bytes], Awaitable[bytes]]) -> Callable[[bytes, str], Awaitable[bytes]]:
        return lambda payload, _: answer(payload)

    of_requester = {
        name: for_anybody(endpoints[name]) for name in endpoints if name in subjects.MEMORY_SIGNED_VERBS
    }
    of_all = {name: endpoints[name] for name in endpoints if name not in subjects.MEMORY_SIGNED_VERBS}
    await daemon.serve(subjects.MEMORY_DAEMON, "0.0.0", "Remembers.", of_all, of_requester)


async def serve_classifiers(team: Team) -> None:
    """Have a daemon that classifies and does nothing else."""
    daemon = await team.connect(subjects.MEMORY_DAEMON)
    await daemon.serve(subjects.MEMORY_DAEMON, "0.0.0", "Classifies.", {"classify": open_endpoint()})
