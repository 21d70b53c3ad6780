"""Reminders: what a person wants to be told, and when."""

from enum import StrEnum

import msgspec

from shared.contracts.base import (
    Contract,
    Envelope,
    generate_iso_timestamp,
    require_name,
    require_text,
    require_timestamp,
    require_token,
)


class ReminderStatus(StrEnum):
    """Where a reminder stands; the last two are final."""

    SCHEDULED = "scheduled"
    FIRED = "fired"
    SNOOZED = "snoozed"
    ACKNOWLEDGED = "acknowledged"
    CANCELLED = "cancelled"


class Reminder(Contract, frozen=True, kw_only=True):
    """One reminder; ``due_at`` is in UTC, ``count`` how often it was set (a snooze sets it again).

    ``repeats`` says on which days of the week it is set again when it goes off: ``mon,thu 14:00``, with the
    name of a time zone behind it where it is not the office's; empty where it goes off once.
    """

    reminder_id: str
    text: str
    person: str
    due_at: str
    status: ReminderStatus = ReminderStatus.SCHEDULED
    count: int = 1
    created_at: str = msgspec.field(default_factory=generate_iso_timestamp)
    fired_at: str = ""
    repeats: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("reminder_id", self.reminder_id)
        require_text("text", self.text, 1_000)
        require_name("person", self.person)
        require_timestamp("due_at", self.due_at)


class Reminders(Envelope, frozen=True, kw_only=True, tag="reminders.v1"):
    """The reminders of an office: the open ones and the latest closed ones."""

    reminders: tuple[Reminder, ...] = ()


class ReminderDue(Envelope, frozen=True, kw_only=True, tag="reminder_due.v1"):
    """The time of a reminder has come; ``count`` says for which of its settings."""

    reminder_id: str
    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("reminder_id", self.reminder_id)
