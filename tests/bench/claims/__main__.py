"""Whether notes take the place of others: ``python -m tests.bench.claims`` (``--fit`` fits the weights).

Counts, on written pairs that are held back from fitting, how many changes the linker is sure of and how many
it asks about, and how many of the pairs that both hold it joins wrongly, each
pair by itself. The last line is one JSON object.
``--fit`` needs scikit-learn, which Mailroom itself does not.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from services.memory.linking import chances, evidence
from services.memory.linking.statements import read_text
from tests.bench.claims.samples import Sample, measure, read_all, read_pairs

ROUNDS = 2
"""How often they are fitted, with other parts of the samples, for the mean of all: one alone is uneven."""
TREES, RATE, DEPTH, LEAST = 200, 0.08, 6, 12
"""How many trees, what each may add, how many questions each asks, and the fewest samples of an answer. Twice
as many trees gained less than 1 %, trees of two questions lost 6 to 10 % of the paraphrases."""


def judge(sample: Sample) -> str:
    """What is said of a pair: sure, asked or nothing."""
    (chance,) = chances.estimate([chances.Pair(sample.newer, sample.older, sample.cosine)])
    return "sure" if chance >= chances.SURE else "asked" if chance >= chances.ASKED else ""


def report() -> dict[str, Any]:
    """The shares of the held pairs, in percent, by label and kind."""
    counts: defaultdict[str, list[str]] = defaultdict(list)
    for sample in measure(read_pairs("held")):
        for name in (sample.label, f"{sample.label}, {sample.kind}"):
            counts[name].append(judge(sample))
    return {
        name: {"of": len(found), "sure": _share(found, "sure"), "asked": _share(found, "asked")}
        for name, found in sorted(counts.items())
    }


def _share(found: Sequence[str], answer: str) -> float:
    return round(100 * found.count(answer) / len(found), 1)


def gather(sample: Sample) -> evidence.Evidence | None:
    """The evidence of a sample; None if its texts are not compared."""
    new, old = read_text(sample.newer), read_text(sample.older)
    if not chances.may_compare(new, old):
        return None
    others = [read_text(text).keys for text in sample.beside if text not in (sample.newer, sample.older)]
    return evidence.gather(new, old, sample.cosine, others)


def fit() -> None:
    """Fit the trees and write them."""
    from sklearn.ensemble import GradientBoostingClassifier  # type: ignore[import-not-found]

    found = [(sample, gather(sample)) for sample in read_all()]
    rows = [[row[name] for name in evidence.NAMES] for _, row in found if row]
    samples = [sample for sample, row in found if row]
    models = [
        GradientBoostingClassifier(
            n_estimators=TREES, learning_rate=RATE, max_depth=DEPTH, subsample=0.5, max_features=0.1,
            min_samples_leaf=LEAST, random_state=seed,
        )
        for seed in range(ROUNDS)
    ]  # fmt: skip
    labels = [sample.label == "replaces" for sample in samples]
    for model in models:
        model.fit(rows, labels, sample_weight=[sample.weight for sample in samples])
    share = float(models[0].init_.class_prior_[1])
    header = chances.Header(
        names=evidence.NAMES, trees=TREES * ROUNDS, depth=DEPTH, start=math.log(share / (1 - share))
    )
    trees = [_complete(tree[0].tree_) for model in models for tree in model.estimators_]
    asked = np.array([tree[0] for tree in trees], dtype=np.uint8)
    numbers = [np.array([tree[part] for tree in trees], dtype=np.float32).tobytes() for part in (1, 2)]
    chances.FILE.write_bytes(b"\n".join([msgspec.json.encode(header), b"".join([asked.tobytes(), *numbers])]))
    print(f"{chances.FILE.name}: {len(samples)} samples, {len(evidence.NAMES)} kinds of evidence")


def _complete(tree: Any) -> tuple[list[int], list[float], list[float]]:
    """A tree with all its branches: what is asked, thresholds and answers; an answer that came early stands
    on both sides of questions that do not matter."""
    asked, thresholds, places = [], [], [0]
    for _ in range(DEPTH):
        below = []
        for place in places:
            ends = tree.children_left[place] < 0
            asked.append(0 if ends else int(tree.feature[place]))
            thresholds.append(0.0 if ends else float(tree.threshold[place]))
            below += (
                [place, place] if ends else [int(tree.children_left[place]), int(tree.children_right[place])]
            )
        places = below
    return asked, thresholds, [RATE / ROUNDS * float(tree.value[place][0][0]) for place in places]


def main() -> None:
    """Fit if asked to, else print the report as a table and as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.claims", description="What replaces what.")
    parser.add_argument("--fit", action="store_true", help="fit the weights and write them")
    if parser.parse_args().fit:
        fit()
        return
    shares = report()
    for name, row in shares.items():
        print(f"{name:32}", *(f"{key} {value:g}" for key, value in row.items()), sep="  ")
    print(json.dumps(shares))


if __name__ == "__main__":
    main()
