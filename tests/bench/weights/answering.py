"""What is fitted to questions about made-up stores: whether the best sentence that was read answers."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np
import uvloop
from sklearn.ensemble import GradientBoostingClassifier

from services.memory.classifier import Classifier
from services.nexus.answers.answer_type import lacks_amount
from services.nexus.answers.evidence import Evidence
from services.nexus.answers.weighing import (
    LEAST,
    LEAST_NAMED,
    Asked,
    is_told,
    measure_certainty,
    weigh,
    weigh_terms,
)
from shared.text.prose import find_phrases
from tests.bench.answers.samples import TEAMS, TOLD, Sample, read_store
from tests.bench.weights.graphs import share, write_boosted

STEPS, RATE, BAGS = 400, 0.1, 4
"""Steps that are added, what each counts, and how often all is done with other samples for the mean."""
DRAWN, TRIED, FEWEST = 0.5, 0.2, 10
"""The share of samples of a step, of signs that are tried for it, and the fewest samples of a side."""
WEIGHTS = {"fact": 1.5, "change": 1.0, "unknown": 2.0, "crossed": 0.7}
"""What questions of each kind count."""
WITHOUT = 0.5
"""What one counts from which the answer was taken away."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The signs of the best sentence for a question, and whether it is the answer."""

    kind: str
    signs: dict[str, float]
    right: bool
    weight: float


def read_samples(kept: Path | None) -> list[Sample]:
    """The samples of all stores, asked of a real daemon; a folder keeps them, so that they are read once."""
    samples: list[Sample] = []
    for path in (*TEAMS, *TOLD):
        file = kept / f"{path.stem}.msgpack" if kept else None
        if file and file.is_file():
            samples += msgspec.msgpack.decode(file.read_bytes(), type=list[Sample])
            continue
        print(f"Reading {path.stem}", flush=True)
        found = uvloop.run(read_store(path))
        samples += found
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(msgspec.msgpack.encode(found))
    return samples


def read_rows(kept: Path | None) -> list[Row]:
    """The rows of all questions, and of those that have an answer also without it."""
    rows = []
    for sample in read_samples(kept):
        item = sample.item
        rest = [each for each in sample.evidence if each.hit.node.id not in item.gold]
        for evidence, part in ((sample.evidence, 1.0), (rest, WITHOUT)) if item.gold else ((rest, 1.0),):
            if found := _find_best(item.question, evidence):
                signs, best = found
                right, weight = best.hit.node.id in item.gold, WEIGHTS[item.kind] * part
                rows.append(Row(kind=item.kind, signs=signs, right=right, weight=weight))
    return rows


def _find_best(question: str, evidence: Sequence[Evidence]) -> tuple[dict[str, float], Evidence] | None:
    """The sentence that ``choose`` would judge, with its signs."""
    phrases = frozenset(chain.from_iterable(find_phrases(question, each.text) for each in evidence))
    asked = Asked(question, phrases, weigh_terms(question, evidence))
    support = {each.hit.node.id: weigh(asked, each) for each in evidence}
    may_answer = [each for each in evidence if not lacks_amount(question, each.text)]
    if not may_answer:
        return None
    best = max(may_answer, key=lambda each: support[each.hit.node.id])
    return measure_certainty(asked, best, evidence, support), best


def fit_certainty(path: Path, rows: Sequence[Row]) -> None:
    """Boosted steps: each sign adds what the step counts on which its value is."""
    names = list(rows[0].signs)
    signs = np.array([[float(row.signs[name]) for name in names] for row in rows], np.float32)
    options = {"n_estimators": STEPS, "learning_rate": RATE, "max_depth": 1, "min_samples_leaf": FEWEST}
    write_boosted(
        path,
        [
            GradientBoostingClassifier(**options, subsample=DRAWN, max_features=TRIED, random_state=seed).fit(
                signs, [row.right for row in rows], sample_weight=[row.weight for row in rows]
            )
            for seed in range(BAGS)
        ],
        names,
    )


def judge_certainty(classifier: Classifier, rows: Sequence[Row]) -> dict[str, float]:
    """How many answers are told, and how many sentences that are none are not, in percent of those fitted to:
    ``make bench-answers`` asks others."""
    odds = classifier.score(classifier.arrange([row.signs for row in rows]))[:, 0].tolist()
    told = [
        is_told(found, row.signs["support"], LEAST_NAMED if row.signs["shared"] else LEAST)
        for row, found in zip(rows, odds, strict=True)
    ]
    pairs = list(zip(rows, told, strict=True))
    return {
        "answers told": share([one for row, one in pairs if row.right]),
        "others declined": share([not one for row, one in pairs if not row.right]),
    }
