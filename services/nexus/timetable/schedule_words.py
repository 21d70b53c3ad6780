"""What messages say about schedules and the night: when a goal runs, and what is to be done.

Commands are exact: ``/schedule add``, a line with the times and the goal in the lines after it; ``/schedule
pause ID`` (or resume, remove, run, show); ``/night_job add``, a line with ``night``, ``now`` or a time, and
the job in the lines after it; ``/queue remove ID`` (or run).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

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

TIME_WAYS = read_sayings(__file__, "schedule_times")

EXAMPLES = "Say when, as in 'every weekday at 7', 'every night at 2', 'every Monday at 9'"
RULE_EXAMPLE = "Write it as in 'RRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=7;BYMINUTE=0'"
SHORT = ("MINUTELY", "HOURLY")
LONG = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
ENDS = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST"})
CHOOSES = frozenset({"BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "BYHOUR", "BYMINUTE"})
MOST = {"INTERVAL": 10_000, "COUNT": 1_000}  # The largest numbers of these parts
HORIZON = timedelta(days=3_660)  # A rule must have its first run within this

DEFAULT_CLOCK = " at 02:00"
"""When a goal runs that is to be repeated at no time of day that is named."""
DEFAULT_DAYS = {"MONTHLY": " on the 1st", "YEARLY": " on 1 January", "": " on Monday"}
"""The day of what is repeated in months, years or weeks without one."""

_EVERY = {"hourly": "every hour", "weekly": "every week", "monthly": "every month", "yearly": "every year"}
_FILLERS = frozenset({"the", "and", "at", "on", "in", "of", "from", "now", "please", "then", "run", "always"})
"""Words around a time that say nothing else."""
LATEST_HOUR = 6  # The last hour that is one of the early morning, if no half of the day is named
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
    if found.rrule and found.missing in ("time", "day"):
        days = (DEFAULT_DAYS[each] for each in DEFAULT_DAYS if each in found.rrule)
        default = next(days) if found.missing == "day" else ""
        default += "" if has_clock(text) else DEFAULT_CLOCK
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
    if not TIME_WAYS["repeated"].search(text.replace("every month", "")):
        text = TIME_WAYS["of_month"].sub(r"the \1 of every month", text)
    text = TIME_WAYS["half_year"].sub("every 6 months", text)
    text = _UNITS.sub(lambda unit: _EVERY[unit[0].lower()], text)
    if not has_clock(text):
        return TIME_WAYS["nightly"].sub("every day", text)
    if re.search(r"(?i)\bnight(?:ly)?\b", text):
        return at_night(text)
    if TIME_WAYS["part"].search(text):
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
    # The parts of a rule that may be kept; raises ActionError
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
    return describe_recurrence(parse_recurrence(repeats), first - timedelta(seconds=1))


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


WAYS = read_sayings(__file__, "schedule_words")
JOB_MOVE = WAYS["job_move"]

_COMMAND = re.compile(
    r"\s*(?:/(?:schedule|queue|night_job)\s+)?(?P<verb>[a-z]+)\b[ \t]*(?P<rest>.*)", re.DOTALL
)
_NAME = re.compile(r"(?=\S*\d)[A-Za-z0-9_-]+")  # What a command names: an id, which has a digit
CHANGES = ("pause", "resume", "remove", "run", "show")
JOB = re.compile(r"\b(?P<id>job-\d{8}-\d{3})\b")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A command: the ``verb``, the id or words it is about, else the times and the text to add."""

    verb: str
    name: str = ""
    when: str = ""
    text: str = ""


def read_order(text: str) -> Order | None:
    """The command in ``text``, with or without its first word; None if it is none."""
    found = _COMMAND.fullmatch(text)
    if found is None:
        return None
    head, _, rest = found["rest"].partition("\n")
    if found["verb"] in CHANGES and _NAME.fullmatch(head.strip()) and not rest.strip():
        return Order(verb=found["verb"], name=head.strip())
    if found["verb"] == "add" and not head.strip() and rest.strip():
        when, _, goal = rest.strip().partition("\n")
        return Order(verb="add", when=when.strip(), text=goal.strip())
    return None


def read_scheduled(text: str, now: datetime, zone: tzinfo | None) -> tuple[When, str]:
    """The times and the goal in a message such as "every night at 2 run the tests of ~/x".

    Raises ActionError, a question, if the times are not clear or there is no goal.
    """
    found = read_when(text, now, zone)
    goal = strip_words(found.rest)
    if not found.repeats and (often := WAYS["often"].search(goal)):
        raise ActionError(
            f"I could not read how often {often[0]!r} is",
            "Say it as in 'every weekday at 7', 'every night at 2', 'every Monday at 9'",
        )
    if WAYS["empty"].match(goal):
        raise ActionError(
            "I know when, but not what is to be done",
            "Say both, as in 'every night at 2 run the tests of ~/src/shop'",
        )
    return found, goal


def read_night_job(text: str, now: datetime, zone: tzinfo | None) -> dict[str, Any]:
    """The parameters of cortex's ``queue_job`` for a message such as "run the tests of ~/x tonight at 23:30".

    Raises ActionError, a question, if there is no work in it.
    """
    at, rest = _read_start(text, now, zone)
    task = strip_words(rest)
    if WAYS["empty"].match(task):
        cure = "Say it, as in 'run the tests of ~/src/shop tonight'"
        raise ActionError("I know that it is for the night, but not what is to be done", cure)
    return {"task": task, **({"run_at": at.isoformat()} if at else {})}


def read_move(text: str, now: datetime, zone: tzinfo | None, job_id: str = "") -> dict[str, Any] | None:
    """The parameters of cortex's ``move_job`` for "make tonight's scan 2 am"; None if it moves no job.

    ``job_id`` is the job that the message asks for at another time.
    """
    found = JOB_MOVE.match(text) or WAYS["work_move"].match(text)
    if not (found or job_id):
        return None
    words = re.sub(r"(?i)\b(?:to|until|till)\s+(?=\d)", "at ", text)
    words = at_night(words if has_clock(words) else WAYS["hour_last"].sub(r" at \1", words))
    at, _ = _read_start(words, now, zone)
    if at is None and WAYS["day"].search(words):
        at = read_time(words, now, zone).moment
    if at is None and not WAYS["night"].search(words):
        raise ActionError("I do not know when it is to begin", "Say it, as in 'move tonight's scan to 2 am'")
    about = WAYS["not_about"].sub(" ", found["what"]) if found and not job_id else ""
    named = JOB.search(text)
    return {
        "job_id": job_id or (named[0] if named else ""),
        "about": "" if named else " ".join(about.split()),
        "run_at": at.isoformat() if at else "",
    }


def _read_start(text: str, now: datetime, zone: tzinfo | None) -> tuple[datetime | None, str]:
    """When a job of the night is to begin, if ``text`` says more than that it is the night, and the rest."""
    words = WAYS["night"].sub(" ", text)
    if WAYS["day"].search(words):
        found = read_time(words, now, zone) if has_clock(words) else None
    elif clock := WAYS["at"].search(words := at_night(words)):
        return _next(int(clock[1]), int(clock[2]), now, zone), words.replace(clock[0], " ", 1)
    else:
        found = read_time(words, now, zone) if has_clock(words) else None
    at = found.moment if found and not found.missing and not found.rrule else None
    return at, found.rest if found and at else words


def read_queue_call(text: str, now: datetime, zone: tzinfo | None) -> tuple[str, dict[str, Any]] | None:
    """The action of cortex that a command of the queue asks for, with its parameters; None if it is none."""
    order = read_order(text)
    if order is None or order.verb not in ("add", "remove", "run"):
        return None
    if order.verb == "remove":
        return "cancel_job", {"job_id": order.name, "reason": "It was removed from the queue"}
    if order.verb == "run":
        return "run_job", {"job_id": order.name}
    if order.when in ("night", "now"):
        return "queue_job", {"task": order.text, "when": order.when}
    return "queue_job", {"task": order.text, "run_at": read_when(order.when, now, zone).first.isoformat()}


def _next(hour: int, minute: int, now: datetime, zone: tzinfo | None) -> datetime:
    """The next moment at which clocks show that time."""
    here = now.astimezone(zone).replace(tzinfo=None, hour=hour, minute=minute, second=0, microsecond=0)
    moment = localize(here, zone)
    return moment if moment > now else localize(here + timedelta(days=1), zone)


def strip_words(text: str) -> str:
    """``text`` without courtesies at its ends, and what a time leaves behind."""
    return WAYS["tail"].sub("", WAYS["lead"].sub("", " ".join(WAYS["beside"].sub(" ", text).split())))
