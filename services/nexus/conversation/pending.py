"""Short answers to what was asked back: "2", "yes", "the first one", "no, the other", "at 9"."""

import re
from collections.abc import Sequence

from services.nexus.conversation.asking import format_question
from services.nexus.conversation.phrases import ORDINALS, find_clock, plain
from services.nexus.conversation.resolved import Resolved
from services.nexus.reminders.when import format_time_answer
from shared.contracts import AskedBack, Choice
from shared.contracts.conversation import SLOT

NOTHING = "All right, nothing is done."
MAX_WORDS = 14
"""The most words of a short answer; a longer message is a new one."""

_YES = re.compile(
    r"(?:(?:oh\s+)?(?:yes|yep|yeah|yup|ya|y|sure|ok|okay|right|correct|exactly|absolutely|please"
    r"|confirmed?|do(?:\s+(?:it|that|so))?"
    r"|go\s+ahead|go\s+for\s+it|of\s+course|that\s+one|that'?s\s+(?:it|right|the\s+one)|sounds\s+good"
    r"|(?:keep|save|remember|note|store)(?:\s+(?:it|that|this))?|why\s+not|gladly|by\s+all\s+means|definitely|certainly"
    r"|i\s+do|that\s+would\s+be\s+\w+)\s*)+"
)
_NO = re.compile(
    r"(?:(?:no|nope|nah|n|none(?:\s+of\s+(?:them|those|these|that))?|neither|nothing|never\s*mind|nvm"
    r"|forget\s+(?:it|that)"
    r"|cancel(?:\s+(?:it|that))?|leave\s+it|drop\s+it"
    r"|don'?t|do\s+not|stop|thanks|thank\s+you|not\s+(?:now|any\s+more|necessary|needed|really)"
    r"|no\s+need(?:\s+to)?|(?:i'd\s+)?rather\s+not|i\s+don'?t)\s*)+"
)
_BEGINS = re.compile(r"(?:(?:or|and|actually|well|hm+|hmm|ah|oh|then|wait|um+)\s+)+(?=\S)")
"""What is said before a yes or a no."""
_ALL = re.compile(r"both(?:\s+of\s+them)?|all(?:\s+of)?(?:\s+(?:them|these|those))?|every\s+one|the\s+lot")
_OTHER = re.compile(
    r"(?:no\s+)?(?:the\s+)?other(?:\s+one)?|not\s+that(?:\s+one)?(?:\s+the\s+other(?:\s+one)?)?"
)
_NUMBERED = re.compile(
    r"(?:(?:take|use|choose|pick|i\s+mean|i'?d\s+take|make\s+it|go\s+with|let'?s\s+take)\s+)?"
    r"(?:number\s+|option\s+|no\s+|#)?"
    rf"(?:the\s+)?(?P<word>\d{{1,2}}|last|latter|former|{'|'.join(ORDINALS)})(?:\s+(?:one|option|choice))?"
)
_COMMAND = re.compile(
    r"(?:what|who|whom|whose|when|where|why|how|which|is|are|was|were|does|did|do|has|have|can|could"
    r"|will|would|should"
    r"|remind|show|list|find|tell|give|send|run|check|fix|set|add|remember|forget|search|look|read"
    r"|write|brief|stop)\b"
)


def settle(text: str, asks: AskedBack) -> Resolved | None:
    """What an answer to ``asks`` means; None for a message that does not answer it."""
    words = plain(text)
    if not words or len(words.split()) > MAX_WORDS:
        return None
    if (number := _find_number(words, asks)) is not None:
        return _choose(asks.choices[number])
    if _ALL.fullmatch(words):
        words = "all"
    if same := next((each for each in asks.choices if plain(each.label) == words), None):
        return _choose(same)
    bare = _BEGINS.sub("", words, count=1) if _BEGINS.match(words) else words
    if _YES.fullmatch(bare):
        return _agree(asks, text)
    if _NO.fullmatch(bare) and not _stops_more(bare, asks):
        return _do_nothing(text)
    if found := _find_by_words(words, asks.choices):
        return _choose(found)
    return _fill(text, words, asks) if asks.template else None


def _find_number(words: str, asks: AskedBack) -> int | None:
    """The position of the choice that ``words`` name by number or place."""
    count = len(asks.choices)
    if _OTHER.fullmatch(words) and count == 2:
        return 1
    found = _NUMBERED.fullmatch(words)
    if not found or not count:
        return None
    word = found["word"]
    if word in ("last", "latter"):
        return count - 1
    position = int(word) if word.isdigit() else ORDINALS.get(word, 1)
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
    if asks.expects != "text" or _COMMAND.match(words):
        return None
    said = re.sub(r"(?i)[\s,]*(?:please|thanks|thank you|instead|then|rather)?[\s.!?,]*$", "", text.strip())
    return Resolved(text=text, joined=asks.template.replace(SLOT, said))


def _find_by_words(words: str, choices: Sequence[Choice]) -> Choice | None:
    """The one choice whose words, or time, are named."""
    if clock := find_clock(words):
        at = [each for each in choices if find_clock(plain(each.label)) == clock]
        if len(at) == 1:
            return at[0]
    wanted = set(words.split()) - _FILLERS
    named = [each for each in choices if wanted and wanted <= set(plain(each.label).split())]
    return named[0] if len(named) == 1 else None


_FILLERS = frozenset(
    "the a an one in at on of please i mean meant take want would like it that this my no yes then".split()
)
