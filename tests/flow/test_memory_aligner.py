"""Words of a question and what passages say instead, with the real model."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from services.memory.retrieval.deep_search import MAX_TOKENS, Aligner, _KeptVectors
from shared.errors import StartError
from tests.support.once import find_models


@pytest.fixture(scope="module")
def aligner() -> Iterator[Aligner]:
    loaded = Aligner(find_models())
    yield loaded
    loaded.close()


def test_a_passage_comes_near_to_a_word_that_it_has_and_to_one_of_the_same_meaning(aligner: Aligner) -> None:
    said = ("The wifi password is tulip.", "The wifi chip is new.", "Ethanol is ordered from Brenner.")
    password, chip, _ = aligner.align("What is the wifi password?", said)
    assert list(password) == ["what", "is", "the", "wifi", "password"]
    assert min(password["wifi"], chip["wifi"], password["password"]) > 0.9
    assert chip["password"] < 0.7
    *others, ethanol = aligner.align("From whom do we buy our Alcohol?", said)
    assert all(ethanol["alcohol"] > other["alcohol"] + 0.1 for other in others)


def test_each_text_is_read_by_itself_and_none_is_no_passage(aligner: Aligner) -> None:
    question, passages = "Who opens?", ["Ada opens.", "", "At nine o'clock, " * 200]
    assert aligner.align(question, passages)[0] == aligner.align(question, passages[:1])[0]
    assert aligner.align(question, []) == []
    assert aligner.align("", passages[:1]) == [{}]


def test_tokens_are_compared_as_words_are_and_the_same_again(aligner: Aligner) -> None:
    question, texts = "What is the wifi password?", ["The wifi password is tulip.", "The chip is new!", ""]
    words, cold = aligner.compare_tokens(question, texts)
    assert words == ["", "", "what", "is", "the", "wifi", "wifi", "password", "?", ""]
    assert (aligner.compare_tokens(question, texts[::-1]).cosines[::-1] == cold).all()
    place = words.index("password")
    assert cold[0, place] == pytest.approx(aligner.align(question, texts)[0]["password"], abs=0.005)
    assert cold[0, place] > cold[1, place] + 0.1
    assert aligner.compare_tokens(question, []).cosines.shape == (0, len(words))


def test_what_is_kept_of_texts_is_bounded(aligner: Aligner) -> None:
    aligner.compare_tokens("Where?", [long := "vacation " * 20_000])
    assert len(aligner._read_text(b"key", long)) <= MAX_TOKENS + 1
    kept = _KeptVectors(250)
    for key in (b"a", b"b", b"a", b"c"):
        kept.put(key, np.ones((1, 100), np.int8))
        assert kept.find([key])
    assert sorted(kept.find([b"a", b"b", b"c"])) == [b"a", b"c"]
    kept.clear()
    assert not kept.find([b"a"])


def test_texts_that_are_read_for_the_first_time_are_counted_meanwhile(aligner: Aligner) -> None:
    texts = [f"Shelf {number} holds boxes of toner." for number in range(60)]
    with ThreadPoolExecutor(1) as pool:
        for wanted in (60, 0):  # the second time all are known
            seen: list[tuple[int, int]] = []
            comparing = pool.submit(aligner.compare_tokens, "Which shelf?", texts)
            while not comparing.done():
                time.sleep(0.001)
                seen.append((aligner.progress.read, aligner.progress.wanted))
            assert max(each for _, each in seen) == wanted
            assert len(set(seen)) > wanted / 4
            assert (aligner.progress.read, aligner.progress.wanted) == (0, 0)


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"services.memory.local_model"):
        Aligner(tmp_path).align("Who?", ["Ada."])
