"""Which route a message takes: by rules in a fixed order, or by the nearest example."""

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from services.nexus.reminders.intents import find_intent
from services.nexus.routing.sentence_type import (
    ORDER_START,
    SentenceType,
    classify_sentence,
    inflect,
    is_past,
    is_statement,
    match_orders,
)
from shared.contracts import RoutingDecision
from shared.errors import ConfigError
from shared.memory import Memory
from shared.text.sentences import split_sentences

CORTEX_WORDS = ("implement", "build", "fix", "debug", "refactor", "run", "execute", "test", "benchmark")
CONDUCTOR_WORDS = ("check up", "check-up", "checkup", "audit", "inspect")
FRONTIER_WORDS = ("research", "scout", "monitor", "scan", "trend", "discover")

REMINDERS = "reminders"
"""The tool that handles reminders."""
UNDECIDED = "it names no work and no tool"
"""The rationale if no rule matched: an example, or a model, may still find a route."""

LIKE = "it is like"
"""How the rationale begins if an example decided."""

_WRITE_CODE = re.compile(
    r"\b(?:re)?write\s+(?:(?!to\b)[\w'’+#.-]+\s+){0,4}?(?:code|scripts?|functions?|programs?|modules?|class(?:es)?)\b"
)
_REVIEW = re.compile(r"\bliterature\s+reviews?\b")
_CORTEX = (match_orders(CORTEX_WORDS), _WRITE_CODE)
_WEB = r"(?:the\s+)?(?:web|internet)\b(?![\s-]+(?:app|page|server|service|shop|site)s?\b)"
_SEARCH_WEB = re.compile(
    rf"{ORDER_START}(?P<verb>search\s+(?:(?:on\s+)?{_WEB}|online\b)|(?:search|look\s+up|find(?:\s+out)?)\b.{{0,300}}?\bon\s+{_WEB})"
)
_CONDUCTOR = (match_orders(CONDUCTOR_WORDS), _SEARCH_WEB)
_FRONTIER = (match_orders(FRONTIER_WORDS), _REVIEW)


def route_request(
    text: str, tools: Mapping[str, Sequence[str]] | None = None, personal: Collection[str] = ()
) -> RoutingDecision:
    """Decide who handles ``text``; the rationale names the rule that fired, the first of these.

    1. nothing but blanks: nexus; 2. a request about reminders, if they are a tool;
    3. a keyword of a registered tool (``tools``: keywords by name, the longest first): ``tool:<name>``;
    4. cortex words asked for: cortex; 5. a check-up or a search of the web asked for: conductor;
    6. frontier words asked for: frontier; 7. anything else: nexus, with the rationale UNDECIDED unless it is
    about what is known here. A question never goes where a goal would be made of it.

    Words count whole and in their simple forms ("latest" does not contain "test"), and only in requests: "fix
    it", "can you run", not "the build is old" or "testing the water". Questions about what people here know,
    said or did stay at nexus, except for the keywords of ``personal`` tools, such as a calendar.
    """
    if not text.strip():
        return RoutingDecision(route="nexus", rationale="the message is empty")
    tools = tools or {}
    if REMINDERS in tools and (intent := find_intent(text)):
        return make_decision(f"tool:{REMINDERS}", f"it wants to {intent.value} a reminder")
    sentences = [(classify_sentence(sentence), sentence.lower()) for sentence in split_sentences(text)]
    wanted = [sentence for kind, sentence in sentences if kind is SentenceType.REQUEST]
    asked = [sentence for kind, sentence in sentences if kind is SentenceType.QUESTION]
    own = {name: tools[name] for name in personal if name in tools}
    recalls = any(kind is SentenceType.RECALL for kind, _ in sentences)
    return (
        _find_tool([*wanted, *asked], tools)
        or _find_tool([sentence for _, sentence in sentences if not is_statement(sentence)], own)
        or _find_work("cortex", _first(wanted, _CORTEX))
        or _find_work("conductor", _first(wanted, _CONDUCTOR))
        or _find_work("frontier", _first(wanted, _FRONTIER))
        or make_decision("nexus", "it is about what is known here" if recalls else UNDECIDED)
    )


def make_decision(route: str, rationale: str) -> RoutingDecision:
    """The decision for ``route``, with the name of its tool if it is one."""
    tool = route.removeprefix("tool:") if route.startswith("tool:") else ""
    return RoutingDecision(route=route, rationale=rationale, tool_name=tool)


def _first(sentences: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> str:
    for sentence in sentences:
        for pattern in patterns:
            if found := pattern.search(sentence):
                return found[found.lastgroup or 0]
    return ""


def _find_tool(sentences: Sequence[str], tools: Mapping[str, Sequence[str]]) -> RoutingDecision | None:
    pairs = [(keyword, name) for name, keywords in tools.items() for keyword in keywords]
    for keyword, name in sorted(pairs, key=lambda pair: (-len(pair[0]), pair)):
        if any(re.search(inflect(keyword), sentence) for sentence in sentences):
            return make_decision(f"tool:{name}", f"{keyword!r} is a keyword of the tool {name}")
    return None


def _find_work(agent: str, words: str) -> RoutingDecision | None:
    return make_decision(agent, f"{words!r} is work for {agent}") if words else None


FILE = Path(__file__).parent / "examples.yaml"
NEAR_ENOUGH = 0.66
"""The least cosine similarity at which an example decides. Measured with bge-small-en-v1.5: of 55 sentences
written after the examples all were routed correctly, at .72 10 fewer; of 77 sentences that the examples were
chosen with 72 were, and one went to another agent (tests/flow/test_nexus_examples.py)."""
MAX_LENGTH = 1_000
"""Characters of a message that are embedded: examples are single sentences."""

_PATH = re.compile(r"(?<![\w/.])~?/[^\s\"'`]+|~/\S*")
_CHECKABLE = re.compile(r"(?<!\w)[/~]|\b(?:repo(?:sitory)?|project|code\s?base|sources?)\b", re.IGNORECASE)
_URL = re.compile(r"(?i:https?)://\S+")


class Example(msgspec.Struct, frozen=True):
    """A sentence that asks for ``route``, and its embedding."""

    route: str
    text: str
    vector: tuple[float, ...]


def load_examples(path: Path = FILE) -> dict[str, list[str]]:
    """The examples by route; raises ConfigError naming what is wrong with the file."""
    try:
        return msgspec.convert(yaml.safe_load(path.read_text("utf-8")), dict[str, list[str]])
    except (msgspec.ValidationError, yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"The examples in {path} are wrong: {' '.join(str(error).split())}") from None


class RouteExamples:
    """The examples of the known routes, embedded by memory on first use."""

    def __init__(self, memory: Memory, routes: Collection[str], *, home: str) -> None:
        self._memory = memory
        self._home = home
        self._texts = {route: texts for route, texts in load_examples().items() if route in {*routes, home}}
        self._examples: list[Example] = []

    async def prepare(self) -> None:
        """Embed the examples, once; raises BusError if memory does not answer."""
        if self._examples:
            return
        pairs = [(route, text) for route, texts in self._texts.items() for text in texts]
        vectors = await self._memory.embed(*(text for _, text in pairs))
        self._examples = [
            Example(route, text, tuple(vector)) for (route, text), vector in zip(pairs, vectors, strict=True)
        ]

    async def find(self, text: str, routes: Collection[str]) -> tuple[Example, float]:
        """The nearest example of ``routes`` and of ``home``, and its cosine similarity.

        Raises BusError if memory does not answer.
        """
        await self.prepare()
        (vector,) = await self._memory.embed(normalise(text))
        near = (each for each in self._examples if each.route in routes or each.route == self._home)
        return max(
            ((each, sum(map(operator.mul, vector, each.vector))) for each in near), key=lambda pair: pair[1]
        )

    async def decide(self, text: str, routes: Collection[str]) -> RoutingDecision | None:
        """The route of the nearest example; None if it is too far, ``home``, or not among ``routes``."""
        if not routes:
            return None
        # An agent that may not have it is not replaced by the next best: it stays.
        example, similarity = await self.find(text, {*routes, "frontier"})
        if similarity < NEAR_ENOUGH or example.route not in routes:
            return None
        return make_decision(example.route, f"{LIKE} {example.text!r} ({similarity:.2f})")


def is_by_example(decision: RoutingDecision) -> bool:
    """Whether likeness to an example decided, not a rule."""
    return decision.rationale.startswith(LIKE)


def candidate_routes(text: str, routes: Collection[str], personal: Collection[str]) -> frozenset[str]:
    """The ``routes`` that are possible for ``text``, by the types of its sentences.

    None for statements; the ``personal`` tools for a question about the people, unless it is about the past;
    for a question about the world the tools, for a goal is never made of a question: only one that names a
    path or an address goes to the conductor, for memory cannot know what is there. A request goes there
    only if something can be checked.
    """
    sentences = split_sentences(text)
    if not sentences or all(map(is_statement, sentences)):
        return frozenset()
    types = {classify_sentence(sentence) for sentence in sentences if not is_statement(sentence)}
    if SentenceType.REQUEST in types:
        allowed = set(routes)
    elif SentenceType.QUESTION in types:
        allowed = {route for route in routes if route.startswith("tool:")}
        allowed |= {"conductor"} & set(routes) if names_place(text) else set()
    else:
        allowed = set() if is_past(text) else set(personal)
    if not _CHECKABLE.search(text):
        allowed.discard("conductor")
    return frozenset(allowed)


def names_place(text: str) -> bool:
    """Whether ``text`` names a path or an address."""
    return bool(_PATH.search(text) or _URL.search(text))


def normalise(text: str) -> str:
    """``text`` with paths and addresses as PATH and URL, as in the examples."""
    return _PATH.sub("PATH", _URL.sub("URL", text[:MAX_LENGTH]))
