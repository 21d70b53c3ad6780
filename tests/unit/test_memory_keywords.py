"""Keyword search: what counts as a word, and how much of a query a text covers."""

import numpy as np
import pytest

from services.memory.keywords import Keywords, count_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Cats, the CLASS!", {"the": 2, "cat": 1, "class": 1}),
        ("graph_version", {"graph_version": 1, "graph": 1, "version": 1}),
        ("Straße 42", {"strasse": 1, "42": 1}),
        ("", {}),
        ("__", {"__": 1}),
    ],
)
def test_words(text: str, words: dict[str, int]) -> None:
    assert count_words(text) == words


def test_a_word_of_a_million_letters_is_cut() -> None:
    assert [len(word) for word in count_words("x" * 1_000_000)] == [64]


def index(*texts: str) -> Keywords:
    keywords = Keywords()
    for text in texts:
        keywords.add(text)
    return keywords


def score(keywords: Keywords, query: str, *live: bool) -> list[float]:
    return [float(value) for value in keywords.score(query, np.array(live))]


def test_the_text_with_the_rare_word_comes_first() -> None:
    keywords = index("the broker restarts", "the broker stops", "the broker of mail has ERR_4242")
    scores = score(keywords, "broker ERR_4242", True, True, True)
    assert scores[2] > 2 * scores[0] > 0


def test_scores_stay_between_zero_and_one_and_grow_with_coverage() -> None:
    keywords = index("lease", "lease " * 1000, "lease renewal", "something else")
    one, many, both, none = score(keywords, "lease renewal", True, True, True, True)
    assert none == 0 < one < many < both <= 1


def test_a_word_that_is_nowhere_lowers_all_scores() -> None:
    keywords = index("lease", "mail")
    assert score(keywords, "lease zebra", True, True)[0] < score(keywords, "lease", True, True)[0]


def test_stop_words_count_only_when_there_is_nothing_else() -> None:
    keywords = index("what is this", "the lease")
    assert score(keywords, "what is the lease", True, True)[0] == 0
    assert score(keywords, "what is this", True, True)[0] > 0


def test_dead_slots_do_not_make_a_word_common() -> None:
    keywords = index("lease", "lease", "lease", "mail")
    assert (
        score(keywords, "lease", True, False, False, True)[0]
        > score(keywords, "lease", True, True, True, True)[0]
    )


def test_an_empty_index_answers() -> None:
    assert score(Keywords(), "anything") == []
