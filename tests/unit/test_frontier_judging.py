"""What frontier makes of what it found: stories, confidence, what people kept and dismissed."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from services.frontier.brief import describe_support, independent_groups, judge_confidence
from services.frontier.selection import Judged, apply_feedback
from services.frontier.sources import cut_text, group_stories, pdf_address, tell_plainly
from shared.text.prose import is_supported

NOW = datetime(2026, 11, 23, 8, tzinfo=UTC)


def news(title: str, link: str = "https://one.example/a", source: str = "One", **more: Any) -> dict[str, Any]:
    return {"title": title, "link": link, "source": source, "summary": "", "published": "", **more}


def paper(number: int, *authors: str, abstract: str = "On attention.") -> dict[str, Any]:
    return {
        "title": f"Attention {number}",
        "arxiv_id": f"2611.0000{number}v1",
        "authors": authors,
        "abstract": abstract,
    }


def test_several_sources_about_one_thing_are_one_story() -> None:
    stories = group_stories(
        [
            news("OpenAI releases GPT-9 with long memory"),
            news("GPT-9 released by OpenAI: long memory for all", "https://two.example/x", "Two"),
            news("GPT-9 with long memory released today by OpenAI", "https://one.example/b", "One"),
            news("A bakery opens in Bern"),
        ]
    )
    assert [story["title"] for story in stories] == [
        "OpenAI releases GPT-9 with long memory",
        "A bakery opens in Bern",
    ]
    assert stories[0]["also"] == ["https://two.example/x"]
    assert stories[0]["also_from"] == ["Two"]
    assert len(stories[0]["members"]) == 2


def test_five_hundred_items_are_grouped_in_a_moment() -> None:
    items = [
        news(f"Number {n} of a list about thing{n} and other{n} words", f"https://h{n}.example/")
        for n in range(500)
    ]
    begun = time.process_time()
    assert len(group_stories([*items, *items])) == 500
    assert time.process_time() - begun < 5


def test_a_story_is_told_by_title_and_first_sentence() -> None:
    assert (
        tell_plainly(news("A bakery opens.", summary="It sells bread. And more."))
        == "A bakery opens: It sells bread."
    )
    assert tell_plainly(news("A bakery opens", summary="A bakery opens.")) == "A bakery opens"
    assert tell_plainly(news("A bakery opens")) == "A bakery opens"


def test_confidence_follows_independence_and_depth_and_not_number() -> None:
    same = {n: paper(n, "Ann", f"Other {n}") for n in range(1, 6)}
    apart = {1: paper(1, "Ann"), 2: paper(2, "Bob")}
    whole = {"2611.00001v1": "text", "2611.00002v1": "text"}
    assert judge_confidence("attention", {}, {}) == "low"
    assert judge_confidence("attention", same, {}) == "low"
    assert judge_confidence("attention", apart, {}) == "medium"
    assert judge_confidence("attention", {1: paper(1, "Ann")}, whole) == "medium"
    assert judge_confidence("attention", apart, whole) == "high"
    assert judge_confidence("onion soup", apart, whole) == "low"
    titles = {n: paper(n, f"Author {n}", abstract="") for n in range(1, 4)}
    assert judge_confidence("attention", titles, {}) == "low"


def test_confidence_of_a_summary_is_that_of_most_of_its_statements() -> None:
    sources = {1: paper(1, "Ann"), 2: paper(2, "Bob"), 3: paper(3, "Ann")}
    assert judge_confidence("x", sources, {}, [(1, 3), (1,)]) == "low"
    assert judge_confidence("x", sources, {}, [(1, 2), (2, 3), (1, 3)]) == "medium"
    assert describe_support([sources[1], sources[3]], {}) == "1 independent source, abstract"
    assert (
        describe_support([sources[1], sources[2]], {"2611.00001v1": "t"})
        == "2 independent sources, full text"
    )


def test_makers_that_share_somebody_are_one_and_so_is_a_host() -> None:
    chain = [paper(1, "Ann", "Bob"), paper(2, "Cy"), paper(3, "bob", "CY")]
    assert len(independent_groups(chain)) == 1
    hosts = [
        news("a", "https://www.one.example/1"),
        news("b", "https://one.example/2"),
        news("c", "https://two.example/"),
    ]
    assert len(independent_groups(hosts)) == 2


def test_what_was_kept_counts_for_what_was_dismissed_against_and_both_fade() -> None:
    items = [news("Graph memory for agents"), news("Celebrity gossip of the week"), news("Bread")]
    judged = [
        Judged(item_id="a", title="Graph memory for agents", verdict="keep", at=NOW.isoformat()),
        Judged(item_id="b", title="Celebrity gossip of the day", verdict="dismiss", at=NOW.isoformat()),
    ]
    kept, dismissed, other = apply_feedback(items, judged, {}, NOW)
    assert (kept["liking"], kept["like"]) == (4.0, "Graph memory for agents")
    assert dismissed["liking"] < -2
    assert "liking" not in other
    later = apply_feedback(items, judged, {}, NOW + timedelta(days=90))
    assert later[0]["liking"] == 0.5
    assert "like" not in later[0]
    # by meaning, where vectors are there
    vectors = {"Bread": [1.0, 0.0], "Graph memory for agents": [0.9, 0.436]}
    assert apply_feedback(items, judged, vectors, NOW)[2]["liking"] == 4.0


def test_texts_of_papers_come_from_arxiv_or_from_the_mirror_that_is_set() -> None:
    one = {"arxiv_id": "2611.00001v1", "pdf_url": "https://arxiv.org/pdf/2611.00001v1"}
    assert pdf_address(one, "https://export.arxiv.org/api/query") == "https://arxiv.org/pdf/2611.00001v1"
    assert pdf_address(one, "http://127.0.0.1:9/api/query") == "http://127.0.0.1:9/pdf/2611.00001v1"
    assert len(cut_text("word " * 10_000)) < 13_000


def test_a_sentence_needs_the_numbers_names_and_words_of_its_sources() -> None:
    known = "GPT-9 scores 81.2 on the exam. It was trained for 3 weeks."
    assert is_supported("GPT-9 scores 81.2 on the exam.", known)
    assert not is_supported("GPT-9 scores 95 on the exam.", known)
    assert not is_supported("GPT-10 scores 81.2 on the exam.", known)
    assert not is_supported("Cats prefer warm windows in winter.", known)
