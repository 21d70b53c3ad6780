"""What is fitted to notes: their kinds, and whether one takes the place of another."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import Ridge

from services.memory.classifier import Classifier, Description
from services.memory.ingest.kinds import ORDER
from services.memory.linking import evidence
from services.memory.local_model import MODEL_NAME, LocalEmbedder
from tests.bench.claims.__main__ import gather
from tests.bench.claims.samples import Sample, measure, read_all, read_pairs
from tests.bench.notes import HALVES, read_sentences
from tests.bench.weights import KINDS, fingerprint
from tests.bench.weights.graphs import Graph, Matrix, share, write_boosted

RIDGE = 1.0
"""How much smaller weights are preferred to a closer fit. Of .3 to 4, on sentences of public notes that are
not among the examples, this was among the best."""
ROUNDS = 2
"""How often trees are fitted, with other parts of the samples, for the mean of all: one alone is uneven."""
TREES, RATE, DEPTH, LEAST = 200, 0.08, 6, 12
"""How many trees, what each may add, how many questions each asks, and the fewest samples of an answer. Twice
as many trees gained less than 1 %, trees of two questions lost 6 to 10 % of the paraphrases."""


def read_kinds(embedder: LocalEmbedder) -> tuple[list[str], Matrix]:
    """The kind of each example, and the vectors of all."""
    lines = [line.partition("|") for line in KINDS.read_text("utf-8").splitlines()]
    return [kind for kind, _, _ in lines], np.array(embedder.embed([text for _, _, text in lines]))


def fit_kinds(path: Path, examples: tuple[list[str], Matrix]) -> None:
    """A linear fit of each kind to vectors; each has the same weight, however many examples it has."""
    kinds = np.array([ORDER.index(kind) for kind in examples[0]])
    shares = len(kinds) / len(ORDER) / np.bincount(kinds)[kinds]
    wanted, center = np.eye(len(ORDER))[kinds], examples[1].mean(0)
    model = Ridge(alpha=RIDGE, fit_intercept=False)
    model.fit(examples[1] - center, wanted - wanted.mean(0), sample_weight=shares)
    weights = model.coef_.T.astype(np.float32)
    graph = Graph(vectors=examples[1].shape[1])
    scores = graph.weigh("vectors", graph.hold(weights), -(center @ weights))
    graph.write(path, scores, Description(labels=ORDER, model=MODEL_NAME, fitted_to=fingerprint("kinds")))


def judge_kinds(classifier: Classifier, embedder: LocalEmbedder) -> dict[str, float]:
    """How many of the sentences of bench-notes are most like their kind, in percent."""
    found = {}
    for half in HALVES:
        kinds, texts = zip(*read_sentences(half), strict=True)
        best = classifier.score(vectors=embedder.embed(texts)).argmax(1)
        found[f"{half} right"] = share([ORDER[at] == kind for at, kind in zip(best, kinds, strict=True)])
    return found


def read_claims() -> list[tuple[Sample, evidence.Evidence]]:
    """Pairs of notes that are compared, with the evidence."""
    return [(sample, row) for sample in read_all() if (row := gather(sample))]


def fit_supersession(path: Path, samples: Sequence[tuple[Sample, evidence.Evidence]]) -> None:
    """Boosted trees over the evidence of pairs."""
    rows = np.array([[row[name] for name in evidence.NAMES] for _, row in samples], np.float32)
    right = [sample.label == "replaces" for sample, _ in samples]
    weights = [sample.weight for sample, _ in samples]
    options = {"n_estimators": TREES, "learning_rate": RATE, "max_depth": DEPTH, "min_samples_leaf": LEAST}
    write_boosted(
        path,
        [
            GradientBoostingClassifier(**options, subsample=0.5, max_features=0.1, random_state=seed).fit(
                rows, right, sample_weight=weights
            )
            for seed in range(ROUNDS)
        ],
        evidence.NAMES,
    )


def judge_supersession(classifier: Classifier) -> dict[str, float]:
    """How many held-back pairs have the right side of even odds, in percent; those that are not compared stay
    apart."""
    held = [sample for sample in measure(read_pairs("held")) if sample.label != "open"]
    rows = [gather(sample) for sample in held]
    odds = iter(classifier.score(classifier.arrange([row for row in rows if row]))[:, 0].tolist())
    told = [next(odds) > 0 if row else False for row in rows]
    pairs = [(sample.label == "replaces", one) for sample, one in zip(held, told, strict=True)]
    return {
        "held replaced": share([one for wanted, one in pairs if wanted]),
        "held apart": share([not one for wanted, one in pairs if not wanted]),
    }
