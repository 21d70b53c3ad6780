"""The pairs that evidence is fitted on and judged by: written ones, and those of made-up stores."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np

from services.memory.embedding import open_embedder
from services.memory.linking.rules import COMPARED, KINDS
from services.memory.writes.change import embedded_text
from shared.settings import load
from tests.bench.answers.story import Teller, tell_changes, tell_facts, tell_lookalikes
from tests.bench.answers.surroundings import tell_fillers
from tests.bench.answers.wording import Wording

HERE = Path(__file__).parent
KNOWN = HERE.parents[1] / "unit" / "claim_pairs" / "known.toml"
START = datetime(2026, 9, 1, tzinfo=UTC)
NEAREST = 40
"""Candidates of a node, as in the linker."""
CROSSED = 12
"""Others' older notes that are held against each newer one."""
SEEDS = {"training": range(1, 7), "work": (1, 3, 4, 9)}


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """An older and a newer note, whether the newer one replaces it, and what the row weighs."""

    older: str
    newer: str
    label: str
    kind: str = ""
    weight: float = 1.0
    cosine: float = 0.0


def read_pairs(split: str) -> list[Sample]:
    """The written pairs: those to ``fit`` on, or those that are ``held`` and only counted."""
    rows = map(json.loads, (HERE / "pairs.jsonl").read_text("utf-8").splitlines())
    return [msgspec.convert(row, Sample) for row in rows if row["split"] == split]


def read_all() -> list[Sample]:
    """Everything to fit on, with cosines."""
    written = [sample for sample in read_pairs("fit") if sample.label != "open"]
    known = [
        Sample(older=older, newer=newer, label="apart" if kind == "apart" else "replaces", weight=0.2)
        for kind, pairs in tomllib.loads(KNOWN.read_text("utf-8")).items()
        for older, newer in pairs
    ]
    made = [sample for half in SEEDS for seed in SEEDS[half] for sample in _read_store(half, seed)]
    return [*measure([*written, *known]), *_cross(written), *made]


def measure(samples: Sequence[Sample]) -> list[Sample]:
    """The samples with their cosines."""
    vectors = _embed([text for sample in samples for text in (sample.older, sample.newer)])
    return [
        msgspec.structs.replace(sample, cosine=float(vectors[sample.older] @ vectors[sample.newer]))
        for sample in samples
    ]


def _embed(texts: Sequence[str]) -> dict[str, np.ndarray]:
    unique = list(dict.fromkeys(texts))
    embedder = open_embedder(load())
    vectors = dict(zip(unique, embedder.embed(unique), strict=True))
    embedder.close()
    return vectors


def _cross(written: Sequence[Sample]) -> Iterator[Sample]:
    """Each newer note with the older ones of other pairs that are most like it: they stay apart."""
    vectors = _embed([text for sample in written for text in (sample.older, sample.newer)])
    older = np.stack([vectors[sample.older] for sample in written])
    paired = {(sample.older, sample.newer) for sample in written}
    for sample in written:
        cosines = older @ vectors[sample.newer]
        for place in np.argsort(-cosines)[:CROSSED]:
            other = written[place].older
            if cosines[place] >= COMPARED and (other, sample.newer) not in paired:
                found = float(cosines[place])
                yield Sample(older=other, newer=sample.newer, label="apart", weight=0.15, cosine=found)


def _read_store(half: str, seed: int) -> Iterator[Sample]:
    """The candidates of a made-up store: the states of claims, and what is like them."""
    base = tomllib.loads((HERE.parent / "answers" / "work.toml").read_text("utf-8"))
    if half == "training":
        base |= tomllib.loads((HERE / "training.toml").read_text("utf-8"))
    teller = Teller(msgspec.convert(base, Wording), seed, START)
    tell_changes(teller, 0)
    tell_facts(teller)
    list(tell_lookalikes(teller))
    tell_fillers(teller)
    told = sorted((p for p in teller.planted if p.node.kind in KINDS), key=lambda p: p.node.created_at)
    texts = [embedded_text(planted.node) for planted in told]
    vectors = _embed(texts)
    cosines = np.stack([vectors[text] for text in texts])
    cosines = cosines @ cosines.T
    share = 1.0 if half == "training" else 0.5
    for new, planted in enumerate(told):
        for old in np.argsort(-cosines[new])[: NEAREST + 1]:
            if old < new and cosines[new, old] >= COMPARED:
                same = bool(planted.key) and planted.key == told[old].key
                yield Sample(
                    older=texts[old],
                    newer=texts[new],
                    label="replaces" if same else "apart",
                    weight=share * (0.4 if same else 0.04),
                    cosine=float(cosines[new, old]),
                )
