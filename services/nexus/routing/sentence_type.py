"""What kind of sentence it is: a greeting, a request, a question, or a statement."""

import re
from collections.abc import Iterable, Mapping
from enum import Enum


class SentenceType(Enum):
    """What a sentence asks for."""

    REQUEST = "something done"
    QUESTION = "something about the world"
    RECALL = "something known here"


_GREETING = r"^(?:(?:so|and|but|well|hey|hello|hi|ok|okay)\b[,!\s]*)?"
_SUBJECT = r"(?:i|we|you|he|she|it|they|there|any|anyone|anybody|someone|somebody)\b"
_AUXILIARY = r"(?:is|are|am|was|were|does|did|do|has|had|have|should|shall|may|might)\b"

_PREPOSITION = (
    r"(?:on|in|at|to|as|by|of|for|from|with|after|before|under|since|until|till|into|about|through)"
)

_QUESTION = re.compile(
    rf"{_GREETING}(?:(?:{_PREPOSITION}\s+)?(?:who|whose|whom|what|which|when|where|why|how)(?:['’]?(?:s|re|d|ll))?\b"
    rf"(?!\s+(?:about\s+you|don['’]?t\s+you))|{_AUXILIARY}\s+{_SUBJECT}|{_AUXILIARY}.*\?\s*$"
    r"|(?:can|could|must|will|would)\s+(?:i|he|she|it|they|there|the(?!\s+team\b)|an?|this|that|these|our|my)\b.*\?\s*$)"
)
_ABOUT_KNOWN = re.compile(
    r"^(?:please\s+)?(?:(?:can|could|would|will)\s+you\s+)?(?:please\s+)?"
    r"(?:remember|recall|remind|note|explain|summari[sz]e|tell\s+(?:me|us))\b"
)
_ABOUT_US = re.compile(
    r"\b(?:i|me|my|we|us|our|you|your|he|his|she|her|they|their|who|whose|did|was|were|had|found|remember(?:ed)?"
    r"|in\s+memory|last|yesterday|ago|earlier|already)\b"
)

_ORDER_STARTS = (
    r"^",
    r"[.;:,!?—]\s*",
    r"\b(?:and|then|also|now|next|first|finally|please)\s+",
    r"\b(?:can|could|would|will)\s+(?:you|we|someone|somebody|anyone|the\s+team)\s+",
    r"\b(?:i|we|you)(?:\s+(?:want|need|have)|\s+would\s+like|['’]d\s+like)(?:\s+(?:you|us|someone))?\s+to\s+",
    r"\b(?:ask|tell|have|get|let)\s+(?:the\s+)?(?:conductor|engineer|scout|critic|cortex|frontier|team|someone|somebody)"
    r"\s+(?:to\s+)?",
    r"\b(?:let['’]?s|let\s+us|help\s+(?:me|us)(?:\s+to)?|go(?:\s+ahead)?\s+and|try\s+to|make\s+sure\s+to)\s+",
    r"\b(?:how\s+about\s+you|why\s+don['’]?t\s+you|(?:you|we)\s+(?:should|must))\s+",
)
_SOFTENERS = r"(?:(?:please|kindly|just|also|now|quickly|then|again),?\s+){0,3}"
ORDER_START = rf"(?:{'|'.join(_ORDER_STARTS)}){_SOFTENERS}"
_BEGIN = r"\b(?:start|begin|continue|keep|finish|try)\s+"
_WISH = (
    r"\b(?:do|make|perform|prepare|start|need|want|like|show|find|get|give|write)\s+"
    r"(?:(?!to\b)[\w'’-]+\s+){0,4}?"
)
_NOT_MEANT = (
    r"(?!\s+(?:is|are|was|were|has|have|had|fails?|failed|passed|results?|reports?|status|logs?|outcomes?)\b)"
    r"(?!\s+the\s+waters?\b)"
)


def classify_sentence(sentence: str) -> SentenceType:
    """The type of ``sentence``, by how it begins and whom it names; statements count as requests."""
    lower = sentence.lower().strip()
    if _ABOUT_KNOWN.match(lower):
        return SentenceType.RECALL
    if not _QUESTION.match(lower):
        return SentenceType.REQUEST
    return SentenceType.RECALL if _ABOUT_US.search(lower) else SentenceType.QUESTION


_STATEMENT = re.compile(
    r"^(?:i|we|he|she|it|they|there|the|an?|this|that|these|those|our|my|his|her|their|its|some|many|most|all|both)\b"
    r"|^\w+ing\s+(?:\w+\s+){0,2}?(?:is|are|was|were)\b"
)
_WISHED = re.compile(
    r"\?\s*$|\b(?:please|kindly|could|can|would|will\s+you|should|must|shall|needs?\s+to|have\s+to|want|need|like\s+to"
    r"|take\s+care)\b"
)


_PAST = re.compile(r"\b(?:did|was|were|had|found|yesterday|ago|earlier|last\s+(?:night|week|month|year))\b")


def is_past(sentence: str) -> bool:
    """Whether ``sentence`` is about the past, of which only memory knows."""
    return bool(_PAST.search(sentence.lower()))


def is_question(sentence: str) -> bool:
    """Whether ``sentence`` asks for something: it begins as a question does, or ends with its mark."""
    return bool(_QUESTION.match(sentence.lower().strip())) or sentence.rstrip().endswith("?")


def is_statement(sentence: str) -> bool:
    """Whether ``sentence`` is a statement: it begins with its subject, and asks for nothing."""
    lower = sentence.lower().strip()
    return bool(_STATEMENT.match(lower)) and not _WISHED.search(lower)


def inflect(phrase: str) -> str:
    """A pattern for ``phrase``, in lower case, with its last word in any simple form: fix, fixes, fixing."""
    *before, last = (re.escape(word) for word in phrase.lower().split())
    if last[-1] in "ey":
        forms = rf"{last[:-1]}(?:{last[-1]}|es|ed|ing|ies|ied|ying)"
    else:
        forms = rf"{last}(?:s|es|{last[-1]}?ed|{last[-1]}?ing)?"
    return r"\b" + r"\s+".join([*before, forms]) + r"\b"


def match_orders(words: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds the verb or noun of ``words`` that a lower-case request asks for."""
    plain = [r"\s+".join(re.escape(part) for part in word.split()) for word in words]
    verbs, nouns = "|".join(plain), "|".join(f"{word}s?" for word in plain)
    going = "|".join(inflect(word) for word in words)
    return re.compile(
        rf"{ORDER_START}(?P<verb>{verbs})\b{_NOT_MEANT}|{_BEGIN}(?P<going>{going})|{_WISH}(?P<noun>{nouns})\b{_NOT_MEANT}"
    )


_POLITE = re.compile(
    r"(?i)\W*(?:(?:hi|hello|hey|good\s+(?:morning|day|afternoon|evening)|greetings|nexus|there|you|all|everybody)\b\W*)+$"
)
_THANKS = re.compile(
    r"(?i)\W*(?:(?:thanks|thank\s+you|thx|great|well\s+done|perfect|ok|okay|bye|goodbye|see\s+you)\b\W*"
    r"(?:(?:a\s+lot|very\s+much|so\s+much|again|all|for\s+(?:that|your\s+help))\b\W*)?)+$"
)
_HELP = re.compile(
    r"(?i)\W*(?:help|(?:please\s+)?help\s+me|what\s+(?:can|do)\s+you\s+do(?:\s+for\s+me)?|who\s+are\s+you|what\s+are\s+you"
    r"|how\s+(?:can|do)\s+(?:you\s+help(?:\s+me)?|i\s+use\s+(?:you|this))|what\s+can\s+i\s+(?:ask|do)(?:\s+(?:you|here))?)\W*$"
)


def greeting_reply(text: str, tools: Mapping[str, str]) -> str:
    """The answer to a greeting, to thanks, and to a question about what can be asked; empty for other texts.

    ``tools`` has a description of each tool.
    """
    if len(text) > 200:
        return ""
    if _THANKS.match(text):
        return "You are welcome."
    if not (_POLITE.match(text) or _HELP.match(text)):
        return ""
    abilities = "".join(f"\n- {what}" for what in tools.values() if what)
    return (
        "This is Nexus, the front desk. Ask a question, and I answer it from memory. Ask for work, and I "
        "start a goal and reply with its id. I also have tools, each of which does one thing:"
        f"{abilities}\nFor example: Remind me to call Ana tomorrow at 9."
    )
