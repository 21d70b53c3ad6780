"""Vectors in two bytes a number: true cosines, and the nearest found among many by their signs."""

import numpy as np
import pytest

from services.memory.retrieval import vectors as module
from services.memory.retrieval.vectors import Vectors, VectorTable, build_vectors


def units(count: int, dimensions: int, seed: int = 1) -> Vectors:
    """Directions that lean to one side, as those of texts do."""
    values = np.random.default_rng(seed).normal(0.4, 1, (count, dimensions)).astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


@pytest.mark.parametrize(("dimensions", "error"), [(3, 1e-4), (64, 5e-5), (384, 2e-5), (1000, 2e-5)])
def test_cosines_are_nearly_exact(dimensions: int, error: float) -> None:
    rows = units(500, dimensions)
    table = VectorTable(dimensions)
    table.extend(rows[:7])
    table.extend(rows[7:])
    cosines = table.compare(np.arange(500), rows[3])
    assert np.abs(cosines - rows @ rows[3]).max() < error
    assert cosines[3] == pytest.approx(1, abs=1e-6)
    assert table.read(np.array([3]))[0] == pytest.approx(rows[3], abs=1e-4)


def test_the_nearest_are_those_of_comparing_all() -> None:
    rows = np.repeat(units(600, 384), 10, axis=0) + 0.7 * units(6_000, 384, seed=2)  # things said in ten ways
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    table = build_vectors(rows, np.arange(6_000), 6_000)
    found = wanted = 0
    for query in units(40, 384, seed=3) + rows[:40]:
        query /= np.linalg.norm(query)
        slots, cosines = table.nearest(query, np.ones(6_000, np.bool_), 10)
        exact = np.argsort(-(rows @ query))[:10]
        found += len(set(slots.tolist()) & set(exact.tolist()))
        wanted += 10
        assert (np.diff(cosines) <= 0).all()
        assert cosines == pytest.approx(rows[slots] @ query, abs=1e-4)
    assert found / wanted >= 0.99


def test_only_admitted_slots_are_found_be_they_few_or_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_TRIED", 50)
    rows = units(1_000, 64)
    table = build_vectors(rows, np.arange(1_000), 1_000)
    for share in (2, 300):
        admitted = np.arange(1_000) % share == 1
        slots, _ = table.nearest(rows[0], admitted, 3)
        best = [slot for slot in np.argsort(-(rows @ rows[0])).tolist() if admitted[slot]][:3]
        assert slots.tolist()[:1] == best[:1]
        assert admitted[slots].all()


def test_a_slot_without_a_vector_is_near_to_nothing() -> None:
    rows = units(3, 64)
    rows[1] = 0
    rows = np.concatenate([rows, units(1, 64, seed=9)])
    table = build_vectors(rows, np.array([4, 0, 2, -1]), 6)
    assert table.nearest(rows[0], np.ones(6, np.bool_), 9)[0].tolist() in ([4, 2], [2, 4])
    assert not table.read(np.array([0, 5])).any()
    assert table.compare(np.array([0, 4]), rows[0]) == pytest.approx([0, 1], abs=1e-4)


def test_vectors_are_replaced_and_kept_by_slot() -> None:
    rows = units(9, 70)
    table = build_vectors(rows[:4], np.arange(4), 4)
    table.extend(rows[4:6])
    table.replace(np.array([1, 5]), rows[7:9])
    kept = table.keep(np.array([1, 3, 5]))
    for slot, row in enumerate((7, 3, 8)):
        assert kept.nearest(rows[row], np.ones(3, np.bool_), 1)[0].tolist() == [slot]
    assert len(kept) == 3
    assert len(table) == 6
