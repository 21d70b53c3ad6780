"""When a goal on a schedule runs: plain words, as reminders understand them, or a rule of RFC 5545."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from shared.clock import format_moment, localize
from shared.errors import ActionError
from shared.language.sayings import read_sayings
from shared.language.times.clocks import read_clocks
from shared.language.times.time_parser import read_time
from shared.language.times.time_phrases import find_phrases
from shared.recurrence import (
    Recurrence,
    describe_recurrence,
    format_recurrence,
    next_occurrence,
    parse_recurrence,
)

WAYS = read_sayings(__file__, "times")

EXAMPLES = "Say when, as in 'every weekday at 7', 'every night at 2', 'every Monday at 9'"
RULE_EXAMPLE = "Write it as in 'RRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=7;BYMINUTE=0'"
SHORT = ("MINUTELY", "HOURLY")
LONG = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
ENDS = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST"})
CHOOSES = frozenset({"BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "BYHOUR", "BYMINUTE"})
MOST = {"INTERVAL": 10_000, "COUNT": 1_000}
"""The largest numbers of these parts."""
HORIZON = timedelta(days=3_660)
"""A rule must have its first run within this."""

DEFAULTS = {"time": " at 02:00", "day": " on Monday at 02:00"}
"""When a goal runs that is to be repeated at no time that is named."""
DEFAULT_DAYS = {"MONTHLY": " on the 1st at 02:00", "YEARLY": " on 1 January at 02:00"}
"""The same for what is repeated in months and years without a day."""

_EVERY = {"hourly": "every hour", "weekly": "every week", "monthly": "every month", "yearly": "every year"}
_FILLERS = frozenset({"the", "and", "at", "on", "in", "of", "from", "now", "please", "then", "run", "always"})
"""Words around a time that say nothing else."""
LATEST_HOUR = 6
"""The last hour that is one of the early morning, if no half of the day is named."""
_UNITS = re.compile(rf"(?i)\b(?:{'|'.join(_EVERY)})\b")
_RULE = re.compile(r"(?is)^\s*(?:DTSTART|RRULE:|FREQ=)")


class When(msgspec.Struct, frozen=True, kw_only=True):
    """The first run, what repeats (empty: nothing does), what was assumed, and the words around the time."""

    first: datetime
    repeats: str = ""
    note: str = ""
    rest: str = ""


def read_when(text: str, now: datetime, zone: tzinfo | None) -> When:
    """When ``text`` says, seen from ``now``; raises ActionError, a question, if that is not clear."""
    if _RULE.match(text):
        recurrence = read_rule(text, now, zone)
        first = next_occurrence(_within(recurrence, now), now, zone)
        if first is None:
            raise ActionError("That rule has no run within the next ten years", RULE_EXAMPLE)
        return When(first=first.astimezone(UTC), repeats=format_recurrence(recurrence))
    text, assumed = _as_repeated(text), ""
    found = read_time(text, now, zone)
    if found.rrule and found.missing in DEFAULTS:
        default = DEFAULTS[found.missing]
        if found.missing == "day":
            default = next((DEFAULT_DAYS[each] for each in DEFAULT_DAYS if each in found.rrule), default)
        assumed = f"I took it as{default}, since you named none"
        found = read_time(f"{text}{default}", now, zone)
    if found.moment is None or found.missing:
        why = found.why or f"I found no time of day in {text.strip()[:80]!r}"
        raise ActionError(why.rstrip("."), EXAMPLES)
    first, note = found.moment.astimezone(UTC), assumed or found.note
    return When(first=first, repeats=found.rrule, note=note, rest=found.rest)


def read_whole(text: str, now: datetime, zone: tzinfo | None) -> When:
    """``read_when`` of a text that says nothing else; raises ActionError for words that say no time."""
    found = read_when(text, now, zone)
    if left := " ".join(
        word for word in re.findall(r"[^\s,.;:]+", found.rest) if word.lower() not in _FILLERS
    ):
        raise ActionError(f"I did not understand {left[:80]!r} in {text.strip()[:80]!r}", EXAMPLES)
    return found


def _as_repeated(text: str) -> str:
    """``text`` in words that the parser of times knows; a bare hour is that of 24."""
    if not WAYS["repeated"].search(text.replace("every month", "")):
        text = WAYS["of_month"].sub(r"the \1 of every month", text)
    text = WAYS["half_year"].sub("every 6 months", text)
    text = _UNITS.sub(lambda unit: _EVERY[unit[0].lower()], text)
    if not has_clock(text):
        return WAYS["nightly"].sub("every day", text)
    if re.search(r"(?i)\bnight(?:ly)?\b", text):
        return at_night(text)
    if WAYS["part"].search(text):
        return text
    return _spell_clocks(text)


def at_night(text: str) -> str:
    """``text`` with hours without a half of the day as those of a night: "at 11" is 23:00."""
    return _spell_clocks(text, latest=LATEST_HOUR)


def has_clock(text: str) -> bool:
    """Whether ``text`` names a time of day."""
    return any(each.kind == "clock" for each in find_phrases(text))


def _spell_clocks(text: str, latest: int = 24) -> str:
    """``text`` with its times of day in digits; of bare hours those up to ``latest`` are early."""
    for each in reversed(find_phrases(text)):
        if each.kind != "clock" or each["either"] or each["bad"] or each["same"]:
            continue
        clock = read_clocks(each)[0]
        start, end = each.match.start(), each.match.end() - len(each.match["and"] or "")
        if not clock.sure and clock.hour < 12:
            hour = clock.hour + (12 if clock.hour > latest else 0)
            text = f"{text[:start]}at {hour:02}:{clock.minute:02}{text[end:]}"
    return text


def read_rule(text: str, now: datetime, zone: tzinfo | None) -> Recurrence:
    """The rule in ``text``, with or without DTSTART; without, it starts ``now``. Raises ActionError."""
    lines = text.strip().upper().split()
    rule = next((line for line in lines if not line.startswith("DTSTART")), "").removeprefix("RRULE:")
    parts = _parts(rule)
    start = next((line for line in text.split() if line.upper().startswith("DTSTART")), "")
    if len(lines) > 1 + bool(start):
        raise ActionError("That is more than one rule", RULE_EXAMPLE)
    if start:
        rule = _end_as(rule, parts, zone, aware=start.endswith("Z"))
        try:
            return parse_recurrence(f"{start}\nRRULE:{rule}")
        except ValueError:
            cure = "Write it as in DTSTART:20270104T070000"
            raise ActionError(f"{start[:60]!r} is no beginning of a rule", cure) from None
    minute = now.replace(second=0, microsecond=0)
    if parts["FREQ"] in SHORT:
        return Recurrence(start=minute, rule=_end_as(rule, parts, zone, aware=True))
    if "BYHOUR" not in parts:
        raise ActionError("The rule names no time of day", RULE_EXAMPLE)
    here = minute.astimezone(zone).replace(tzinfo=None, fold=0, minute=0)
    return Recurrence(start=here, rule=_end_as(rule, parts, zone, aware=False))


def describe(repeats: str, first: datetime, zone: tzinfo | None) -> str:
    """``every weekday at 07:00``; for a single run its moment."""
    if not repeats:
        return f"once, on {format_moment(first, zone)}"
    recurrence = parse_recurrence(repeats)
    try:
        return describe_recurrence(recurrence)
    except (KeyError, ValueError, IndexError):  # a rule that has no short form in words
        return f"by the rule {recurrence.rule}"


def _parts(rule: str) -> Mapping[str, str]:
    """The parts of a rule that may be kept; raises ActionError."""
    pairs = [part.partition("=") for part in rule.split(";") if part]
    parts = {name: value for name, _, value in pairs}
    frequency = parts.get("FREQ", "")
    if frequency not in (*SHORT, *LONG):
        raise ActionError(f"The rule {rule[:80]!r} has no FREQ from MINUTELY to YEARLY", RULE_EXAMPLE)
    allowed = ENDS if frequency in SHORT else ENDS | CHOOSES
    if len(parts) != len(pairs) or (strange := sorted(parts.keys() - allowed)):
        named = ", ".join(strange) if len(parts) == len(pairs) else "a part twice"
        raise ActionError(f"A {frequency} rule cannot have {named[:80]}", RULE_EXAMPLE)
    for name, most in MOST.items():
        value = parts.get(name, "1")
        if not (value.isdecimal() and 1 <= int(value) <= most):
            raise ActionError(f"{name} must be a number from 1 to {most:,}", RULE_EXAMPLE)
    return parts


def _end_as(rule: str, parts: Mapping[str, str], zone: tzinfo | None, *, aware: bool) -> str:
    """``rule`` with an UNTIL as its start needs it: in UTC if that is ``aware``, else in local time."""
    from dateutil.rrule import rrulestr

    if until := parts.get("UNTIL"):
        try:
            form = "%Y%m%dT%H%M%S" if "T" in until else "%Y%m%d"
            moment = datetime.strptime(until.rstrip("Z"), form)  # noqa: DTZ007 - local, or in UTC
        except ValueError:
            cure = "Write it as in UNTIL=20271231T235959"
            raise ActionError(f"UNTIL is {until[:40]!r}, which is no time", cure) from None
        moment = moment.replace(tzinfo=UTC) if until.endswith("Z") else localize(moment, zone)
        end = moment.astimezone(UTC if aware else zone)
        rule = rule.replace(f"UNTIL={until}", f"UNTIL={end:%Y%m%dT%H%M%S}{'Z' if aware else ''}")
    try:
        rrulestr(rule, dtstart=datetime(2026, 1, 1, tzinfo=UTC if aware else None))
    except (ValueError, TypeError, IndexError) as error:
        raise ActionError(f"The rule {rule[:80]!r} cannot be read: {error}", RULE_EXAMPLE) from None
    return rule


def _within(recurrence: Recurrence, now: datetime) -> Recurrence:
    """A rule that ends with the horizon, so that one that never comes is not searched for ever."""
    if {"UNTIL", "COUNT"} & recurrence.parts.keys():
        return recurrence
    end = (now + HORIZON).strftime("%Y%m%dT%H%M%S") + ("Z" if recurrence.start.tzinfo else "")
    return msgspec.structs.replace(recurrence, rule=f"{recurrence.rule};UNTIL={end}")
