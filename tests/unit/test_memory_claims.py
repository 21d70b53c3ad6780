"""Claims: which later sentence takes the place of an earlier one, without a model."""

import functools
import operator
import tomllib
from collections.abc import Iterable
from itertools import compress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.memory.linking.meaning import PairReader
from services.memory.linking.rules import are_duplicates
from services.memory.linking.statements import strip_saying, tokenize
from services.memory.linking.supersession import SURE, Pair, Read, estimate
from services.memory.local_model import LocalEmbedder, Vectors, is_complete
from services.memory.retrieval.deep_search import Reranker
from shared.settings import load as load_settings
from tests.support.memory import note

PAIRS = Path(__file__).parent / "claim_pairs"
"""Pairs of sentences by what the later one does; those that are kept back were not looked at while rules
were made."""

LEAST = {"same_form": 0.85, "paraphrase": 0.45, "number_or_date": 0.85, "no_longer": 0.85}
"""The least shares that are seen of pairs by themselves, which is harder than among other notes."""

WRONG = 0.08
"""The most of the pairs that look alike and both hold that are taken for a change, in either direction."""

WRONG_OF_MANY = 8
"""The most of 13,110 pairs of sentences about a few things."""


def load(name: str) -> dict[str, list[list[str]]]:
    return tomllib.loads((PAIRS / f"{name}.toml").read_text())


def judge(pairs: Iterable[tuple[str, str]]) -> list[bool]:
    """Of each pair (older, newer), whether it is sure that the newer one takes the place of the older."""
    known = [(older, newer) for older, newer in pairs]
    cosines = [float(np.dot(vector(older), vector(newer))) for older, newer in known]
    told = [Pair(newer, older, cosine) for (older, newer), cosine in zip(known, cosines, strict=True)]
    chances = estimate(told, (), reader())
    return [chance >= SURE for chance in chances]


@functools.cache
def vector(text: str) -> Vectors:
    """The vector of a text, which depends on it alone."""
    return embedder().embed([text])[0]


@functools.cache
def embedder() -> LocalEmbedder:
    models = load_settings().models
    if not is_complete(models):  # as in the jail, where an agent runs these tests
        pytest.skip(f"no embedding model in {models}")
    return LocalEmbedder(models)


@functools.cache
def reader() -> Read:
    return PairReader(Reranker(load_settings().models)).read


def is_replaced(older: str, newer: str) -> bool:
    return judge([(older, newer)])[0]


@pytest.mark.parametrize("name", ["known", "kept_back"])
@pytest.mark.parametrize("group", LEAST)
def test_what_is_replaced_is_seen(name: str, group: str) -> None:
    pairs = load(name)[group]
    missed = list(compress(pairs, map(operator.not_, judge(pairs))))
    assert len(missed) <= (1 - LEAST[group]) * len(pairs), missed


@pytest.mark.parametrize("name", ["known", "kept_back"])
def test_what_looks_alike_stays_apart(name: str) -> None:
    pairs = load(name)["apart"]
    both = map(operator.or_, judge(pairs), judge([pair[::-1] for pair in pairs]))
    wrong = list(compress(pairs, both))
    assert len(wrong) <= WRONG * len(pairs), wrong


def test_of_what_a_team_says_of_a_few_things_next_to_nothing_is_replaced() -> None:
    said = (PAIRS / "all_hold.txt").read_text().splitlines()
    pairs = [(older, newer) for older in said for newer in said if older != newer]
    wrong = list(compress(pairs, judge(pairs)))
    assert len(wrong) <= WRONG_OF_MANY, wrong


@pytest.mark.parametrize("name", ["known", "kept_back"])
def test_no_changed_value_is_merged_away(name: str) -> None:
    pairs = load(name)["number_or_date"]
    merged = [pair for pair in pairs if are_duplicates(note("a", pair[0]), note("b", pair[1]), 0.999)]
    assert merged == []


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


@given(st.text(max_size=120), st.text(max_size=120))
def test_any_text_can_be_read(newer: str, older: str) -> None:
    tokenize(newer)
    (chance,) = estimate([Pair(newer, older, 0.7)], [older, newer])
    assert 0 <= chance <= 1
