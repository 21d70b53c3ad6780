"""What is done to a plan, a reminder or a goal that a message names by its words."""

import pytest

from services.nexus.office.altering import WAYS, Named, choose
from services.nexus.routing.decider import decide_by_scores
from services.nexus.tools.tool import load_tools

PLANS = [
    Named(ref="s1", words="back up the photo archive every Sunday", tool="schedule"),
    Named(ref="s2", words="check the links of ~/site every month", tool="schedule"),
    Named(ref="s3", words="check the links of ~/shop every week", tool="schedule"),
    Named(ref="r1", words="call the kiln supplier", tool="reminder"),
]


@pytest.mark.parametrize(
    ("what", "ref"),
    [
        ("the photo archive", "s1"),
        ("the kiln supplier", "r1"),
        ("the link check of site", "s2"),
        ("the links", ""),  # two have it
        ("the flute lesson", ""),
        ("the photo of the cat", ""),  # one word that nothing has
        ("", ""),
        ("that", ""),
    ],
)
def test_one_thing_is_chosen_that_has_every_word(what: str, ref: str) -> None:
    found = choose(what, PLANS)
    assert (found.ref if found else "") == ref


@pytest.mark.parametrize(
    ("way", "text", "what"),
    [
        ("pauses", "pause the backup on sundays for now", " the backup on sundays for now"),
        ("pauses", "could you suspend the link check", " the link check"),
        ("resumes", "please resume the photo archive", " the photo archive"),
        ("moves", "the kiln supplier thing: make it 11", "the kiln supplier"),
        ("moves", "kiln supplier - move it to friday", "kiln supplier"),
        ("again", "do the kiln thing once more", "the kiln thing"),
        ("again", "run the shop tests again please", "the shop tests"),
    ],
)
def test_ways_to_alter(way: str, text: str, what: str) -> None:
    found = WAYS[way].match(text)
    assert found is not None
    assert found["what"] == what


@pytest.mark.parametrize(
    "text", ["every sunday pause the pump", "run the tests of ~/x", "it pauses at night"]
)
def test_other_orders_alter_nothing_that_is_named(text: str) -> None:
    assert not any(WAYS[way].match(text) for way in ("pauses", "resumes", "moves", "again"))


@pytest.mark.parametrize(
    ("text", "correct", "tool"),
    [
        ("billing belongs to Yusuf from now on", 0.21, "correct"),
        ("the deploy day is Thursday now", 0.3, "correct"),
        ("we get clay from Sonderegger these days", 0.25, "correct"),
        ("Ana does not run the shift anymore", 0.3, "correct"),
        ("the lights are green instead of red", 0.3, "correct"),
        ("the printer is broken now", 0.02, "statement"),
        ("the deploy day is Thursday", 0.3, "statement"),
    ],
)
def test_what_tells_of_a_change_is_a_correction(text: str, correct: float, tool: str) -> None:
    scores = {"memory": 0.9 - correct - 0.31, "correct": correct, "statement": 0.31, "work": 0.1}
    scores |= {"remember": 0.0}
    assert decide_by_scores(text, scores, load_tools()).tool == tool


def test_an_order_for_now_corrects_nothing() -> None:
    scores = {"work": 0.6, "correct": 0.2, "memory": 0.2, "statement": 0.0}
    assert decide_by_scores("deploy the new site from now on", scores, load_tools()).tool != "correct"
