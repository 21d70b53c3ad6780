"""How like a message is to the examples of each tool: weights fitted to all examples, read from a file.

Fitted by ``make desk-weights`` (tests/bench/desk/fitting.py): a network with one hidden layer over the
message's embedding and its words, and a linear model of its words alone for the time in which memory does
not embed.
"""

import functools
import hashlib
import math
import operator
from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import msgspec

from services.nexus.routing.features import BUCKETS, read_features
from services.nexus.tools.tool import Tool

FILE = Path(__file__).parent / "weights.bin"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What the file of weights was made of, and how its bytes are read.

    ``center`` is the mean embedding of the examples; ``scales`` turn the bytes of its parts into numbers (see
    Weights); ``hidden_bias`` is added to the hidden layer, ``bias`` to its outcome, ``word_bias`` to that of
    the words alone. ``following`` are the weights of the features of a message after another, ``roles`` the
    roles that its embedding speaks for. ``taught`` tells the conversations that they were fitted to.
    """

    model: str
    fingerprint: str
    labels: tuple[str, ...]
    center: tuple[float, ...]
    scales: tuple[float, ...]
    hidden_bias: tuple[float, ...]
    bias: tuple[float, ...]
    word_bias: tuple[float, ...]
    following: dict[str, float] = {}
    roles: tuple[str, ...] = ()
    taught: str = ""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of each part."""
        wide, count, hidden = len(self.center), len(self.labels), len(self.hidden_bias)
        return (wide * hidden, BUCKETS * hidden, hidden * count, BUCKETS * count, wide * len(self.roles))


class Weights:
    """The weights, a byte each.

    In this order: embedding to hidden layer, a row for each hidden number; words to hidden layer, a row for
    each bucket; hidden layer to tools, a row for each hidden number; words alone to tools, a row for each
    bucket; embedding to the roles of a message after another, a row for each role.
    """

    def __init__(self, header: Header, parts: Sequence[bytes]) -> None:
        self.header = header
        self._vector, self._words, self._out, self._alone, self._roles = (array("b", part) for part in parts)

    def score(self, text: str, vector: Sequence[float] = ()) -> dict[str, float]:
        """The probability of each tool; without a ``vector`` of the model's size by words alone."""
        header, words = self.header, read_features(text)
        if len(vector) != len(header.center):
            sums = list(header.word_bias)
            for bucket, weight in words.items():
                _add(sums, self._alone, bucket * len(sums), weight * header.scales[3])
            return dict(zip(header.labels, _softmax(sums), strict=True))
        near = _dot(self._vector, self._center(vector))
        hidden = [
            bias + value * header.scales[0] for bias, value in zip(header.hidden_bias, near, strict=True)
        ]
        for bucket, weight in words.items():
            _add(hidden, self._words, bucket * len(hidden), weight * header.scales[1])
        sums = list(header.bias)
        for row, value in enumerate(hidden):
            if value > 0:
                _add(sums, self._out, row * len(sums), value * header.scales[2])
        return dict(zip(header.labels, _softmax(sums), strict=True))

    def speak_for(self, vector: Sequence[float] = ()) -> dict[str, float]:
        """How much the embedding of a message after another speaks for each role that a tool may have."""
        header = self.header
        if len(vector) != len(header.center):
            return dict.fromkeys(header.roles, 0.0)
        spoken = _dot(self._roles, self._center(vector))
        return {role: value * header.scales[4] for role, value in zip(header.roles, spoken, strict=True)}

    def _center(self, vector: Sequence[float]) -> list[float]:
        return list(map(operator.sub, vector, self.header.center))


def _dot(rows: "array[int]", vector: Sequence[float]) -> list[float]:
    """The product of each row with ``vector``."""
    size = len(vector)
    return [sum(map(operator.mul, rows[at : at + size], vector)) for at in range(0, len(rows), size)]


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
    ends = list(accumulate(header.sizes, initial=0))
    return Weights(header, [rest[start:end] for start, end in pairwise(ends)])


def fingerprint(tools: Mapping[str, Tool]) -> str:
    """What the weights depend on: names and examples of the tools."""
    text = msgspec.json.encode({name: tool.sentences for name, tool in tools.items()})
    return hashlib.sha256(text).hexdigest()[:16]
