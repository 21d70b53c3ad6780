"""What frontier decides about what it found: interests, relevance, citations, what is known already."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from services.frontier.brief import Claim, Synthesis, check_citations, find_unsourced
from services.frontier.relevance import (
    choose_interests,
    merge_interests,
    relevance_of_cosine,
    score_of,
    shorten_topic,
)
from services.frontier.selection import item_key
from services.frontier.sources import AnswerCache, join_problems
from shared.contracts import Node

PAPER = {"title": "Attention", "arxiv_id": "1706.03762v7"}
ITEM = {"title": "News", "link": "https://news.example/graph?utm_source=rss"}
SOURCES: dict[int, dict[str, Any]] = {1: PAPER, 2: ITEM}


def node(title: str, kind: str = "preference", **more: Any) -> Node:
    return Node(kind=kind, title=title, **more)


def test_hosts_that_fail_for_one_reason_are_named_together_and_once() -> None:
    gone = "there is no host of that name"
    problems = [
        f"export.arxiv.org could not be reached: {gone}. Not looked up: graphs, agents",
        f"hnrss.org could not be reached: {gone}",
        f"export.arxiv.org could not be reached: {gone}",
        "news.example could not be reached: nothing listens there",
        "The feed http://x.example is neither RSS nor Atom",
    ]
    assert join_problems(problems) == (
        f"export.arxiv.org and hnrss.org could not be reached: {gone}; "
        "news.example could not be reached: nothing listens there; "
        "The feed http://x.example is neither RSS nor Atom"
    )


def test_interests_are_read_from_what_memory_holds() -> None:
    nodes = [
        node("Ann is interested in graph memory for agents. She said so twice.", importance=0.6),
        node("Bob prefers dark mode"),
        node("World models", kind="goal", tags=("Interest",), importance=0.9),
        node("The team follows federated learning, but not its politics"),
        node("Keep up with sparse attention", tags=("interest",), importance=0.1),
        node("Ship the release on Friday", kind="goal"),
        node("We are interested in a new office", kind="decision"),
        node("Interested in tea", valid_to="2026-01-01T00:00:00+00:00"),
        node("graph memory for AGENTS", tags=("interest",), importance=0.2),
    ]
    assert choose_interests(nodes, 10) == (
        "World models",
        "graph memory for agents",
        "federated learning",
        "sparse attention",
    )
    assert choose_interests(nodes, 1) == ("World models",)


def test_topics_are_short_and_hold_a_word() -> None:
    assert shorten_topic("one two three four five six seven eight") == "one two three four five six"
    assert shorten_topic('the "world models" of it') == "the world models of it"
    assert shorten_topic("of the ?") == ""


def test_interests_of_the_profile_come_first_and_nothing_twice() -> None:
    assert merge_interests(("Graphs", "RAG"), ("rag", "tea")) == ("Graphs", "RAG", "tea")
    assert merge_interests((), ()) == ()


def test_an_item_is_known_again_in_another_dress() -> None:
    assert item_key(PAPER) == item_key({**PAPER, "arxiv_id": "1706.03762v8"}) == "arxiv:1706.03762"
    for link in ("https://arxiv.org/abs/1706.03762v5", "http://export.arxiv.org/pdf/1706.03762.pdf"):
        assert item_key({"link": link}) == "arxiv:1706.03762"
    assert item_key({"arxiv_id": "solv-int/9901001"}) == "arxiv:solv-int/9901001"
    assert item_key({"arxiv_id": "cs/0112017v1"}) == "arxiv:cs/0112017"
    assert item_key(ITEM) == item_key({"link": "http://News.example/graph/#top"})


def test_relevance_is_of_ten() -> None:
    assert [relevance_of_cosine(cosine) for cosine in (-1, 0.5, 0.675, 0.85, 1)] == [0, 0, 5, 10, 10]
    ratings = [{"score": 4.0, "by": "embedding"}, {"score": 8.0, "by": "model"}]
    assert score_of({"relevance": ratings}) == 6.0
    assert score_of({}) == 0.0


def claims(*pairs: tuple[str, list[int]]) -> Synthesis:
    return Synthesis(claims=[Claim(statement=text, sources=numbers) for text, numbers in pairs])


@pytest.mark.parametrize(
    ("text", "numbers", "complaint"),
    [
        ("Attention suffices.", [3], r"cites \[3\]; the sources are 1, 2"),
        ("Attention suffices.", [], "cites nothing"),
        ("Attention suffices [1, 9].", [1], r"cites \[9\]"),
        ("Attention suffices [1-3].", [1], r"cites \[3\]"),
        ("As arXiv:2401.00001 shows.", [1], "names 'arXiv:2401.00001'"),
        ("As 2401.00001v2 shows.", [1], "none of the sources"),
        ("See https://evil.example/x.", [1], "names 'https://evil.example/x"),
    ],
)
def test_invented_citations_are_found(text: str, numbers: list[int], complaint: str) -> None:
    wrong = check_citations(claims(("Fine.", [1]), (text, numbers)), SOURCES)
    assert wrong is not None
    assert re.search(complaint, wrong)


def test_citations_that_lead_to_a_source_pass() -> None:
    good = claims(
        ("Attention suffices [1].", [1]),
        ("arXiv:1706.03762 and https://arxiv.org/abs/1706.03762v7 say so.", [1, 2]),
        ("News at https://news.example/graph.", [2]),
    )
    assert check_citations(good, SOURCES) is None
    assert check_citations(claims(), SOURCES) == "Give 1 to 12 claims"


def test_what_a_text_names_without_having_found_it() -> None:
    text = (
        "See arXiv:1706.03762, arXiv:9999.12345 and https://arxiv.org/abs/1706.03762v7 (https://x.example)."
    )
    assert find_unsourced(text, ("arxiv:1706.03762v7",)) == ["arXiv:9999.12345", "https://x.example"]


def test_the_cache_forgets_and_survives_damage(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "cache", 0.2)
    assert cache.get("a", "b") is None
    kept = cache.put([{"x": 1}], "a", "b")
    assert cache.get("a", "b") == kept
    assert cache.get("ab") is None
    assert AnswerCache(tmp_path / "cache", 100).get("a", "b") == kept
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(b"\x00{")
    assert cache.get("a", "b") is None
    cache.put([], "a", "b")
    time.sleep(0.25)
    assert cache.get("a", "b") is None
    never = AnswerCache(tmp_path / "never", 0)
    assert never.put([{"x": 1}], "a").items == [{"x": 1}]
    assert never.get("a") is None
    assert not (tmp_path / "never").exists()
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert AnswerCache(blocked / "cache", 10).put([], "a").items == []
