"""What of a request a playbook leaves over, which parts a plan drops, and whom a request addresses."""

import time
from datetime import date

import pytest

from services.conductor.coverage import find_dropped, find_left_over, find_parts, read_vocabulary
from services.conductor.periods import read_period
from services.conductor.planner import find_addressee
from shared.plans import AgentPage

WORDS = read_vocabulary(("Run the tests of PATH", "Which tests fail?"))
AGENTS = {name: AgentPage(name=name, at_work=True) for name in ("engineer", "scout", "critic", "conductor")}


def left(text: str) -> tuple[tuple[str, ...], bool]:
    """What is left over of a request that names /a."""
    at = text.find("/a")
    places = [(at, at + 2)] if at >= 0 else []
    found = find_left_over(text, places, WORDS, ("fix", "change"))
    return found.phrases, found.limits


@pytest.mark.parametrize(
    "text",
    [
        "Run the tests of /a",
        "hi! could you please run all the tests in /a again, thanks",
        "run teh tets of /a",
        "Run the tests of /a, but don't fix anything",
        "Which tests fail in /a?",
        "My boss wants to know if the tests of /a fail. Could you see if they do?",
        "Hey team, would you mind running the tests for /a? Cheers, Bob",
        "do /a's tests still fail",
    ],
)
def test_a_request_that_says_no_more_leaves_nothing_over(text: str) -> None:
    assert left(text) == ((), False)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("Run only the tests that mention comma in /a", "only the tests that mention comma"),
        ("run the slow tests of /a", "the slow"),
        ("run the tests of /a except slow ones", "except slow ones"),
        ("run the tests of /a. Skip the browser.", "Skip the browser"),
        ("run the tests of /a with Python 3.13", "with Python 3.13"),
        ("why do the tests of /a fail?", "why"),
        ("run the first 5 tests of /a", "the first 5"),
        ("führe die tests of /a aus", "führe die"),
    ],
)
def test_what_limits_a_request_is_found(text: str, phrase: str) -> None:
    phrases, limits = left(text)
    assert phrases[0].startswith(phrase)
    assert limits


def test_what_is_too_long_to_be_read_is_left_over() -> None:
    phrases, limits = left("run the tests of /a. " + "Run the tests. " * 600 + "Delete it")
    assert phrases[0]
    assert limits


def test_what_stands_beside_it_limits_nothing() -> None:
    assert left("run the tests of /a; do fix what fails") == (("do fix what fails",), False)
    assert left("run the tests of /a. please fix it") == (("please fix it",), False)
    assert left("run the tests of /a; do not change anything") == ((), False)
    assert left("run the tests of /a, then tell Ana") == (("tell Ana",), False)
    assert left("run the tests of /a and write a GUIDE.md") == (("write a GUIDE.md",), False)


def test_a_request_is_taken_apart_where_it_asks_for_more() -> None:
    assert find_parts("add a --json flag in /a, update the README, and bump the version to 0.4.0") == [
        "add a --json flag in /a",
        "update the README",
        "bump the version to 0.4.0",
    ]
    assert find_parts("Please:\n1. lint it\n2. fix what is found") == [
        "Please",
        "lint it",
        "fix what is found",
    ]
    assert find_parts("search for salt and pepper") == ["search for salt and pepper"]
    assert find_parts("Is it safe? Which licence has it?") == ["Is it safe?", "Which licence has it?"]


def test_a_part_of_which_a_plan_has_nothing_is_dropped() -> None:
    asked = (
        "make --top 0 an error with a test, and also write a CONTRIBUTING.md that says how to run the tests"
    )
    first = "Have the option --top refuse 0 as an error, with a test"
    assert find_dropped(asked, first) == ("write a CONTRIBUTING.md that says how to run the tests",)
    assert find_dropped(asked, f"{first}\nWrite CONTRIBUTING.md: how tests are run") == ()
    assert find_dropped("fix the parser and tell Ana", "Mend the parser in /a") == ("tell Ana",)
    # One thing may be said in other words; only its names may not.
    assert find_dropped("fix the parser", "Mend what reads commas in /a") == ()
    assert find_dropped("what does parse_item do?", "Explain the code of /a") == ("what does parse_item do?",)
    # So may what is planned in another language.
    assert (
        find_dropped("führe die Tests aus und repariere, was fehlschlägt", "Run the tests; mend them") == ()
    )


@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("ask the engineer to rename foo to bar in /a", "engineer"),
        ("Engineer: fix it", "engineer"),
        ("@scout, read /a", "scout"),
        ("Could you please have the critic look at /a", "critic"),
        ("ask the engineer to fix /a, and then search the web for news", ""),
        ("ask the scout to read the engineer's notes", ""),
        ("ask the conductor to sleep", ""),
        ("the engineer said it is slow", ""),
        ("let's go", ""),
    ],
)
def test_a_request_to_one_agent_is_its(text: str, agent: str) -> None:
    assert find_addressee(text, AGENTS) == agent


@pytest.mark.parametrize(
    "text",
    [
        "run the tests of /a" + " " * 19 + ("x" + " " * 19) * 400,
        "run " * 2_000,
        "a, " * 2_600,
        "\n- x" * 2_000,
    ],
)
def test_what_is_long_and_odd_is_read_at_once(text: str) -> None:
    begun = time.process_time()
    left(text)
    find_dropped(text, text)
    read_period(text, date(2026, 3, 15))
    assert time.process_time() - begun < 1
