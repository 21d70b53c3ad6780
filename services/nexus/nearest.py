"""The nearest example: which route a message is for whose words no rule knows, in embedding space."""

import operator
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec
import yaml

from services.nexus.mood import Mood, is_past, is_statement, judge_mood
from services.nexus.wording import split_sentences
from shared.contracts import RoutingDecision
from shared.errors import ConfigError
from shared.memory import Memory

FILE = Path(__file__).parent / "examples.yaml"
NEAR_ENOUGH = 0.66
"""Cosine similarity from which an example decides. Measured with bge-small-en-v1.5: of 55 sentences that were
written after the examples all went where they should, 10 fewer at .72; of 77 that the examples were chosen
with 72 did, and one to another agent (tests/flow/test_nexus_examples.py)."""
LONGEST = 1_000
"""Characters of a message that are compared: examples are single sentences."""

_PATH = re.compile(r"(?<![\w/.])~?/[^\s\"'`]+|~/\S*")
_CHECKABLE = re.compile(r"(?<!\w)[/~]|\b(?:repo(?:sitory)?|project|code\s?base|sources?)\b", re.IGNORECASE)
_URL = re.compile(r"(?i:https?)://\S+")


class Example(msgspec.Struct, frozen=True):
    """A sentence that calls for ``route``, and where it lies."""

    route: str
    text: str
    vector: tuple[float, ...]


def load_examples(path: Path = FILE) -> dict[str, list[str]]:
    """The examples by route; raises ConfigError naming what is wrong with the file."""
    try:
        return msgspec.convert(yaml.safe_load(path.read_text("utf-8")), dict[str, list[str]])
    except (msgspec.ValidationError, yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"The examples in {path} are wrong: {' '.join(str(error).split())}") from None


class Examples:
    """The examples of the routes that are known, embedded by memory when they are first needed."""

    def __init__(self, memory: Memory, routes: Collection[str], *, home: str) -> None:
        self._memory = memory
        self._home = home
        self._texts = {route: texts for route, texts in load_examples().items() if route in {*routes, home}}
        self._examples: list[Example] = []

    async def prepare(self) -> None:
        """Embed the examples, once; raises BusError where memory cannot do it."""
        if self._examples:
            return
        pairs = [(route, text) for route, texts in self._texts.items() for text in texts]
        vectors = await self._memory.embed(*(text for _, text in pairs))
        self._examples = [
            Example(route, text, tuple(vector)) for (route, text), vector in zip(pairs, vectors, strict=True)
        ]

    async def find(self, text: str, routes: Collection[str]) -> tuple[Example, float]:
        """The nearest example of ``routes`` and of those that stay, and how near it is, 0 to 1.

        Raises BusError where memory does not answer.
        """
        await self.prepare()
        (vector,) = await self._memory.embed(generalise(text))
        near = (each for each in self._examples if each.route in routes or each.route == self._home)
        return max(((each, _dot(vector, each.vector)) for each in near), key=lambda pair: pair[1])

    async def decide(self, text: str, routes: Collection[str]) -> RoutingDecision | None:
        """The route of the nearest example; None where it is not near enough, or is one that stays here."""
        if not routes:
            return None
        example, likeness = await self.find(text, routes)
        if likeness < NEAR_ENOUGH or example.route == self._home:
            return None
        return RoutingDecision(
            route=example.route,
            rationale=f"it is like {example.text!r} ({likeness:.2f})",
            tool_name=example.route.removeprefix("tool:") if example.route.startswith("tool:") else "",
        )


def candidates(text: str, routes: Collection[str], personal: Collection[str]) -> frozenset[str]:
    """The ``routes`` that ``text`` can be meant for at all, by its first sentence.

    None for a statement; the tools that know the people (``personal``) for a question about them, unless it
    is about what has been; for a question about the world those that find out; a check-up only of something
    that can be checked.
    """
    sentences = split_sentences(text)
    if not sentences or all(map(is_statement, sentences)):
        return frozenset()
    moods = {judge_mood(sentence) for sentence in sentences if not is_statement(sentence)}
    if Mood.REQUEST in moods:
        allowed = set(routes)
    elif Mood.ASK in moods:
        allowed = set(routes) - {"cortex"}
    else:
        allowed = set() if is_past(text) else set(personal)
    if not _CHECKABLE.search(text):
        allowed.discard("conductor")
    return frozenset(allowed)


def generalise(text: str) -> str:
    """``text`` as it compares with the examples: paths and addresses as PATH and URL."""
    return _PATH.sub("PATH", _URL.sub("URL", text[:LONGEST]))


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return float(sum(map(operator.mul, left, right)))
