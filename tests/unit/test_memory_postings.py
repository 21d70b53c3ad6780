"""Postings: what was added is found at once, before and after it is sorted in, and while that is done."""

import random

import numpy as np
import pytest

from services.memory.retrieval import postings as module
from services.memory.retrieval.postings import Postings, renumber

TERMS = [f"t{number}" for number in range(12)]


def add(postings: Postings, slots: range, chance: random.Random) -> list[list[str]]:
    """Index a few random terms in each of ``slots``; returns these."""
    added = [chance.choices(TERMS, k=chance.randrange(6)) for _ in slots]
    codes = [postings.codes[term] for terms in added for term in terms]
    where = [slot for slot, terms in zip(slots, added, strict=True) for _ in terms]
    postings.extend(np.array(codes, np.int64), np.array(where, np.int64))
    return added


def look(postings: Postings, term: str, before: int) -> dict[int, int]:
    slots, counts = postings.find(term, before)
    assert slots.tolist() == sorted(set(slots.tolist()))
    return dict(zip(slots.tolist(), counts.tolist(), strict=True))


def counted(texts: list[list[str]], term: str, before: int) -> dict[int, int]:
    return {slot: text.count(term) for slot, text in enumerate(texts[:before]) if term in text}


def test_whatever_was_added_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 32)
    chance, postings, texts = random.Random(7), Postings(), list[list[str]]()
    for _ in range(60):
        texts += add(postings, range(len(texts), len(texts) + chance.randrange(1, 16)), chance)
        for term in chance.sample(TERMS, 3):
            for before in (len(texts), len(texts) // 2):
                assert look(postings, term, before) == counted(texts, term, before)
    stored = postings.store(renumber(np.arange(len(texts)), len(texts)))
    again = Postings(stored)
    texts += add(again, range(len(texts), len(texts) + 5), chance)
    assert {term: look(again, term, len(texts)) for term in TERMS} == {
        term: counted(texts, term, len(texts)) for term in TERMS
    }


def test_a_word_said_often_counts_so_often_and_no_more() -> None:
    postings = Postings()
    postings.extend(np.full(300, postings.codes["a"], np.int64), np.zeros(300, np.int64))
    assert look(postings, "a", 1) == {0: module.MOST}
    assert look(postings, "b", 1) == {}


def test_what_is_sorted_in_while_somebody_looks_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 4)
    postings = Postings()
    code = postings.codes["a"]
    postings.extend(np.full(3, code, np.int64), np.arange(3))
    seen = postings._fresh  # what a reader holds that has got no further yet
    postings.extend(np.full(3, code, np.int64), np.arange(3, 6))
    monkeypatch.setattr(postings, "_fresh", seen)
    assert look(postings, "a", 3) == {0: 1, 1: 1, 2: 1}
