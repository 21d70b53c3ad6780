"""What is fitted to requests: the desk's tools, what follows another message, and playbooks.

The tools are told from each other by their examples and by the messages of ``taught.jsonl`` and
``voices.jsonl``, of which those that follow another count less; what follows another message by the
conversations of these and of ``work.jsonl``, seen as networks see them that were fitted without them.
"""

import tempfile
import warnings
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from services.memory.classifier import Classifier, Description
from services.memory.local_model import MODEL_NAME, LocalEmbedder
from services.nexus.routing.following import ROLES, Before, normalise, read_features, read_following
from services.nexus.routing.unmistakable import decide_by_rule
from services.nexus.tools.tool import Tool, load_tools
from tests.bench.desk.messages import Line, Talk, read_talks
from tests.bench.weights import SEEN, TAUGHT, fingerprint, read_playbook_examples
from tests.bench.weights.graphs import Graph, Matrix, share

BUCKETS = 4_096
"""How many numbers the words and their parts are hashed to."""
VECTOR_SCALE, WORD_SCALE = 4.0, 3.0
"""How much an embedding and words beside it count; chosen on the work half of the messages."""
LATER_WEIGHT = 0.3
"""How much a message that follows another counts as an example by itself."""
FOLDS = 3
"""The parts of the conversations, each of which is scored by networks that were fitted to the others."""
KEPT_BACK = ("held", "fresh")
NETWORKS, HIDDEN, EPOCHS, BATCH, DECAY, RATE = 6, 32, 15, 200, 1e-2, 2e-3
"""The networks, whose mean is taken: two of twice the width have 3 % fewer held-back messages right."""
PULL = 0.3
"""How much the weights of what follows may follow the conversations, against being small."""
FREE = 10.0
"""How much less that holds for how likely a tool is by itself."""


def embed(embedder: LocalEmbedder, texts: Sequence[str]) -> Matrix:
    """The vectors of messages as the desk has them embedded."""
    return np.asarray(embedder.embed([*map(normalise, texts)]), dtype=np.float32)


def read_words(texts: Sequence[str]) -> Matrix:
    """The weights of the words of each text, one row each, of length 1."""
    found = np.zeros((len(texts), BUCKETS), np.float32)
    for row, text in enumerate(texts):
        for name, weight in read_features(text).items():
            found[row, zlib.crc32(name.encode()) % BUCKETS] += weight
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-9))


def read_taught() -> list[Talk]:
    """The conversations that the desk is fitted to."""
    return [talk for name in TAUGHT for talk in read_talks(name)]


def fit_desk(path: Path, embedder: LocalEmbedder, talks: Sequence[Talk]) -> None:
    """Networks with one hidden layer over the embedding of a message and its words, as one."""
    tools = load_tools()
    names = tuple(name for name, tool in tools.items() if tool.sentences)
    texts = [(at, text, 1.0) for at, name in enumerate(names) for text in tools[name].sentences]
    for talk in talks:
        for line in talk.lines:
            if line.means in names:
                weight = 1.0 if line is talk.lines[0] else LATER_WEIGHT
                texts.append((names.index(line.means), line.say, weight))
    labels = np.array([at for at, _, _ in texts])
    shares = np.array([weight for _, _, weight in texts], np.float32)
    said = [text for _, text, _ in texts]
    vectors = embed(embedder, said)
    center = vectors.mean(0)
    inputs = np.hstack([(vectors - center) * VECTOR_SCALE, read_words(said) * WORD_SCALE], dtype=np.float32)
    found = [_fit_network(inputs, labels, shares / shares.mean(), seed) for seed in range(1, NETWORKS + 1)]
    first = np.hstack([model.coefs_[0] for model in found])
    size = vectors.shape[1]
    graph = Graph(features=BUCKETS, vectors=size)
    near = graph.weigh(
        graph.add("Sub", "vectors", graph.hold(center)),
        graph.hold_small(first[:size] * VECTOR_SCALE),
        np.concatenate([model.intercepts_[0] for model in found]),
    )
    words = graph.add("LpNormalization", "features", axis=1, p=2)
    hidden = graph.add("Add", near, graph.weigh(words, graph.hold_small(first[size:] * WORD_SCALE)))
    sums = graph.weigh(
        graph.add("Relu", hidden),
        graph.hold_small(np.vstack([model.coefs_[1] for model in found]) / NETWORKS),
        np.mean([model.intercepts_[1] for model in found], axis=0),
    )
    told = Description(labels=names, buckets=BUCKETS, model=MODEL_NAME, fitted_to=fingerprint("desk"))
    graph.write(path, graph.add("Softmax", sums, axis=1), told)


def _fit_network(inputs: Matrix, labels: Matrix, shares: Matrix, seed: int) -> Any:
    model = MLPClassifier(
        (HIDDEN,), alpha=DECAY, batch_size=BATCH, learning_rate_init=RATE, max_iter=EPOCHS,
        n_iter_no_change=EPOCHS, random_state=seed,
    )  # fmt: skip
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # it ends early on purpose
        return model.fit(inputs, labels, sample_weight=shares)


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A message after another, by the features of each tool, and the embedding of it."""

    line: Line
    features: dict[str, dict[str, float]]
    vector: Matrix


def read_pairs(desk: Classifier, embedder: LocalEmbedder, talks: Sequence[Talk]) -> list[Pair]:
    """Every message of ``talks`` after another that no rule decides, as the desk's classifier sees it."""
    tools = load_tools()
    names = desk.description.labels
    pairs = [pair for talk in talks for pair in pairwise(talk.lines)]
    pairs = [(one, two) for one, two in pairs if two.meanings & set(names) and not _is_ruled(two, tools)]
    wholes = [f"{one.say.rstrip(' .!?')} {two.say}" for one, two in pairs]
    texts = [two.say for _, two in pairs]
    vectors = embed(embedder, texts)
    seen = zip(_score(desk, texts, vectors), _score(desk, wholes, embed(embedder, wholes)), strict=True)
    found = []
    for (one, two), vector, scores in zip(pairs, vectors, seen, strict=True):
        before = Before(tool=one.means, failed=one.means == "unclear")
        features = read_following(two.say, before, *scores, tools)
        found.append(Pair(line=two, features=features, vector=vector))
    return found


def _is_ruled(line: Line, tools: Mapping[str, Tool], *, goes_on: bool = True) -> bool:
    return decide_by_rule(line.say, tools, goes_on=goes_on) is not None


def _score(desk: Classifier, texts: Sequence[str], vectors: Matrix) -> list[dict[str, float]]:
    scores = desk.score(desk.arrange([read_features(text) for text in texts]), vectors)
    return [dict(zip(desk.description.labels, row, strict=True)) for row in scores.tolist()]


def read_left_out(desk: Classifier, embedder: LocalEmbedder) -> list[Pair]:
    """The messages after others that follow-ups are fitted to, each as seen by a desk without it."""
    taught, pairs = read_taught(), read_pairs(desk, embedder, read_talks(SEEN))
    with tempfile.TemporaryDirectory() as folder:
        for part in range(FOLDS):
            left = [talk for talk in taught if zlib.crc32(talk.id.encode()) % FOLDS == part]
            path = Path(folder) / f"{part}.onnx"
            fit_desk(path, embedder, [talk for talk in taught if talk not in left])
            pairs += read_pairs(Classifier(path), embedder, left)
    return pairs


def fit_following(path: Path, pairs: Sequence[Pair]) -> None:
    """A logistic regression of which of two tools is right, over the difference of their features.

    What the embedding says of a role is a feature for each number of it.
    """
    names = sorted({key for pair in pairs for found in pair.features.values() for key in found})
    names = [*(name for name in names if not name.startswith("role ")), *(f"role {role}" for role in ROLES)]
    center = np.mean([pair.vector for pair in pairs], axis=0)
    size, count = len(center), len(names)
    rows, labels, weights = [], [], []
    for number, pair in enumerate(pairs):
        table = np.array([[row.get(name, 0.0) for name in names] for row in pair.features.values()])
        table[:, names.index("alone")] *= FREE
        right = np.array([name in pair.line.meanings for name in pair.features])
        if right.all():
            continue
        spoken = table[:, -len(ROLES) :, None] * (pair.vector - center)[None, None, :] * VECTOR_SCALE
        whole = np.hstack([table, spoken.reshape(len(table), -1)])
        sign = 1 if number % 2 else -1
        for place in np.flatnonzero(right):
            rows.append(csr_matrix(sign * (whole[place] - whole[~right])))
            labels += [sign] * int((~right).sum())
            weights += [1 / right.sum()] * int((~right).sum())
    model = LogisticRegression(C=PULL, fit_intercept=False, max_iter=500)
    found = model.fit(vstack(rows), labels, sample_weight=weights).coef_[0].astype(np.float32)
    plain, roles = found[:count, None].copy(), found[count:].reshape(len(ROLES), size) * VECTOR_SCALE
    plain[names.index("alone")] *= FREE
    graph = Graph(features=count, vectors=size)
    chosen = np.vstack([np.zeros((count - len(ROLES), len(ROLES))), np.eye(len(ROLES))]).astype(np.float32)
    spoken = graph.weigh(graph.add("Sub", "vectors", graph.hold(center)), graph.hold(roles.T))
    own = graph.add("Mul", spoken, graph.weigh("features", graph.hold(chosen)))
    said = graph.add("ReduceSum", own, graph.hold(np.array([1])), keepdims=1)
    told = Description(
        labels=("log_odds",), features=tuple(names), model=MODEL_NAME, fitted_to=fingerprint("following")
    )
    graph.write(path, graph.add("Add", graph.weigh("features", graph.hold(plain)), said), told)


def fit_playbooks(path: Path, embedder: LocalEmbedder) -> None:
    """The vectors of all examples: the score of a playbook is the cosine of the nearest one."""
    pairs = read_playbook_examples()
    labels = tuple(dict.fromkeys(name for name, _ in pairs))
    vectors = np.asarray(embedder.embed([text for _, text in pairs]))
    graph = Graph(vectors=vectors.shape[1])
    near = graph.weigh("vectors", graph.add("Cast", graph.hold(vectors.T.astype(np.float16)), to=1))
    best = []
    for label in labels:
        places = np.array([place for place, (name, _) in enumerate(pairs) if name == label])
        own = graph.add("Gather", near, graph.hold(places), axis=1)
        best.append(graph.add("ReduceMax", own, graph.hold(np.array([1])), keepdims=1))
    told = Description(labels=labels, model=MODEL_NAME, fitted_to=fingerprint("playbooks"))
    graph.write(path, graph.add("Concat", *best, axis=1), told)


def judge_desk(classifier: Classifier, embedder: LocalEmbedder) -> dict[str, float]:
    """How many of the kept-back first messages that no rule decides are most likely for their tool."""
    tools, found = load_tools(), {}
    for half in KEPT_BACK:
        lines = [talk.lines[0] for talk in read_talks(half)]
        lines = [line for line in lines if not _is_ruled(line, tools, goes_on=False)]
        texts = [line.say for line in lines]
        scores = _score(classifier, texts, embed(embedder, texts))
        best = [max(row, key=lambda name: row[name]) for row in scores]
        found[f"{half} right"] = share([one in line.meanings for one, line in zip(best, lines, strict=True)])
    return found


def judge_following(classifier: Classifier, desk: Classifier, embedder: LocalEmbedder) -> dict[str, float]:
    """The same of kept-back messages that follow others."""
    found = {}
    for half in KEPT_BACK:
        right = []
        for pair in read_pairs(desk, embedder, read_talks(half)):
            rows = classifier.arrange([*pair.features.values()])
            odds = classifier.score(rows, np.repeat(pair.vector[None], len(rows), axis=0))[:, 0]
            right.append([*pair.features][int(odds.argmax())] in pair.line.meanings)
        found[f"{half} right"] = share(right)
    return found
