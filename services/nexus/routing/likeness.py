"""How like a message is to the examples of each tool: what it is recognised by, weights fitted to all.

Fitted by ``make desk-weights`` (tests/bench/desk/fitting.py): a network with one hidden layer over the
message's embedding and its words, and a linear model of its words alone for the time in which memory does
not embed.
"""

import functools
import hashlib
import math
import operator
import re
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import msgspec

from services.nexus.tools.tool import Tool
from shared.language.sayings import read_sayings
from shared.language.utterance import read_utterance

WAYS = read_sayings(__file__, "features")

BUCKETS = 4_096
"""How many numbers the words and their parts are hashed to."""
MAX_LENGTH = 600
"""Characters of a message that are read: a request states its purpose at the beginning."""
_WORD, _PAIR, _PART, _CUE = 1.0, 0.8, 0.35, 1.5
"""The weights of a word, of two words, of a part of a word, and of an act or a value."""

_PATH = re.compile(
    r"(?<![\w/.])~?/[^\s\"'`]+|~/\S*|(?<!\w)\.\.?/\S*"
    r"|(?<![\w/.~:-])[a-zA-Z_][\w.-]+(?:/[\w.-]{2,}){2,}/?|(?<![\w/.~:-])[a-zA-Z_][\w-]+/[\w-]+\.[a-z]{1,4}\b"
    r"|(?<![\w/.~:-])(?:src|libs?|services|packages|pkgs?|apps?|docs?|tests?|bin|scripts|cmd|internal|api|frontend|backend|server"
    r"|client|core|config|infra|deploy|modules|tools|examples|components)/[\w./-]+"
)
"""Also what is a path without saying so: "services/auth", "docs/intro.md"."""
_URL = re.compile(r"(?i)\b(?:https?://|www\.)\S+")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")
_TOKEN = re.compile(r"[a-zà-ÿ']+|\d+|[?!:%€$£*+=/]")
_CUES = (
    "number clock day night repeated span remind remember forget mail calendar money office weather science"
    " web agent person short long we me you"
).split()


def normalise(text: str) -> str:
    """``text`` with paths, addresses and numbers of mail as PATH, URL and ADDRESS, as in the examples."""
    return _PATH.sub("PATH", _ADDRESS.sub("ADDRESS", _URL.sub("URL", text[:MAX_LENGTH])))


def read_features(text: str) -> dict[int, float]:
    """The weight of each bucket that ``text`` has, of length 1 together."""
    found: dict[int, float] = {}
    for name, weight in set(_named_features(text)):
        bucket = zlib.crc32(name.encode()) % BUCKETS
        found[bucket] = found.get(bucket, 0.0) + weight
    length = sum(weight * weight for weight in found.values()) ** 0.5
    return {bucket: weight / length for bucket, weight in found.items()} if length else {}


def _named_features(text: str) -> Iterator[tuple[str, float]]:
    text = normalise(text)
    yield f"act {read_utterance(text).act.value}", _CUE
    for cue in _CUES:
        if WAYS[cue].search(text):
            yield f"cue {cue}", _CUE
    for value in ("PATH", "URL", "ADDRESS"):
        if value in text:
            yield f"cue {value}", _CUE
    words = _TOKEN.findall(re.sub(r"\d", "0", text.lower()))[:80]
    yield from ((f"word {word}", _WORD) for word in words)
    yield from ((f"pair {one} {two}", _PAIR) for one, two in zip(["^", *words], [*words, "$"], strict=True))
    for word in words:
        framed = f"<{word}>"
        for size in (3, 4, 5):
            yield from ((f"part {framed[at : at + size]}", _PART) for at in range(len(framed) - size + 1))


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
