"""The sentence on a review says what was checked, and never approves what was not."""

import msgspec
import pytest

from shared.contracts import Checked, Goal, Verdict
from shared.tasks.evidence import format_verdict, list_checks, verdict_of

EVERYTHING = Checked(
    tests=1,
    records=1,
    patches=1,
    inspections=1,
    code=1,
    files=1,
    sources=1,
    found=1,
    criteria=1,
    met=1,
    content=True,
)


def verdict(decision: str, checked: Checked = EVERYTHING, **more: tuple[str, ...]) -> Verdict:
    return Verdict.from_dict({"approved": True, "decision": decision, "checked": checked.to_dict(), **more})


@pytest.mark.parametrize(
    ("checked", "said"),
    [
        (Checked(tests=1), "the tests were run again"),
        (Checked(tests=2), "the tests of 2 tasks were run again"),
        (Checked(records=1), "the run of the tests agrees with its record"),
        (Checked(patches=1), "the patch was applied to a copy"),
        (Checked(inspections=2), "2 inspections were repeated"),
        (Checked(code=3), "3 files of code parse"),
        (Checked(files=1), "the delivered file is there"),
        (Checked(sources=4, found=3), "3 of 4 sources were found"),
        (Checked(sources=1, found=1), "1 of 1 source was found"),
        (Checked(criteria=2, met=1), "1 of 2 criteria are met"),
        (Checked(content=True), "a model judged the content"),
    ],
)
def test_it_says_what_was_checked(checked: Checked, said: str) -> None:
    assert list_checks(checked) == [said]
    assert format_verdict(verdict("approved", checked)) == f"Checked: {said}."


def test_all_of_it_is_one_sentence() -> None:
    assert len(list_checks(EVERYTHING)) == 9
    assert format_verdict(verdict("approved")).count("; ") == 8


def test_nothing_checked_is_said() -> None:
    assert list_checks(Checked()) == []
    assert format_verdict(verdict("approved", Checked())) == "Nothing was checked."
    assert format_verdict(verdict("nothing_checked", Checked())).startswith("Nothing was checked: ")


def test_what_is_left_open_is_not_judged_and_says_why() -> None:
    why = Checked(tests=1, unjudged=("the content was not judged: the model gave no answer.",))
    said = format_verdict(verdict("not_checked", why))
    assert said == (
        "Not judged: the content was not judged: the model gave no answer; checked: the tests were run again."
    )
    assert format_verdict(verdict("not_checked", Checked())) == "Not judged: the review gives no reason."
    many = Checked(unjudged=("a", "b", "c", "d", "e"))
    assert format_verdict(verdict("not_checked", many)) == "Not judged: a; b; c; 2 more."
    assert format_verdict(verdict("approved", why)).endswith(
        "; not checked: the content was not judged: the model gave no answer."
    )


def test_what_is_refuted_names_the_fault() -> None:
    refuted = verdict("sent_back", reasons=("a: it holds.", "b: its patch does not apply."), redo=("b",))
    assert format_verdict(refuted) == "Refuted: b: its patch does not apply."


@pytest.mark.parametrize("decision", ["sent_back", "not_checked", "nothing_checked"])
def test_nothing_but_an_approval_approves(decision: str) -> None:
    assert not verdict(decision).approved
    goal = Goal(goal_id="g", text="x", requester="user", submitted_at="2026-01-02T03:04:05+00:00")
    assert verdict_of(goal) is None
    judged = msgspec.structs.replace(goal, verdict=verdict(decision).to_dict())
    assert (found := verdict_of(judged)) is not None
    assert found.decision == decision


def test_counts_of_parts_are_added() -> None:
    both = EVERYTHING.plus(Checked(tests=2, unjudged=("x",)))
    assert (both.tests, both.found, both.content, both.unjudged) == (3, 1, True, ("x",))
