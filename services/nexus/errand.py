"""Errands: what a message wants done about reminders, if anything."""

import re
from enum import Enum

from services.nexus.phrases import COUNT, NUMBERS, SPAN
from services.nexus.when import names_a_time
from services.nexus.wording import split_sentences

LONGEST = 2_000
"""Characters of a message that are looked at: what is wanted stands at its beginning."""


class Errand(Enum):
    """What can be done about reminders."""

    SET = "set"
    LIST = "list"
    SNOOZE = "snooze"
    FINISH = "finish"
    CANCEL = "cancel"


_START = (
    r"^\W*(?:(?:hey|hi|hello|ok|okay|please|kindly|and|also|nexus)\b[\s,]*)*"
    r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?|(?:i\s+(?:want|need|would\s+like)|i['’]d\s+like)\s+(?:you\s+)?to\s+|"
    r"don['’]t\s+forget\s+to\s+)?"
)
_QUESTION_WORD = r"(?:what|who|whom|whose|when|where|why|how|which|whether|if)\b"
_REMIND = re.compile(
    rf"{_START}remind\s+(?:me|us)\b(?!\s+(?:again\s+)?{_QUESTION_WORD})(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SET = re.compile(
    rf"{_START}(?:set|create|add|make|schedule|give\s+me|i\s+need|i\s+want|new)\s+(?:up\s+)?(?:me\s+)?(?:an?\s+|the\s+|another\s+|new\s+)*"
    r"reminder\b",
    re.IGNORECASE,
)
_LIST = re.compile(
    rf"{_START}(?:(?:list|show|tell|give|read)\b.*\breminders\b|(?:my|open|all|the)\s+(?:\w+\s+)?reminders\s*\??$"
    r"|reminders\s*\??$|(?:what|which|how\s+many)\b[^.?!]*\breminders\b|(?:do|have)\s+(?:i|we)\b[^.?!]*\breminders?\b"
    r"|are\s+there\s+(?:any\s+)?[^.?!]*\breminders\b)",
    re.IGNORECASE | re.DOTALL,
)
_SNOOZE = re.compile(
    rf"{_START}(?:snooze\b|(?:postpone|delay|put\s+off|push\s+back)\b[^.?!]*\breminder\b|put\s+(?:the|that|my|this)\s+reminder\b.*\boff\b)"
    r"(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_CANCEL = re.compile(
    rf"{_START}(?:cancel|delete|remove|drop|forget)\b(?P<rest>[^.?!]*\breminder\b.*|\s+r[0-9a-f]{{3,10}}\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_FINISH = re.compile(
    rf"{_START}(?:(?:mark|tick)\b(?P<rest>[^.?!]*\breminder\b.*)\b(?:done|off|as\s+done)\b"
    r"|(?:the\s+|my\s+)?reminder\b(?P<rest2>.*)\bis\s+done\b|done\s+with\s+(?:the\s+|my\s+)?(?P<rest3>reminder\b.*|r[0-9a-f]{3,10}\b))",
    re.IGNORECASE | re.DOTALL,
)
_ABOUT = re.compile(
    r"\br[0-9a-f]{3,10}\b|\b(?:about|to|for|of|on|called|named)\s+(?P<words>.+)$", re.IGNORECASE | re.DOTALL
)
_FOR = re.compile(
    rf"\b(?:for|by)\s+(?P<span>(?:{COUNT})\s*[a-z]+)",
    re.IGNORECASE,
)
_MINUTES = {"s": 1 / 60, "m": 1.0, "h": 60.0, "d": 1_440.0, "w": 10_080.0}


def find_errand(text: str) -> Errand | None:
    """What ``text`` wants done about reminders; None where it is about something else.

    "Remind me of the decision" without a time asks what is remembered, as "remind me what ..." does.
    """
    text = text[:LONGEST]
    first = next(iter(split_sentences(text)), "")
    if found := _REMIND.search(text.strip()):
        about = re.match(r"\s*(?:of|about)\b", found["rest"], re.IGNORECASE)
        return Errand.SET if not about or names_a_time(text) else None
    for errand, pattern in (
        (Errand.SNOOZE, _SNOOZE),
        (Errand.CANCEL, _CANCEL),
        (Errand.FINISH, _FINISH),
        (Errand.SET, _SET),
        (Errand.LIST, _LIST),
    ):
        if pattern.search(first):
            return errand
    return None


def read_errand(text: str) -> tuple[Errand, str, float]:
    """What is wanted, the words that say of which reminder, and for how many minutes; setting by default."""
    errand = find_errand(text) or Errand.SET
    if errand in (Errand.SET, Errand.LIST):
        return errand, "", 0.0
    minutes, text = _read_minutes(text) if errand is Errand.SNOOZE else (0.0, text)
    found = _ABOUT.search(text.strip().rstrip(".!? "))
    words = (found["words"] or found[0]) if found else ""
    words = re.sub(
        r"^(?:the|my|that)\s+|\s+(?:please|as\s+done|is\s+done|off|done)$",
        "",
        words.strip(),
        flags=re.IGNORECASE,
    )
    return errand, words.strip(" \"'“”"), minutes


def _read_minutes(text: str) -> tuple[float, str]:
    found = _FOR.search(text)
    span = SPAN.search(f"in {found['span']}") if found else SPAN.search(text)
    if span is None:
        return 0.0, text
    size = NUMBERS.get(span["number"].lower()) or float(span["number"])
    over = text.replace(found[0] if found else span[0], " ")
    return size * _MINUTES[span["unit"].strip()[0].lower()], over
