"""Whether notes take the place of others: ``python -m tests.bench.claims`` (``--fit`` fits the weights).

Counts, on written pairs that are held back from fitting, how many changes the linker is sure of and how many
it asks about, and how many of the pairs that both hold it joins wrongly. The last line is one JSON object.
``--fit`` needs scikit-learn, which Mailroom itself does not.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from services.memory.linking import evidence
from services.memory.linking.statements import read_text
from services.memory.linking.supersession import compare_texts
from tests.bench.claims.samples import Sample, measure, read_all, read_pairs

WEIGHTS = Path(evidence.__file__).with_name("weights.toml")
TREES, RATE, LEAST = 160, 0.1, 12
"""How many trees, what each may add, and the fewest samples of an answer. More trees did not help."""


def judge(sample: Sample) -> tuple[str, str]:
    """What rules alone say of a pair, and what rules and evidence say: sure, asked or nothing."""
    verdict = compare_texts(sample.newer, sample.older)
    chance = evidence.estimate(sample.newer, sample.older, sample.cosine)
    rules = "sure" if verdict.rule and verdict.certain else "asked" if verdict.rule else ""
    if rules == "sure" or chance >= evidence.SURE:
        return rules, "sure"
    return rules, "asked" if rules or chance >= evidence.ASKED else ""


def report() -> dict[str, Any]:
    """The shares of the held pairs, in percent, by label and kind."""
    counts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for sample in measure(read_pairs("held")):
        for name in (sample.label, f"{sample.label}, {sample.kind}"):
            counts[name].append(judge(sample))
    return {
        name: {
            "of": len(found),
            "rules sure": _share(found, 0, "sure"),
            "sure": _share(found, 1, "sure"),
            "asked": _share(found, 1, "asked"),
        }
        for name, found in sorted(counts.items())
    }


def _share(found: Sequence[tuple[str, str]], place: int, answer: str) -> float:
    return round(100 * sum(each[place] == answer for each in found) / len(found), 1)


def fit() -> None:
    """Fit the trees and write them."""
    from sklearn.ensemble import GradientBoostingClassifier  # type: ignore[import-not-found]

    samples = read_all()
    rows = [
        evidence.gather(read_text(sample.newer), read_text(sample.older), sample.cosine) for sample in samples
    ]
    names = list(rows[0])
    model = GradientBoostingClassifier(
        n_estimators=TREES, learning_rate=RATE, max_depth=2, subsample=0.5, max_features=0.2,
        min_samples_leaf=LEAST, random_state=1,
    )  # fmt: skip
    labels = [sample.label == "replaces" for sample in samples]
    weights = [sample.weight for sample in samples]
    model.fit([[row[name] for name in names] for row in rows], labels, sample_weight=weights)
    start = float(model.init_.class_prior_[1])
    lines = [_write_tree(tree[0].tree_, names) for tree in model.estimators_]
    text = (
        "# Written by python -m tests.bench.claims --fit. Each tree: a kind of evidence and a threshold;\n"
        "# then for below and above it another one with what is added to the log-odds below and above that.\n"
    )
    text += f"start = {math.log(start / (1 - start)):.4f}\ntrees = [\n" + "".join(lines) + "]\n"
    WEIGHTS.write_text(text, "utf-8")


def _write_tree(tree: Any, names: Sequence[str]) -> str:
    def leaf(node: int) -> float:
        return round(RATE * float(tree.value[node][0][0]), 4)

    def branch(node: int) -> list[Any]:
        if tree.children_left[node] < 0:
            return [names[0], 0.0, leaf(node), leaf(node)]
        low, high = int(tree.children_left[node]), int(tree.children_right[node])
        return [names[tree.feature[node]], round(float(tree.threshold[node]), 4), leaf(low), leaf(high)]

    root = [names[tree.feature[0]], round(float(tree.threshold[0]), 4)]
    left, right = int(tree.children_left[0]), int(tree.children_right[0])
    if left < 0:
        root, left, right = [names[0], 0.0], 0, 0
    return f"  {json.dumps([*root, *branch(left), *branch(right)])},\n"


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
