"""What a correction says in one sentence: the new value, the old one, or that something is not so."""

import pytest

from services.nexus.tools.keeping import _complete, read_correction


@pytest.mark.parametrize(
    ("held", "said", "fact"),
    [
        (
            "The spare key is with Mr Ochs",
            "no longer, it's with the Meiers now, not Ochs",
            "The spare key is with the Meiers",
        ),
        (
            "The number is 0142",
            "the caretaker's number is 0199 not 0142",
            "the caretaker's number is 0199",
        ),
        ("Staging is otter", "staging isn't otter anymore but lynx", "staging is lynx"),
        (
            "Ben is allergic to peanuts",
            "that's wrong, ben isnt allergic to peanuts, it's walnuts",
            "ben is allergic to walnuts",
        ),
        (
            "The review is on Thursdays",
            "change the review in your notes to Fridays",
            "The review is on Fridays",
        ),
        (
            "Tess is head of marketing",
            "it's not true that Tess is head of marketing, she is head of design",
            "Tess is head of design",
        ),
        (
            "It goes out on the 1st",
            "the newsletter is now on the 15th instead of the 1st, thx",
            "the newsletter is now on the 15th",
        ),
        (
            "The plumber comes",
            "sorry wrong, not the plumber, the electrician comes",
            "the electrician comes",
        ),
        (
            "Sofia does the invoices",
            "correction: it's Dario who does the invoices",
            "Dario does the invoices",
        ),
        (
            "We buy from Keller",
            "what I told you about the wine isn't right any more, we buy from Brunner",
            "we buy from Brunner",
        ),
        ("Rent is 1,240", "the rent went from 1,240 to 1,310", "the rent went from 1,240 to 1,310"),
        ("The hall is cold", "the hall is not cold", "the hall is not cold"),
        ("x", "set the limit to 250 calls please, was 100", "the limit is 250 calls"),
    ],
)
def test_a_correction_is_kept_as_what_is_so(held: str, said: str, fact: str) -> None:
    assert _complete(read_correction(said), held) == fact


@pytest.mark.parametrize(
    ("said", "old", "denies"),
    [
        ("it's with the Meiers, not Ochs", "Ochs", False),
        ("the fee is 19, formerly 18", "18", False),
        ("the fee is 19 rather than 18", "18", False),
        ("we went from 18 to 19", "18", False),
        ("Jonas is not our contact", "", True),
        ("we dont use trello any more", "", True),
        ("she no longer works here", "", True),
        ("The rent went up to 1,310", "", False),
        ("I want it on the 3rd", "", False),
    ],
)
def test_the_value_that_was_wrong_is_read(said: str, old: str, denies: bool) -> None:
    found = read_correction(said)
    assert (found.old, found.denies) == (old, denies)


@pytest.mark.parametrize(
    "said", ["", "no", "not", "not x", "it's", "a" * 4_000, "not, not, not", "was was was", "\x00"]
)
def test_any_text_is_read(said: str) -> None:
    assert isinstance(_complete(read_correction(said), "Held"), str)
