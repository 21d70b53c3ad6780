"""Places of nodes by forces: all push each other apart, edges pull, and the middle holds them together.

It is Fruchterman and Reingold's model in numpy. ``rustworkx.spring_layout`` holds the interpreter lock as
long as it computes (1.4 s for 2,000 nodes), and with it all of memory; numpy gives it up in each step.
"""

import time
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]

GRAVITY = 0.9
"""How strongly the middle pulls: it keeps in the picture what has no edges."""

BLOCK = 256
"""Nodes whose distances to all others are computed at once: 2 MB of numbers for 2,000 nodes."""

NEAR = 0.1
"""The longest way a node goes in the first step; it ends at 0."""


def scatter(node_id: str) -> tuple[float, float]:
    """A place in the unit circle that depends on the id alone."""
    first, second = np.frombuffer(blake2b(node_id.encode(), digest_size=8).digest(), np.uint32) / 2**32
    angle, far = 2 * np.pi * float(first), float(second) ** 0.5
    return far * float(np.cos(angle)), far * float(np.sin(angle))


def relax(
    points: Points,
    springs: NDArray[np.intp],
    strengths: Points,
    free: NDArray[np.bool_],
    steps: int,
    seconds: float,
) -> Points:
    """Where the ``free`` ones of the points come to rest after so many steps, or as far as the time allows.

    ``springs`` are pairs of places (two columns), each with its strength of 0 to 1. The others stay where
    they are. The same points give the same result.
    """
    points = points.astype(np.float32, copy=True)
    end = time.monotonic() + seconds
    ideal = np.float32(1.6 / max(1.0, len(points)) ** 0.5)
    moving = np.flatnonzero(free)
    for step in range(steps):
        if time.monotonic() > end:
            break
        force = _push(points, moving, ideal) - GRAVITY * points[moving]
        force += _pull(points, springs, strengths, ideal)[moving]
        length = np.maximum(np.hypot(force[:, 0], force[:, 1]), 1e-9)
        reach = np.minimum(length * ideal, NEAR * (1 - step / steps))
        points[moving] += force * (reach / length)[:, None]
    return points


def fit(points: Points) -> Points:
    """The same picture in the middle, as large as fits into -1 to 1."""
    if not len(points):
        return points
    centred: Points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    return centred / max(float(np.abs(centred).max()), 1e-6)


def _push(points: Points, moving: NDArray[Any], ideal: np.float32) -> Points:
    force = np.zeros((len(moving), 2), np.float32)
    x, y = np.ascontiguousarray(points.T)
    for first in range(0, len(moving), BLOCK):
        rows = moving[first : first + BLOCK]
        right, up = x[rows, None] - x, y[rows, None] - y
        strength = ideal / (right * right + up * up + np.float32(1e-5))
        force[first : first + BLOCK, 0] = (right * strength).sum(axis=1)
        force[first : first + BLOCK, 1] = (up * strength).sum(axis=1)
    return force * ideal


def _pull(points: Points, springs: NDArray[np.intp], strengths: Points, ideal: np.float32) -> Points:
    force = np.zeros_like(points)
    if not len(springs):
        return force
    start, end = springs.T
    way = points[end] - points[start]
    pull = way * (np.hypot(way[:, 0], way[:, 1]) * strengths / ideal)[:, None]
    for axis in (0, 1):
        force[:, axis] += np.bincount(start, pull[:, axis], len(points))
        force[:, axis] -= np.bincount(end, pull[:, axis], len(points))
    return force
