"""The weight of evidence for one text taking the place of another."""

import pytest

from services.memory.linking.evidence import ASKED, SURE, estimate
from services.memory.linking.rules import find_contradiction, find_supersession
from services.memory.linking.statements import read_text
from services.memory.writes.gate import find_rejection
from tests.support.memory import NOW, World, beside, direction, note


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("Bob: the notes are typed up by Ana", "The notes are typed up by Luis"),
        ("The paper log of visits has been scrapped", "We keep a paper log of visits"),
        ("Slate is what the worktops are made of", "Oak is what the worktops are made of"),
    ],
)
def test_foreign_wordings_are_seen(newer: str, older: str) -> None:
    assert estimate(newer, older, 0.85) >= SURE


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("The winter show opens on 3 December", "The pump needs oil"),
        ("Mrs Odell prefers letters", "The landlord prefers letters"),
        ("Should we make the worktops of slate?", "The worktops are made of oak"),
        ("The worktops are also cleaned on Fridays", "The worktops are made of oak"),
        ("The back door locks at 18:00", "The front door locks at 20:00"),
        ("???", "..."),
        ("", "The worktops are made of oak"),
    ],
)
def test_what_holds_beside_it_is_left(newer: str, older: str) -> None:
    assert estimate(newer, older, 0.8) < SURE


def test_the_same_text_is_no_change() -> None:
    text = "The worktops are made of oak"
    assert estimate(text, text, 1.0) < ASKED


def test_long_and_broken_texts_are_read() -> None:
    for text in ("a" * 100_000, "no longer " * 20_000, "\n\n- \n?", "# \n", "(" * 5_000):
        assert 0 <= estimate(text, "We no longer use the a", 0.6) <= 1


def test_signs_are_counted() -> None:
    cues = read_text("We are done with Trello. Cards moved to Linear. Why?").cues
    assert min(cues["end"], cues["change"], cues["question"]) > 0


def test_what_says_that_something_is_over_is_no_known_fact() -> None:
    held = note("old", "The growth team works with Trello")
    ended = note("new", "The growth team is done with Trello", 1)
    assert find_rejection(ended, held, 0.95) is None


def test_likely_and_open_pairs_are_told_apart() -> None:
    older = note("old", "Oak is what the worktops are made of")
    newer = note("new", "Slate is what the worktops are made of", 1)
    edge = find_supersession(newer, older, 0.85, NOW)
    assert edge is not None
    assert edge.provenance["rule"] in ("likely", "value", "role")
    vague = note("new", "We might make the worktops of slate", 1)
    assert find_supersession(vague, older, 0.7, NOW) is None


def test_by_evidence_a_text_takes_the_place_of_the_likeliest_alone() -> None:
    world = World()
    said = ("Oak is what the worktops are made of", "Oak is what the trophies are made of")
    world.write(note("one", said[0], embedding=direction(1)))
    world.write(note("two", said[1], 1, embedding=beside(0.9, axis=2)))
    world.cycle()
    world.write(note("new", "Slate is what the worktops are made of", 2, embedding=beside(0.95)))
    world.cycle()
    assert world.view.node("one").valid_to  # type: ignore[union-attr]
    assert not world.view.node("two").valid_to  # type: ignore[union-attr]


def test_what_shares_rare_words_is_a_candidate() -> None:
    world = World()
    world.write(note("far", "The zirconium crucible stands in the annex", embedding=beside(0.5)))
    world.write(note("other", "Lunch is at noon", embedding=direction(1)))
    found = world.view.sharing("Zirconium crucible: cellar", 5, ("fact",))
    assert found == ["far"]
    assert world.view.sharing("zirconium", 5, ("fact",)) == []


def test_the_undecided_are_asked_about() -> None:
    older = note("old", "Samples are stored in the annex")
    newer = note("new", "Samples stay with Ana for now, the annex is full", 1)
    edges = [find(newer, older, 0.8, NOW) for find in (find_supersession, find_contradiction)]
    assert edges[0] is None or edges[1] is None or edges[1].provenance["rule"] == "undecided"
