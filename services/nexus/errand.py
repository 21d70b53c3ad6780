"""Errands: what a message wants done about reminders, if anything."""

import re
from enum import Enum

import msgspec

from services.nexus.phrases import COUNT, NUMBERS, SPAN, UNIT
from services.nexus.when import is_a_time, names_a_time
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
    r"don['’]?t\s+forget\s+to\s+)?"
)
_ME = r"(?:me|us)\b"
_FORGET = rf"don['’]?t\s+let\s+{_ME}\s+forget\b"
_MAKE = (
    r"(?:set|create|add|make|schedule|give\s+me|i\s+need|i\s+want|i\s+would\s+like|i['’]d\s+like|new)\s+"
    r"(?:up\s+)?(?:me\s+)?"
)
_ARTICLES = r"(?:an?\s+|the\s+|another\s+|new\s+)*"
_LEAD = re.compile(
    rf"{_START}(?:(?:remind|ping|nudge|alert|notify)\s+{_ME}|{_FORGET}|(?:{_MAKE})?{_ARTICLES}(?:reminder|alarm)\b)"
    rf"(?:\s+for\s+{_ME})?\s*[:,-]?",
    re.IGNORECASE,
)
"""What stands before that of which somebody is to be reminded."""
_QUESTION_WORD = r"(?:what|who|whom|whose|when|where|why|how|which|whether|if)\b"
_REMIND = re.compile(
    rf"{_START}(?:remind\s+{_ME}|{_FORGET})(?!\s+(?:again\s+)?{_QUESTION_WORD})(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_CALL = re.compile(
    rf"{_START}(?:(?:ping|nudge|alert|notify|wake)\s+{_ME}|{_MAKE}{_ARTICLES}alarm\b)", re.IGNORECASE
)
"""What is a reminder only where it names a time: "ping me when it is done" names none."""
_SET = re.compile(rf"{_START}{_MAKE}{_ARTICLES}reminder\b", re.IGNORECASE)
_LIST = re.compile(
    rf"{_START}(?:(?:list|show|tell|give|read)\b.*\breminders\b|(?:my|open|all|the)\s+(?:\w+\s+)?reminders\s*\??$"
    r"|reminders\s*\??$|(?:what|which|how\s+many)\b[^.?!]*\breminders\b|(?:do|have)\s+(?:i|we)\b[^.?!]*\breminders?\b"
    r"|(?:are|is)\s+there\s+[^.?!]*\breminders?\b|did\s+(?:i|we|you)\s+(?:\w+\s+){0,3}(?:reminders?|remind)\b)",
    re.IGNORECASE | re.DOTALL,
)
_SNOOZE = re.compile(
    rf"{_START}(?:snooze\b|remind\s+(?:me|us)\s+(?:again|later)(?:\s+in\s+(?:{COUNT})\s*[a-z]+)?\W*$"
    r"|(?:postpone|delay|put\s+off|push\s+back|move|reschedule)\b[^.?!]*\breminder\b|put\s+(?:the|that|my|this)\s+reminder\b.*\boff\b)"
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
_NAMED = re.compile(
    r"\b(?:the|my|that|this)\s+(?P<words>(?!last\b|next\b)\w[\w' -]{0,80}?)\s+reminder\b", re.IGNORECASE
)
_FOR = re.compile(
    rf"(?:\b(?:for|by|in)\s+)?(?:\banother\s+)?(?<![\w.-])(?P<span>(?:{COUNT})\s*{UNIT}(?![a-z]))",
    re.IGNORECASE,
)
_UNTIL = re.compile(r"\b(?:until|till|to)\s+", re.IGNORECASE)
_MUST_SAY_WHEN = re.compile(r"\b(?:until|till|move|reschedule)\b", re.IGNORECASE)
_MINUTES = {
    **dict.fromkeys(("s", "se"), 1 / 60),
    **dict.fromkeys(("m", "mi"), 1.0),
    **dict.fromkeys(("h", "ho", "hr"), 60.0),
    **dict.fromkeys(("d", "da"), 1_440.0),
    **dict.fromkeys(("w", "we"), 10_080.0),
    "fo": 20_160.0,
}
"""Minutes by how a unit begins."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """An errand, the words that say of which reminder, and for how many ``minutes`` or ``until`` when."""

    errand: Errand
    about: str = ""
    minutes: float = 0.0
    until: str = ""


def find_errand(text: str) -> Errand | None:
    """What ``text`` wants done about reminders; None where it is about something else.

    "Remind me of the decision" without a time asks what is remembered, as "remind me what ..." does.
    """
    text = text[:LONGEST]
    first = next(iter(split_sentences(text)), "")
    if _SNOOZE.search(first):
        return Errand.SNOOZE
    if found := _REMIND.search(text.strip()):
        about = re.match(r"\s*(?:of|about)\b", found["rest"], re.IGNORECASE)
        return Errand.SET if not about or names_a_time(text) else None
    if _CALL.search(first) and names_a_time(first):
        return Errand.SET
    for errand, pattern in (
        (Errand.CANCEL, _CANCEL),
        (Errand.FINISH, _FINISH),
        (Errand.SET, _SET),
        (Errand.LIST, _LIST),
    ):
        if pattern.search(first):
            return errand
    return None


def read_errand(text: str) -> Wish:
    """What is wanted, of which reminder, and for how long or until when; setting by default."""
    errand = find_errand(text) or Errand.SET
    if errand in (Errand.SET, Errand.LIST):
        return Wish(errand=errand)
    minutes, until = 0.0, ""
    if errand is Errand.SNOOZE:
        minutes, until, text = _read_delay(text)
    found = _ABOUT.search(text.strip().rstrip(".!? ")) or _NAMED.search(text)
    words = (found["words"] or found[0]) if found else ""
    words = re.sub(
        r"^(?:the|my|that)\s+|\s+(?:please|as\s+done|is\s+done|off|done)$",
        "",
        words.strip(),
        flags=re.IGNORECASE,
    )
    return Wish(errand=errand, about=words.strip(" \"'“”"), minutes=minutes, until=until)


def strip_lead(text: str) -> str:
    """``text`` without the words that ask for a reminder: what it is of, and when."""
    return _LEAD.sub("", text, count=1).strip()


def _read_delay(text: str) -> tuple[float, str, str]:
    """For how many minutes, or until when, something is put off, and the text without that."""
    found = _FOR.search(text)
    span = SPAN.match(f"in {text[found.start('span') :]}") if found else None
    if found and span:
        unit = _MINUTES.get(span["unit"].strip()[:2].lower())
        over = f"{text[: found.start()]} {text[found.start('span') + span.end() - len('in ') :]}"
        if unit and not (span["half"] or span["more"]):
            return (NUMBERS.get(span["number"].lower()) or float(span["number"])) * unit, "", over
        return 0.0, span[0], over
    for until in _UNTIL.finditer(text):
        when = text[until.end() :].strip(" .!?")
        if names_a_time(when) and is_a_time(when):
            return 0.0, when, text[: until.start()]
    return 0.0, text if _MUST_SAY_WHEN.search(text) else "", text
