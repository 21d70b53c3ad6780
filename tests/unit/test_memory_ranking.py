"""What a node scores for a question: meaning, words, dates, names, neighbours."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest
from numpy.typing import NDArray

from services.memory.retrieval import ranking
from services.memory.retrieval.keywords import query_words, split_words
from services.memory.retrieval.node_table import OFFSETS
from services.memory.retrieval.ranking import (
    DATE,
    MEANING,
    NAME,
    WORDS,
    QueryCandidates,
    score,
    sum_neighbours,
)
from shared.language.times.spans import find_date_spans

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC).timestamp()


def at(day: str) -> float:
    return datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()


def stand_beside(sessions: Sequence[str]) -> NDArray[np.int32]:
    """For each text the places of those around it, in the order in which they are given."""
    beside = np.full((len(OFFSETS), len(sessions)), -1, np.int32)
    for place, session in enumerate(sessions):
        for row, offset in enumerate(OFFSETS):
            other = place + offset
            if session and 0 <= other < len(sessions) and sessions[other] == session:
                beside[row, place] = other
    return beside


def evidence(
    text: str,
    texts: Sequence[str],
    *,
    cosines: Sequence[float] = (),
    sessions: Sequence[str] = (),
    days: Sequence[str] = (),
    tags: Sequence[str] = (),
) -> QueryCandidates:
    """What is known about ``text`` in a memory of ``texts``, all of them candidates."""
    words = [split_words(entry) for entry in texts]
    lengths = np.array([len(entry) for entry in words], np.float32)
    count, beside = len(texts), stand_beside(sessions or [""] * len(texts))

    sought = sorted(query_words(text))
    counts = np.array([[entry.count(word) for word in sought] for entry in words], np.float32)
    frequencies = (counts > 0).sum(axis=0) if count else np.zeros(len(sought))

    return QueryCandidates(
        text=text,
        moment=NOW,
        cosines=np.array(cosines or [0.0] * count, np.float32),
        created=np.array([at(day) for day in days] or [NOW] * count, np.float64),
        lengths=lengths,
        beside=beside,
        weights=np.log(1 + (count - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32),
        counts=counts.reshape(count, len(sought)),
        named=lambda names: np.array([tag in names for tag in tags or [""] * count], np.bool_),
        between_two=np.zeros_like,
        mean_length=float((lengths + sum_neighbours(np.tile(lengths[:, None], 3), beside)[:, 2]).mean())
        if count
        else 0.0,
    )


FILLER = ["we had lunch", "the sky is grey", "a train was late", "nobody came"]


def test_every_part_has_a_fixed_end() -> None:
    parts = score(
        evidence(
            "the broken pump in March 2026",
            ["the broken pump in March 2026", *FILLER],
            cosines=[1.0, 0.4, 0.3, -1.0, 0.0],
            days=["2026-03-05"] + ["2020-01-01"] * 4,
            tags=["pump", "", "", "", ""],
        )
    )
    assert set(parts) == {"vector", "keyword", "date", "name"}
    assert parts["vector"].tolist() == pytest.approx([MEANING, 0, 0, 0, 0])
    assert WORDS / 3 < parts["keyword"][0] < WORDS
    assert parts["keyword"][1:].tolist() == [0] * 4
    assert parts["date"].tolist() == pytest.approx([DATE, 0, 0, 0, 0])
    assert parts["name"].tolist() == pytest.approx([NAME, 0, 0, 0, 0])


def test_what_fits_nothing_scores_next_to_nothing() -> None:
    parts = score(evidence("zebra quartz", FILLER, cosines=[0.4, 0.3, 0.2, 0.35]))
    assert all(not part.any() for part in parts.values())


def test_words_that_are_nowhere_lower_the_score() -> None:
    full = score(evidence("pump", ["the pump", *FILLER]))["keyword"][0]
    half = score(evidence("pump zebra", ["the pump", *FILLER]))["keyword"][0]
    assert half < 0.6 * full


def test_other_forms_of_a_word_are_found() -> None:
    parts = score(evidence("adopting dogs", ["she adopted a dog", *FILLER]))
    assert int(np.argmax(parts["keyword"])) == 0
    assert parts["keyword"][0] > WORDS / 3


CHAT = [
    "what is your dog called",
    "Rex, since last week",
    "how nice",
    "yes, really",
    "did you eat",
    "the dog barked",
]


def test_an_answer_is_found_by_the_words_of_its_question() -> None:
    parts = score(evidence("the name of the dog", CHAT, sessions=["s"] * 5 + ["t"]))["keyword"]
    assert parts[0] > parts[1] > parts[2] > 0
    assert parts[3] == parts[4] == 0  # three and four apart


def test_the_words_of_the_turn_before_count_more_than_those_of_the_turn_after() -> None:
    talk = ["so it is", "is it", "what about the dog", "I see", "well now"]
    before, _, own, after, _ = score(evidence("dog", talk, sessions=["s"] * 5))["keyword"][[1, 0, 2, 3, 4]]
    assert own > after > before > 0


def test_no_session_is_no_disadvantage() -> None:
    alone = score(evidence("dog", CHAT, cosines=[0.8] + [0.0] * 5))
    assert alone["vector"][1:].tolist() == [0] * 5
    together = score(evidence("dog", CHAT, cosines=[0.8] + [0.0] * 5, sessions=["s"] * 6))
    assert alone["vector"][0] == pytest.approx(together["vector"][0])
    assert alone["keyword"][0] == pytest.approx(together["keyword"][0], rel=0.1)


def test_near_neighbours_lift_a_node() -> None:
    cosines = [0.7, 0.7, 0.0, 0.0, 0.0, 0.7]
    near = score(evidence("dog", CHAT, cosines=cosines, sessions=["s"] * 5 + ["t"]))["vector"]
    assert near[0] > near[5] == pytest.approx(MEANING * 0.5)
    assert near[2] > 0
    assert max(near) <= MEANING


def test_a_time_that_is_named_fades_out() -> None:
    days = ["2023-05-20", "2023-06-07", "2023-06-14", "2022-05-20"]
    dates = score(evidence("what happened in May 2023", FILLER, days=days))["date"] / DATE
    assert dates.tolist() == pytest.approx([1, 2 ** (-6 / 7), 2 ** (-13 / 7), 0], abs=0.001)


def test_an_empty_memory_scores_nothing() -> None:
    assert all(len(part) == 0 for part in score(evidence("in May", [])).values())


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("on 5 June, 2023", "2023-06-05", "2023-06-06"),
        ("on October 13, 2023", "2023-10-13", "2023-10-14"),
        ("on the 1st of September 2023", "2023-09-01", "2023-09-02"),
        ("in december 2023?", "2023-12-01", "2024-01-01"),
        ("since 2024-02-29", "2024-02-29", "2024-03-01"),
        ("in 2024-02", "2024-02-01", "2024-03-01"),
        ("which cities in 2023", "2023-01-01", "2024-01-01"),
        ("in May", "2025-05-01", "2025-06-01"),
        ("May 3", "2025-05-03", "2025-05-04"),
        ("Sept. 3rd", "2025-09-03", "2025-09-04"),
        ("what did he say yesterday", "2026-03-19", "2026-03-20"),
        ("today's plan", "2026-03-20", "2026-03-21"),
        ("3 days ago", "2026-03-17", "2026-03-18"),
    ],
)
def test_times_that_are_named(text: str, start: str, end: str) -> None:
    assert find_date_spans(text, at("2026-03-20") + (43_200 if "ago" in text else 1), [2025]) == [
        (at(start), at(end))
    ]


def test_several_times() -> None:
    assert len(find_date_spans("between August and November 2023", NOW, [2022, 2023])) == 3
    assert len(find_date_spans("in October", NOW, range(1970, 2100))) == 20


@pytest.mark.parametrize(
    "text", ["May I go?", "they march on", "31 June 2023", "2023-13", "at 10:30", "v2024.1", "port 20231", ""]
)
def test_no_time_is_named(text: str) -> None:
    assert find_date_spans(text, NOW, [2025]) == []


def test_the_shares_make_one() -> None:
    assert ranking.WORDS + ranking.MEANING == 1
