"""Searching a view: what is found, in which order, and that looking at a part of memory finds the same."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.memory.retrieval import keywords, ranking, search, vectors
from services.memory.retrieval.view import View
from shared.contracts import Edge, MemoryQuery, Source
from tests.support.memory import DIMENSIONS, NOW, Stated, make_view, note, put, search_ids, vector

THREE: tuple[Stated, ...] = (
    (
        note("a", "apples", kind="fact", tags=("fruit", "red"), source=Source(agent="scout", session="s")),
        vector(1),
    ),
    (note("b", "pears", kind="goal", tags=("fruit",), source=Source(agent="nexus")), vector(0, 1)),
    (
        note(
            "c",
            "apples again, in more words than before",
            kind="goal",
            created_at="2026-06-01T00:00:00+02:00",
        ),
        vector(1, 0.1),
    ),
)


def test_the_parts_add_up_to_the_score() -> None:
    hit = make_view(*THREE).search(MemoryQuery(text="apples"), vector(1), NOW)[0]
    assert hit.node.id == "a"
    assert hit.why["vector"] == pytest.approx(0.4)
    assert 0 < hit.why["keyword"] < 0.6
    assert hit.score == pytest.approx(sum(hit.why.values()), abs=2e-4)


def test_a_node_is_found_by_meaning_alone_and_by_words_alone() -> None:
    view = make_view(*THREE)
    assert search_ids(view, "zebra", vector(0, 1)) == ["b"]
    assert search_ids(view, "pears") == ["b"]
    assert search_ids(view, "zebra") == []


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, {"a", "c"}),
        ({"kinds": ("fact",)}, {"a"}),
        ({"kinds": ("fact", "goal")}, {"a", "c"}),
        ({"kinds": ("unheard-of",)}, set()),
        ({"tags": ("fruit",)}, {"a"}),
        ({"tags": ("fruit", "red")}, {"a"}),
        ({"tags": ("red", "unheard-of")}, set()),
        ({"tags": ("Red",)}, set()),
        ({"agent": "scout"}, {"a"}),
        ({"agent": "nexus"}, set()),
        ({"session": "s"}, {"a"}),
        ({"session": "scout"}, set()),
        ({"since": "2026-05-31T22:00:00"}, {"c"}),
        ({"since": "2026-05-31T22:00:01"}, set()),
        ({"until": "2026-05-31T22:00:00Z"}, {"a", "c"}),
        ({"until": "2026-05-31T21:59:59Z"}, {"a"}),
        ({"limit": 1}, {"a"}),
    ],
)
@pytest.mark.parametrize("few", [0, search.FEW])
def test_filters(filters: dict[str, Any], found: set[str], few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FEW", few)
    assert set(search_ids(make_view(*THREE), "apples", **filters)) == found


def test_of_equal_scores_the_later_written_comes_first() -> None:
    entries = [(note(f"n{i}", "same words", version=(7 * i) % 30), vector(1)) for i in range(30)]
    latest = sorted(range(30), key=lambda i: -((7 * i) % 30))[:3]
    assert search_ids(make_view(*entries), "same words", limit=3) == [f"n{i}" for i in latest]


def test_a_filter_that_admits_few_of_many_still_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    view, _ = many(monkeypatch)
    put(view, note("hidden", "nothing like it", kind="rare"), vectors={"hidden": vector(*[0] * 50, 1)})
    assert search_ids(view, "apples", vector(*[0] * 50, 1, 0.9), kinds=("rare",)) == ["hidden"]


@pytest.mark.parametrize("text", ["word3 word4", "word40", "unheard of", "word1 name7"])
def test_looking_at_a_part_finds_what_looking_at_all_finds(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, directions = many(monkeypatch)
    queries = [(MemoryQuery(text=text), directions[i] + 0.3 * directions[i + 1]) for i in range(0, 300, 30)]
    part = [view.search(query, unit(wanted), NOW)[:5] for query, wanted in queries]
    assert view.dimensions == DIMENSIONS
    monkeypatch.setattr(search, "FEW", 10**9)
    whole = [view.search(query, unit(wanted), NOW)[:5] for query, wanted in queries]
    same = sum(
        {hit.node.id for hit in some} == {hit.node.id for hit in every}
        for some, every in zip(part, whole, strict=True)
    )
    assert same >= len(queries) - 1
    assert [hits[0] for hits in part] == [hits[0] for hits in whole]


def test_neighbours_of_an_anchor_surface_though_no_word_or_vector_finds_them() -> None:
    edges = [Edge(from_id="x", to_id="y"), Edge(from_id="y", to_id="z")]
    entries = [(note(name, f"title {name}"), None) for name in "xyzo"]
    view = make_view(*entries, edges=edges)
    assert search_ids(view, "zebra") == []
    hits = view.search(MemoryQuery(text="zebra", anchors=("x", "unknown")), vector(1), NOW)
    assert {hit.node.id: hit.why for hit in hits} == {
        "x": {"graph": 0.1},
        "y": {"graph": 0.1},
        "z": {"graph": 0.05},
    }


def test_anchors_surface_among_many_and_filters_hold_for_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    view, directions = many(monkeypatch)
    edges = [Edge(from_id="n0", to_id="silent")]
    put(view, note("silent", "xyzzy", kind="goal"), vectors={}, edges=edges)
    hits = view.search(MemoryQuery(text="qqq", anchors=("n0",), limit=100), directions[500], NOW)
    assert "silent" in [hit.node.id for hit in hits]
    hits = view.search(MemoryQuery(text="qqq", anchors=("n0",), kinds=("fact",)), directions[500], NOW)
    assert "silent" not in [hit.node.id for hit in hits]


def test_those_that_filters_leave_are_the_nearest_to_the_anchors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "NEAR", 1)
    edges = [Edge(from_id="x", to_id="y"), Edge(from_id="y", to_id="z")]
    view = make_view(*[(note(name, f"title {name}", kind=f"k{name}"), None) for name in "xyz"], edges=edges)
    assert search_ids(view, "zebra", anchors=("x",), kinds=("ky", "kz"), limit=1) == ["y"]
    monkeypatch.setattr(search, "FEW", 0)
    assert search_ids(view, "zebra", anchors=("x",), kinds=("ky", "kz")) == ["y"]


def test_a_retired_neighbour_of_an_anchor_does_not_surface() -> None:
    view = make_view(
        *[(note(name, f"title {name}"), None) for name in "xy"], edges=[Edge(from_id="x", to_id="y")]
    )
    put(view, note("y", "title y", retired_version=2, version=2))
    assert search_ids(view, "zebra", anchors=("x",)) == ["x"]


def test_what_stands_beside_a_match_in_its_session_is_lifted() -> None:
    entries = [
        (
            note(
                f"t{i}",
                "the lease ran out" if i == 2 else f"thought {i}",
                source=Source(session="s" if i < 5 else "other"),
                created_at=f"2026-03-01T00:0{i}:00+00:00",
            ),
            None,
        )
        for i in range(8)
    ]
    assert search_ids(make_view(*entries), "lease") == ["t2", "t3", "t1", "t4", "t0"]


def test_names_and_dates_in_a_question_count() -> None:
    view = make_view(
        (note("a", "went hiking", tags=("Caroline",), created_at="2026-01-05T00:00:00+00:00"), None),
        (note("b", "went hiking", source=Source(agent="melanie"), version=2), None),
        (note("c", "went hiking", version=3), None),
    )
    assert search_ids(view, "What about Caroline's hiking?")[0] == "a"
    assert search_ids(view, "When did Melanie go hiking?")[0] == "b"
    assert search_ids(view, "hiking in January 2026")[0] == "a"


def speak(turns: str, session: str) -> list[Stated]:
    """Nodes of a session, one for each of the names or "-" for nobody."""
    return [
        (
            note(
                f"{session}{place}",
                "went hiking",
                tags=(name,) if name != "-" else (),
                source=Source(session=session),
                created_at=f"2026-01-05T00:00:{place:02}+00:00",
            ),
            None,
        )
        for place, name in enumerate(turns.split())
    ]


def test_a_name_counts_more_where_two_alone_speak() -> None:
    entries = [
        *speak("ana bo ana", "two"),
        *speak("ana bo cem ana", "three"),
        *speak("ana ana ana", "one"),
        *speak("ana bo -", "headed"),
    ]
    view = make_view(*entries)
    put(view, *(node for node, _ in speak("xu yara xu", "later")))
    put(view, *(node for node, _ in speak("xu yara zoe", "group")))

    def parts(name: str) -> dict[str, float]:
        hits = view.search(MemoryQuery(text=f"did {name} go hiking?", limit=50), vector(1), NOW)
        return {hit.node.id: hit.why["name"] for hit in hits if "name" in hit.why}

    told = parts("ana")
    assert {told.pop(each) for each in ("two0", "two2", "headed0")} == {ranking.BETWEEN_TWO}
    assert set(told.values()) == {ranking.NAME}
    assert parts("yara") == {"later1": ranking.BETWEEN_TWO, "group1": ranking.NAME}


def test_what_was_put_is_found_by_the_next_search_while_others_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By words that are frequent and rare, and by meaning; also when the words were saved in between."""
    monkeypatch.setattr(keywords, "FEW", 10)
    view, directions = many(monkeypatch, 300)
    monkeypatch.setattr(search, "LONG", 0)
    stop, failures = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            try:
                assert len(search_ids(view, "word1 word2", unit(directions[0]))) == 10
            except Exception as error:
                failures.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for number in range(90):
            meant = vector(*[0] * (number + 1), 1)
            put(view, note(f"x{number}", f"word1 only{number}", kind="event"), vectors={f"x{number}": meant})
            assert search_ids(view, f"only{number}", vector(*[0] * 300, 1), limit=1) == [f"x{number}"]
            assert search_ids(view, "unheard", meant, limit=1) == [f"x{number}"]
            assert len(search_ids(view, "word1", kinds=("event",), limit=100)) == number + 1
            if number % 40 == 20:
                view.save(tmp_path)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not failures


def test_an_empty_view_answers() -> None:
    view = make_view()
    assert search_ids(view, "anything", anchors=("x",)) == []
    assert view.similar(vector(1), 5) == []


def unit(values: vectors.Vectors) -> vectors.Vectors:
    return values / np.float32(np.linalg.norm(values))


def many(monkeypatch: pytest.MonkeyPatch, count: int = 1_500) -> tuple[View, vectors.Vectors]:
    """A view so large, for bounds so low, that a search looks at a part of it."""
    monkeypatch.setattr(search, "FEW", 100)
    monkeypatch.setattr(search, "BEST", 100)
    monkeypatch.setattr(vectors, "LEAST_TRIED", 300)
    random = np.random.default_rng(4)
    directions = random.normal(size=(count, DIMENSIONS)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    words = random.zipf(1.4, size=(count, 8)) % 97
    entries = [
        (
            note(
                f"n{i}",
                " ".join(f"word{word}" for word in words[i]),
                version=i + 1,
                tags=(f"name{i % 9}",),
                source=Source(session=f"s{i // 10}"),
            ),
            directions[i],
        )
        for i in range(count)
    ]
    return make_view(*entries), directions


def test_what_lies_in_the_session_of_a_better_hit_is_lifted() -> None:
    said = {0: ("the lease ran out", "s"), 5: ("a lease", "s"), 6: ("a lease", "z"), 7: ("no more", "z")}
    entries = [
        (
            note(
                f"t{i}",
                said.get(i, (f"thought {i}", "s"))[0],
                source=Source(session=said.get(i, ("", "s"))[1]),
                created_at=f"2026-03-01T00:0{i}:00+00:00",
            ),
            None,
        )
        for i in range(8)
    ]
    hits = make_view(*entries).search(MemoryQuery(text="when did the lease run out"), vector(1), NOW)
    lifts = {hit.node.id: hit.why.get("session", 0.0) for hit in hits}
    assert lifts["t5"] > 0
    assert lifts["t0"] == 0  # the best of its session
    assert lifts["t6"] == 0  # so is this
