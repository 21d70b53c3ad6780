"""What messages say about schedules and the night: a goal with its times, a job for tonight, or a command.

Commands are exact: ``/schedule add``, a line with the times and the goal in the lines after it; ``/schedule
pause ID`` (or resume, remove, run, show); ``/night_job add``, a line with ``night``, ``now`` or a time, and
the job in the lines after it; ``/queue remove ID`` (or run).
"""

import re
from datetime import datetime, timedelta, tzinfo
from typing import Any

import msgspec

from services.nexus.reminders.time_parser import read_time
from services.nexus.reminders.time_phrases import find_phrases
from services.nexus.schedules.times import When, at_night, read_when
from shared.clock import localize
from shared.errors import ActionError

_COMMAND = re.compile(
    r"\s*(?:/(?:schedule|queue|night_job)\s+)?(?P<verb>[a-z]+)\b[ \t]*(?P<rest>.*)", re.DOTALL
)
_NAME = re.compile(r"(?=\S*\d)[A-Za-z0-9_-]+")
"""What a command names: an id, which has a digit."""
CHANGES = ("pause", "resume", "remove", "run", "show")
_LEAD = re.compile(
    r"(?i)^(?:(?:hi|hey|hello|please|pls|kindly|nexus|also|and|then|ok(?:ay)?|not now|going forward"
    r"|(?:can|could|would|will) you|(?:i|we)(?:'d| would)? (?:want|like|need)(?: you)?(?: to)?"
    r"|(?:can|could) (?:this|that|it) be done"
    r"|have (?:the )?\w+(?= (?:run|look|check|do|find|scan|make|read)\b)"
    r"|(?:schedule|queue|plan|add|put)(?: (?:up|in))?(?: (?:this|that|it|an? job|an? goal|the task))?(?=\s*:)"
    r"|(?:schedule|queue|plan|put|set up|automate)(?= (?:an?|the)\b))\b[\s,:;.?-]*|[\s,:;.?-]+)+"
)
_TAIL = re.compile(
    r"(?i)(?:[\s,;:-]+(?:please|pls|thanks|thank you|again|for me|then|on|at|by|for|and))*[\s.,;:!?-]*$"
)
_BESIDE = re.compile(r"(?i)\bfrom now(?: on)?\b|\bso (?:that )?(?:i|we) can\b.*$")
_NIGHT = re.compile(
    r"(?i)\b(?:(?:later|sometime|for|until) )?(?:to\s?ni(?:ght|te)|over\s?ni(?:ght|te)|this evening"
    r"|at night)\b"
    r"|\b(?:during|in|for|through) the (?:night|(?:small|wee|quiet|night) hours)\b"
    r"|\b(?:while|when|once|after) (?:i|i'm|we|we're|nobody|no one|everyone|everybody)\b[^,.:;]*?"
    r"\b(?:sleep(?:ing)?|asleep|in bed|off|home|gone(?: home)?|leave|left|around|away|done)\b(?: tonight)?"
    r"|\b(?:after (?:work|hours)|(?:before|by) tomorrow(?: morning)?|when it(?:'s| is) quiet)\b"
    r"|\b(?:in|into|to|on) the (?:over)?night(?:'s)? (?:queue|list)\b"
)
_CLOCK = re.compile(r"(?i)\bat \d|\b\d{1,2}(?::\d\d|\s?(?:[ap]\.?m\b|h\b|o'clock))|\bmidnight\b")
_DAY = re.compile(
    r"(?i)\b(?:today|tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)day|\d{4}-\d\d-\d\d"
    r"|\d{1,2}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*)\b"
)
"""A day other than tonight."""
_AT = re.compile(r"(?i)\bat ([01]\d|2[0-3]):([0-5]\d)\b")
_OFTEN = re.compile(
    r"(?i)(?:^|(?<=\s))(?:every|each)(?:\s+(?:\w+day|day|night|morning|evening|week\w*|month|year|hour|minute))?$"
)
"""What is left at the end of a message whose repetition was not understood."""
_EMPTY = re.compile(
    r"(?i)^(?:(?:do|run|make|start|repeat|begin|schedule|queue|plan)\b\s*)?"
    r"(?:it|that|this|them|these|those|(?:some|any)thing|stuff|things|(?:an?|some)\s+(?:thing|job|goal|task|work))?"
    r"(?:\s*\b(?:again|once more|too|as well))?$"
)
"""Words that do not say what is to be done."""


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
    if not found.repeats and (often := _OFTEN.search(goal)):
        raise ActionError(
            f"I could not read how often {often[0]!r} is",
            "Say it as in 'every weekday at 7', 'every night at 2', 'every Monday at 9'",
        )
    if _EMPTY.match(goal):
        raise ActionError(
            "I know when, but not what is to be done",
            "Say both, as in 'every night at 2 run the tests of ~/src/shop'",
        )
    return found, goal


def read_night_job(text: str, now: datetime, zone: tzinfo | None) -> dict[str, Any]:
    """The parameters of cortex's ``queue_job`` for a message such as "run the tests of ~/x tonight at 23:30".

    Raises ActionError, a question, if there is no work in it.
    """
    words = _NIGHT.sub(" ", text)
    words = words if _DAY.search(words) else at_night(words)
    at: datetime | None
    if (clock := _AT.search(words)) and not _DAY.search(words):
        at = _next(int(clock[1]), int(clock[2]), now, zone)
        task = strip_words(words.replace(clock[0], " ", 1))
    else:
        spoken = [each for each in find_phrases(words) if each["way"] or each["h4"]]
        said = f"tonight {words}" if spoken and _NIGHT.search(text) else words
        found = read_time(said, now, zone) if spoken or _CLOCK.search(words) else None
        at = found.moment if found and not found.missing and not found.rrule else None
        task = strip_words(found.rest if found and at else words)
    if _EMPTY.match(task):
        cure = "Say it, as in 'run the tests of ~/src/shop tonight'"
        raise ActionError("I know that it is for the night, but not what is to be done", cure)
    return {"task": task, **({"run_at": at.isoformat()} if at else {})}


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
    return _TAIL.sub("", _LEAD.sub("", " ".join(_BESIDE.sub(" ", text).split())))
