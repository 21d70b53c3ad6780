"""Memory's embedding model and classifiers, asked in the test's own process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import cast

import msgspec

from services.memory.classifier import Classifiers
from services.memory.local_model import LocalEmbedder
from shared import settings, subjects
from shared.contracts import ListQuery, NodePage
from shared.errors import BusError
from shared.memory import ClassifyQuery, Memory
from tests.support.team import Team


@cache
def open_models() -> tuple[LocalEmbedder, Classifiers]:
    """Opened once in a process."""
    models = settings.load().models
    embedder = LocalEmbedder(models)
    return embedder, Classifiers(embedder, models)


class ClassifyingMemory:
    """What the client of memory answers with, for what needs no store."""

    async def embed(self, *texts: str) -> list[list[float]]:
        vectors: list[list[float]] = open_models()[0].embed(texts).tolist()
        return vectors

    async def classify(
        self,
        classifier: str,
        texts: Sequence[str] = (),
        features: Sequence[Mapping[str, float]] = (),
        timeout: float = 0.0,
    ) -> list[dict[str, float]]:
        query = ClassifyQuery(classifier=classifier, texts=tuple(texts), features=tuple(map(dict, features)))
        return open_models()[1].classify(query)

    async def nodes(self, query: ListQuery) -> NodePage:
        raise BusError("there is no store")


MEMORY = cast(Memory, ClassifyingMemory())


def open_endpoint() -> Callable[[bytes], Awaitable[bytes]]:
    """The endpoint of memory, for tests that play the daemon on a bus; the models are open by then."""
    _, classifiers = open_models()

    async def classify(payload: bytes) -> bytes:
        query = msgspec.json.decode(payload, type=ClassifyQuery)
        return msgspec.json.encode(await asyncio.to_thread(classifiers.classify, query))

    return classify


async def serve_classifiers(team: Team) -> None:
    """Have a daemon that classifies and does nothing else."""
    daemon = await team.connect(subjects.MEMORY_DAEMON)
    await daemon.serve(subjects.MEMORY_DAEMON, "0.0.0", "Classifies.", {"classify": open_endpoint()})
