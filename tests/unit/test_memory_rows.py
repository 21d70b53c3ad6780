"""Tables of states: which rows hold at a version, and which texts lack a vector."""

import pyarrow as pa
import pytest

from services.memory.storage.tables import drop_retired, find_texts, newest, split


def table(*rows: tuple[str, int], retired: tuple[int, ...] = ()) -> pa.Table:
    """States as (id, version); ``retired`` are the versions of tombstones."""
    return pa.table(
        {
            "id": [name for name, _ in rows],
            "relation": ["r" if name != "other" else "s" for name, _ in rows],
            "version": [version for _, version in rows],
            "retired_version": [version if version in retired else 0 for _, version in rows],
        }
    )


ROWS = (("a", 1), ("b", 2), ("a", 5), ("c", 3), ("a", 4))


@pytest.mark.parametrize(
    ("at", "held"),
    [
        (0, [("b", 2), ("a", 5), ("c", 3)]),
        (4, [("b", 2), ("c", 3), ("a", 4)]),
        (3, [("a", 1), ("b", 2), ("c", 3)]),
        (1, [("a", 1)]),
        (-1, []),
    ],
)
@pytest.mark.parametrize("keys", [("id",), ("id", "relation")])
def test_the_newest_state_of_each_key_holds(
    at: int, held: list[tuple[str, int]], keys: tuple[str, ...]
) -> None:
    mask = newest(table(*ROWS), keys, at)
    assert [row for row, holds in zip(ROWS, mask, strict=True) if holds] == held


def test_of_no_rows_none_holds() -> None:
    assert newest(table(), ("id",)).tolist() == []
    assert newest(table(), ("id", "relation"), 3).tolist() == []


def test_keys_of_several_columns_are_told_apart() -> None:
    rows = pa.table({"from": ["a", "a", "b", "a"], "to": ["b", "c", "b", "b"], "version": [1, 2, 3, 4]})
    assert newest(rows, ("from", "to")).tolist() == [False, True, True, True]


def test_tombstones_are_dropped_or_split_off() -> None:
    rows = table(*ROWS, retired=(5, 3))
    assert drop_retired(rows).column("version").to_pylist() == [1, 2, 4]
    kept, old = split(rows, ("id",), tombstones=True)
    assert (kept.column("version").to_pylist(), old.column("version").to_pylist()) == ([2, 5, 3], [1, 4])
    kept, old = split(rows, ("id",), tombstones=False)
    assert (kept.column("version").to_pylist(), old.column("version").to_pylist()) == ([2], [1, 5, 3, 4])


def test_texts_without_a_vector_are_found_the_current_ones_first() -> None:
    states = pa.table(
        {
            "id": ["a", "b", "a", "a", "c", "a"],
            "version": [1, 2, 3, 4, 5, 6],
            "title": ["A", "B", "A", "A two", "C", "A two"],
            "body": ["", "x", "", "", "", ""],
        }
    )
    done = pa.table({"id": ["c", "a"], "version": [5, 3]})
    found = find_texts(states, done)
    keys = list(zip(found.column("id").to_pylist(), found.column("version").to_pylist(), strict=True))
    assert keys == [("b", 2), ("a", 4), ("a", 1)]
    assert find_texts(states.slice(0, 0), done).num_rows == 0
