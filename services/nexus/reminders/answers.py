"""Short answers and follow-ups: "at 9" completes a request, "the second one" chooses, "make it 10" moves."""

import re
from datetime import datetime, timedelta, tzinfo

import msgspec

from services.nexus.reminders.requests import (
    ReminderIntent,
    ReminderRequest,
    clean_text,
    find_intent,
    read_new,
    read_reminder_request,
)
from services.nexus.reminders.time_parser import choose
from shared.clock import parse_timestamp
from shared.contracts import ReminderTalk

ASKED = timedelta(hours=12)
"""How long a question waits for its answer."""
FOLLOWED = timedelta(minutes=30)
"""For how long "it" and "the second one" mean what was spoken of."""
_DROP = re.compile(
    r"(?i)\W*(?:(?:no|never\s*mind|nevermind|forget\s+(?:it|that|about\s+it)|cancel(?:\s+(?:it"
    r"|that))?|none(?:\s+of\s+(?:them|these))?|stop|drop\s+it|leave\s+it|not\s+(?:now|any\s+more)"
    r"|nothing)\b\W*)+(?:please|thanks)?\W*"
)
_LEAD = re.compile(
    r"(?i)^\W*(?:(?:ok|okay|yes|yeah|sure|no|sorry|actually|well|then|oh|um|let['’]?s\s+say"
    r"|let['’]?s\s+do|make\s+(?:it|that)|i\s+mean[t]?|say|how\s+about|maybe|rather|please|better"
    r"|wait|change\s+(?:it|that)\s+to|move\s+(?:it|that)\s+to)\b[\s,!.]*)+"
)
_TAIL = re.compile(
    r"(?i)[\s,.!]*\b(?:please|thanks|thank\s+you|instead|then|would\s+be\s+(?:great|good|fine)"
    r"|is\s+(?:fine|good|ok)|works)\b\W*$"
)
_INSTEAD = re.compile(
    r"(?i)^\W*(?:no|sorry|actually|make\s+(?:it|that)|i\s+meant?|change\s+(?:it|that)|move\s+(?:it"
    r"|that)|rather|better|wait|oops)\b|\binstead\W*$"
)
_THAT = re.compile(
    r"(?i)^\W*(?:please\s+)?(?P<verb>cancel|delete|remove|drop|undo|snooze|postpone|push"
    r"|delay)\s+(?:(?:it|that|this|them|both|all(?:\s+of\s+(?:them|those|these))?)\b"
    r"|(?P<which>(?:the|number|nr|no)\b.*|\d+\W*$))(?P<rest>.*)"
)
_VERBS = {
    "undo": ReminderIntent.UNDO,
    **dict.fromkeys(("snooze", "postpone", "push", "delay"), ReminderIntent.SNOOZE),
}
_NTH = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "fifth": 5,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
}
_CHOICE = re.compile(
    r"(?i)(?:number\s+|nr\.?\s*|no\.?\s*|#)?(?P<n>\d{1,2}|first|second|third|fourth|fifth|last|one"
    r"|two|three|four|five)(?:st|nd|rd|th)?(?:\s+(?:one|reminder))?"
)
_ALL = re.compile(
    r"(?i)\W*(?:both|all|all\s+of\s+(?:them|these|those)|every\s+one|them\s+all|the\s+lot)\W*(?:please)?\W*"
)
_BARE = re.compile(r"(?i)(?:morning|afternoon|evening|night)")


def read_answer(talk: ReminderTalk, text: str, now: datetime, zone: tzinfo | None) -> ReminderRequest | None:
    """The request that ``text`` completes or follows up in ``talk``; None if it does neither.

    Its intent is None if the person wants nothing of it any more.
    """
    age = now - parse_timestamp(talk.at)
    short = len(text) <= 200
    own = find_intent(text) if short else None
    if not short or (own and not _THAT.match(text)):
        return None
    if talk.missing and age <= ASKED:
        if _DROP.fullmatch(text):
            return ReminderRequest(missing="dropped")
        if talk.missing == "which":
            found = _choose(talk, text)
            if found:
                original = read_reminder_request(talk.said, parse_timestamp(talk.at), zone)
                return msgspec.structs.replace(original, about=" ".join(found), everything=len(found) > 1)
        elif answered := _complete(talk, text, zone):
            return answered
    return _follow(talk, text) if talk.shown and age <= FOLLOWED else None


def _complete(talk: ReminderTalk, text: str, zone: tzinfo | None) -> ReminderRequest | None:
    asked = parse_timestamp(talk.at)
    if talk.missing == "text":
        what = clean_text(_LEAD.sub("", text))
        if not what or text.rstrip().endswith("?"):
            return None
        return read_new(f"{talk.said.rstrip(' .!?')} to {what}", asked, zone)
    when = format_time_answer(text)
    if not when:
        return None
    return msgspec.structs.replace(read_new(talk.said, asked, zone, *talk.answers, when), time=when)


def format_time_answer(text: str) -> str:
    """``text`` as a phrase of time, such as "at 9" for "9 please"; empty if it says anything else."""
    words = _TAIL.sub("", _TAIL.sub("", _LEAD.sub("", text.strip()))).strip(" .!?,")
    ways = ["in the {}"] if _BARE.fullmatch(words) else ["{}", "at {}", "on the {}", "on {}", "in {}"]
    for phrase in (way.format(words.removeprefix("the ") if "the" in way else words) for way in ways):
        chosen = choose(phrase)
        if chosen.chosen and not clean_text(chosen.rest):
            return phrase
    return ""


def _choose(talk: ReminderTalk, text: str) -> list[str]:
    """The ids that an answer such as "2", "the first" or "1 and 3" chooses of those that were shown."""
    if _ALL.fullmatch(text):
        return list(talk.shown)
    words = re.sub(r"(?i)^(?:the|please|i\s+mean|ok|yes)\b\s*", "", _TAIL.sub("", text.strip(" .!?"))).strip()
    chosen = []
    for part in re.split(r"(?i)\s*(?:,|and|&)\s*(?:the\s+)?", words):
        found = _CHOICE.fullmatch(part)
        if not found:
            return (
                [words]
                if len(talk.shown) > 1 and len(words.split()) <= 6 and not text.rstrip().endswith("?")
                else []
            )
        number = (
            len(talk.shown)
            if found["n"].lower() == "last"
            else _NTH.get(found["n"].lower()) or int(found["n"])
        )
        if not 1 <= number <= len(talk.shown):
            return []
        chosen.append(talk.shown[number - 1])
    return chosen


def _follow(talk: ReminderTalk, text: str) -> ReminderRequest | None:
    """A change of what was spoken of last: "make it 10 instead", "cancel that", "snooze the second one"."""
    if found := _THAT.match(text):
        intent = _VERBS.get(found["verb"].lower(), ReminderIntent.CANCEL)
        chosen = _choose(talk, found["which"]) if found["which"] else []
        if found["which"] and (not chosen or chosen[0] not in talk.shown):
            return None
        several = bool(re.search(r"(?i)\b(?:both|all|them)\b", text))
        return ReminderRequest(
            intent=intent,
            about=" ".join(chosen or (talk.shown if several else talk.shown[-1:])),
            everything=several,
            time=format_time_answer(re.sub(r"(?i)^\W*(?:until|till|for|to|by)\s+", "", found["rest"]))
            if found["rest"]
            else "",
        )
    if len(talk.shown) == 1 and _INSTEAD.search(text) and (when := format_time_answer(text)):
        return ReminderRequest(intent=ReminderIntent.MOVE, about=talk.shown[0], time=when)
    return None
