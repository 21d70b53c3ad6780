"""Fit the weights by which the desk recognises what a message asks for: ``make desk-weights``."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from services.memory.local_embedder import LocalEmbedder
from services.nexus.routing.features import BUCKETS, normalise, read_features
from services.nexus.routing.likeness import FILE, Header, fingerprint
from services.nexus.routing.registry import load_tools
from services.nexus.tools.tool import Tool
from shared.settings import load

Matrix = npt.NDArray[np.float32]

VECTOR_SCALE, WORD_SCALE, ALONE_SCALE = 4.0, 3.0, 6.0
"""How much an embedding, words beside it and words alone count; chosen on the work half of the messages."""
DECAY = 3e-4
STEPS = 300
RATE = 0.05


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


def main() -> None:
    """Write the file of weights."""
    tools = load_tools()
    FILE.write_bytes(fit_tools(tools, LocalEmbedder(load().models)))
    print(
        f"{FILE.name}: {sum(len(tool.sentences) for tool in tools.values())} examples of {len(tools)} tools"
    )


if __name__ == "__main__":
    main()
