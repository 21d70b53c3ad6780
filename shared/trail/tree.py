"""The tree of RFC 6962 over commitments: its root, and the path that proves one of them."""

from collections.abc import Sequence
from hashlib import sha256

NODE = b"\x01"
"""What the hash of two nodes begins with."""


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over hashes of leaves; of no leaf, the hash of nothing."""
    level = list(leaves)
    if not level:
        return sha256().digest()
    while len(level) > 1:
        level = _next_level(level)
    return level[0]


def path_of(leaves: Sequence[bytes], index: int) -> list[tuple[bool, bytes]]:
    """The path from a leaf to the root: each hash beside it on the way, and whether that stands before it."""
    path: list[tuple[bool, bytes]] = []
    level = list(leaves)
    while len(level) > 1:
        beside = index ^ 1
        if beside < len(level):
            path.append((beside < index, level[beside]))
        level, index = _next_level(level), index // 2
    return path


def root_by_path(leaf: bytes, path: Sequence[tuple[bool, bytes]]) -> bytes:
    """The root that a path leads to."""
    for before, beside in path:
        leaf = _join(beside, leaf) if before else _join(leaf, beside)
    return leaf


def _next_level(level: Sequence[bytes]) -> list[bytes]:
    """The hashes of pairs; one without a neighbour stays as it is, which makes the tree of the RFC."""
    above = [_join(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
    return [*above, level[-1]] if len(level) % 2 else above


def _join(left: bytes, right: bytes) -> bytes:
    return sha256(NODE + left + right).digest()
