"""What messages say about schedules and the night: a goal with its times, a job for tonight, or a command.

Commands are exact: ``/schedule add``, a line with the times and the goal in the lines after it; ``/schedule
pause ID`` (or resume, remove, run, show); ``/night_job add``, a line with ``night``, ``now`` or a time, and
the job in the lines after it; ``/queue remove ID`` (or run).
"""

import re
from datetime import datetime, timedelta, tzinfo
from typing import Any

import msgspec

from services.nexus.schedules.times import When, at_night, has_clock, read_when
from shared.clock import localize
from shared.errors import ActionError
from shared.language.sayings import read_sayings
from shared.language.times.time_parser import read_time

WAYS = read_sayings(__file__, "words")
JOB_MOVE = WAYS["job_move"]

_COMMAND = re.compile(
    r"\s*(?:/(?:schedule|queue|night_job)\s+)?(?P<verb>[a-z]+)\b[ \t]*(?P<rest>.*)", re.DOTALL
)
_NAME = re.compile(r"(?=\S*\d)[A-Za-z0-9_-]+")
"""What a command names: an id, which has a digit."""
CHANGES = ("pause", "resume", "remove", "run", "show")
JOB = re.compile(r"\bjob-\d{8}-\d{3}\b")


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
