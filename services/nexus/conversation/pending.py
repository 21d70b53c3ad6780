"""Asking back, and the short answers to it: "2", "yes", "the first one", "no, the other", "at 9".

An action of nexus raises what ``ask_back`` returns::

    raise ask_back(self.context, "At what time?", template="Remind me {answer} to call Ana", expects="time")

The answer to the person is the question with its choices; the next message of the conversation becomes a
whole message again, which is routed as any other.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from services.nexus.timetable.reminder_requests import format_time_answer
from shared.agent.context import AgentContext
from shared.contracts import AskedBack, Choice
from shared.contracts.emails import SLOT
from shared.errors import ActionError
from shared.language.sayings import read_sayings
from shared.language.times.days import ordinal
from shared.language.utterance import Utterance, read_utterance

WAYS = read_sayings(__file__, "pending")

ASKS = "asks"  # The key of a task's metadata that holds what it asks back


def ask_back(
    context: AgentContext,
    question: str,
    *,
    choices: Sequence[Choice] = (),
    template: str = "",
    expects: Literal["choice", "time", "text"] = "choice",
) -> ActionError:
    """The error to raise in an action that needs to know more; see AskedBack for what settles it."""
    asks = AskedBack(choices=tuple(choices), template=template, expects=expects)
    context.current_task.facts[ASKS] = asks.to_dict()
    return ActionError(format_question(question, asks))


def format_question(question: str, asks: AskedBack) -> str:
    """``question`` with the numbered choices below it."""
    choices = [f"{number}. {each.label}" for number, each in enumerate(asks.choices, 1)]
    return "\n".join([question, *choices])


def read_asked(metadata: Mapping[str, Any]) -> AskedBack | None:
    """What a task asks back, by the metadata of its result."""
    found = metadata.get(ASKS)
    try:
        return AskedBack.from_dict(found) if isinstance(found, dict) else None
    except ValueError:  # another agent's result may hold anything
        return None


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """The whole message that a short one stands for.

    ``text`` is what is routed, ``understood`` the same for people; empty if the message was not changed.
    ``joined`` is the message before with ``text`` added: for the tool of that one, unless ``text`` is for
    another.
    ``replaces`` is the schedule or job of the last answer that the message asks for at another time.
    With a ``reply`` nothing is routed: that is the answer, by ``route``, and ``asks`` what it asks back.
    """

    text: str
    understood: str = ""
    reply: str = ""
    route: str = ""
    joined: str = ""
    replaces: str = ""
    asks: AskedBack | None = None


NOTHING = "All right, nothing is done."
MAX_WORDS = 14  # The most words of a short answer; a longer message is a new one


def settle(said: Utterance, asks: AskedBack) -> Resolved | None:
    """What an answer to ``asks`` means; None for a message that does not answer it."""
    text, words = said.text, said.plain
    if not words or len(words.split()) > MAX_WORDS:
        return None
    if (number := _find_number(words, asks)) is not None:
        return _choose(asks.choices[number])
    if WAYS["all"].fullmatch(words):
        words = "all"
    if same := next((each for each in asks.choices if read_utterance(each.label).plain == words), None):
        return _choose(same)
    bare = WAYS["begins"].sub("", words, count=1) if WAYS["begins"].match(words) else words
    if WAYS["yes"].fullmatch(bare):  # to the only thing that is offered; of several it is asked again which
        offered = [each for each in asks.choices if each.text]
        if len(offered) == 1:
            return _choose(offered[0])
        again = Resolved(text=text, reply=format_question("Which one?", asks), asks=asks)
        return again if offered else None
    # A no may also end the work before, to which what is offered would add.
    stops = re.search(r"\b(?:stop|cancel)\b", bare) and any(
        each.text.startswith(_ADDING) for each in asks.choices
    )
    if WAYS["no"].fullmatch(bare) and not stops:
        return _do_nothing(text)
    if found := _find_by_words(words, asks.choices):
        return _choose(found)
    return _fill(text, words, asks) if asks.template else None


def _find_number(words: str, asks: AskedBack) -> int | None:
    """The position of the choice that ``words`` name by number or place."""
    count = len(asks.choices)
    if WAYS["other"].fullmatch(words) and count == 2:
        return 1
    found = WAYS["numbered"].fullmatch(words)
    if not found or not count:
        return None
    word = found["word"]
    if word in ("last", "latter"):
        return count - 1
    position = 1 if word == "former" else ordinal(word)
    return position - 1 if 1 <= position <= count else None


_ADDING = ("/work ", "/schedule ", "/night_job ")


def _choose(choice: Choice) -> Resolved:
    if not choice.text:
        return _do_nothing(choice.label)
    shown = choice.label if choice.text.startswith("/") else choice.text
    return Resolved(text=choice.text, understood=shown)


def _do_nothing(text: str) -> Resolved:
    return Resolved(text=text, reply=NOTHING, route="tool:small_talk")


def _fill(text: str, words: str, asks: AskedBack) -> Resolved | None:
    """The whole message with an answer in it; words other than a time may be another message."""
    if asks.expects == "time":
        time = format_time_answer(text)
        whole = asks.template.replace(SLOT, time)
        return Resolved(text=whole, understood=re.sub(r"^/\w+ ", "", whole)) if time else None
    if asks.expects != "text" or WAYS["command"].match(words):
        return None
    said = WAYS["courtesies"].sub("", text.strip())
    return Resolved(text=text, joined=asks.template.replace(SLOT, said))


def _find_by_words(words: str, choices: Sequence[Choice]) -> Choice | None:
    """The one choice whose words, or time, are named."""
    if clock := read_utterance(words).clock:
        at = [each for each in choices if read_utterance(each.label).clock == clock]
        if len(at) == 1:
            return at[0]
    wanted = set(words.split()) - _FILLERS
    named = [each for each in choices if wanted and wanted <= set(read_utterance(each.label).plain.split())]
    return named[0] if len(named) == 1 else None


_FILLERS = frozenset(
    "the a an one in at on of please i mean meant take want would like it that this my no yes then".split()
)
