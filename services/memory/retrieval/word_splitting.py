"""Texts split into words, reduced to their stems: one by one, and many at once outside the interpreter."""

import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from services.memory.retrieval.postings import Codes
from shared.text import words

MAX_WORD = 64
"""Longer words are cut: no search needs more of them."""

REMEMBERED = 300_000
"""Words as they are written that are kept with what they are reduced to: working that out takes 3 us."""

MANY = 32
"""So many texts are encoded at once; for fewer the arrays cost more than they save."""

Numbers = NDArray[np.int64]

_WORD = re.compile(r"\w+")
_LOWER = bytes(
    ord(chr(byte).lower()) if byte < 128 and (chr(byte).isalnum() or byte == ord("_")) else ord(" ")
    for byte in range(256)
)
"""What ``\\w+`` and ``casefold`` make of ASCII: words in lower case between blanks."""


_BASES = {
    form: base
    for base, *forms in map(
        str.split, Path(__file__).with_name("irregular.txt").read_text("utf-8").splitlines()
    )
    for form in forms
}
"""Irregular verbs and nouns: what is asked with "buy" was mostly told with "bought"."""


class _StemCache(dict[str, tuple[str, ...]]):
    """What each word as it is written is reduced to, worked out when it is first asked for."""

    def __missing__(self, raw: str) -> tuple[str, ...]:
        parts = [part for part in raw.split("_") if part] if "_" in raw else []
        if len(self) >= REMEMBERED:
            self.clear()
        reduced = self[raw] = tuple(words.stem(_BASES.get(word, word)[:MAX_WORD]) for word in (raw, *parts))
        return reduced


_reduced = _StemCache()


def fold_words(text: str) -> list[str]:
    """The words of a text as they are written, case folded."""
    return _WORD.findall(text.casefold())


def split_words(text: str) -> list[str]:
    """The words of a text, case folded and reduced to their stems; snake_case whole and in parts."""
    return list(chain.from_iterable(map(_reduced.__getitem__, fold_words(text))))


def encode(texts: Sequence[str], terms: Codes) -> tuple[Numbers, Numbers]:
    """How many words (of ``split_words``) each text has, and the numbers of all these words in ``terms``."""
    if len(texts) >= MANY and all(map(str.isascii, texts)):
        return _encode_many(texts, terms)
    found = [list(map(terms.__getitem__, split_words(text))) for text in texts]
    lengths = np.fromiter(map(len, found), np.int64, len(found))
    return lengths, np.fromiter(chain.from_iterable(found), np.int64, int(lengths.sum()))


def _encode_many(texts: Sequence[str], terms: Codes) -> tuple[Numbers, Numbers]:
    """The same for texts in ASCII, of which only the words that differ are looked at one by one."""
    lower = pa.array([text.encode().translate(_LOWER) for text in texts], pa.binary()).cast(pa.string())
    split = pc.ascii_split_whitespace(lower)
    raw = split.flatten()
    blank = pc.equal(raw, "").to_numpy(zero_copy_only=False)
    encoded = raw.dictionary_encode()
    places = encoded.indices.to_numpy()[~blank]
    known = terms.of_raw
    if len(known) > REMEMBERED:
        known.clear()
    written = encoded.dictionary.to_pylist()
    for word in written:
        if word not in known:
            known[word] = [terms[term] for term in _reduced[word]] if word else []
    codes = [known[word] for word in written]
    counts = np.fromiter(map(len, codes), np.int64, len(codes))
    flat = np.fromiter(chain.from_iterable(codes), np.int64, int(counts.sum()))
    each = counts[places]  # a word in snake_case has several codes
    rows = pc.list_parent_indices(split).to_numpy()[~blank]
    lengths = np.bincount(rows, each, len(texts)).astype(np.int64)
    first = np.repeat((np.cumsum(counts) - counts)[places] - (np.cumsum(each) - each), each)
    return lengths, flat[first + np.arange(len(first))]
