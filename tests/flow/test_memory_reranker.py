"""The cross-encoder with the real model: what is read, what it changes, what goes without files."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from services.memory.engine import MemoryEngine
from services.memory.model import fetch
from services.memory.retrieval.reranker import AROUND, CANDIDATES, SHARE, Reranker, fuse, make_passage
from services.memory.writes.change import LoggedWrite
from shared.contracts import Hit, MemoryQuery, MemoryWrite, Node, Source
from shared.errors import StartError
from shared.settings import Settings, load

QUESTION = "Where did Ada spend her holiday?"
CHAT = (
    "Ben: Ada, is a holiday where work cannot find you still a holiday?",
    "Ada: I spent it in a cabin by the lake",
    "Ben: The printer in the hall is out of paper",
    "Ada: Holiday pay is a question for the office",
)


@pytest.fixture(scope="session")
def models() -> Path:
    """The model's files where the settings have them; fetched if they are missing."""
    return fetch(load().models, lambda line: None)


@pytest.fixture(scope="module")
def reranker(models: Path) -> Iterator[Reranker]:
    loaded = Reranker(models)
    yield loaded
    loaded.close()


ANSWER = "Ada spent her holiday in a cabin by the lake"


def make_hits(texts: Sequence[str], score: float = 0.5) -> list[Hit]:
    return [
        Hit(node=Node(id=f"n{place}", title=text), score=score - place / 100, why={"keyword": 0.5})
        for place, text in enumerate(texts)
    ]


def alone(hits: Sequence[Hit]) -> list[tuple[list[Node], list[Node]]]:
    return [([], []) for _ in hits]


def test_what_answers_comes_first(reranker: Reranker) -> None:
    hits = make_hits([CHAT[2], CHAT[3], ANSWER])
    best = reranker.rerank(QUESTION, hits, alone(hits), 2)
    assert best[0].node.title == ANSWER
    assert len(best) == 2
    assert 0 < best[1].why["reading"] < SHARE / 2 < best[0].why["reading"] < SHARE
    assert best[0].score == pytest.approx(0.48 + best[0].why["reading"])
    assert best[0].why["keyword"] == 0.5


def test_a_node_is_read_with_what_stands_around_it(reranker: Reranker) -> None:
    question, answer, other = (Node(id=f"n{place}", title=CHAT[place]) for place in range(3))
    hits = [Hit(node=answer, score=0.5)]
    (bare,) = reranker.rerank(QUESTION, hits, [([], [])], 1)
    (read,) = reranker.rerank(QUESTION, hits, [([question], [other])], 1)
    assert read.why["reading"] > bare.why["reading"]


def test_what_is_read_beside_it_changes_nothing(reranker: Reranker) -> None:
    hits = make_hits([CHAT[1], "word " * 50, *CHAT])
    together = reranker.rerank(QUESTION, hits, alone(hits), 10)
    marks = {hit.node.id: hit.why["reading"] for hit in together}
    (by_itself,) = reranker.rerank(QUESTION, hits[:1], alone(hits[:1]), 1)
    assert by_itself.why["reading"] == marks["n0"] == marks["n3"]


def test_nothing_found_is_nothing_read(reranker: Reranker) -> None:
    assert reranker.rerank(QUESTION, [], [], 10) == []


def test_a_long_node_and_a_long_question(reranker: Reranker) -> None:
    hits = make_hits(["long"])
    hits[0] = Hit(node=Node(id="n0", title="long", body="word " * 100_000), score=0.99)
    (best,) = reranker.rerank("why " * 10_000, hits, alone(hits), 1)
    assert best.score <= 1
    assert best.why["reading"] > 0


def test_a_passage_has_what_stands_beside_a_node() -> None:
    nodes = [Node(id=f"n{place}", title=f"{place} " + "x" * 150) for place in range(5)]
    before, own, after = make_passage(nodes[2], nodes[:2], nodes[3:]).split("\n")
    assert (len(before), own, after) == (AROUND, nodes[2].title, nodes[3].title[:AROUND])
    assert make_passage(nodes[0], [], []) == nodes[0].title


def test_ranks_are_fused_by_their_reciprocals() -> None:
    assert fuse([3, 2, 1], [1, 3, 2], [1, 3, 2]) == [1, 0, 2]
    assert fuse([3, 2, 1], [3, 2, 1], [1, 2, 3]) == [0, 1, 2]
    assert fuse([1, 1, 1], [1, 1, 1]) == [0, 1, 2]


def test_what_answers_comes_up_from_far_down_and_scores_stay_in_order(reranker: Reranker) -> None:
    hits = make_hits([CHAT[2]] * 12 + [ANSWER])
    best = reranker.rerank(QUESTION, hits, alone(hits), 10)
    assert "n12" in [hit.node.id for hit in best[:3]]
    scores = [hit.score for hit in best]
    assert scores == sorted(scores, reverse=True)
    many = make_hits([CHAT[2]] * (CANDIDATES + 2), 0.9)
    last = reranker.rerank(QUESTION, many, alone(many), CANDIDATES + 2)[CANDIDATES:]
    assert [("reading" in hit.why) for hit in last] == [False, False]


def test_several_ask_at_once(reranker: Reranker) -> None:
    hits = make_hits(CHAT)
    expected = reranker.rerank(QUESTION, hits, alone(hits), 4)
    results: list[list[Hit]] = []
    threads = [
        threading.Thread(target=lambda: results.append(reranker.rerank(QUESTION, hits, alone(hits), 4)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_files_that_are_missing_or_broken(tmp_path: Path) -> None:
    reranker = Reranker(tmp_path)
    hits = make_hits(CHAT)
    with pytest.raises(StartError, match=r"no .*reranker_en/tokenizer.json.*services.memory.model"):
        reranker.rerank(QUESTION, hits, alone(hits), 4)
    (tmp_path / "reranker_en").mkdir()
    for name in ("tokenizer.json", "model.onnx"):
        (tmp_path / "reranker_en" / name).write_bytes(b"{}")
    with pytest.raises(StartError, match=r"model reranker_en in .* is broken"):
        reranker.load()
    reranker.close()


async def test_a_deep_search_of_memory(tmp_path: Path, models: Path) -> None:
    memory = await MemoryEngine.open(Settings(state_dir=tmp_path / "state", model_dir=models))
    try:
        nodes = tuple(
            Node(
                id=f"n{place}",
                kind="episodic",
                title=text,
                source=Source(session="talk"),
                created_at=f"2026-03-01T00:00:0{place}+00:00",
            )
            for place, text in enumerate(CHAT)
        )
        entry = LoggedWrite(version=1, stored_at=1.8e9, write=MemoryWrite(nodes=nodes, insist=True))
        assert [answer.error for answer in (await memory.write([entry])).answers] == [""]
        fast = await memory.search(MemoryQuery(text=QUESTION, limit=2))
        deep = await memory.search(MemoryQuery(text=QUESTION, limit=2, deep=True))
        assert len(fast) == len(deep) == 2
        assert all("reading" in hit.why for hit in deep)
        assert not any("reading" in hit.why for hit in fast)
        assert "n1" in [hit.node.id for hit in deep]
    finally:
        await memory.close()
