"""Records of what happens by itself: goals on a schedule, and the night's queue."""

from enum import StrEnum
from typing import Annotated

import msgspec

from shared.contracts.base import (
    AgentName,
    Contract,
    Count,
    Envelope,
    OptionalTimestamp,
    OptionalToken,
    Timestamp,
    Token,
    at_most,
    generate_iso_timestamp,
    text_up_to,
)

MAX_SCHEDULED = 20_000
"""The most characters of a goal on a schedule."""


class ScheduleStatus(StrEnum):
    """The status of a schedule; the last two are final."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"
    REMOVED = "removed"


class Schedule(Contract, frozen=True, kw_only=True):
    """A goal that is submitted again and again, each time as a goal of its own.

    ``repeats`` are the lines DTSTART and RRULE of RFC 5545, empty for a single run. ``next_at`` is in UTC,
    empty if there is no further run. ``words`` are the times as they were written. ``runs`` counts the goals,
    ``last_goal`` is the latest of them, begun at ``last_at``; ``missed`` counts the runs that were left out,
    and ``note`` says what became of the last one that was late or left out.
    """

    schedule_id: Token
    text: Annotated[str, text_up_to(MAX_SCHEDULED)]
    requester: AgentName
    repeats: Annotated[str, at_most(1_000)] = ""
    words: Annotated[str, at_most(500)] = ""
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    next_at: OptionalTimestamp = ""
    runs: Count = 0
    missed: Count = 0
    last_at: OptionalTimestamp = ""
    last_goal: OptionalToken = ""
    note: Annotated[str, at_most(1_000)] = ""
    created_at: Timestamp = msgspec.field(default_factory=generate_iso_timestamp)


class Schedules(Envelope, frozen=True, kw_only=True, tag="schedules.v1"):
    """The schedules of an office: those that go on, and the latest that ended or were removed."""

    schedules: tuple[Schedule, ...] = ()


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
