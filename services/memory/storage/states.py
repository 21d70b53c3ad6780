"""Tables of states, one a row: which of them hold, at which version, and which texts lack a vector."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Codes = NDArray[np.int64]


def newest(table: pa.Table, keys: tuple[str, ...], at: int = 0) -> NDArray[np.bool_]:
    """Which rows are the newest state of their key, of all or of those up to version ``at``."""
    codes = np.zeros(table.num_rows, np.int64)
    for key in keys:
        column = _encode(table.column(key))
        codes = codes * (int(column.max(initial=0)) + 1) + column
    if len(keys) > 1:
        codes = np.unique(codes, return_inverse=True)[1]
    versions = table.column("version").to_numpy()
    admitted = versions <= (at or np.iinfo(np.int64).max)
    order = np.argsort(np.where(admitted, versions, -1), kind="stable")
    last = np.full(int(codes.max(initial=-1)) + 1, -1)
    last[codes[order]] = order  # of several values for one place the last one stays
    mask = np.zeros(table.num_rows, np.bool_)
    mask[last] = True
    mask &= admitted
    return mask


def drop_retired(table: pa.Table) -> pa.Table:
    """The rows that are no tombstones."""
    held = table.column("retired_version").to_numpy() == 0
    return table if held.all() else table.filter(pa.array(held))


def split(table: pa.Table, keys: tuple[str, ...], *, tombstones: bool) -> tuple[pa.Table, pa.Table]:
    """The newest states and the others, to which the tombstones belong unless they are to stay."""
    current = newest(table, keys)
    if not tombstones:
        current &= table.column("retired_version").to_numpy() == 0
    return table.filter(pa.array(current)), table.filter(pa.array(~current))


def find_texts(states: pa.Table, embedded: pa.Table) -> pa.Table:
    """The states (id, version, title, body) that began a text, the current ones first, then by version.

    Left out are those whose (id, version) is in ``embedded``: they have a vector.
    """
    ids, versions = _encode(states.column("id")), states.column("version").to_numpy()
    order = np.lexsort((versions, ids))
    ids = ids[order]
    begun = _changes(ids)
    for name in ("title", "body"):
        begun |= _changes(_encode(states.column(name))[order])
    rows, ids = order[begun], ids[begun]
    current = np.append(ids[1:] != ids[:-1], True)[: len(ids)]
    rows = rows[np.lexsort((versions[rows], ~current))]
    texts = states.take(pa.array(rows))
    there = set(_pairs(embedded))
    return texts.filter(pa.array([pair not in there for pair in _pairs(texts)], pa.bool_()))


def _pairs(table: pa.Table) -> list[tuple[str, int]]:
    columns = (table.column(name).to_pylist() for name in ("id", "version"))
    return list(zip(*columns, strict=True))


def _changes(values: Codes) -> NDArray[np.bool_]:
    """Where a value differs from the one before; the first always does."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]


def _encode(column: pa.ChunkedArray) -> Codes:
    """Equal values by equal numbers from 0 on."""
    encoded = column.combine_chunks().dictionary_encode()
    codes: Codes = encoded.indices.to_numpy().astype(np.int64)
    return codes
