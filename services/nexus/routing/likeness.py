"""How like a message is to the examples of each tool: weights fitted to all examples, read from a file.

Fitted by ``make desk-weights`` (tests/bench/desk/fitting.py): two linear models, one of the message's
embedding and its words, one of its words alone for the time in which memory does not embed.
"""

import functools
import hashlib
import math
import operator
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from services.nexus.routing.features import BUCKETS, read_features
from services.nexus.tools.tool import Tool

FILE = Path(__file__).parent / "weights.bin"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What the file of weights was made of, and how its bytes are read.

    ``center`` is the mean embedding of the examples; ``scales`` turn the bytes of its weights,
    the words' weights beside it and the words' weights alone into numbers, to which ``bias`` and
    ``word_bias`` are added; ``following`` are those of the features of a message after another.
    """

    model: str
    fingerprint: str
    labels: tuple[str, ...]
    center: tuple[float, ...]
    scales: tuple[float, float, float]
    bias: tuple[float, ...]
    word_bias: tuple[float, ...]
    following: dict[str, float] = {}


class Weights:
    """The weights: one row of bytes for each number of an embedding and for each bucket of words."""

    def __init__(self, header: Header, rows: Sequence[bytes]) -> None:
        self.header = header
        self._vector, self._beside, self._alone = (array("b", part) for part in rows)

    def score(self, text: str, vector: Sequence[float] = ()) -> dict[str, float]:
        """The probability of each tool; without a ``vector`` of the model's size by words alone."""
        header, count = self.header, len(self.header.labels)
        with_vector = len(vector) == len(header.center)
        words, scale = (self._beside, header.scales[1]) if with_vector else (self._alone, header.scales[2])
        sums = list(header.bias if with_vector else header.word_bias)
        for bucket, weight in read_features(text).items():
            _add(sums, words, bucket * count, weight * scale)
        if with_vector:
            for row, (value, middle) in enumerate(zip(vector, header.center, strict=True)):
                _add(sums, self._vector, row * count, (value - middle) * header.scales[0])
        return dict(zip(header.labels, _softmax(sums), strict=True))


def _add(sums: list[float], rows: "array[int]", start: int, weight: float) -> None:
    """Add a row, times ``weight``, to ``sums``."""
    row = rows[start : start + len(sums)]
    sums[:] = map(operator.add, sums, [weight * value for value in row])


def _softmax(sums: Sequence[float]) -> list[float]:
    most = max(sums)
    grown = [math.exp(value - most) for value in sums]
    total = sum(grown)
    return [value / total for value in grown]


@functools.cache
def load_weights() -> Weights:
    """The weights of the file."""
    return read_weights(FILE.read_bytes())


def read_weights(content: bytes) -> Weights:
    """The weights of the content of such a file."""
    head, _, rest = content.partition(b"\n")
    header = msgspec.json.decode(head, type=Header)
    sizes = (len(header.center), BUCKETS, BUCKETS)
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + size * len(header.labels))
    return Weights(header, [rest[start:end] for start, end in pairwise(ends)])


def fingerprint(tools: Mapping[str, Tool]) -> str:
    """What the weights depend on: names and examples of the tools."""
    text = msgspec.json.encode({name: tool.sentences for name, tool in tools.items()})
    return hashlib.sha256(text).hexdigest()[:16]
