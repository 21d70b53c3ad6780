"""What a message asks for about reminders, if anything."""

import re
from enum import Enum

import msgspec

from services.nexus.reminders.time_parser import is_only_time, mentions_time
from services.nexus.reminders.time_phrases import COUNT, LONG_UNITS, MONTHLY_UNITS, NUMBERS, SPAN, UNIT, UNITS
from shared.text.sentences import split_sentences

MAX_LENGTH = 2_000
"""Characters of a message that are read: a request states its intent at the beginning."""


class ReminderIntent(Enum):
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
    rf"(?i){_START}(?:(?:remind|ping|nudge|alert|notify)\s+{_ME}|{_FORGET}|(?:{_MAKE})?{_ARTICLES}(?:reminder|alarm)\b)"
    rf"(?:\s+for\s+{_ME})?\s*[:,-]?"
)
"""The words that ask for a reminder, before its subject."""
_QUESTION_WORD = r"(?:what|who|whom|whose|when|where|why|how|which|whether|if)\b"
_REMIND = re.compile(
    rf"(?is){_START}(?:remind\s+{_ME}|{_FORGET})(?!\s+(?:again\s+)?{_QUESTION_WORD})(?P<rest>.*)"
)
_CALL = re.compile(rf"(?i){_START}(?:(?:ping|nudge|alert|notify|wake)\s+{_ME}|{_MAKE}{_ARTICLES}alarm\b)")
"""A reminder only if it names a time: "ping me when it is done" names none."""
_SET = re.compile(rf"{_START}{_MAKE}{_ARTICLES}reminder\b", re.IGNORECASE)
_LIST = re.compile(
    rf"(?is){_START}(?:(?:list|show|tell|give|read)\b.*\breminders\b|(?:my|open|all|the)\s+(?:\w+\s+)?reminders\s*\??$"
    r"|reminders\s*\??$|(?:what|which|how\s+many)\b[^.?!]*\breminders\b|(?:do|have)\s+(?:i|we)\b[^.?!]*\breminders?\b"
    r"|(?:are|is)\s+there\s+[^.?!]*\breminders?\b|did\s+(?:i|we|you)\s+(?:\w+\s+){0,3}(?:reminders?|remind)\b)"
)
_SNOOZE = re.compile(
    rf"(?is){_START}(?:snooze\b|remind\s+(?:me|us)\s+(?:again|later)(?:\s+in\s+(?:{COUNT})\s*[a-z]+)?\W*$"
    r"|(?:postpone|delay|put\s+off|push\s+back|move|reschedule)\b[^.?!]*\breminder\b|put\s+(?:the|that|my|this)\s+reminder\b.*\boff\b)"
    r"(?P<rest>.*)"
)
_CANCEL = re.compile(
    rf"(?is){_START}(?:cancel|delete|remove|drop|forget)\b(?P<rest>[^.?!]*\breminder\b.*|\s+r[0-9a-f]{{3,10}}\b.*)"
)
_FINISH = re.compile(
    rf"(?is){_START}(?:(?:mark|tick)\b(?P<rest>[^.?!]*\breminder\b.*)\b(?:done|off|as\s+done)\b"
    r"|(?:the\s+|my\s+)?reminder\b(?P<rest2>.*)\bis\s+done\b|done\s+with\s+(?:the\s+|my\s+)?(?P<rest3>reminder\b.*|r[0-9a-f]{3,10}\b))"
)
_ABOUT = re.compile(r"(?is)\br[0-9a-f]{3,10}\b|\b(?:about|to|for|of|on|called|named)\s+(?P<words>.+)$")
_NAMED = re.compile(r"(?i)\b(?:the|my|that|this)\s+(?P<words>(?!last\b|next\b)\w[\w' -]{0,80}?)\s+reminder\b")
_FOR = re.compile(
    rf"(?i)(?:\b(?:for|by|in)\s+)?(?:\banother\s+)?(?<![\w.-])(?P<span>(?:{COUNT})\s*{UNIT}(?![a-z]))"
)
_UNTIL = re.compile(r"\b(?:until|till|to)\s+", re.IGNORECASE)
_MUST_SAY_WHEN = re.compile(r"\b(?:until|till|move|reschedule)\b", re.IGNORECASE)


class IntentDetails(msgspec.Struct, frozen=True, kw_only=True):
    """An intent, the words that identify the reminder, and how long or until when to snooze."""

    intent: ReminderIntent
    about: str = ""
    minutes: float = 0.0
    until: str = ""


def find_intent(text: str) -> ReminderIntent | None:
    """What ``text`` asks for about reminders; None if it is about something else.

    "Remind me of the decision" without a time is a question to memory, as "remind me what ..." is.
    """
    text = text[:MAX_LENGTH]
    first = next(iter(split_sentences(text)), "")
    if _SNOOZE.search(first):
        return ReminderIntent.SNOOZE
    if found := _REMIND.search(text.strip()):
        about = re.match(r"\s*(?:of|about)\b", found["rest"], re.IGNORECASE)
        return ReminderIntent.SET if not about or mentions_time(text) else None
    if _CALL.search(first) and mentions_time(first):
        return ReminderIntent.SET
    for intent, pattern in (
        (ReminderIntent.CANCEL, _CANCEL),
        (ReminderIntent.FINISH, _FINISH),
        (ReminderIntent.SET, _SET),
        (ReminderIntent.LIST, _LIST),
    ):
        if pattern.search(first):
            return intent
    return None


def parse_intent(text: str) -> IntentDetails:
    """The intent of ``text`` (SET if none is found), its reminder, and how long or until when to snooze."""
    intent = find_intent(text) or ReminderIntent.SET
    if intent in (ReminderIntent.SET, ReminderIntent.LIST):
        return IntentDetails(intent=intent)
    minutes, until = 0.0, ""
    if intent is ReminderIntent.SNOOZE:
        minutes, until, text = _read_delay(text)
    found = _ABOUT.search(text.strip().rstrip(".!? ")) or _NAMED.search(text)
    words = (found["words"] or found[0]) if found else ""
    words = re.sub(
        r"^(?:the|my|that)\s+|\s+(?:please|as\s+done|is\s+done|off|done)$",
        "",
        words.strip(),
        flags=re.IGNORECASE,
    )
    return IntentDetails(intent=intent, about=words.strip(" \"'“”"), minutes=minutes, until=until)


def strip_request(text: str) -> str:
    """``text`` without the words that ask for a reminder: its subject and time."""
    return _LEAD.sub("", text, count=1).strip()


def _read_delay(text: str) -> tuple[float, str, str]:
    """The minutes to snooze, or the time until which, and the text without either."""
    found = _FOR.search(text)
    span = SPAN.match(f"in {text[found.start('span') :]}") if found else None
    if found and span:
        rest = f"{text[: found.start()]} {text[found.start('span') + span.end() - len('in ') :]}"
        unit = span["unit"].strip()[:2].lower()
        if unit in MONTHLY_UNITS or span["half"] or span["more"]:
            return 0.0, span[0], rest
        seconds = LONG_UNITS[unit] * 86_400.0 if unit in LONG_UNITS else UNITS[unit[0]]
        return (NUMBERS.get(span["number"].lower()) or float(span["number"])) * seconds / 60, "", rest
    for until in _UNTIL.finditer(text):
        when = text[until.end() :].strip(" .!?")
        if mentions_time(when) and is_only_time(when):
            return 0.0, when, text[: until.start()]
    return 0.0, text if _MUST_SAY_WHEN.search(text) else "", text
