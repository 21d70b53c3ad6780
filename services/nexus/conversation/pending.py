"""Short answers to what was asked back: "2", "yes", "the first one", "no, the other", "at 9"."""

import re
from collections.abc import Sequence

from services.nexus.conversation.asking import format_question
from services.nexus.conversation.resolved import Resolved
from services.nexus.timetable.reminder_requests import format_time_answer
from shared.contracts import AskedBack, Choice
from shared.contracts.emails import SLOT
from shared.language.sayings import read_sayings
from shared.language.times.days import ordinal
from shared.language.utterance import Utterance, read_utterance

WAYS = read_sayings(__file__, "pending")

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
    if WAYS["yes"].fullmatch(bare):
        return _agree(asks, text)
    if WAYS["no"].fullmatch(bare) and not _stops_more(bare, asks):
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


def _agree(asks: AskedBack, text: str) -> Resolved | None:
    """What "yes" agrees to: the only thing that is offered; of several it is asked again which."""
    offered = [each for each in asks.choices if each.text]
    if len(offered) == 1:
        return _choose(offered[0])
    if not offered:
        return None
    return Resolved(text=text, reply=format_question("Which one?", asks), asks=asks)


def _stops_more(words: str, asks: AskedBack) -> bool:
    """Whether a no also ends the work before, to which what is offered would add."""
    return bool(re.search(r"\b(?:stop|cancel)\b", words)) and any(
        each.text.startswith(_ADDING) for each in asks.choices
    )


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
    said = re.sub(r"(?i)[\s,]*(?:please|thanks|thank you|instead|then|rather)?[\s.!?,]*$", "", text.strip())
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
