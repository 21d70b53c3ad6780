"""What a message asks for about reminders: the intent, by how it begins."""

import re
from enum import Enum

from services.nexus.reminders.timers import spell_out
from shared.language.times.time_phrases import ISO_MOMENT, find_phrases
from shared.text.sentences import split_sentences

MAX_LENGTH = 4_000
"""Characters of a message that are read; a longer one is no request about reminders."""


class ReminderIntent(Enum):
    """What can be done about reminders."""

    SET = "set"
    LIST = "list"
    SNOOZE = "snooze"
    MOVE = "move"
    RENAME = "rename"
    FINISH = "finish"
    CANCEL = "cancel"
    UNDO = "undo"


START = (
    r"^\W*(?:(?:hey|hi|hello|ok|okay|please|pls|kindly|and|also|so|actually|nexus|no|oh)\b[\s,!]*)*"
    r"(?:(?:can|could|would|will)\s+(?:you|u|ya)\s+(?:please\s+)?|(?:i\s+(?:want|need|would\s+like)"
    r"|i['’]d\s+(?:like|love))\s+"
    r"(?:you\s+)?to\s+)?(?:please\s+)?"
)
ME = r"(?:me|us|myself)\b"
_FORGET = (
    rf"(?:(?:don['’]?t|do\s+not)\s+let\s+{ME}\s+(?:forget|miss)\b(?:\s+about\b)?"
    r"|(?:make\s+sure|see\s+to\s+it|ensure)\s+(?:that\s+)?(?:i|we)\s+(?:don['’]?t|do\s+not|never)\s+(?:forget|miss)\b(?:\s+about\b)?)"
)
_MAKE = (
    r"(?:set|create|add|make|schedule|put|give\s+me|i\s+need|i\s+want|i\s+would\s+like|i['’]d\s+like|new)\s+"
    r"(?:(?:up|in|me)\s+)*"
)
_ARTICLES = r"(?:an?\s+|the\s+|another\s+|new\s+)*"
_CALL = rf"(?:ping|nudge|alert|notify|buzz|wake)\s+{ME}(?:\s+up\b)?"
LEAD = re.compile(
    r"(?i)(?:(?<!\w)(?:please|pls|(?:can|could|would|will)\s+(?:you|u|ya)|(?:i|we)\s+(?:need|want)|i['’]?d\s+(?:like|love|appreciate)"
    rf"|it\s+would\s+be\s+\w+\s+to\s+(?:get|have))\s+)*(?:(?:remind\s+{ME}(?:\s+again)?"
    rf"|{_CALL}|tell\s+{ME}(?=\s+(?:to|that)\b)|{_FORGET})"
    rf"|(?<!\w)(?:{_MAKE})?{_ARTICLES}(?:reminder|alarm|nudge)\b(?:\s+for\s+{ME})?)\s*[:,-]?"
)
"""The words that ask for a reminder; they may come after the time."""
_QUESTION = r"(?:[\s,:]+(?:again\s+)?(?:what|who|whom|whose|where|why|how|which|whether)\b)"
_REMIND = re.compile(
    rf"(?is)(?<!to )(?<!not )(?<!n't )(?<!n’t )\b(?:remind\s+{ME}|{_FORGET})(?!{_QUESTION})(?P<rest>.*)"
)
_BEFORE = re.compile(
    r"(?i)^\W*(?:\w+\s+)?(?:(?:can|could|would|will|you|please|pls|i|want|need|like|to|hey|hi|ok|and"
    r"|also|then|nexus)\W*)*$"
    r"|^(?!.*(?:[\"“”]|\b(?:said|says?|told|tells|asked|asks|wrote|writes|would|if)\b)).*(?:\b(?:so|please|pls)|[.;,–—-])\s*"
    r"(?:(?:so|and|can|could|you|please|pls)\b\s*)*$"
)
_SETTING = re.compile(
    rf"(?i){START}(?:(?:{_MAKE}{_ARTICLES}|an?\s+|another\s+)reminder\b(?!\s+(?:service|bot|app|mail|e-?mail|letter)s?\b)|reminder\s*:|reminder\s+(?=to\b|tomorrow|today"
    rf"|at\b|on\b|in\b|for\b|next\b))"
)
_CALLING = re.compile(
    rf"(?i){START}(?:{_CALL}|{_MAKE}{_ARTICLES}(?:alarm|timer)\b|(?:alarm|timer)\s+(?:at\b|for\b|\d))"
)
THING = r"(?:reminders?|alarms?|r[0-9a-f]{3,10})\b"
_LIST = re.compile(
    rf"(?is){START}(?:(?:list|show|tell|give|read)\b.*\breminders\b|(?:my|open|all|the"
    rf"|upcoming)\s+(?:\w+\s+)?reminders\b[^.!]*\??$"
    r"|reminders(?:\s+(?:for|this|today|tomorrow|next|on)\b[^.!]*)?\s*\??$|(?:what|which|how\s+many"
    r"|any)\b[^.?!]*\breminders\b"
    r"|(?:do|have|did)\s+(?:i|we|you)\b[^.?!]*\b(?:reminders?|remind\s+me)\b|(?:are"
    r"|is)\s+there\s+[^.?!]*\breminders?\b"
    r"|when\s+(?:is|are|will)\b[^.?!]*\b(?:reminders?|remind\s+me)\b"
    r"|what\s+(?:are|will)\s+you\s+(?:going\s+to\s+)?remind(?:ing)?\b)"
)
_UNDO = re.compile(
    rf"(?i){START}(?:undo\b|take\s+back|bring\s+back|restore|un-?cancel|reinstate)\b.*\breminders?\b"
)
_SNOOZE = re.compile(
    rf"(?is){START}(?:snooze\b|remind\s+{ME}\s+(?:about\s+(?:it|that)\s+)?(?:again"
    rf"|later)(?:\s+(?:in|at|tomorrow|tonight)\b(?:(?!\sto\s)[^.?!]){{0,40}})?\W*$"
    r"|(?:5|five|ten|10)\s+more\s+minutes)"
)
_MOVE = re.compile(
    rf"(?is){START}(?:(?:postpone|delay|defer|put\s+off|push(?:\s+back)?|move|shift|reschedule"
    rf"|change|bring\s+forward|make|put)\b"
    rf"[^.?!]*\b(?:{THING}|(?:the|that|this)\s+\w+\s+one\b))"
)
RENAME = re.compile(
    rf"(?is){START}(?:rename\s+(?P<a>.+?)\s+(?:to|as|into)\s+(?P<to>.+)"
    rf"|(?:change|edit|reword)\s+the\s+(?:text|wording|name)\s+of\s+(?P<b>.+?)\s+to\s+(?P<to2>.+)"
    rf"|(?:the\s+)?(?P<c>.+?)\s+reminder\s+should\s+(?:say|read|be\s+called)\s+(?P<to3>.+))$"
)
_CANCEL = re.compile(
    rf"(?is){START}(?:(?:cancel|delete|remove|drop|scrap|clear|kill|forget(?:\s+about)?"
    rf"|get\s+rid\s+of|turn\s+off|stop)\b[^.?!]*\b{THING}"
    rf"|(?:stop\s+reminding|(?:you\s+)?(?:don['’]?t|do\s+not|no\s+need\s+to)\s+(?:(?:need|have)\s+to\s+)?remind)\s+{ME}"
    rf"|(?:i\s+)?(?:don['’]?t|do\s+not|no\s+longer)\s+need\b[^.?!]*\b{THING})"
)
_FINISH = re.compile(
    rf"(?is){START}(?:(?:mark|tick|check|close)\b[^.?!]*\b{THING}[^.?!]*\b(?:done|off|complete[d]?"
    rf"|finished)\b"
    r"|(?:[^.?!]*[,;]\s*)?(?:please\s+)?(?:(?:tick|check|cross)\s+(?:it|that|this)\s+off|mark\s+(?:it|that|this)\s+(?:as\s+)?done)\b"
    rf"|(?:tick|check)\s+off\b[^.?!]*\b{THING}|(?:the\s+|my\s+)?[^.?!]*{THING}[^.?!]*\b(?:is"
    rf"|are)\s+(?:done|finished)\b"
    rf"|(?:i['’]?m\s+)?(?:done|finished)\s+with\b[^.?!]*\b{THING})"
)
WATCH = re.compile(
    r"(?i)(?:(?:please|pls|and|ok|hey)\b[\s,]*)*(?:"
    r"(?:if|when(?:ever)?|once|as\s+soon\s+as|the\s+moment|in\s+case)\s+[^?]{3,80}?[\s,]+(?:please\s+|then\s+|just\s+)*"
    r"(?:tell|ping|notify|alert|warn|message|text|shout\s+at|let)\s+(?:me|us)(?:\s+know)?"
    r"|(?:tell|ping|notify|alert|warn|message|text|let)\s+(?:me|us)(?:\s+know)?\s+"
    r"(?:as\s+soon\s+as|once|the\s+moment|whenever|in\s+case)\s+[^?]{3,80}"
    r")(?:[\s,]+(?:please|thanks?|ok(?:ay)?))*\W*"
)
"""A wish to be told of what happens, which nothing here waits for: "if CI fails, tell me"."""


def find_intent(text: str) -> ReminderIntent | None:
    """What ``text`` asks for about reminders; None if it is about something else.

    "Remind me of the decision" without a time is a question to memory, as "remind me what ..." is.
    """
    if len(text) > MAX_LENGTH:
        return None
    text = spell_out(ISO_MOMENT.sub(r"\1 \2", text))
    first = next(iter(split_sentences(text)), "")
    if WATCH.fullmatch(text.strip()):
        return ReminderIntent.SET
    for intent, pattern in (
        (ReminderIntent.SNOOZE, _SNOOZE),
        (ReminderIntent.UNDO, _UNDO),
        (ReminderIntent.CANCEL, _CANCEL),
        (ReminderIntent.FINISH, _FINISH),
    ):
        if pattern.search(first):
            return intent
    if _SETTING.search(first) or (_CALLING.search(first) and find_phrases(first)):
        return ReminderIntent.SET
    if (found := _REMIND.search(text)) and not _LIST.search(first):
        before = text[: found.start()]
        recalls = re.match(r"\s*(?:of|about)\b", found["rest"], re.IGNORECASE)
        if (_BEFORE.match(before) or find_phrases(before)) and (not recalls or find_phrases(text)):
            return ReminderIntent.SET
    if (found := RENAME.search(first)) and re.search(rf"(?i)\b{THING}", first):
        return ReminderIntent.RENAME
    if _MOVE.search(first):
        return ReminderIntent.MOVE
    return ReminderIntent.LIST if _LIST.search(first) else None
