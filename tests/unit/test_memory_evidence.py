"""The weight of evidence for one text taking the place of another."""

import pytest

from services.memory.classifier import open_classifier
from services.memory.linking.evidence import NAMES, say_the_same
from services.memory.linking.statements import read_text
from services.memory.linking.supersession import (
    ASKED,
    SURE,
    Pair,
    estimate,
    share_chances,
)
from services.memory.writes.gate import find_rejection
from tests.support.memory import World, beside, direction, note


def weigh(newer: str, older: str, cosine: float, *beside: str) -> float:
    """The chance of one pair."""
    (chance,) = estimate([Pair(newer, older, cosine)], beside)
    return chance


def test_the_weights_are_those_of_the_evidence() -> None:
    assert open_classifier("supersession").description.features == NAMES


def test_the_chances_of_one_text_are_shared() -> None:
    assert share_chances([0.9]) == pytest.approx([0.9])
    assert share_chances([0.9, 0.9]) == pytest.approx([9 / 19, 9 / 19])
    assert share_chances([1.0, 0.0]) == pytest.approx([0.9999, 0.0])
    assert share_chances([]) == []
    assert share_chances([0.9, 0.6, 0.5], {(0, 1)}) == pytest.approx([9 / 11, 9 / 11, 1 / 12.5])


def test_words_that_many_notes_share_are_no_subject() -> None:
    newer, older = "Night flights are unloaded by crew Blue", "Charter flights are unloaded by crew Red"
    beside = [f"{name} flights are unloaded by crew {crew}" for name, crew in BESIDE]
    assert weigh(newer, older, 0.85, *beside) < SURE


BESIDE = (("Mail", "Green"), ("Holiday", "White"), ("Cargo", "Black"), ("Domestic", "Grey"))


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("Bob: the notes are typed up by Ana", "The notes are typed up by Luis"),
        ("The paper log of visits has been scrapped", "We keep a paper log of visits"),
        ("Coffee is what the crew drinks", "Tea is what the crew drinks"),
        (
            "We accept 50 requests a minute on the public API.",
            "We accept 600 requests a minute on the public API.",
        ),
    ],
)
def test_foreign_wordings_are_seen(newer: str, older: str) -> None:
    assert weigh(newer, older, 0.9) >= SURE


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("The winter show opens on 3 December", "The pump needs oil"),
        ("Mrs Odell prefers letters", "The landlord prefers letters"),
        ("Should we make the worktops of slate?", "The worktops are made of oak"),
        ("The worktops are also cleaned on Fridays", "The worktops are made of oak"),
        ("The back door locks at 18:00", "The front door locks at 20:00"),
        ("The public API accepts XML", "The public API accepts JSON"),
        ("Bea reviews the worktops as well", "Ada reviews the worktops"),
        ("???", "..."),
        ("", "The worktops are made of oak"),
    ],
)
def test_what_holds_beside_it_is_left(newer: str, older: str) -> None:
    assert weigh(newer, older, 0.8) < SURE


def test_the_same_text_is_no_change() -> None:
    text = "The worktops are made of oak"
    assert weigh(text, text, 1.0) < ASKED


def test_long_and_broken_texts_are_read() -> None:
    for text in ("a" * 100_000, "no longer " * 20_000, "\n\n- \n?", "# \n", "(" * 5_000):
        assert 0 <= weigh(text, "We no longer use the a", 0.6) <= 1


def test_signs_are_counted() -> None:
    cues = read_text("We are done with Trello. Cards moved to Linear. Why?").cues
    assert min(cues["end"], cues["change"], cues["question"]) > 0


@pytest.mark.parametrize(
    ("sentence", "terms"),
    [
        ("The mill grinds spelt on Fridays, once the rye is gone.", [4, 2]),
        ("The mill grinds spelt, because Bo asked for it, and sells oats.", [3, 4]),
        ("The mill grinds spelt, if the baker agrees.", [5]),  # as much a doubt as a condition
        ("The baker came at 9, before noon.", [4]),
    ],
)
def test_a_clause_that_tells_when_or_why_is_read_by_itself(sentence: str, terms: list[int]) -> None:
    read = read_text(sentence).statements
    assert [len(statement.terms) for statement in read] == terms
    assert len({statement.cues for statement in read}) == 1


def test_a_clause_does_not_hide_what_ends_a_sentence() -> None:
    older = "The storefront goes live on Fridays, once the smoke tests pass."
    assert weigh("We no longer deploy the storefront on Fridays.", older, 0.65) >= SURE
    assert weigh("Should the storefront go live on Mondays, once it is built?", older, 0.8) == 0
    assert weigh("The smoke tests run in Jenkins.", older, 0.6) < ASKED


def test_what_says_that_something_is_over_is_no_known_fact() -> None:
    held = note("old", "The growth team works with Trello")
    ended = note("new", "The growth team is done with Trello", 1)
    assert find_rejection(ended, held, 0.95) is None


def test_by_evidence_a_text_takes_the_place_of_the_likeliest_alone() -> None:
    world = World()
    said = ("Tea is what the crew drinks", "Tea is what the guests drink")
    world.write(note("one", said[0], embedding=direction(1)))
    world.write(note("two", said[1], 1, embedding=beside(0.9, axis=2)))
    world.cycle()
    world.write(note("new", "Coffee is what the crew drinks", 2, embedding=beside(0.95)))
    world.cycle()
    assert world.view.node("one").valid_to  # type: ignore[union-attr]
    assert not world.view.node("two").valid_to  # type: ignore[union-attr]


def test_what_says_the_same_as_what_is_replaced_is_replaced_too() -> None:
    world = World()
    said = "The billing service uses Celery for background jobs", "Background jobs of billing run on Celery"
    world.write(note("one", said[0], embedding=direction(1)))
    world.write(note("two", said[1], 1, embedding=beside(0.9, axis=2)))
    world.cycle()
    text = "Billing replaced Celery with Temporal for background jobs"
    world.write(note("new", text, 2, embedding=beside(0.9, axis=3)))
    world.cycle()
    assert all(world.view.node(name).valid_to for name in ("one", "two"))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("one", "other", "newer"),
    [
        ("Ana owns the search service", "Ana owns the billing service", "Marek now owns the search service"),
        ("Team A deploys on Tuesdays", "Team B deploys on Tuesdays", "Deploys moved to Thursdays"),
        ("Deploys happen on Tuesdays", "Deploys of the api happen on Tuesdays", "The api deploys on Fridays"),
    ],
)
def test_what_is_about_another_thing_does_not_say_the_same(one: str, other: str, newer: str) -> None:
    assert not say_the_same(read_text(one), read_text(other), read_text(newer))


def test_what_shares_rare_words_is_a_candidate() -> None:
    world = World()
    world.write(note("far", "The zirconium crucible stands in the annex", embedding=beside(0.5)))
    world.write(note("other", "Lunch is at noon", embedding=direction(1)))
    found = world.view.sharing("Zirconium crucible: cellar", 5, ("fact",))
    assert found == ["far"]
    assert world.view.sharing("zirconium", 5, ("fact",)) == []
