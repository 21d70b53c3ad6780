"""Which tool a message is for, decided without a model: rules, memory's classifiers, and its act.

While memory is away, rules alone decide: what they do not know is not understood, and the answer says why.
"""

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from services.nexus.answers.answer_type import CALENDAR
from services.nexus.routing.decision import UNCLEAR, Decision, fits, is_allowed
from services.nexus.routing.following import (
    ALTERS,
    ENDS,
    FOLLOWS,
    TALK,
    Before,
    choose_by_odds,
    is_whole,
    normalise,
    read_features,
    read_following,
)
from services.nexus.routing.request import GOAL, Request
from services.nexus.routing.unmistakable import QUALIFIED, decide_by_rule, qualify, read_command
from services.nexus.tools.tool import Effect, Tool
from shared.contracts import ListQuery
from shared.errors import BusError
from shared.language.sayings import read_sayings
from shared.language.utterance import Act, read_utterance
from shared.memory import Memory
from shared.text.display import shorten
from shared.text.prose import find_names

WAYS = read_sayings(__file__, "decider")

LEAST_SURE = {Effect.READS: 0.15, Effect.WRITES: 0.45, Effect.STARTS: 0.6}
"""The least probability with which a tool is run that reads, writes, or starts work.

Chosen on the seen halves of the desk's messages: to write, 646 of 700 are right with 0.55, 648 with 0.45,
and with 0.4 one more has a wrong effect."""
MARGIN = 0.01  # The least distance to the second tool; below it the desk asks which is meant
MAX_BEFORE = 500  # The most characters that work which goes on from other work tells of that
MAX_CHOICES = 3
SURE_OTHER = 0.6  # The probability from which a message that may add to the one before is for another tool
SURE_WRITES_OTHER = 0.5
"""The probability below which a follow-up keeps or sends nothing by a tool that was not talked about."""
SURE_OF_OTHER = 0.7
"""The probability below which a question that names the author of messages in memory goes to memory."""
MAX_NAMES = 3
_OF_GOALS = frozenset({"goals", "spending", "stop", "work"})
_ELSEWHERE = frozenset({"web", "news", "papers", "weather"})
SURE_ELSEWHERE = 0.95
"""The probability below which a question that goes on from memory's answer is not asked elsewhere."""
MOST_SURE = 0.9  # The most that a choice in a conversation is worth: with a model, the model is asked
ROUTES = {"nexus": "memory", "conductor": "work"}  # The tools of routes that are not named after them
DEFAULTS = {
    Act.QUESTION: "memory",
    Act.STATEMENT: "statement",
    Act.HYPOTHETICAL: "memory",
    Act.NEGATED: "refuse",
    Act.QUOTED: "refuse",
}
"""What a message is for if its act forbids what it is most like."""
CLASSIFY_TIMEOUT = 10.0  # Seconds that memory has to classify a message: it takes some hundredths of one
WITHOUT_MEMORY = Decision(tool=UNCLEAR, why="memory does not answer", sure=0.0, is_without_memory=True)
OF_MEMORY = ("memory", "correct", "remember", "statement")
SURE_TOLD = 0.8  # The likeness to these from which what tells of a change is no order
LEAST_CORRECTS = 0.2  # The likeness to corrections from which what tells of a change is one
VAGUE_WORDS = 4  # The most words of a message that names nothing


class Decider:
    """Decides, with the classifiers of memory if it is there."""

    def __init__(self, memory: Memory, tools: Mapping[str, Tool]) -> None:
        self._memory = memory
        self._tools = tools

    async def decide_in(self, request: Request) -> Decision:
        """The tool that a request is for, in its conversation."""
        if not request.before:
            return await self.decide(request.text)
        if request.understood:  # it is the message before with other words
            decision = await self.decide(request.text)
            outside = decision.tool in _ELSEWHERE and decision.sure < SURE_ELSEWHERE
            if outside and last_tool(request) == "memory" and request.utterance.act is Act.QUESTION:
                return msgspec.structs.replace(decision, tool="memory", why=f"it asks on: {decision.why}")
            is_another = self._is_another(decision.tool, request, decision.sure)
            return ask_which(decision) if is_another else decision
        if request.joined:
            return await self._decide_joined(request)
        if found := decide_by_rule(request.text, self._tools, goes_on=True):
            return found
        try:
            return await self._decide_next(request)
        except BusError:
            return WITHOUT_MEMORY

    async def _decide_joined(self, request: Request) -> Decision:
        """The tool of a message that may add to the one before: that one's, unless it is more for another."""
        last = last_tool(request)
        if found := decide_by_rule(request.text, self._tools):
            return found
        try:
            alone = await self._decide_next(request)
        except BusError:
            return read_command(request.joined, self._tools) or WITHOUT_MEMORY
        if alone.tool not in (last, "memory", *TALK) and alone.sure >= SURE_OTHER:
            return alone
        if found := read_command(request.joined, self._tools):
            return found
        does = self._tools[last].effect is not Effect.READS and not request.before_failed
        if does and alone.tool != "memory":  # a question about what was done does it no second time
            return alone
        tool = alone.tool if alone.tool == "memory" else last
        why = f"it adds to what was before: {tool}"
        return Decision(tool=tool, why=why, sure=alone.sure, text=request.joined, is_joined=True)

    async def _decide_next(self, request: Request) -> Decision:
        """The tool of a message after another: by what it is like, alone and together, and by its shape."""
        text, before = request.text, Before(tool=last_tool(request), failed=request.before_failed)
        whole = f"{request.before.rstrip(' .!?')} {text}"
        said = read_utterance(text)
        act = Act.REQUEST if said.is_part else said.act
        scores, joined = await self._score(text, whole)
        features = read_following(text, before, scores, joined, self._tools)
        odds = await self._classify("following", [normalise(text)], list(features.values()))
        ranked = choose_by_odds(dict(zip(features, odds, strict=True)))
        alone = decide_by_scores(text, scores, self._tools)
        related = {before.tool, *FOLLOWS.get(before.tool, ())}
        allowed = {
            name: score
            for name, score in ranked.items()
            if is_allowed(self._tools[name], act, related)
            and (name in related or fits(self._tools[name], text))
        }
        if tells(text, act):
            allowed = hear(allowed, self._tools, related)
        if (
            before.tool == "night_job"
            and "work" in allowed
            and WAYS["adds"].search(text)
            and not WAYS["now"].search(text)
        ):
            night = allowed.get("night_job", 0.0) + allowed.pop("work")
            allowed["night_job"] = night  # what is added to the night is done then
        first, second, *others = sorted(allowed, key=lambda name: -allowed[name])
        sure = min(allowed[first], MOST_SURE)
        names_path = "PATH" in normalise(text)
        continues = alone.tool == first == last_tool(request) == "work" and said.refers
        if continues and not names_path:
            goes_on = f"{text.strip().rstrip('.')} (after: {shorten(request.before, MAX_BEFORE)})"
            return msgspec.structs.replace(alone, text=goes_on, is_joined=True)
        says_part = self._tools[first].effect is Effect.STARTS and said.refers
        if alone.tool == first and not (says_part and self._tools[before.tool].effect is Effect.READS):
            return msgspec.structs.replace(alone, sure=min(max(sure, alone.sure), MOST_SURE))
        why = f"it follows {before.tool}, and is for {first} ({sure:.2f}), then {second}"
        likely = tuple(name for name in (second, *others) if not self._tools[name].hidden)
        decision = Decision(tool=first, why=why, sure=sure, others=likely[: MAX_CHOICES - 1], act=act)
        if first in TALK and act is Act.QUESTION and is_whole(text):
            return alone
        unsure = sure < LEAST_SURE[self._tools[first].effect] or first == UNCLEAR
        if unsure or self._is_another(first, request, allowed[first]):
            if act is Act.QUESTION and names_path:  # memory offers to have the office look there
                return msgspec.structs.replace(decision, tool="memory")
            told = tells(text, act) and (first != "correct" or not said.refers)
            return msgspec.structs.replace(decision, tool="statement") if told else ask_which(decision)
        return self._read_with(request, decision, whole)

    def _is_another(self, name: str, request: Request, sure: float) -> bool:
        """Whether a tool has an effect of its own, unlike what was talked about, and that is not certain."""
        last = last_tool(request)
        related = name in (last, ALTERS.get(last), ENDS.get(last))
        writes = self._tools[name].effect is Effect.WRITES
        return writes and not related and sure < SURE_WRITES_OTHER

    def _read_with(self, request: Request, decision: Decision, whole: str) -> Decision:
        """``decision`` with what its tool reads: both messages, if this one by itself is not for the tool.

        What starts work has to be said as a whole.
        """
        tool, last = self._tools[decision.tool], last_tool(request)
        limits = tool.effect is Effect.STARTS and re.search(r"(?i)\bnot\b", request.text)
        if request.utterance.is_part and not limits and (request.before_failed or last == UNCLEAR):
            return msgspec.structs.replace(decision, text=whole, is_joined=True)
        if decision.tool == last and tool.effect is Effect.READS and not is_whole(request.text):
            return msgspec.structs.replace(decision, text=whole)
        return msgspec.structs.replace(decision, says_part=tool.effect is Effect.STARTS)

    async def decide(self, text: str) -> Decision:
        """The tool that ``text`` is for."""
        if found := decide_by_rule(text, self._tools):
            return found
        try:
            scores = await self._score(text)
        except BusError:
            return WITHOUT_MEMORY
        decision = decide_by_scores(text, scores[0], self._tools)
        asks = GOAL.search(text) and read_utterance(text).act is Act.QUESTION
        if asks and decision.tool not in _OF_GOALS:
            why = f"it asks of a goal: {decision.why}"
            return msgspec.structs.replace(decision, tool="goals", why=why)
        looks_up = decision.tool != "memory" and self._tools[decision.tool].effect is Effect.READS
        if looks_up and decision.sure < SURE_OF_OTHER and await self._asks_of_author(text):
            why = f"it asks of the author of messages in memory: {decision.why}"
            return msgspec.structs.replace(decision, tool="memory", why=why)
        return decision

    async def _asks_of_author(self, text: str) -> bool:
        """Whether it is a question that names the author of messages in memory, who is one of their tags."""
        if read_utterance(text).act is not Act.QUESTION:
            return False
        names = dict.fromkeys(name.lower() for name in find_names(text))
        try:
            pages = [
                await self._memory.nodes(ListQuery(tags=(name,), limit=1))
                for name in [name for name in names if name not in CALENDAR][:MAX_NAMES]
            ]
        except BusError:
            return False
        return any(page.nodes for page in pages)

    async def _score(self, *texts: str) -> list[dict[str, float]]:
        """How likely each tool is for each text; raises BusError while memory is away."""
        return await self._classify("desk", [*map(normalise, texts)], [*map(read_features, texts)])

    async def _classify(
        self, name: str, texts: Sequence[str], features: Sequence[Mapping[str, float]]
    ) -> list[dict[str, float]]:
        return await self._memory.classify(name, texts, features, timeout=CLASSIFY_TIMEOUT)


def decide_by_scores(text: str, scores: Mapping[str, float], tools: Mapping[str, Tool]) -> Decision:
    """The tool for which ``scores`` speak most, of those that the act of ``text`` allows."""
    act = find_told(text, scores)
    fitting = {name: score for name, score in scores.items() if name in tools and fits(tools[name], text)}
    scores = {name: score / sum(fitting.values()) for name, score in fitting.items()}
    allowed = {name: score for name, score in scores.items() if is_allowed(tools[name], act)}
    rest = sum(scores.values()) - sum(allowed.values())
    if default := DEFAULTS.get(act, ""):
        allowed[default] = allowed.get(default, 0.0) + rest
    if tells(text, act):
        allowed = hear(allowed, tools, changes=bool(WAYS["changes"].search(text)))
    first, second, *others = sorted(allowed, key=lambda name: -allowed[name])
    sure = allowed[first]
    if act is Act.REQUEST and first in QUALIFIED:
        first = qualify(text, first, tools)
    if first == UNCLEAR:
        return Decision(tool=UNCLEAR, why="it does not say when", others=("night_job", "work"), act=act)
    why = f"it is like the examples of {first} ({sure:.2f}), then {second} ({allowed[second]:.2f})"
    vague = tools[first].effect is Effect.STARTS and is_vague(text)
    if vague or sure < LEAST_SURE[tools[first].effect] or sure - allowed[second] < MARGIN:
        if default in (first, second, *others[:1]) or tells(text, act):  # what it does is known
            return Decision(tool=default, why=f"it is no request: {why}", sure=sure, others=(first,), act=act)
        likely = tuple(name for name in (first, second, *others) if not tools[name].hidden)[:MAX_CHOICES]
        return Decision(tool=UNCLEAR, why=f"unclear: {why}", sure=sure, others=likely, act=act)
    return Decision(tool=first, why=why, sure=sure, others=(second, *others[:2]), act=act)


def find_told(text: str, scores: Mapping[str, float]) -> Act:
    """What ``text`` does: what says that something is otherwise now, and is like no order, tells that."""
    act, of_memory = read_utterance(text).act, sum(scores.get(name, 0.0) for name in OF_MEMORY)
    tells_change = act is Act.REQUEST and of_memory >= SURE_TOLD and WAYS["changes"].search(text)
    return Act.STATEMENT if tells_change else act


def tells(text: str, act: Act) -> bool:
    """Whether ``text`` only tells something: memory is not to answer it with what it holds."""
    return act is Act.STATEMENT and not WAYS["asked"].search(text)


def hear(
    scores: Mapping[str, float],
    tools: Mapping[str, Tool],
    related: Collection[str] = (),
    *,
    changes: bool = False,
) -> dict[str, float]:
    """The scores for what is only told: what looks something up counts only if ``related``.

    It counts as a mere statement; as a correction if it is like some and tells what ``changes``.
    """
    silent = {
        name
        for name in scores
        if tools[name].effect is Effect.READS
        and name not in TALK
        and (name not in related or name == "memory")
    }
    heard = {name: score for name, score in scores.items() if name not in silent}
    if changes and heard.get("correct", 0.0) >= LEAST_CORRECTS:
        heard["correct"] += heard.pop("statement", 0.0)
        total = sum(heard.values())
        return {"statement": 0.0, **{name: score / total for name, score in heard.items()}}
    heard["statement"] = heard.get("statement", 0.0) + sum(scores[name] for name in silent)
    return heard


def is_vague(text: str) -> bool:
    """Whether ``text`` says of nothing by name what is to be done with it: "write it up"."""
    return len(text.split()) <= VAGUE_WORDS and bool(WAYS["vague"].search(text))


def ask_which(decision: Decision) -> Decision:
    """That it is asked which tool is meant, that of ``decision`` or another likely one."""
    likely = (decision.tool, *decision.others)
    return Decision(tool=UNCLEAR, why=f"unclear: {decision.why}", sure=decision.sure, others=likely)


def last_tool(request: Request) -> str:
    """The tool that answered the message before."""
    return ROUTES.get(request.before_route, request.before_route.removeprefix("tool:"))
