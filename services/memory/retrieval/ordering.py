"""The first of many, without putting all of them in order."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]


def first_places(
    keys: Sequence[NDArray[Any]], limit: int, name: Callable[[Places], Sequence[str]] | None = None
) -> Places:
    """``limit`` places in the order of keys, the highest first; of equal ones by the next key, then by name.

    Names are asked for where keys do not decide, and come in ascending order; without them places do.
    """
    chosen, level, left = [], np.arange(len(keys[0])), limit
    for key in keys:
        if not 0 < left < len(level):
            break
        values = key[level]
        least = np.partition(values, -left)[-left]
        chosen.append(level[values > least])
        left -= len(chosen[-1])
        level = level[values == least]
    places = np.concatenate((*chosen, level))
    falling = [-key[places] for key in reversed(keys)]
    order = np.lexsort(falling)
    if name is not None and _has_equals(falling, order):
        order = np.lexsort([np.argsort(np.argsort(name(places))), *falling])
    return places[order][:limit]


def _has_equals(keys: Sequence[NDArray[Any]], order: Places) -> bool:
    same = np.ones(max(0, len(order) - 1), np.bool_)
    for key in keys:
        arranged = key[order]
        same &= arranged[1:] == arranged[:-1]
    return bool(same.any())
