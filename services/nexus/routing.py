"""Routing: who a message is for, by rules in a fixed order."""

import re
from collections.abc import Mapping, Sequence

from services.nexus.mood import Mood, inflect, judge_mood, match_orders
from services.nexus.wording import split_sentences
from shared.contracts import RoutingDecision

CORTEX_WORDS = ("implement", "build", "fix", "debug", "refactor", "run", "execute", "test", "benchmark")
CONDUCTOR_WORDS = ("check up", "check-up", "checkup", "audit", "inspect")
FRONTIER_WORDS = ("research", "scout", "monitor", "scan", "trend", "discover")

_WRITE_CODE = re.compile(
    r"\b(?:re)?write\s+(?:(?!to\b)[\w'’+#.-]+\s+){0,4}?(?:code|scripts?|functions?|programs?|modules?|class(?:es)?)\b"
)
_REVIEW = re.compile(r"\bliterature\s+reviews?\b")
_CORTEX = (match_orders(CORTEX_WORDS), _WRITE_CODE)
_CONDUCTOR = (match_orders(CONDUCTOR_WORDS),)
_FRONTIER = (match_orders(FRONTIER_WORDS), _REVIEW)
_FRONTIER_TOPIC = (re.compile("|".join(inflect(word) for word in FRONTIER_WORDS)), _REVIEW)


def route_request(text: str, tools: Mapping[str, Sequence[str]] | None = None) -> RoutingDecision:
    """Decide who handles ``text``; the rationale names the rule that fired, the first of these.

    1. nothing but blanks: nexus; 2. a keyword of a registered tool (``tools``: keywords by name, the longest
    first): ``tool:<name>``; 3. cortex words asked for: cortex; 4. a check-up asked for: conductor;
    5. frontier words asked for or asked about: frontier; 6. anything else: nexus.

    Words count whole and in their simple forms ("latest" holds no "test"), and where something is asked
    for: "fix it", "can you run", not "the build is old" or "testing the water". Questions about what the
    office or its people know, said or did stay at nexus whatever words they hold.
    """
    if not text.strip():
        return RoutingDecision(route="nexus", rationale="the message is empty")
    sentences = [(judge_mood(sentence), sentence.lower()) for sentence in split_sentences(text)]
    wanted = [sentence for mood, sentence in sentences if mood is Mood.REQUEST]
    asked = [sentence for mood, sentence in sentences if mood is Mood.ASK]
    return (
        _find_tool([*wanted, *asked], tools or {})
        or _find_work("cortex", _first(wanted, _CORTEX))
        or _find_work("conductor", _first(wanted, _CONDUCTOR))
        or _find_work("frontier", _first(wanted, _FRONTIER) or _first(asked, _FRONTIER_TOPIC))
        or _stay([mood for mood, _ in sentences])
    )


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
            rationale = f"{keyword!r} is a keyword of the tool {name}"
            return RoutingDecision(route=f"tool:{name}", rationale=rationale, tool_name=name)
    return None


def _find_work(agent: str, words: str) -> RoutingDecision | None:
    if not words:
        return None
    return RoutingDecision(route=agent, rationale=f"{words!r} is work for {agent}")


def _stay(moods: Sequence[Mood]) -> RoutingDecision:
    known = "it is about what is known here" if Mood.RECALL in moods else "it names no work and no tool"
    return RoutingDecision(route="nexus", rationale=known)
