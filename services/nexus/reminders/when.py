"""A time that is given by itself, in any language, beside the text of a reminder."""

import re
from datetime import datetime, time, timedelta, tzinfo
from typing import Any

import msgspec

from services.nexus.reminders.intents import ReminderIntent
from services.nexus.reminders.requests import ReminderRequest, clean_text, format_question, read_new
from shared.clock import localize
from shared.language.sayings import read_sayings
from shared.language.times.time_parser import FARTHEST, ParsedTime, choose, resolve

WAYS = read_sayings(__file__, "when")


def format_time_answer(text: str) -> str:
    """``text`` as a phrase of time, such as "at 9" for "9 please"; empty if it says anything else."""
    words = WAYS["tail"].sub("", WAYS["tail"].sub("", WAYS["lead"].sub("", text.strip()))).strip(" .!?,")
    ways = ["in the {}"] if WAYS["bare"].fullmatch(words) else ["{}", "at {}", "on the {}", "on {}", "in {}"]
    for phrase in (way.format(words.removeprefix("the ") if "the" in way else words) for way in ways):
        chosen = choose(phrase)
        if chosen.chosen and not clean_text(chosen.rest):
            return phrase
    return ""


def read_when(text: str, when: str, now: datetime, zone: tzinfo | None) -> ReminderRequest:
    """The new reminder of ``text``, whose time is ``when``: plain words, ISO 8601, or another language."""
    found = read_time_alone(when, now, zone)
    what = read_new(text, now, zone)
    whole = re.sub(r"\s+", " ", text).strip()
    missing = found.missing or ("" if whole else "text")
    return msgspec.structs.replace(
        what,
        intent=ReminderIntent.SET,
        when=found.moment,
        rrule=found.rrule,
        text=what.text if what.missing == "time" and what.text else whole,
        missing=missing,
        question=format_question(missing, found, whole) if missing else "",
        day=found.day,
        note=found.note,
        also=(),
    )


def read_time_alone(words: str, now: datetime, zone: tzinfo | None) -> ParsedTime:
    """The moment, or what is missing, of ``words`` that say nothing but when."""
    try:
        moment = datetime.fromisoformat(words.strip())
    except ValueError:
        moment = None
    if moment is not None and (moment.tzinfo is not None or moment.time() != time()):
        return _checked(moment if moment.tzinfo else localize(moment, zone), now)
    for phrase in (words, f"at {words}", f"on {words}"):
        phrases = choose(phrase)
        if phrases.chosen and not re.search(r"\w", phrases.rest):
            return resolve(phrases, now, zone)
    return _read_foreign(words, now, zone)


def _read_foreign(text: str, now: datetime, zone: tzinfo | None) -> ParsedTime:
    """A time as dateparser reads it; it must name a time of day."""
    import dateparser

    here = now.astimezone(zone).replace(tzinfo=None)
    settings: Any = {"PREFER_DATES_FROM": "future", "RELATIVE_BASE": here, "RETURN_AS_TIMEZONE_AWARE": False}
    found = dateparser.parse(text[:100], settings=settings) if re.search(r"\d", text) else None
    if found is None or found.time() == time(0) or not (found - here) % timedelta(days=1):
        return ParsedTime(missing="time", why=f"{text.strip()[:60]!r} is no time of day that I understand")
    return _checked(localize(found, zone), now)


def _checked(moment: datetime, now: datetime) -> ParsedTime:
    if now < moment <= now + FARTHEST:
        return ParsedTime(moment=moment)
    return ParsedTime(missing="past", why="That has passed, or lies more than ten years ahead")
