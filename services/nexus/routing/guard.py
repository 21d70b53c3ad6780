"""What a person's own words ask for: the guard on what a model calls for a message.

A model reads mail, pages and memories, and any of them may hold an order. So it is not its word that counts:
what changes something has to be asked for by the message itself, each thing by words of its own. What is
refused only because the words do not say it is offered to the person instead.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import NamedTuple

from services.nexus.routing.decider import last_tool
from services.nexus.routing.decision import is_allowed
from services.nexus.routing.following import ALTERS, ENDS, FOLLOWS
from services.nexus.routing.following import WAYS as SHAPES
from services.nexus.routing.request import Request
from services.nexus.routing.unmistakable import find_language
from services.nexus.tools.tool import Effect, Tool
from shared.language.sayings import read_sayings
from shared.language.utterance import Act, Utterance, read_utterance
from shared.text.prose import PATH_IN_TEXT, URL_IN_TEXT, find_names, find_terms

WAYS = read_sayings(__file__, "guard")

OTHERS = frozenset({"mail", "web", "news", "papers", "weather", "goals", "project", "brief", "recall"})
"""The tools that tell what others wrote; what memory holds may come from a page or a mail."""
_TOLD_BY = frozenset({"nexus", *(f"tool:{name}" for name in OTHERS)})
MAX_WORDS = 9  # The most words of a message that repeats what was done with something else: "same for Bob"
LEAST_SAID = 0.5
"""The least share of a call's words that are the person's, if the model has read what others wrote."""
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ASKED = {
    name.removeprefix("asks_"): WAYS[name]
    for name in (
        "asks_reminder_set asks_reminder_change asks_reminder_cancel asks_calendar_add asks_send_mail"
        " asks_stop asks_approve asks_remember asks_correct asks_forget asks_schedule asks_night_job"
    ).split()
}
"""What asks for each effect, but for work: any order may ask for that."""
_ENDING = ("reminder_cancel", "reminder_change", "stop", "forget")  # What may be done to all of a kind
_STARTED = (
    "work",
    "schedule",
    "night_job",
)  # What is done by others, with the rights of what the person said


Likely = Callable[[], Awaitable[Collection[str]]]


class Refusal(NamedTuple):
    """Why a call is not done; with ``offers`` the person may be asked whether it is to be."""

    why: str
    offers: bool = True


class Guard:
    """Judges the calls for one message; ``has_read``: the model has read what others wrote."""

    def __init__(self, request: Request, likely: Likely) -> None:
        """``likely`` finds the tools that the message is like those for, whatever its words."""
        self._request = request
        self._likely = likely
        self._said: Utterance = read_utterance(request.wrote or request.text)
        self._done: list[tuple[str, tuple[int, int]]] = []
        self._last = last_tool(request)
        turns = request.talk.turns[-2:] if request.talk else ()
        self.has_read = any(turn.route in _TOLD_BY for turn in turns)

    async def judge(self, tool: Tool, text: str) -> Refusal | None:
        """Why the effect that ``tool`` has with ``text`` is refused; None if the message asks for it."""
        if tool.effect is Effect.READS:
            return None
        said, wrote = self._said, self._said.text
        # "same for Bob": a part of a sentence that asks nothing
        is_part = bool(self._request.before) and said.is_part and not said.asks
        act = Act.REQUEST if is_part or self._orders_beside(tool) else said.act
        if not is_allowed(tool, act, {self._last, *FOLLOWS.get(self._last, ())}):
            # "Sunday is better" after what was put on a schedule may be meant to change it.
            alters = act is Act.STATEMENT and tool.name in (self._last, ALTERS.get(self._last))
            return Refusal(f"The message is a {act.value}, and asks for nothing to be done", offers=alters)
        if SHAPES["heard"].search(wrote):
            return Refusal("The message only says that it was heard", offers=False)
        if len(self._done) >= 1 + len(WAYS["joins"].findall(wrote)):
            return Refusal("The message asks for fewer things than that")
        if not await self._asks_for(tool):
            return Refusal("The words of the message do not ask for that")
        return self._judge_object(tool, text)

    def _orders_beside(self, tool: Tool) -> bool:
        """Whether an order for ``tool`` stands beside a question: "remind me at 9, and what else is on?"."""
        if self._said.act is not Act.QUESTION or tool.name not in _ASKED:
            return False
        clauses = WAYS["clause"].split(self._said.text)
        orders = [each for each in clauses[1:] and clauses if read_utterance(each).act is Act.REQUEST]
        return any(_ASKED[tool.name].search(each) for each in orders)

    async def _asks_for(self, tool: Tool) -> bool:
        """Whether the message asks for the effect of ``tool``: by its words alone if others' were read."""
        if find_language(self._said.text):  # its words are not known here
            return not self.has_read
        if self._find_words(tool) is not None and (tool.name in _ASKED or self.has_read or self._done):
            return True
        return not self.has_read and not self._done and tool.name in await self._likely()

    def note(self, tool: Tool) -> None:
        """``tool`` has had its effect: its words ask for nothing else."""
        self._done.append((tool.name, self._find_words(tool) or (0, 0)))

    def _find_words(self, tool: Tool) -> tuple[int, int] | None:
        """Where the message asks for the effect, in words that nothing else was done for; None if nowhere."""
        if tool.name not in _ASKED:
            return (0, 0)
        taken = [span for name, span in self._done if name != tool.name]
        found = (each.span() for each in _ASKED[tool.name].finditer(self._said.text))
        free = (span for span in found if all(span[1] <= start or end <= span[0] for start, end in taken))
        if span := next(free, None):
            return span
        again = tool.name in (self._last, ALTERS.get(self._last), ENDS.get(self._last))
        return (0, 0) if again and self._said.length <= MAX_WORDS and not self._done else None

    def _judge_object(self, tool: Tool, text: str) -> Refusal | None:
        """Why the words do not name what is to be changed; None if they do."""
        request, wrote = self._request, self._said.text
        if tool.name in _ENDING and WAYS["all"].search(text) and not WAYS["several"].search(wrote):
            return Refusal("The message does not say all")
        if tool.name == "send_mail":
            to = text.partition(" ")[0]
            named = _tokens([wrote]) if find_names(wrote) or "@" in wrote else _tokens([request.words])
            if _tokens([to.partition("@")[0]]).isdisjoint(named) and to.lower() not in wrote.lower():
                return Refusal(f"The message does not name {to}")
        if tool.name in _STARTED:
            places = [found[0].strip("'\"`").rstrip(".,;:!?") for found in PATH_IN_TEXT.finditer(text)]
            places += [*URL_IN_TEXT.findall(text), *_ADDRESS.findall(text)]
            if unnamed := [place for place in places if place not in request.words]:
                return Refusal(f"The person has not named {unnamed[0]}")
        if self.has_read and tool.name != "send_mail":
            terms = find_terms(WAYS["common"].sub(" ", text)).keys()
            said = find_terms(request.words).keys()
            if len(terms & said) < LEAST_SAID * len(terms):
                return Refusal("What it names does not come from the person")
        return None


def _tokens(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"[^\W\d_]{3,}", text.lower())}
