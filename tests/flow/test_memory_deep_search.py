"""Deep search with the real model: what comes first, its scores, and what goes without the model."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.memory.engine import CLOSE_READERS, MAX_WAITING, MemoryEngine
from services.memory.retrieval.deep_search import (
    AFTER,
    BEFORE,
    CANDIDATES,
    COMPARED,
    SHARES,
    UNREAD,
    make_passage,
)
from services.memory.retrieval.ranking import SIBLING
from services.memory.writes.change import LoggedWrite
from shared.contracts import MemoryQuery, MemoryWrite, Node, Source
from shared.errors import ActionError
from shared.settings import Settings
from tests.support.once import find_models

QUESTION = "Where did Ada spend her vacation?"
CHAT = (
    "Ben: Ada, where have you been on holiday?",
    "Ada: In a cabin by the lake",
    "Ben: The printer in the hall is out of paper",
    "Ada: Then spend some money on paper",
    "Ben: The order is out",
    "Ada: Good",
)


@pytest.fixture(scope="session")
def models() -> Path:
    """The models' files where the settings have them; fetched if they are missing."""
    return find_models()


@asynccontextmanager
async def open_memory(folder: Path, models: Path, texts: Sequence[str]) -> AsyncIterator[MemoryEngine]:
    """A memory of these texts, said one after another in one session."""
    memory = await MemoryEngine.open(Settings(state_dir=folder / "state", model_dir=models))
    try:
        nodes = tuple(
            Node(
                id=f"n{place}",
                kind="episodic",
                title=text[:200],
                body=text,
                source=Source(session="talk"),
                created_at=f"2026-03-01T00:{place // 60:02}:{place % 60:02}+00:00",
            )
            for place, text in enumerate(texts)
        )
        entry = LoggedWrite(seq=1, stored_at=1.8e9, write=MemoryWrite(nodes=nodes, insist=True))
        assert [answer.error for answer in (await memory.write([entry])).answers] == [""]
        yield memory
    finally:
        await memory.close()


def ask(text: str = QUESTION, *, deep: bool = True, limit: int = 6) -> MemoryQuery:
    return MemoryQuery(text=text, limit=limit, deep=deep)


async def test_the_parts_of_a_score_add_up_and_the_fast_search_is_one_of_them(
    tmp_path: Path, models: Path
) -> None:
    async with open_memory(tmp_path, models, CHAT) as memory:
        fast = {hit.node.id: hit for hit in await memory.search(ask(deep=False))}
        deep = await memory.search(ask())
        assert "n1" in {hit.node.id for hit in deep[:2]}
        assert [hit.score for hit in deep] == sorted((hit.score for hit in deep), reverse=True)
        assert all(hit.score == pytest.approx(sum(hit.why.values()), abs=0.001) for hit in deep)
        for hit in deep:
            assert 0 < hit.why["compared"] < COMPARED
            for name, share in SHARES.items():
                was = fast[hit.node.id].why.get(name, 0.0)
                assert hit.why.get(name, 0.0) == pytest.approx(share * was, abs=0.001)
        assert not any("compared" in hit.why for hit in fast.values())


async def test_what_is_near_to_the_best_of_its_session_is_lifted_towards_it(
    tmp_path: Path, models: Path
) -> None:
    async with open_memory(tmp_path, models, CHAT) as memory:
        for asked in (ask(), ask(deep=False)):
            best, *others = await memory.search(asked)
            assert "session" not in best.why
            for hit in others:
                gain = SIBLING * (best.score - (hit.score - hit.why["session"]))
                assert hit.why["session"] == pytest.approx(gain, abs=0.001)


async def test_the_same_question_has_the_same_answer_whatever_was_read_before(
    tmp_path: Path, models: Path
) -> None:
    async with open_memory(tmp_path, models, CHAT) as memory:
        cold = await memory.search(ask())
        await memory.search(ask("Is the printer out of paper?"))
        assert await memory.search(ask()) == cold
        assert await asyncio.gather(*(memory.search(ask()) for _ in range(6))) == [cold] * 6


async def test_more_hits_than_are_compared_can_be_asked_for(tmp_path: Path, models: Path) -> None:
    texts = [f"Ada: On day {place} of my vacation I read page {place}" for place in range(CANDIDATES + 4)]
    async with open_memory(tmp_path, models, texts) as memory:
        hits = await memory.search(ask("What did Ada read on her vacation?", limit=CANDIDATES + 4))
        assert sum("compared" in hit.why for hit in hits) == CANDIDATES < len(hits)
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)


async def test_hostile_and_very_long_texts_are_found_too(tmp_path: Path, models: Path) -> None:
    texts = [
        "vacation " * 20_000,
        "\x01\u202e\U0001f3d6" * 2_000 + " vacation",
        "v" * 50_000,
        "Ada: vacation",
    ]
    async with open_memory(tmp_path, models, texts) as memory:
        hits = await memory.search(ask("vacation \x01\u202e " * 400))
        assert all(0 <= hit.score <= 1 for hit in hits)
        assert {hit.node.id for hit in hits} >= {"n0", "n3"}


async def test_without_the_model_the_hits_are_those_of_the_fast_search_and_say_so(
    tmp_path: Path, models: Path
) -> None:
    partly = tmp_path / "models"
    partly.mkdir()
    for name in ("bge_small_en", "reranker_en"):
        (partly / name).symlink_to(models / name)
    async with open_memory(tmp_path, partly, CHAT) as memory:
        fast = await memory.search(ask(deep=False))
        deep = await memory.search(ask())
        assert [(hit.node.id, hit.score) for hit in deep] == [(hit.node.id, hit.score) for hit in fast]
        assert all(hit.why[UNREAD] == 0 for hit in deep)


async def test_models_that_are_unused_are_unloaded_and_loaded_again(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.memory.engine.IDLE", 0.01)
    async with open_memory(tmp_path, models, CHAT) as memory:
        tidying = asyncio.create_task(memory.tidy_when_idle())
        first = await memory.search(ask())
        await memory.read(QUESTION, CHAT)
        await asyncio.sleep(0.1)
        assert memory._aligner._model is not None
        assert memory.reranker._model is not None
        monkeypatch.setattr("services.memory.engine.UNUSED", 0.0)
        await asyncio.sleep(0.1)
        assert memory._aligner._model is None
        assert memory.reranker._model is None
        assert await memory.search(ask()) == first
        tidying.cancel()


async def test_fast_searches_do_not_wait_behind_deep_ones(tmp_path: Path, models: Path) -> None:
    async with open_memory(tmp_path, models, CHAT) as memory:
        gate = threading.Event()
        try:
            held = [asyncio.create_task(memory._read_closely(gate.wait)) for _ in range(CLOSE_READERS)]
            waiting = [asyncio.create_task(memory.search(ask())) for _ in range(MAX_WAITING)]
            await asyncio.sleep(0.05)
            assert len(await asyncio.wait_for(memory.search(ask(deep=False)), 10)) > 1
            with pytest.raises(ActionError, match=r"32 requests wait .* without --deep"):
                await memory.search(ask())
            waiting[0].cancel()
            await asyncio.gather(waiting[0], return_exceptions=True)
            last = asyncio.create_task(memory.search(ask()))
        finally:
            gate.set()
        assert await last == await waiting[1]
        await asyncio.gather(*held, *waiting, return_exceptions=True)


def test_a_passage_is_what_was_said_around_a_node() -> None:
    nodes = [Node(id=f"n{place}", title=f"{place} " + "x" * 150) for place in range(5)]
    passage = make_passage(nodes[2], nodes[:2], nodes[3:])
    texts, fades = zip(*passage.weigh(), strict=True)
    assert [text[0] for text in texts] == ["2", "1", "0", "3", "4"]
    assert fades == (1.0, *BEFORE, *AFTER)
