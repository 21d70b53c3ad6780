"""What a message is recognised by: the features that the classifier ``desk`` was fitted to."""

import hashlib
import re
from collections.abc import Iterator, Mapping

import msgspec

from services.nexus.tools.tool import Tool
from shared.language.sayings import read_sayings
from shared.language.utterance import read_utterance

WAYS = read_sayings(__file__, "features")

MAX_LENGTH = 600  # Characters of a message that are read: a request states its purpose at the beginning
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


def read_features(text: str) -> dict[str, float]:
    """The weights of the features of ``text`` by their names: its act, values, words and parts of words."""
    return dict(_read(text))


def _read(text: str) -> Iterator[tuple[str, float]]:
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


def fingerprint(tools: Mapping[str, Tool]) -> str:
    """What the classifier depends on: names and examples of the tools."""
    text = msgspec.json.encode({name: tool.sentences for name, tool in tools.items()})
    return hashlib.sha256(text).hexdigest()[:16]
