"""The times in a text as the parser of reminders finds them, with what repeats as a rule of RFC 5545."""

import re
from datetime import datetime, tzinfo

import msgspec

from services.nexus.reminders.recurrence import EVERY_DAY, encode_recurrence
from services.nexus.reminders.time_parser import find_time
from services.nexus.reminders.time_phrases import REPEATED
from shared.errors import ActionError
from shared.recurrence import format_recurrence, parse_recurrence

_EVERY_WEEK = re.compile(r"(?i)\b(?:every|each|once a) week\b")


class PlainTime(msgspec.Struct, frozen=True, kw_only=True):
    """The first moment, what repeats, the text without that; what is ``missing`` (time), and why."""

    moment: datetime | None = None
    rrule: str = ""
    rest: str = ""
    missing: str = ""
    why: str = ""
    note: str = ""


def read_time(text: str, now: datetime, zone: tzinfo | None) -> PlainTime:
    """What ``text`` says about time; nothing is guessed."""
    if moment := _read_iso(text, now, zone):
        return PlainTime(moment=moment)
    text = _EVERY_WEEK.sub("every Monday", text)
    try:
        found = find_time(text, now, zone)
    except ActionError as error:
        repeats = "FREQ" if REPEATED.search(text) else ""
        return PlainTime(missing="time", why=error.cause, rrule=repeats, rest=text)
    if found.recurrence is None:
        return PlainTime(moment=found.moment, rest=found.rest)
    rule = parse_recurrence(encode_recurrence(found.recurrence))
    if len(found.recurrence.weekdays) == len(EVERY_DAY):
        rule = msgspec.structs.replace(rule, rule="FREQ=DAILY")
    return PlainTime(moment=found.moment, rrule=format_recurrence(rule), rest=found.rest)


def _read_iso(text: str, now: datetime, zone: tzinfo | None) -> datetime | None:
    """A moment that is ISO 8601 with its zone and lies ahead; None for anything else."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo and moment > now else None
