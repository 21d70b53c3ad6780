"""Fit the weights by which the desk recognises what a message asks for: ``make desk-weights``.

The tools are told from each other by their examples and by the messages of ``taught.jsonl`` and
``voices.jsonl``, of which those that follow another count less; what follows another message by the
conversations of these and of ``work.jsonl``, seen as weights see them that were fitted without them.
"""

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from services.memory.local_model import LocalEmbedder
from services.nexus.routing.following import ROLES, Before, find_roles, read_following
from services.nexus.routing.likeness import (
    BUCKETS,
    FILE,
    Header,
    Weights,
    fingerprint,
    normalise,
    read_features,
    read_weights,
)
from services.nexus.routing.unmistakable import decide_by_rule
from services.nexus.tools.tool import Tool, load_tools
from shared.settings import load
from tests.bench.desk.messages import FOLDER, Line, Talk, read_talks

TAUGHT, SEEN = ("taught", "voices"), "work"
"""The files of conversations that weights are fitted to; of SEEN only what follows another message."""
Matrix = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], Matrix]

VECTOR_SCALE, WORD_SCALE, ALONE_SCALE = 4.0, 3.0, 6.0
"""How much an embedding, words beside it and words alone count; chosen on the work half of the messages."""
DECAY = 3e-4
STEPS = 300
RATE = 0.05
HIDDEN, EPOCHS, BATCH, HIDDEN_RATE, HIDDEN_DECAY = 64, 30, 200, 2e-3, 1e-3
DROPPED_INPUTS, DROPPED_HIDDEN = 0.1, 0.3
"""The network; its values were chosen by leaving out one writer's conversations at a time."""
NETWORKS = 2
"""Fitted from different beginnings: of 698 messages left out one had 87.5 to 88.8 % right, two 89.1 %."""
LATER_WEIGHT = 0.3
"""How much a message that follows another counts as an example by itself."""
FOLLOWING_DECAY, ROLES_DECAY, FOLLOWING_RATE = 3.0, 1.0, 0.03
ROLES_SCALE = 3.0
SAMPLED = 10
"""Of so many conversations one is looked at, to tell if what is seen of messages has changed."""
FOLDS = 3
"""The parts of the conversations, each of which is scored by weights that were fitted to the others."""


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


def fit_networks(
    inputs: Matrix, labels: npt.NDArray[np.int64], count: int, shares: Matrix
) -> tuple[Matrix, ...]:
    """The mean of several networks as one: their hidden layers side by side."""
    found = [fit_hidden(inputs, labels, count, shares, seed) for seed in range(1, NETWORKS + 1)]
    first, hidden_bias, out, bias = zip(*found, strict=True)
    return np.hstack(first), np.concatenate(hidden_bias), np.vstack(out) / NETWORKS, np.mean(bias, 0)


def fit_hidden(
    inputs: Matrix, labels: npt.NDArray[np.int64], count: int, shares: Matrix, seed: int
) -> list[Matrix]:
    """Weights and biases of a network with one hidden layer, by Adam; some inputs and units are dropped."""
    chance = np.random.default_rng(seed)
    edge = np.sqrt(6 / (inputs.shape[1] + HIDDEN))
    parts = [
        chance.uniform(-edge, edge, (inputs.shape[1], HIDDEN)).astype(np.float32),
        np.zeros(HIDDEN, np.float32),
        (chance.standard_normal((HIDDEN, count)) / np.sqrt(HIDDEN)).astype(np.float32),
        np.zeros(count, np.float32),
    ]
    means, squares = ([np.zeros_like(part) for part in parts] for _ in range(2))
    wanted, step = np.eye(count, dtype=np.float32)[labels], 0
    for epoch in range(EPOCHS):
        rate = HIDDEN_RATE * (1 - 0.9 * epoch / EPOCHS)
        for rows in np.array_split(chance.permutation(len(labels)), max(1, len(labels) // BATCH)):
            seen = inputs[rows] * _keep(chance, (len(rows), inputs.shape[1]), DROPPED_INPUTS)
            kept = _keep(chance, (len(rows), HIDDEN), DROPPED_HIDDEN)
            hidden = np.maximum(seen @ parts[0] + parts[1], 0) * kept
            sums = hidden @ parts[2] + parts[3]
            grown = np.exp(sums - sums.max(1, keepdims=True))
            wrong = (grown / grown.sum(1, keepdims=True) - wanted[rows]) * shares[rows, None] / len(rows)
            behind = wrong @ parts[2].T * kept * (hidden > 0)
            slopes = [seen.T @ behind, behind.sum(0), hidden.T @ wrong, wrong.sum(0)]
            step += 1
            for part, slope, mean, square in zip(parts, slopes, means, squares, strict=True):
                if part.ndim > 1:
                    slope += np.float32(HIDDEN_DECAY / len(rows)) * part
                mean += 0.1 * (slope - mean)
                square += 0.001 * (slope**2 - square)
                part -= (
                    np.float32(rate / (1 - 0.9**step)) * mean / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
                )
    return parts


def _keep(chance: np.random.Generator, shape: tuple[int, int], dropped: float) -> Matrix:
    """Noughts for what is dropped, and what the rest is multiplied by."""
    return (chance.random(shape, dtype=np.float32) > dropped) / np.float32(1 - dropped)


def fit_tools(
    tools: Mapping[str, Tool], talks: Sequence[Talk], embed: Embed, model: str, *, part: bool = False
) -> bytes:
    """The file of weights for ``tools``, by their examples and ``talks``.

    Of a ``part`` of the talks the words alone are not fitted, which takes most of the time.
    """
    names = tuple(name for name, tool in tools.items() if tool.sentences)
    texts = [(at, text, 1.0) for at, name in enumerate(names) for text in tools[name].sentences]
    for talk in talks:
        for line in talk.lines:
            if line.means in names:
                weight = 1.0 if line is talk.lines[0] else LATER_WEIGHT
                texts.append((names.index(line.means), line.say, weight))
    labels = np.array([at for at, _, _ in texts])
    shares = np.array([weight for _, _, weight in texts], np.float32)
    vectors, words = embed([text for _, text, _ in texts]), read_words([text for _, text, _ in texts])
    center = vectors.mean(0)
    both = np.hstack([(vectors - center) * np.float32(VECTOR_SCALE), words * np.float32(WORD_SCALE)])
    first, hidden_bias, out, bias = fit_networks(both, labels, len(names), shares / shares.mean())
    whole = shares == 1  # what follows another message says too little in its words alone
    alone, word_bias = np.zeros((BUCKETS, len(names)), np.float32), np.zeros(len(names), np.float32)
    if not part:
        alone, word_bias = fit(words[whole] * np.float32(ALONE_SCALE), labels[whole], len(names))
    size = vectors.shape[1]
    return write_weights(
        Header(
            model=model,
            fingerprint=fingerprint(tools),
            labels=names,
            center=_round(center, 5),
            scales=(),
            hidden_bias=_round(hidden_bias, 4),
            bias=_round(bias, 4),
            word_bias=_round(word_bias, 4),
        ),
        (first[:size].T * VECTOR_SCALE, first[size:] * WORD_SCALE, out, alone * ALONE_SCALE),
    )


def write_weights(header: Header, parts: Sequence[Matrix]) -> bytes:
    """The content of the file: ``header`` with the scales of ``parts``, and these as bytes."""
    scales = tuple(_scale_of(part) for part in parts)
    rows = [
        np.round(part / scale).astype(np.int8).tobytes() for part, scale in zip(parts, scales, strict=True)
    ]
    header = msgspec.structs.replace(header, scales=(*header.scales, *scales))
    return b"\n".join([msgspec.json.encode(header), b"".join(rows)])


def _scale_of(part: Matrix) -> float:
    """What a byte of ``part`` stands for, rounded so that it does not depend on the order of additions."""
    return float(f"{np.abs(part).max() / 127:.5g}") or 1.0


def _round(values: Matrix, digits: int) -> tuple[float, ...]:
    return tuple(round(float(value), digits) for value in values)


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A message after another, by the features of each tool, and the embedding of it."""

    before: str
    line: Line
    features: dict[str, dict[str, float]]
    vector: Matrix


def read_pairs(
    tools: Mapping[str, Tool], talks: Sequence[Talk], weights: Weights, embed: Embed
) -> list[Pair]:
    """Every message of ``talks`` after another that no rule decides, as ``weights`` see it."""
    names = frozenset(weights.header.labels)
    pairs = [pair for talk in talks for pair in pairwise(talk.lines)]
    pairs = [
        (one, two)
        for one, two in pairs
        if two.meanings & names and not decide_by_rule(two.say, tools, goes_on=True)
    ]
    wholes = [f"{one.say.rstrip(' .!?')} {two.say}" for one, two in pairs]
    found = []
    for (one, two), whole, alone, joined in zip(
        pairs, wholes, embed([two.say for _, two in pairs]), embed(wholes), strict=True
    ):
        before = Before(tool=one.means, failed=one.means == "unclear")
        scores = weights.score(two.say, list(alone)), weights.score(whole, list(joined))
        features = dict(read_following(two.say, before, *scores, tools))
        found.append(Pair(before=one.means, line=two, features=features, vector=alone))
    return found


def fit_following(pairs: Sequence[Pair], names: Sequence[str]) -> tuple[dict[str, float], Matrix]:
    """The weights of the features of a message after another, and of its embedding for the roles.

    A conditional logistic regression by Adam.
    """
    keys = sorted({key for pair in pairs for found in pair.features.values() for key in found})
    inputs = np.array(
        [[[pair.features[name].get(key, 0.0) for key in keys] for name in names] for pair in pairs]
    )
    wanted = np.array([[name in pair.line.meanings for name in names] for pair in pairs])
    held = [[find_roles(pair.before, name) for name in names] for pair in pairs]
    acts = np.array([[[float(role in each) for role in ROLES] for each in row] for row in held])
    vectors = np.array([pair.vector for pair in pairs]) * ROLES_SCALE
    sizes = (len(keys), len(ROLES) * vectors.shape[1])
    start = np.concatenate([[float(key == "alone") for key in keys], np.zeros(sizes[1])])
    decay = np.repeat([FOLLOWING_DECAY, ROLES_DECAY], sizes)
    found, mean, square = start.copy(), np.zeros(sum(sizes)), np.zeros(sum(sizes))
    for step in range(1, STEPS + 1):
        spoken = vectors @ found[sizes[0] :].reshape(-1, len(ROLES))
        sums = inputs @ found[: sizes[0]] + np.einsum("pnr,pr->pn", acts, spoken)
        grown = np.exp(sums - sums.max(1, keepdims=True))
        right = grown * wanted
        wrong = grown / grown.sum(1, keepdims=True) - right / right.sum(1, keepdims=True)
        slopes = np.einsum("pnk,pn->k", inputs, wrong), vectors.T @ np.einsum("pnr,pn->pr", acts, wrong)
        slope = np.concatenate([slopes[0], slopes[1].ravel()]) + decay * (found - start)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        found -= FOLLOWING_RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-9)
    named = {key: round(float(value), 3) for key, value in zip(keys, found, strict=False)}
    return named, found[sizes[0] :].reshape(-1, len(ROLES)).T * ROLES_SCALE


def taught_fingerprint() -> str:
    """What tells the conversations that the weights are fitted to, and what is seen of some of them."""
    content = b"\n".join((FOLDER / f"{name}.jsonl").read_bytes() for name in (*TAUGHT, SEEN))
    said = [talk.lines[0].say for name in TAUGHT for talk in read_talks(name)][::SAMPLED]
    seen = repr([sorted(read_features(text)) for text in said])
    return hashlib.sha256(content + seen.encode()).hexdigest()[:16]


def fit_all(
    tools: Mapping[str, Tool], taught: Sequence[Talk], seen: Sequence[Talk], embedder: LocalEmbedder
) -> bytes:
    """The whole file: fitted to ``taught``, what follows another message to ``seen`` too."""

    def embed(texts: Sequence[str]) -> Matrix:
        return np.asarray(embedder.embed([normalise(text) for text in texts]), dtype=np.float32)

    def fold(talk: Talk) -> int:
        return zlib.crc32(talk.id.encode()) % FOLDS

    parts = fit_tools(tools, taught, embed, embedder.model_name)
    weights = read_weights(parts)
    pairs = read_pairs(tools, seen, weights, embed)
    for part in range(FOLDS):
        kept = [talk for talk in taught if fold(talk) != part]
        others = fit_tools(tools, kept, embed, embedder.model_name, part=True)
        left = [talk for talk in taught if fold(talk) == part]
        pairs += read_pairs(tools, left, read_weights(others), embed)
    center = np.array(weights.header.center, np.float32)
    pairs = [msgspec.structs.replace(pair, vector=pair.vector - center) for pair in pairs]
    following, roles = fit_following(pairs, weights.header.labels)
    scale = _scale_of(roles)
    scales = (*weights.header.scales, scale)
    header = msgspec.structs.replace(
        weights.header, following=following, roles=ROLES, scales=scales, taught=taught_fingerprint()
    )
    rest = parts.partition(b"\n")[2] + np.round(roles / scale).astype(np.int8).tobytes()
    return b"\n".join([msgspec.json.encode(header), rest])


def main() -> None:
    """Write the file of weights."""
    tools, embedder = load_tools(), LocalEmbedder(load().models)
    taught = [talk for name in TAUGHT for talk in read_talks(name)]
    FILE.write_bytes(fit_all(tools, taught, read_talks(SEEN), embedder))
    print(
        f"{FILE.name}: {sum(len(tool.sentences) for tool in tools.values())} examples of {len(tools)} tools, "
        f"{len(taught)} conversations"
    )


if __name__ == "__main__":
    main()
