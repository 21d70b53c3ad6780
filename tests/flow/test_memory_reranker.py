"""The cross-encoder with the real model: what is read, and what goes without files."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.memory.retrieval.deep_search import Reranker
from shared.errors import StartError
from tests.support.once import find_models

QUESTION = "Where did Ada spend her holiday?"
ANSWER = "Ada spent her holiday in a cabin by the lake"
OTHERS = ("Ben: The printer in the hall is out of paper", "Ada: Holiday pay is a question for the office")


@pytest.fixture(scope="module")
def reranker() -> Iterator[Reranker]:
    loaded = Reranker(find_models())
    yield loaded
    loaded.close()


def test_an_answer_is_told_from_what_shares_its_words(reranker: Reranker) -> None:
    printer, pay, answer = reranker.read(QUESTION, [*OTHERS, ANSWER])
    assert answer > pay + 2 > printer


def test_what_is_read_beside_it_changes_nothing(reranker: Reranker) -> None:
    together = reranker.read(QUESTION, [ANSWER, "word " * 50, *OTHERS])
    assert reranker.read(QUESTION, [ANSWER]) == together[:1]
    assert reranker.read(QUESTION, []) == []


def test_a_long_text_and_a_long_question(reranker: Reranker) -> None:
    (mark,) = reranker.read("why " * 10_000, ["word " * 100_000])
    assert -12 < mark < 12


def test_several_ask_at_once(reranker: Reranker) -> None:
    expected = reranker.read(QUESTION, OTHERS)
    results: list[list[float]] = []
    threads = [
        threading.Thread(target=lambda: results.append(reranker.read(QUESTION, OTHERS))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_files_that_are_missing_or_broken(tmp_path: Path) -> None:
    reranker = Reranker(tmp_path)
    with pytest.raises(StartError, match=r"no .*reranker_en/tokenizer.json.*services.memory.local_model"):
        reranker.read(QUESTION, OTHERS)
    (tmp_path / "reranker_en").mkdir()
    for name in ("tokenizer.json", "model.onnx"):
        (tmp_path / "reranker_en" / name).write_bytes(b"{}")
    with pytest.raises(StartError, match=r"model reranker_en in .* is broken"):
        reranker.read(QUESTION, OTHERS)
    reranker.close()
