"""The order of hits: what holds now first, and knowledge before bookkeeping."""

import msgspec
import numpy as np
import pytest

from services.memory.retrieval.ranking import SAME, arrange, wants_history
from shared.contracts import Hit, MemoryQuery, Node, Source

QUESTION = "On which day do we deploy the storefront?"


def said(title: str, score: float, day: int = 1, **fields: object) -> Hit:
    date = f"2026-11-{day:02}T10:00:00+00:00"
    node = Node(id=f"n{day}", title=title, created_at=date, **fields)  # type: ignore[arg-type]
    return Hit(node=node, score=score, why={"keyword": score})


def order(*hits: Hit, text: str = QUESTION, cosine: float = 1.0, **query: object) -> list[str]:
    """The ids in order; all hits have that cosine with each other."""
    rest = (1 - cosine) ** 0.5
    own = rest * np.eye(len(hits), dtype=np.float32)
    vectors = {
        hit.node.id: np.array([cosine**0.5, *own[place]], np.float32) for place, hit in enumerate(hits)
    }
    asked = MemoryQuery(text=text, **query)  # type: ignore[arg-type]
    found = arrange(hits, asked, lambda ids: np.array([vectors[each] for each in ids]))
    return [hit.node.id for hit in found]


OLD = said("We deploy the storefront on Mondays.", 0.8, 1)
NEW = said("The storefront goes out on Fridays.", 0.5, 9, kind="decision")
OTHER = said("We deploy the billing service on Thursdays.", 0.6, 20)


def test_of_hits_that_say_the_same_the_newest_is_first() -> None:
    assert order(OLD, OTHER, NEW) == ["n9", "n1", "n20"]
    hits = arrange([OLD, NEW], MemoryQuery(text=QUESTION), lambda ids: np.ones((len(ids), 1), np.float32))
    assert [hit.score for hit in hits] == [0.8, 0.8]
    assert hits[0].why == {"keyword": 0.5, "newest": 0.3}


@pytest.mark.parametrize(
    ("older", "newer", "cosine"),
    [
        (OLD, NEW, SAME - 0.1),
        (OLD, OTHER, 1.0),
        (OLD, said("The storefront goes out on Fridays.", 0.2, 9), 1.0),
        (OLD, said("The storefront was deployed on a Friday.", 0.7, 9, kind="event"), 1.0),
        (OLD, said("The storefront goes out on Fridays.", 0.7, 9, kind="recipe"), 1.0),
    ],
)
def test_what_differs_stays_where_it_is(older: Hit, newer: Hit, cosine: float) -> None:
    assert order(older, newer, cosine=cosine)[0] == "n1"


def test_an_open_question_of_the_linker_puts_the_newer_one_first() -> None:
    asked = msgspec.structs.replace(OLD, questioned_by="n20")
    assert order(asked, NEW, OTHER, cosine=0.1) == ["n20", "n1", "n9"]
    assert order(asked, NEW, cosine=0.1) == ["n1", "n9"]


def test_three_states_come_the_newest_first() -> None:
    middle = said("The storefront goes out on Tuesdays.", 0.6, 5)
    assert order(OLD, middle, NEW) == ["n9", "n5", "n1"]


def test_history_leaves_the_order_of_the_scores() -> None:
    for query in ({"history": True}, {"at": 3}, {"text": "What was the day of the storefront?"}):
        assert order(OLD, NEW, **query)[0] == "n1"  # type: ignore[arg-type]
        assert wants_history(MemoryQuery(**{"text": QUESTION, **query}))  # type: ignore[arg-type]
    assert not wants_history(MemoryQuery(text="What was it? " + "x " * 300))


def goal(day: int, score: float) -> Hit:
    return said(f"Find an answer: {QUESTION}", score, day, kind="event", source=Source(channel="goal"))


def test_bookkeeping_has_one_place_of_three_behind_knowledge() -> None:
    hits = [goal(20 + number, 0.9) for number in range(4)]
    known = [
        said(f"The till number {number} is in the hall.", 0.4, number, kind=f"kind{number}")
        for number in (1, 2, 3, 4)
    ]
    found = order(*hits, *known, text="Where are the tills?")
    assert found == ["n1", "n2", "n20", "n3", "n4", "n21", "n22", "n23"]
    assert order(*hits, *known, text="Which goals were about the tills?")[0] == "n20"
    assert order(*hits, *known, text="Where are the tills?", kinds=("event",))[0] == "n20"
    far = said("Something else.", 0.1, 1)
    assert order(goal(20, 0.9), far, text="Where are the tills?") == ["n20", "n1"]
    lesson = said(
        "Till tests fail.", 0.9, 25, kind="pattern", source=Source(agent="conductor", channel="goal")
    )
    rule = said("Close the till at nine.", 0.4, 26, kind="pattern")
    assert order(lesson, rule, text="Where are the tills?") == ["n26", "n25"]
    turns = [said(f"turn {day}", day / 20, day, kind="episodic") for day in (9, 8, 7)]
    assert order(*turns, text="What did he say?") == ["n9", "n8", "n7"]


def test_scores_never_rise_and_the_limit_holds() -> None:
    hits = [goal(20, 0.9), goal(21, 0.8), OLD, NEW, OTHER]
    found = arrange(
        hits, MemoryQuery(text=QUESTION, limit=3), lambda ids: np.zeros((len(ids), 1), np.float32)
    )
    assert len(found) == 3
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
