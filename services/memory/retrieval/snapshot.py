"""What took long to work out of the texts, kept in a file for the next start."""

import hashlib
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.memory.retrieval.catalogue import Catalogue
from services.memory.retrieval.keywords import Keywords, split_words
from services.memory.retrieval.postings import Postings, Stored, renumber
from shared.log import logger

FILE = "words.npz"
FORMAT = 1
_PROBE = "The RUNNERS' graph_version of Straße 42 hadn't been ünderstood, it's said; " + "x" * 80
_DAMAGED = (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile, zlib.error)

log = logger(__name__)


def save(folder: Path, catalogue: Catalogue, keywords: Keywords) -> None:
    """Keep the words of all nodes as they are now in a file of ``folder``, in place of what was kept before.

    Raises OSError where that cannot be written; then the older one is there still.
    """
    slots = np.flatnonzero(catalogue.column("current"))
    stored = keywords.store(renumber(slots, catalogue.size))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f"{FILE}.new"
    with draft.open("wb") as file:
        np.savez(
            file,
            made_by=_pack([_fingerprint()]),
            ids=_pack(catalogue.name(slots)),
            versions=catalogue.column("version")[slots],
            sizes=catalogue.column("size")[slots],
            lengths=keywords.lengths(catalogue.size)[slots],
            terms=_pack(stored.terms),
            starts=stored.starts,
            slots=stored.slots,
            counts=stored.counts,
        )
    os.replace(draft, folder / FILE)  # noqa: PTH105 - as it is named in the docs of POSIX


def restore(folder: Path, catalogue: Catalogue) -> tuple[Keywords, int] | None:
    """The words of a catalogue's nodes, and how many of these are not kept: their texts are read.

    None where there is no such file, where it is damaged or of another version of this program, or where it
    holds less than half of the nodes.
    """
    try:
        with (folder / FILE).open("rb") as raw, np.load(raw) as file:
            kept = dict(file)
        stored = _check(kept)
        places = _find_places(catalogue, kept)
    except FileNotFoundError:
        return None
    except _DAMAGED as error:
        log.info("words are read anew", reason=str(error))
        return None
    missing = np.ones(catalogue.size, np.bool_)
    missing[places[places >= 0]] = False
    if 2 * np.count_nonzero(missing) > catalogue.size:
        return None
    lengths = np.zeros(catalogue.size, np.float32)
    lengths[places[places >= 0]] = kept["lengths"][places >= 0]
    if not np.array_equal(places, np.arange(len(places))):
        stored = Postings(stored).store(places)
    unkept = np.flatnonzero(missing).tolist()
    return Keywords.restore(stored, lengths, catalogue.text, unkept), len(unkept)


def _find_places(catalogue: Catalogue, kept: dict[str, NDArray[Any]]) -> NDArray[np.int32]:
    """The slots of the nodes that are kept, -1 where one is gone or another text now."""
    places = catalogue.locate(_unpack(kept["ids"]))
    if not catalogue.size:
        return places
    same = (places >= 0) & (catalogue.column("version")[places] == kept["versions"])
    same &= catalogue.column("size")[places] == kept["sizes"]
    return np.where(same, places, np.int32(-1))


def _check(kept: dict[str, NDArray[Any]]) -> Stored:
    """What is kept of the words; raises ValueError where it does not fit together."""
    if _unpack(kept["made_by"]) != [_fingerprint()]:
        raise ValueError("they were kept by another version")
    stored = Stored(_unpack(kept["terms"]), kept["starts"], kept["slots"], kept["counts"])
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
