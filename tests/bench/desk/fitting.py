"""Fit the weights by which the desk recognises what a message asks for: ``make desk-weights``.

The tools are told from each other by their examples and by the first messages of ``taught.jsonl``; what
follows another message by the conversations of ``taught.jsonl`` and ``work.jsonl``.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from services.memory.local_embedder import LocalEmbedder
from services.nexus.routing.decider import decide_by_rule
from services.nexus.routing.features import BUCKETS, normalise, read_features
from services.nexus.routing.following import Before, read_following
from services.nexus.routing.likeness import FILE, Header, Weights, fingerprint, read_weights
from services.nexus.routing.registry import load_tools
from services.nexus.tools.tool import Tool
from shared.settings import load
from tests.bench.desk.messages import Line, read_talks

Matrix = npt.NDArray[np.float32]

VECTOR_SCALE, WORD_SCALE, ALONE_SCALE = 4.0, 3.0, 6.0
"""How much an embedding, words beside it and words alone count; chosen on the work half of the messages."""
DECAY = 3e-4
STEPS = 300
RATE = 0.05
FOLLOWING_DECAY, FOLLOWING_RATE = 3.0, 0.03


def read_words(texts: Sequence[str]) -> Matrix:
    """The weights of the words of each text, one row each."""
    found = np.zeros((len(texts), BUCKETS), np.float32)
    for row, text in enumerate(texts):
        for bucket, weight in read_features(text).items():
            found[row, bucket] = weight
    return found


def fit(inputs: Matrix, labels: npt.NDArray[np.int64], count: int) -> tuple[Matrix, Matrix]:
    """Weights and bias of a multinomial logistic regression, by Adam over all examples at once."""
    wanted = np.eye(count, dtype=np.float32)[labels]
    share = (1 / np.sqrt(np.bincount(labels, minlength=count)[labels])).astype(np.float32)
    share /= share.sum()
    inputs = np.hstack([inputs, np.ones((len(inputs), 1), np.float32)])
    weights = np.zeros((inputs.shape[1], count), np.float32)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        sums = inputs @ weights
        grown = np.exp(sums - sums.max(1, keepdims=True))
        wrong = (grown / grown.sum(1, keepdims=True) - wanted) * share[:, None]
        slope = inputs.T @ wrong + np.float32(DECAY) * weights
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        weights -= RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return weights[:-1], weights[-1]


def fit_tools(tools: Mapping[str, Tool], embedder: LocalEmbedder) -> bytes:
    """The file of weights for ``tools``."""
    names = tuple(name for name, tool in tools.items() if tool.sentences)
    texts = [(at, text) for at, name in enumerate(names) for text in tools[name].sentences]
    first = [talk.lines[0] for talk in read_talks("taught")]
    texts += [(names.index(line.means), line.say) for line in first if line.means in names]
    labels = np.array([at for at, _ in texts])
    vectors = np.asarray(embedder.embed([normalise(text) for _, text in texts]), dtype=np.float32)
    words, center = read_words([text for _, text in texts]), vectors.mean(0)
    both = np.hstack([(vectors - center) * VECTOR_SCALE, words * WORD_SCALE])
    weights, bias = fit(both, labels, len(names))
    alone, word_bias = fit(words * ALONE_SCALE, labels, len(names))
    size = vectors.shape[1]
    parts = (weights[:size] * VECTOR_SCALE, weights[size:] * WORD_SCALE, alone * ALONE_SCALE)
    scales = [float(np.abs(part).max() / 127) for part in parts]
    header = Header(
        model=embedder.model_name,
        fingerprint=fingerprint(tools),
        labels=names,
        center=tuple(round(float(value), 5) for value in center),
        scales=(scales[0], scales[1], scales[2]),
        bias=tuple(round(float(value), 4) for value in bias),
        word_bias=tuple(round(float(value), 4) for value in word_bias),
    )
    rows = [
        np.round(part / scale).astype(np.int8).tobytes() for part, scale in zip(parts, scales, strict=True)
    ]
    return b"\n".join([msgspec.json.encode(header), b"".join(rows)])


def read_pairs() -> list[tuple[Line, Line]]:
    """Every line of a conversation that may be looked at, with the one before it."""
    talks = [*read_talks("taught"), *read_talks("work")]
    return [pair for talk in talks for pair in pairwise(talk.lines)]


def fit_following(tools: Mapping[str, Tool], weights: Weights, embedder: LocalEmbedder) -> dict[str, float]:
    """The weights of the features of a message after another: a conditional logistic regression by Adam."""
    pairs = [pair for pair in read_pairs() if not decide_by_rule(pair[1].say, tools)]
    names = weights.header.labels
    pairs = [(one, two) for one, two in pairs if two.meanings & set(names)]
    wholes = [f"{one.say.rstrip(' .!?')} {two.say}" for one, two in pairs]
    vectors = embedder.embed([normalise(text) for text in [*(two.say for _, two in pairs), *wholes]])
    rows = []
    for (one, two), whole, alone, joined in zip(
        pairs, wholes, vectors[: len(pairs)], vectors[len(pairs) :], strict=True
    ):
        before = Before(tool=one.means, failed=one.means == "unclear")
        scores = weights.score(two.say, alone), weights.score(whole, joined)
        rows.append(dict(read_following(two.say, before, *scores, tools)))
    keys = sorted({key for row in rows for found in row.values() for key in found})
    inputs = np.array([[[row[name].get(key, 0.0) for key in keys] for name in names] for row in rows])
    wanted = np.array([[name in two.meanings for name in names] for _, two in pairs])
    start = np.array([float(key == "alone") for key in keys])
    found, mean, square = start.copy(), np.zeros(len(keys)), np.zeros(len(keys))
    for step in range(1, STEPS + 1):
        sums = inputs @ found
        grown = np.exp(sums - sums.max(1, keepdims=True))
        right = grown * wanted
        wrong = grown / grown.sum(1, keepdims=True) - right / right.sum(1, keepdims=True)
        slope = np.einsum("rnk,rn->k", inputs, wrong) + FOLLOWING_DECAY * (found - start)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        found -= FOLLOWING_RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-9)
    return {key: round(float(value), 3) for key, value in zip(keys, found, strict=True)}


def main() -> None:
    """Write the file of weights."""
    tools, embedder = load_tools(), LocalEmbedder(load().models)
    parts = fit_tools(tools, embedder)
    head, _, rest = parts.partition(b"\n")
    following = fit_following(tools, read_weights(parts), embedder)
    header = msgspec.structs.replace(msgspec.json.decode(head, type=Header), following=following)
    FILE.write_bytes(b"\n".join([msgspec.json.encode(header), rest]))
    print(
        f"{FILE.name}: {sum(len(tool.sentences) for tool in tools.values())} examples of {len(tools)} tools"
    )


if __name__ == "__main__":
    main()
