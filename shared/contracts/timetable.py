"""The timetable: what happens by itself at its time, item by item, and the night that jobs wait for."""

from enum import StrEnum
from typing import Annotated, Any

from shared.contracts.base import (
    AgentName,
    Count,
    Envelope,
    OptionalTimestamp,
    OptionalToken,
    Timestamp,
    Token,
    at_most,
    text_up_to,
)

MAX_DUE_TEXT = 20_000  # characters: those of a goal; a reminder has at most 1,000


class DueKind(StrEnum):
    """What happens: a reminder is mailed, a goal submitted, a briefing made, a job of the night begun."""

    MAIL = "mail"
    GOAL = "goal"
    BRIEFING = "briefing"
    JOB = "job"


class DueStatus(StrEnum):
    """The status of an item; the last two are final. SNOOZED also waits, for a time it was moved to.

    FIRED is a reminder that went off and is not done; what repeats waits again at once. WORKING is a job that
    has begun.
    """

    WAITING = "waiting"
    SNOOZED = "snoozed"
    PAUSED = "paused"
    FIRED = "fired"
    WORKING = "working"
    DONE = "done"
    CANCELLED = "cancelled"


class Due(Envelope, frozen=True, kw_only=True, tag="due.v1"):
    """An item of the timetable, in a record of its own: ``what`` happens for ``requester`` at ``at`` (UTC).

    ``at`` is the next time if the item waits, else the last one. ``repeats`` are the lines DTSTART and RRULE
    of RFC 5545 (shared.recurrence), local time of the office if it names no zone; empty for a single time.
    ``words`` are the times of a goal as they were written. ``runs`` counts how often it happened, ``last_at``
    is when it last did, ``last`` the goal or task that began then; ``missed`` counts the runs that were left
    out, and ``note`` says what became of the last one that was late or left out. ``job`` is a job as its file
    has it (services.cortex.job_files), and ``text`` the part of it that lists show.
    """

    due_id: Token
    what: DueKind
    text: Annotated[str, text_up_to(MAX_DUE_TEXT)]
    requester: AgentName
    at: Timestamp
    status: DueStatus = DueStatus.WAITING
    repeats: Annotated[str, at_most(1_000)] = ""
    words: Annotated[str, at_most(500)] = ""
    runs: Count = 0
    missed: Count = 0
    last_at: OptionalTimestamp = ""
    last: OptionalToken = ""
    note: Annotated[str, at_most(1_000)] = ""
    job: dict[str, Any] = {}


class Timetable(Envelope, frozen=True, kw_only=True, tag="timetable.v1"):
    """The ids of the items that are kept, in the order in which they were added: all that wait or are open,
    and the latest that are over.

    ``changed`` are the reminders that a person's last change of reminders, made for ``cause``, was about;
    ``undo`` are these as they were.
    """

    ids: tuple[Token, ...] = ()
    changed: tuple[Token, ...] = ()
    undo: tuple[Due, ...] = ()


class TimerDue(Envelope, frozen=True, kw_only=True, tag="timer_due.v1"):
    """The timer of an item of the timetable went off; the item's record says whether anything is due."""

    due_id: Token


class NightState(Envelope, frozen=True, kw_only=True, tag="night.v1"):
    """The night that the overnight queue is in, else the last one: from ``began_at`` to ``ends_at``.

    ``base_tokens`` and ``base_cost`` are what all agents had used when it was first looked at, counted from
    the day (UTC) of ``began_at`` on; ``tokens`` and ``cost`` what they have used since, in US dollars.
    ``held`` says why nothing begins, empty if something may.
    """

    began_at: OptionalTimestamp = ""
    ends_at: OptionalTimestamp = ""
    base_tokens: Count = 0
    base_cost: float = 0.0
    tokens: Count = 0
    cost: float = 0.0
    held: Annotated[str, at_most(500)] = ""
