"""Routing: who a message is for, by rules in a fixed order."""

import re
from collections.abc import Collection, Mapping, Sequence

from services.nexus.errand import find_errand
from services.nexus.mood import ORDER_START, Mood, inflect, is_statement, judge_mood, match_orders
from services.nexus.wording import split_sentences
from shared.contracts import RoutingDecision

CORTEX_WORDS = ("implement", "build", "fix", "debug", "refactor", "run", "execute", "test", "benchmark")
CONDUCTOR_WORDS = ("check up", "check-up", "checkup", "audit", "inspect")
FRONTIER_WORDS = ("research", "scout", "monitor", "scan", "trend", "discover")

REMINDERS = "reminders"
"""The tool that minds reminders."""
UNDECIDED = "it names no work and no tool"
"""The rationale where no rule fired: an example, or a model, may know better."""

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
_FRONTIER_TOPIC = (re.compile("|".join(inflect(word) for word in FRONTIER_WORDS)), _REVIEW)


def route_request(
    text: str, tools: Mapping[str, Sequence[str]] | None = None, personal: Collection[str] = ()
) -> RoutingDecision:
    """Decide who handles ``text``; the rationale names the rule that fired, the first of these.

    1. nothing but blanks: nexus; 2. something to be done about reminders, where they are a tool;
    3. a keyword of a registered tool (``tools``: keywords by name, the longest first): ``tool:<name>``;
    4. cortex words asked for: cortex; 5. a check-up or a search of the web asked for: conductor;
    6. frontier words asked for or asked about: frontier; 7. anything else: nexus, with the rationale
    UNDECIDED where it is not about what is known here.

    Words count whole and in their simple forms ("latest" holds no "test"), and where something is asked
    for: "fix it", "can you run", not "the build is old" or "testing the water". Questions about what the
    office or its people know, said or did stay at nexus whatever words they hold, but for the keywords of
    ``personal`` tools, which know something about the people themselves, such as a calendar.
    """
    if not text.strip():
        return RoutingDecision(route="nexus", rationale="the message is empty")
    tools = tools or {}
    if REMINDERS in tools and (errand := find_errand(text)):
        rationale = f"it wants to {errand.value} a reminder"
        return RoutingDecision(route=f"tool:{REMINDERS}", rationale=rationale, tool_name=REMINDERS)
    sentences = [(judge_mood(sentence), sentence.lower()) for sentence in split_sentences(text)]
    wanted = [sentence for mood, sentence in sentences if mood is Mood.REQUEST]
    asked = [sentence for mood, sentence in sentences if mood is Mood.ASK]
    own = {name: tools[name] for name in personal if name in tools}
    return (
        _find_tool([*wanted, *asked], tools)
        or _find_tool([sentence for _, sentence in sentences if not is_statement(sentence)], own)
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
    known = "it is about what is known here" if Mood.RECALL in moods else UNDECIDED
    return RoutingDecision(route="nexus", rationale=known)
