"""Kinds of memory as people write them: a slip of the pen is noticed."""

import difflib
from collections.abc import Iterable

from shared.contracts import KINDS

ALIKE = 0.8
"""How much a kind is like one of the office's own to be taken for a slip: 'decison' and 'facts' are."""


def meant_kind(kind: str) -> str:
    """The kind of the office's own that ``kind`` is a slip of; empty where it is none."""
    if kind in KINDS:
        return ""
    return next(iter(difflib.get_close_matches(kind.lower(), KINDS, n=1, cutoff=ALIKE)), "")


def ask_back(kinds: Iterable[str]) -> str:
    """A question to end a sentence with, where one of ``kinds`` is a slip."""
    meant = [found for found in map(meant_kind, kinds) if found]
    return f" Did you mean --kind {meant[0]}?" if meant else ""
