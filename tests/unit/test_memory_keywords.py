"""Words: what counts as one, where each stands, and that it is kept and found again."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.memory.retrieval import keywords as module
from services.memory.retrieval.keywords import (
    K1,
    MANY,
    B,
    Keywords,
    encode,
    plain_words,
    query_words,
    split_words,
)
from services.memory.retrieval.node_index import NodeIndex
from services.memory.retrieval.postings import Codes
from services.memory.retrieval.search import RARITY, Search, SearchState
from services.memory.retrieval.view import View
from services.memory.storage.tables import write_nodes
from shared.contracts import MemoryQuery, Node
from tests.support.memory import NOW, make_tables, note, put, search_ids, vector


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Cats, the CLASS!", {"the": 2, "cat": 1, "class": 1}),
        ("running runs run", {"run": 3}),
        ("graph_version", {"graph_vers": 1, "graph": 1, "version": 1}),
        ("Straße 42nds", {"strass": 1, "42nds": 1}),
        ("", {}),
        ("__", {"__": 1}),
    ],
)
def test_words(text: str, words: dict[str, int]) -> None:
    assert Counter(split_words(text)) == words


def test_a_word_of_a_million_letters_is_cut() -> None:
    assert [len(word) for word in split_words("x" * 1_000_000)] == [64]


def test_stop_words_count_only_when_there_is_nothing_else() -> None:
    assert query_words("What is the lease?") == {"leas"}
    assert query_words("what is this") == {"what", "be", "this"}


def test_irregular_forms_are_those_of_their_word() -> None:
    assert query_words("Which shoes did the children buy?") == query_words("shoes bought child")
    assert split_words("she GAVE and has given feet") == split_words("she give and have give foot")
    lengths, _ = encode(["went gone"] * 40, terms := Codes())
    assert (lengths == 2).all()
    assert list(terms) == ["go"]
    assert plain_words("What is Caroline's LEASE?") == {"caroline", "lease"}


def places(keywords: Keywords, word: str, before: int = 1000) -> dict[int, int]:
    slots, counts = keywords.find(word, before)
    assert len(set(slots.tolist())) == len(slots)
    return dict(zip(slots.tolist(), counts.tolist(), strict=True))


TEXTS = ["the broker restarts", "mail", "broker broker " + "lease " * 400, "a lease of mail"]


@pytest.mark.parametrize("split", [0, 1, 3, 4])
def test_words_are_found_however_they_came_in(split: int) -> None:
    keywords = Keywords.build(TEXTS[:split])
    keywords.extend(TEXTS[split:])
    assert places(keywords, "broker") == {0: 1, 2: 2}
    assert places(keywords, "leas") == {2: 255, 3: 1}
    assert places(keywords, "leas", before=3) == ({2: 255} if split < 4 else {2: 255, 3: 1})
    assert places(keywords, "zebra") == {}
    assert keywords.lengths(4).tolist() == [3, 1, 402, 4]


@pytest.mark.parametrize("split", [0, 2, 4])
def test_slots_are_numbered_anew(split: int) -> None:
    keywords = Keywords.build(TEXTS[:split])
    keywords.extend(TEXTS[split:])
    stored = keywords.store(np.array([-1, 0, 2, 1], np.int32))
    again = Keywords(stored, np.array([1, 4, 402], np.float32))
    assert places(again, "broker") == {2: 2}
    assert places(again, "mail") == {0: 1, 1: 1}
    assert "restart" not in stored.terms
    again.extend(["the broker restarts"])
    assert places(again, "restart") == {3: 1}
    assert places(again, "broker") == {2: 2, 3: 1}


def index(*nodes: Node) -> NodeIndex:
    return NodeIndex(write_nodes(nodes))


FOUR = tuple(note(f"n{i}", text[:250], body=text, tags=("x",)) for i, text in enumerate(TEXTS))


def keep(folder: Path, *nodes: Node) -> None:
    first = index(*nodes)
    module.save_keywords(folder, first, Keywords.build(first.texts()))


def same(one: Keywords, other: Keywords, count: int) -> bool:
    words = {word for text in TEXTS for word in split_words(text)} | {"zebra", "liam", "x"}
    return one.lengths(count).tolist() == other.lengths(count).tolist() and all(
        places(one, word) == places(other, word) for word in words
    )


def test_what_is_kept_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path, *FOUR)
    loaded = index(*FOUR)
    fresh = Keywords.build(loaded.texts())
    monkeypatch.setattr(NodeIndex, "text", None)  # nothing is read again
    kept = module.load_keywords(tmp_path, loaded)
    assert kept is not None
    monkeypatch.undo()
    assert same(kept[0], fresh, 4)
    assert kept[1] == 0


@pytest.mark.parametrize(
    "nodes",
    [
        (FOUR[2], FOUR[0], FOUR[3], FOUR[1]),
        (*FOUR, note("new", "a zebra of the broker")),
        (note("new", "a zebra of the broker"), *FOUR),
        (FOUR[0], FOUR[1], FOUR[3]),
        (FOUR[0], note("n1", "another lease", version=2), FOUR[2], FOUR[3]),
        (FOUR[0], note("n1", "of the same version, and longer"), FOUR[2], FOUR[3]),
        (FOUR[0], note("n1", "liam", body="liam", tags=("x",), version=2), FOUR[2], FOUR[3]),
    ],
)
def test_what_changed_since_is_read_anew(tmp_path: Path, nodes: tuple[Node, ...]) -> None:
    keep(tmp_path, *FOUR)
    loaded = index(*nodes)
    kept = module.load_keywords(tmp_path, loaded)
    assert kept is not None
    assert same(kept[0], Keywords.build(loaded.texts()), len(nodes))
    assert kept[1] == sum(entry not in FOUR for entry in nodes)


def test_what_was_put_since_the_start_is_kept_too(tmp_path: Path) -> None:
    view = View.build(make_tables([(entry, None) for entry in FOUR[:2]]))
    put(view, *FOUR[2:])
    put(view, note("n0", "a zebra now", version=3))
    assert view.unsaved == 5
    view.save(tmp_path)
    entries = [(entry, None) for entry in (*FOUR[1:], note("n0", "a zebra now", version=3))]
    again = View.build(make_tables(entries), tmp_path)
    assert view.unsaved == again.unsaved == 0
    for text in ("zebra", "lease of mail", "broker", "restarts"):
        query = MemoryQuery(text=text)
        assert again.search(query, vector(1), NOW) == view.search(query, vector(1), NOW)
    assert search_ids(again, "zebra") == ["n0"]


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "flipped", "text", "foreign", "misfit"])
def test_a_damaged_or_foreign_file_means_reading_anew(tmp_path: Path, damage: str) -> None:
    keep(tmp_path, *FOUR)
    spoil(tmp_path / module.FILE, damage)
    assert module.load_keywords(tmp_path, index(*FOUR)) is None
    view = View.build(make_tables([(entry, None) for entry in FOUR]), tmp_path)
    assert search_ids(view, "restarts") == ["n0"]


def spoil(path: Path, damage: str) -> None:
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage in ("foreign", "misfit"):
        with np.load(path) as file:
            kept: dict[str, Any] = dict(file)
        kept["made_by" if damage == "foreign" else "lengths"] = np.zeros(3, np.uint8)
        np.savez(path, **kept)
    else:
        middle = content.index(b"lease"[:4])
        flipped = content[:middle] + b"X" + content[middle + 1 :]
        path.write_bytes({"empty": b"", "cut": content[:-100], "flipped": flipped, "text": b"hello"}[damage])


def test_a_file_of_other_nodes_is_left_alone(tmp_path: Path) -> None:
    keep(tmp_path, *FOUR)
    others = [note(f"m{i}", "other texts") for i in range(4)]
    assert module.load_keywords(tmp_path, index(*others, FOUR[0])) is None
    assert module.load_keywords(tmp_path, index()) is not None


def test_an_empty_memory_is_kept_too(tmp_path: Path) -> None:
    keep(tmp_path)
    assert module.load_keywords(tmp_path, index()) is not None


def test_counts_by_slot_are_those_that_were_found_whatever_came_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FEW", 1)
    keywords = Keywords.build(["red red blue", "blue", "red"])

    def spread(before: int) -> list[int]:
        matches = keywords.match("red", before)
        assert matches.spread is not None
        assert matches.number == np.count_nonzero(matches.spread)
        return list(matches.spread)

    assert spread(3) == [2, 0, 1]
    keywords.extend(["red", "blue", *["red red red"] * 2_000])
    assert spread(4) == [2, 0, 1, 1]
    assert spread(2_005) == [2, 0, 1, 1, 0, *[3] * 2_000]
    assert spread(3) == [2, 0, 1]


def test_the_best_by_words_are_those_of_all_texts_be_the_words_rare_or_frequent() -> None:
    random = np.random.default_rng(4)
    names = np.array([f"w{number}x" for number in range(400)])
    chances = 1 / np.arange(1, 401)
    texts = [" ".join(random.choice(names, 12, p=chances / chances.sum())) for _ in range(4_000)]
    keywords, live = Keywords.build(texts), random.random(4_000) < 0.9
    search = Search(SearchState(None, keywords, None, {}, {}), live)  # type: ignore[arg-type]
    for text in ("w0x w1x w3x w90x w200x", "w0x w2x", "w350x w0x w1x", "w300x"):
        words = search.weigh(text)
        every = search.find_by_words(words, live, 4_000)
        scores = _score_words(keywords, live, text)
        assert set(every.tolist()) == set(np.flatnonzero((scores > 0) & live).tolist())
        best = search.find_by_words(words, live, 50)
        expected = np.sort(scores[live])[-50:]
        assert np.sort(scores[best]) == pytest.approx(expected[expected > 0], rel=1e-5)


def _score_words(keywords: Keywords, live: np.ndarray, text: str) -> np.ndarray:
    lengths, scores = keywords.lengths(len(live)), np.zeros(len(live))
    for word in query_words(text):
        slots, counts = keywords.find(word, len(live))
        frequency = np.count_nonzero(live[slots])
        weight = np.log(1 + (np.count_nonzero(live) - frequency + 0.5) / (frequency + 0.5)) ** RARITY
        scores[slots] += weight * counts / (counts + K1 * (1 - B + B * lengths[slots] / lengths.mean()))
    return scores


@given(st.lists(st.text(st.characters(max_codepoint=127), max_size=30), min_size=MANY, max_size=MANY + 3))
def test_many_texts_at_once_have_the_words_that_each_has(texts: list[str]) -> None:
    terms = Codes()
    lengths, codes = encode([*texts, "snake_case_words run _a_ 42"], terms)
    names = list(terms)
    ends = np.cumsum(lengths)
    found = [
        [names[code] for code in codes[end - length : end]] for end, length in zip(ends, lengths, strict=True)
    ]
    assert found == [split_words(text) for text in [*texts, "snake_case_words run _a_ 42"]]
