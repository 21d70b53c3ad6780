"""Claims: which later sentence takes the place of an earlier one, without a model."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.memory.linking.claims import read_claims
from services.memory.linking.marks import strip_saying
from services.memory.linking.rules import are_duplicates
from services.memory.linking.supersession import compare_texts
from services.memory.linking.tokens import tokenize
from tests.support.memory import note

PAIRS = Path(__file__).parent / "claim_pairs"
"""Pairs of sentences by what the later one does; those that are kept back were not looked at while rules
were made."""

LEAST = {"same_form": 0.85, "paraphrase": 0.6, "number_or_date": 0.85, "no_longer": 0.85}
"""The shares of issue 13."""


def load(name: str) -> dict[str, list[list[str]]]:
    return tomllib.loads((PAIRS / f"{name}.toml").read_text())


def is_replaced(older: str, newer: str) -> bool:
    return compare_texts(newer, older).certain


@pytest.mark.parametrize("name", ["known", "kept_back"])
@pytest.mark.parametrize("group", LEAST)
def test_what_is_replaced_is_seen(name: str, group: str) -> None:
    pairs = load(name)[group]
    missed = [pair for pair in pairs if not is_replaced(*pair)]
    assert len(missed) <= (1 - LEAST[group]) * len(pairs), missed


@pytest.mark.parametrize("name", ["known", "kept_back"])
def test_what_looks_alike_stays_apart(name: str) -> None:
    pairs = load(name)["apart"]
    wrong = [pair for pair in pairs if is_replaced(*pair) or is_replaced(*pair[::-1])]
    assert len(wrong) <= 0.05 * len(pairs), wrong


def test_of_what_a_team_says_of_a_few_things_nothing_is_replaced() -> None:
    said = (PAIRS / "all_hold.txt").read_text().splitlines()
    pairs = [(older, newer) for older in said for newer in said if older != newer]
    assert [pair for pair in pairs if is_replaced(*pair)] == []


@pytest.mark.parametrize("name", ["known", "kept_back"])
def test_no_changed_value_is_merged_away(name: str) -> None:
    pairs = load(name)["number_or_date"]
    merged = [pair for pair in pairs if are_duplicates(note("a", pair[0]), note("b", pair[1]), 0.999)]
    assert merged == []


@pytest.mark.parametrize(
    ("newer", "older", "rule"),
    [
        ("The broker listens on port 4333", "The broker listens on port 4222", "number"),
        ("Broker port 4333", "Broker port 4222", "number"),
        ("Server 1 port 4333", "Server 1 port 4222", "number"),
        ("The retention is now 60 days", "The retention is 30 days", "changed"),
        ("Broker port\n4333", "Broker port\n4222", "number"),
        ("The user's favourite fruit is pear", "The user's favourite fruit is apple", "value"),
        ("The status of the build is red", "The status of the build is green", "value"),
        ("The CEO is Bob", "The CEO is Anna", "value"),
        ("Main database: SQLite", "Main database: PostgreSQL", "value"),
        ("Anna lives in Hamburg", "Anna lives in Berlin", "value"),
        ("We use Memcached for caching", "We use Redis for caching", "value"),
        ("The user prefers light mode", "The user prefers dark mode", "value"),
        ("Nightly backups need a disk in frankfurt", "Nightly backups need a disk in dublin", "value"),
        ("Bob owns the payments service", "Alice owns the payments service", "role"),
        ("We no longer use Jira", "We use Jira for tickets", "over"),
        ("Logs go to Loki instead of Splunk", "Logs are shipped to Splunk", "replaced"),
        ("The backup host: b1 -> b2", "The backup host is b1", "replaced"),
    ],
)
def test_the_rule_is_named(newer: str, older: str, rule: str) -> None:
    assert compare_texts(newer, older) == (rule, True)


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("Server 2 listens on port 4222", "Server 1 listens on port 4222"),
        ("Server 2 port 4222", "Server 1 port 4222"),
        ("The user likes coffee", "The user likes tea"),
        ("The user prefers coffee", "The user prefers tea"),
        ("Anna is a mother", "Anna is a doctor"),
        ("The build is fast", "The build is green"),
        ("We use Redis for queues", "We use Redis for caching"),
        ("Bob's birthday is on 3 May", "Alice's birthday is on 3 May"),
        ("The port is 4222", "The port is 4222"),
        ("The port is open", "The port is 4222"),
        ("The plan is to ship it in one go next week", "The plan is to wait and see what all others do"),
        ("It ended. We met in Rome", "It ended. They met in Rome"),
        ("Server b needs a disk", "Server a needs a disk"),
        ("We never deploy on Fridays", "We deploy on Fridays"),
        ("Would Thursdays be better for deploys?", "Deploys happen on Tuesdays"),
        ("If traffic grows we move deploys to Thursdays", "Deploys happen on Tuesdays"),
    ],
)
def test_nothing_is_replaced(newer: str, older: str) -> None:
    assert compare_texts(newer, older).rule == ""


@pytest.mark.parametrize(
    "said",
    [
        "[10:32] anna: {}",
        "- {}",
        "* [ ] {}",
        "bob: fyi {}",
        "Hi all, {}",
        "Update: {}",
        "2026-03-04: {}",
        "anna: heads up - {}",
        "Decision from the retro: {}",
        "We agreed that {}",
        "Reminder: {}!",
    ],
)
def test_how_it_is_said_changes_nothing(said: str) -> None:
    older, newer = "deploys happen on Tuesdays", "deploys happen on Thursdays"
    assert strip_saying(said.format(newer))[0] == newer
    assert is_replaced(older, said.format(newer))
    assert is_replaced(said.format(older), newer)


def test_any_sentence_of_a_note_counts() -> None:
    older = "Deploys happen on Tuesdays. Ask Ops for the keys."
    newer = "Minutes of the retro\nLunch was good. We moved deploys to Thursdays. Bring cake."
    assert is_replaced(older, newer)


def test_a_note_of_many_claims_does_not_end_with_its_last_one() -> None:
    older = "Ask Ops for the keys. The wiki is public. Tests run at night. Deploys happen on Tuesdays."
    assert compare_texts("We moved deploys to Thursdays", older) == ("changed", False)


@given(st.text(max_size=120), st.text(max_size=120))
def test_any_text_can_be_read(newer: str, older: str) -> None:
    tokenize(newer)
    read_claims(newer)
    assert compare_texts(newer, newer).rule == "" or len(read_claims(newer)) > 1
    compare_texts(newer, older)
