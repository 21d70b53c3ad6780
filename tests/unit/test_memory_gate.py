"""The write gate: each check on both sides of its threshold, with the cosine given."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.memory.writes.gate import find_rejection
from shared.contracts import KINDS, Node, Rejection
from tests.support.memory import at, note

PORT = "The port of the broker is 4222"
JUST_OVER = 1e-6


def refused(node: Node, nearest: Node | None = None, cosine: float = 0.0) -> str:
    rejection = find_rejection(node, nearest, cosine)
    if rejection is None:
        return ""
    assert rejection.reason
    assert "insist" in rejection.suggestion
    return rejection.check


def test_a_plain_sentence_is_worth_remembering() -> None:
    for title in (
        PORT,
        "Alice lives in Rome",
        "We use Redis for caching",
        "ブローカーのポートは4222番です。よろしく",
    ):
        assert refused(note("a", title)) == ""


@pytest.mark.parametrize(
    ("title", "body", "check"),
    [
        ("ok", "", "thin"),
        ("Remember this", "", "thin"),  # two words
        ("test test test test test", "", "thin"),  # one word, five times
        ("Port is 4222", "", "thin"),  # twelve characters
        ("A b c d e f g.", "", "thin"),  # fourteen
        ("A b c d e f g h", "", ""),  # fifteen
        ("Broker port", "4222, since May", ""),
        ("Broker", "4222", "thin"),
        ("-------------------------", "", "thin"),
    ],
)
def test_too_little_is_thin(title: str, body: str, check: str) -> None:
    assert refused(note("a", title, body=body)) == check


@pytest.mark.parametrize(
    ("kind", "title", "check"),
    [
        ("agent", "scout", ""),
        ("episodic", "Yes!", ""),
        ("turn", "ok", ""),
        ("turn", "?!", "thin"),
        ("event", "Check-up done", ""),
        ("event", "Done", "thin"),
        ("task", "Fix login", ""),
        ("task", "Login", "thin"),
        ("preference", "Dark mode", "thin"),
        ("recipe", "Apple pie", "thin"),
    ],
)
def test_what_took_place_may_be_said_in_fewer_words(kind: str, title: str, check: str) -> None:
    assert refused(note("a", title, kind=kind)) == check


FIFTY, HUNDRED = (
    "The key must never be logged, it opens all the doors",
    "No key must ever be logged" + ", for it opens doors" * 4,
)


@pytest.mark.parametrize(
    ("importance", "fields", "check"),
    [
        (0.69, {"title": PORT}, ""),
        (0.7, {"title": PORT}, "importance"),
        (0.7, {"title": PORT, "tags": ("net",)}, ""),
        (0.7, {"title": PORT, "body": "Since May."}, ""),
        (0.8, {"title": PORT, "tags": ("net",)}, "importance"),
        (0.8, {"title": "x y " + "z" * 45, "tags": ("net",)}, "importance"),  # 49 characters
        (0.8, {"title": "x y " + "z" * 46, "tags": ("net",)}, ""),
        (0.9, {"title": "x y " + "z" * 95, "tags": ("net",)}, "importance"),  # 99
        (0.9, {"title": "x y " + "z" * 96, "tags": ("net",)}, ""),
        (1.0, {"title": "x y " + "z" * 96}, "importance"),
        (0.79, {"title": PORT, "tags": ("net",)}, ""),
    ],
)
def test_what_is_important_says_why(importance: float, fields: dict[str, Any], check: str) -> None:
    assert refused(note("a", importance=importance, **fields)) == check


@pytest.mark.parametrize("kind", ["agent", "task", "event", "episodic", "turn"])
def test_who_and_what_took_place_may_be_important_in_few_words(kind: str) -> None:
    assert refused(note("a", "Release 1.0 was shipped", kind=kind, importance=1.0)) == ""


def test_what_is_there_already_is_refused_with_where() -> None:
    there = note("there", PORT)
    rejection = find_rejection(note("a", "The broker listens on port 4222"), there, 0.93)
    assert isinstance(rejection, Rejection)
    assert (rejection.check, rejection.existing) == ("known", there)
    assert "there" in rejection.reason
    assert "mailroom memory get there" in rejection.suggestion


@pytest.mark.parametrize(
    ("kind", "cosine", "check"),
    [
        ("fact", 0.85, ""),
        ("fact", 0.85 + JUST_OVER, "known"),
        ("observation", 0.92, ""),
        ("observation", 0.92 + JUST_OVER, "known"),
    ],
)
def test_how_near_is_known_depends_on_the_kind(kind: str, cosine: float, check: str) -> None:
    assert (
        refused(note("a", "The broker listens on port 4222", kind=kind), note("there", PORT), cosine) == check
    )


@pytest.mark.parametrize(
    "title",
    [
        "The port of the broker is 4333",
        "The port of the broker is not 4222",
        "The port of the broker Atlas is 4222",
        "The owner of the broker is 4222",
    ],
)
def test_other_numbers_names_negation_and_words_are_news(title: str) -> None:
    assert refused(note("a", title), note("there", PORT), 0.999) == ""


def test_the_nearer_it_is_the_more_words_may_be_new() -> None:
    there = note("there", "Mailroom keeps its memory in LanceDB")
    new = note("a", "Mailroom keeps its memory in LanceDB on disk")  # one word of four
    assert refused(new, there, 0.95) == "known"
    assert refused(new, there, 0.9) == ""
    assert refused(note("a", "Mailroom keeps its memory in LanceDB tables on disk"), there, 0.95) == ""


@pytest.mark.parametrize("kind", ["agent", "task", "event", "episodic", "turn"])
def test_two_events_are_two(kind: str) -> None:
    assert refused(note("a", PORT, kind=kind), note("there", PORT, kind=kind), 1.0) == ""
    assert refused(note("a", PORT), note("there", PORT, kind=kind), 1.0) == ""  # a fact drawn from a talk


def test_a_node_may_be_written_again_and_what_ended_may_be_said_again() -> None:
    assert refused(note("there", PORT), note("there", PORT), 1.0) == ""
    assert refused(note("a", PORT), note("there", PORT, valid_to=at(5)), 1.0) == ""


nodes = st.builds(
    lambda title, body, kind, importance: Node(title=title, body=body, kind=kind, importance=importance),
    st.text(min_size=1, max_size=256).filter(lambda text: bool(text.strip())),
    st.text(max_size=300),
    st.sampled_from((*KINDS, "recipe")),
    st.floats(0, 1),
)


@given(nodes, st.none() | nodes, st.floats(-1, 1))
def test_any_node_gets_a_verdict(node: Node, nearest: Node | None, cosine: float) -> None:
    assert refused(node, nearest, cosine) in {"", "thin", "importance", "known"}
