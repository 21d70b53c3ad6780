"""An inverted index of words in RAM, its copy on disk, and how texts are split into words."""

import hashlib
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from services.memory.retrieval.node_index import NodeIndex
from services.memory.retrieval.postings import Codes, Counts, Postings, Slots, StoredPostings, renumber
from services.memory.retrieval.vectors import GrowingArray, capacity_for
from shared.log import logger
from shared.text import prose
from shared.text.display import drop_unseen

MAX_WORD = 64  # Longer words are cut: no search needs more of them

REMEMBERED = 300_000
"""Words as they are written that are kept with what they are reduced to: working that out takes 3 us."""

MANY = 32  # So many texts are encoded at once; for fewer the arrays cost more than they save

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
        reduced = self[raw] = tuple(prose.stem(_BASES.get(word, word)[:MAX_WORD]) for word in (raw, *parts))
        return reduced


_reduced = _StemCache()


def fold_words(text: str) -> list[str]:
    """The words of a text as they are written, case folded."""
    return _WORD.findall(drop_unseen(text).casefold())


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


K1 = 0.9
B = 0.4
"""The usual values for short texts of uneven length (Anserini's), which also served conversations best."""

FREQUENT = 32  # A word that one in so many nodes has is frequent

FEW = 1_000  # No word is frequent among so few nodes

SPREAD = 64  # Frequent words whose counts are kept by slot, a byte each

_NOWHERE: Slots = np.empty(0, np.uint32)

FILE = "words.npz"
FORMAT = 2
_PROBE = "The RUNNERS' graph_version of Straße 42 hadn't been ünderstood, it's said; " + "x" * 80
_DAMAGED = (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile, zlib.error)

log = logger(__name__)


def plain_words(text: str) -> set[str]:
    """The words of a question as they are written, but for case; without those that say nothing."""
    return {word for word in fold_words(text) if word not in PLAIN_STOP_WORDS}


def query_words(text: str) -> set[str]:
    """What a text is searched for: its words without those that say nothing, unless it has no others."""
    found = set(split_words(text))
    return found - STOP_WORDS or found


PLAIN_STOP_WORDS = prose.STOP_WORDS | frozenset("him how where why s t d ll re ve m".split())
"""With more question words, and what contractions such as it's or I'd leave behind."""

STOP_WORDS = frozenset(chain.from_iterable(map(split_words, PLAIN_STOP_WORDS)))
"""Left out of a query that has other words: they say nothing about what is sought. Words alone found 58.7 %
of the evidence in conversations without them, 55.1 % with them."""


class WordMatches(NamedTuple):
    """The slots where a word occurs, how often in each, and how many these are.

    Of a frequent word ``spread`` has the counts by slot instead, which cost the same however frequent it is.
    """

    slots: Slots
    counts: Counts
    number: int
    spread: Counts | None


class _SpreadCounts(NamedTuple):
    """Counts by slot, those before ``end``."""

    end: int
    counts: Counts


class Keywords:
    """How often each word occurs in each slot; slots are numbered from 0 in the order of ``extend``.

    In RAM, because a node must be findable as soon as it was stored and LanceDB's index is rebuilt after
    writes. One thread extends, any number read.
    """

    def __init__(
        self, stored: StoredPostings | None = None, lengths: NDArray[np.float32] | None = None
    ) -> None:
        self._postings = Postings(stored)
        self._lengths = GrowingArray(np.empty(0, np.float32) if lengths is None else lengths)
        self._frequent: dict[str, _SpreadCounts] = {}

    @classmethod
    def build(cls, texts: Iterable[str]) -> "Keywords":
        """Of the texts of slots 0, 1, 2 ...; 100,000 of 30 words take 1 to 2 s."""
        terms = Codes()
        lengths, codes = encode([*texts], terms)
        slots = np.repeat(np.arange(len(lengths)), lengths)
        keywords = cls(lengths=lengths.astype(np.float32))
        keywords._postings = Postings.build(list(terms), codes, slots)
        return keywords

    @classmethod
    def restore(
        cls,
        stored: StoredPostings,
        lengths: NDArray[np.float32],
        texts: Callable[[int], str],
        missing: Sequence[int],
    ) -> "Keywords":
        """Of what was stored, but for the slots ``missing``, whose texts are read."""
        keywords = cls(stored, lengths)
        counts, codes = encode([*map(texts, missing)], keywords._postings.codes)
        slots = np.array(missing, np.int64)
        lengths[slots] = counts
        keywords._postings.extend(codes, np.repeat(slots, counts))
        return keywords

    def extend(self, texts: Sequence[str]) -> None:
        """Index texts in the next slots."""
        lengths, codes = encode(texts, self._postings.codes)
        slots = np.arange(len(self._lengths), len(self._lengths) + len(lengths))
        self._postings.extend(codes, np.repeat(slots, lengths))
        self._lengths.extend(lengths.astype(np.float32))

    def find(self, word: str, before: int) -> tuple[Slots, Counts]:
        """The slots lower than ``before`` in which a (reduced) word occurs, and how often in each."""
        return self._postings.find(word, before)

    def match(self, word: str, before: int) -> WordMatches:
        """The same, by slot if the word is frequent."""
        known = self._frequent.get(word)
        if known is None:
            slots, counts = self._postings.find(word, before)
            if not FREQUENT * len(slots) > before > FEW:
                return WordMatches(slots, counts, len(slots), None)
            known = _SpreadCounts(0, np.zeros(capacity_for(before), np.uint8))
        known = self._extend_spread(word, known, before)
        counts = known.counts[:before]
        return WordMatches(_NOWHERE, counts[:0], int(np.count_nonzero(counts > 0)), counts)

    def _extend_spread(self, word: str, known: "_SpreadCounts", before: int) -> "_SpreadCounts":
        """Add what came since, and keep it: frequent words are asked for again and again."""
        if before <= known.end:
            return known
        counts = known.counts
        if before > len(counts):
            counts = np.zeros(capacity_for(before), np.uint8)
            counts[: known.end] = known.counts[: known.end]
        slots, later = self._postings.find(word, before, known.end)
        counts[slots] = later
        self._frequent.pop(word, None)
        while len(self._frequent) >= SPREAD:
            self._frequent.pop(next(iter(self._frequent)), None)
        known = self._frequent[word] = _SpreadCounts(before, counts)
        return known

    def lengths(self, before: int) -> NDArray[np.float32]:
        """How many words each of the first slots has."""
        return self._lengths.read(before)

    def store(self, new_slots: NDArray[np.int32]) -> StoredPostings:
        """All of it in one, for slots that get other numbers: ``new_slots[old]``, or -1 where one goes."""
        return self._postings.store(new_slots)


def save_keywords(folder: Path, index: NodeIndex, keywords: Keywords) -> Keywords:
    """Keep the words of all nodes as they are now in a file of ``folder``, in place of what was kept before.

    Returns the same words in one piece, which is smaller, for slots numbered without outdated ones. Raises
    OSError if that cannot be written; then the older file remains.
    """
    slots = np.flatnonzero(index.column("current"))
    stored = keywords.store(renumber(slots, index.size))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f"{FILE}.new"
    with draft.open("wb") as file:
        np.savez(
            file,
            made_by=_pack([_fingerprint()]),
            ids=_pack(index.name(slots)),
            versions=index.column("version")[slots],
            sizes=index.column("size")[slots],
            lengths=keywords.lengths(index.size)[slots],
            terms=_pack(stored.terms),
            starts=stored.starts,
            slots=stored.slots,
            counts=stored.counts,
        )
    os.replace(draft, folder / FILE)  # noqa: PTH105 - as it is named in the docs of POSIX
    return Keywords(stored, keywords.lengths(index.size)[slots])


def load_keywords(folder: Path, index: NodeIndex) -> tuple[Keywords, int] | None:
    """The words of a index's nodes, and how many of these are not kept: their texts are read.

    None if there is no such file, or it is damaged, of another version of this program, or holds less than
    half of the nodes.
    """
    try:
        with (folder / FILE).open("rb") as raw, np.load(raw) as file:
            kept = dict(file)
        stored = _check(kept)
        places = _find_places(index, kept)
    except FileNotFoundError:
        return None
    except _DAMAGED as error:
        log.info("word_index_unread", reason=str(error))
        return None
    missing = np.ones(index.size, np.bool_)
    missing[places[places >= 0]] = False
    if 2 * np.count_nonzero(missing) > index.size:
        return None
    lengths = np.zeros(index.size, np.float32)
    lengths[places[places >= 0]] = kept["lengths"][places >= 0]
    if not np.array_equal(places, np.arange(len(places))):
        stored = Postings(stored).store(places)
    unkept = np.flatnonzero(missing).tolist()
    return Keywords.restore(stored, lengths, index.text, unkept), len(unkept)


def _find_places(index: NodeIndex, kept: dict[str, NDArray[Any]]) -> NDArray[np.int32]:
    """The slots of the nodes that are kept, -1 if one is gone or has another text now."""
    places = index.locate(_unpack(kept["ids"]))
    if not index.size:
        return places
    same = (places >= 0) & (index.column("version")[places] == kept["versions"])
    same &= index.column("size")[places] == kept["sizes"]
    return np.where(same, places, np.int32(-1))


def _check(kept: dict[str, NDArray[Any]]) -> StoredPostings:
    """The words as they were saved; raises ValueError if they are inconsistent."""
    if _unpack(kept["made_by"]) != [_fingerprint()]:
        raise ValueError("they were kept by another version")
    stored = StoredPostings(_unpack(kept["terms"]), kept["starts"], kept["slots"], kept["counts"])
    count = len(kept["lengths"])
    if not (
        len(stored.starts) == len(stored.terms) + 1
        and stored.starts[-1] == len(stored.slots) == len(stored.counts)
        and stored.slots.max(initial=0) < max(1, count)
        and len(_unpack(kept["ids"])) == len(kept["versions"]) == len(kept["sizes"]) == count
    ):
        raise ValueError("what is kept does not fit together")
    return stored


def _fingerprint() -> str:
    """Tells programs apart that would keep something else of the same text."""
    return hashlib.sha256(repr((FORMAT, split_words(_PROBE))).encode()).hexdigest()


def _pack(texts: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(texts).encode(), np.uint8)


def _unpack(packed: NDArray[np.uint8]) -> list[str]:
    text = packed.tobytes().decode()
    return text.split("\n") if text else []
