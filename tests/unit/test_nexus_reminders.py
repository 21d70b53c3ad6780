"""Reminders as data: what words want, and how one reminder follows from another."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from services.nexus.reminders.intents import ReminderIntent, find_intent, parse_intent
from services.nexus.reminders.state import (
    MAX_ENDED,
    add_reminder,
    due_time,
    end,
    find_reminder,
    finish,
    fire,
    parse_reminder,
    snooze,
    to_timestamp,
)
from services.nexus.routing.decider import INTENTS, decide_by_rule
from services.nexus.routing.registry import load_tools
from shared.contracts import Reminder, Reminders, ReminderStatus
from shared.errors import ActionError

NOW = datetime(2026, 11, 25, 15, 20, tzinfo=UTC)
OPEN = frozenset({ReminderStatus.SCHEDULED, ReminderStatus.FIRED})

ERRANDS = """
    Remind me to run the tests tomorrow                | SET
    please remind me in 20 minutes to stretch          | SET
    Can you remind me to call Ana tomorrow at 9?       | SET
    remind me about the dentist tomorrow at 9          | SET
    Set a reminder for Friday 14:00 to submit          | SET
    I need a reminder to pay the rent                  | SET
    new reminder: stretch in 5 minutes                 | SET
    What reminders do I have?                          | LIST
    show my reminders                                  | LIST
    Do I have any reminders?                           | LIST
    Is there a reminder about Ana?                     | LIST
    did you remind me about the dentist?               | LIST
    ping me in 10 minutes about the build              | SET
    ping me when the build is done                     | -
    wake me tomorrow at 07:00                          | SET
    don't let me forget to call Ana tomorrow at 9      | SET
    remind me again in 10 minutes to stretch           | SET
    remind me again in 10 minutes                      | SNOOZE
    snooze it                                          | SNOOZE
    Snooze the reminder about Ana for 2 hours          | SNOOZE
    postpone the reminder about Ana by 2 days          | SNOOZE
    cancel the reminder about Ana                      | CANCEL
    cancel r0123456789                                 | CANCEL
    mark the reminder about rent as done               | FINISH
    the reminder about rent is done                    | FINISH
    Remind me what the check-up found                  | -
    remind me of the decision on caching               | -
    Implement a reminder feature                       | -
    What did the reminder service do?                  | -
    Cancel the goal                                    | -
    hello                                              | -
"""


@pytest.mark.parametrize(
    ("text", "errand"),
    [[part.strip() for part in line.split("|")] for line in ERRANDS.strip().splitlines()],
)
def test_what_words_want_done_about_reminders(text: str, errand: str) -> None:
    assert find_intent(text) is (None if errand == "-" else ReminderIntent[errand])
    decision = decide_by_rule(text, load_tools())
    assert (decision is not None and decision.tool in INTENTS.values()) is (errand != "-")


def test_of_which_one_and_for_how_long() -> None:
    def wish(text: str) -> tuple[ReminderIntent, str, float, str]:
        read = parse_intent(text)
        return read.intent, read.about, read.minutes, read.until

    assert wish("Snooze the reminder about Ana for 2 hours") == (ReminderIntent.SNOOZE, "Ana", 120.0, "")
    assert wish("snooze r0123456789 for an hour") == (ReminderIntent.SNOOZE, "r0123456789", 60.0, "")
    assert wish("snooze for 10 minutes") == (ReminderIntent.SNOOZE, "", 10.0, "")
    assert wish("remind me again in 10 minutes") == (ReminderIntent.SNOOZE, "", 10.0, "")
    assert wish("snooze the stretch reminder") == (ReminderIntent.SNOOZE, "stretch", 0.0, "")
    assert wish("move the reminder about Ana to tomorrow at 9") == (
        ReminderIntent.SNOOZE,
        "Ana",
        0.0,
        "tomorrow at 9",
    )
    assert wish("move the reminder about talking to Bob to 15:00")[1:] == ("talking to Bob", 0.0, "15:00")
    assert wish("snooze it 10 minutes")[1:] == ("", 10.0, "")
    assert wish("snooze it for another 2 hours")[1:] == ("", 120.0, "")
    assert wish("snooze the tea reminder for an hour and a half")[1:] == ("tea", 0.0, "in an hour and a half")
    assert wish("snooze it until quarter to 10")[3] == "quarter to 10"
    assert wish("snooze it for 2 months")[2:] == (0.0, "in 2 months")
    assert wish("move the reminder about Ana to somewhere else")[3]
    assert wish("snooze it until 15:00") == (ReminderIntent.SNOOZE, "", 0.0, "15:00")
    assert wish("cancel the reminder about Ana please") == (ReminderIntent.CANCEL, "Ana", 0.0, "")
    assert wish("cancel my rent reminder") == (ReminderIntent.CANCEL, "rent", 0.0, "")
    assert wish("mark the reminder about rent as done")[1] == "rent"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Remind me to call Ana tomorrow at 9", "call Ana"),
        ("Remind me in 20 minutes that the tea is ready", "the tea is ready"),
        ("set a reminder: pay rent on 1 December at 10:00", "pay rent"),
        ("Can you remind me about the dentist next Friday at 14:00?", "the dentist"),
        ("Remind me to call Ana tomorrow at 9. Her number is 555.", "call Ana. Her number is 555."),
        ("call Ana tomorrow at 9 please", "call Ana"),
    ],
)
def test_what_to_be_reminded_of(text: str, what: str) -> None:
    assert parse_reminder(text, "", NOW, UTC).rest == what


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(ActionError, match="at most 1,000 characters"):
        parse_reminder(f"{'x' * 1_001} tomorrow at 9", "", NOW, UTC)


def reminder(number: int, **more: object) -> Reminder:
    fields = {"reminder_id": f"r{number:04d}", "text": f"tea {number}", "person": "user"}
    return Reminder(**{**fields, "due_at": to_timestamp(NOW), **more})  # type: ignore[arg-type]


def test_putting_off_counts_from_now_where_it_went_off_and_else_from_its_time() -> None:
    later = NOW + timedelta(hours=5)
    fired = fire(reminder(1), NOW, UTC)
    assert due_time(snooze(fired, later, 30)) == later + timedelta(minutes=30)
    waiting = reminder(1, due_at=to_timestamp(later))
    snooze_until = snooze(waiting, NOW, 30)
    assert due_time(snooze_until) == later + timedelta(minutes=30)
    assert (snooze_until.count, snooze_until.status) == (2, ReminderStatus.SNOOZED)
    for minutes in (0, -1, 1e9, float("nan")):
        with pytest.raises(ActionError):
            snooze(fired, NOW, minutes)


def test_one_that_repeats_waits_for_its_next_time_when_it_went_off() -> None:
    daily = reminder(1, repeats="mon,tue,wed,thu,fri,sat,sun 15:20")
    late = NOW + timedelta(days=2, hours=1)
    fired = fire(daily, late, UTC)
    assert (fired.status, fired.count) == (ReminderStatus.SCHEDULED, 2)
    assert due_time(fired) == NOW + timedelta(days=3)
    assert due_time(snooze(fired, late, 30)) == late + timedelta(minutes=30)
    assert due_time(fire(snooze(fired, late, 30), late + timedelta(minutes=30), UTC)) == NOW + timedelta(
        days=3
    )
    assert finish(fired, late, UTC) == fired
    done = finish(snooze(fired, late, 30), late, UTC)
    assert (due_time(done), done.status, done.count) == (due_time(fired), ReminderStatus.SCHEDULED, 4)
    assert end(fired, ReminderStatus.CANCELLED).status is ReminderStatus.CANCELLED


def test_an_ended_one_stays_ended() -> None:
    done = end(reminder(1), ReminderStatus.ACKNOWLEDGED)
    assert end(done, ReminderStatus.ACKNOWLEDGED) == done
    with pytest.raises(ActionError, match="is done already"):
        end(done, ReminderStatus.CANCELLED)


def test_the_latest_that_are_over_are_kept_and_all_that_wait() -> None:
    reminders = Reminders(reminders=(reminder(0),))
    for number in range(1, MAX_ENDED + 50):
        reminders = add_reminder(reminders, reminder(number, status=ReminderStatus.CANCELLED))
    kept = [each.reminder_id for each in reminders.reminders]
    assert len(kept) == MAX_ENDED + 1
    assert kept[0] == "r0000"
    assert kept[-1] == f"r{MAX_ENDED + 49:04d}"
    assert add_reminder(reminders, reminder(0)) is reminders


def test_one_is_found_by_id_its_beginning_or_its_words() -> None:
    reminders = Reminders(reminders=(reminder(1), reminder(2), reminder(12)))
    assert find_reminder(reminders, "r0001", preferred=OPEN).text == "tea 1"
    assert find_reminder(reminders, "tea 12", preferred=OPEN).reminder_id == "r0012"
    with pytest.raises(ActionError, match="may mean 3 reminders"):
        find_reminder(reminders, "tea", preferred=OPEN)
    for words in ("", "coffee", "r9"):
        with pytest.raises(ActionError):
            find_reminder(reminders, words, preferred=OPEN)


@pytest.mark.parametrize(
    "word", ["mark the reminder ", "remind me ", "snooze ", "for 2 ", "cancel reminder about "]
)
def test_long_messages_are_understood_quickly(word: str) -> None:
    begun = time.perf_counter()
    text = word * (100_000 // len(word))
    find_intent(text)
    parse_intent(text)
    with pytest.raises(ActionError):
        parse_reminder(text, "", NOW, UTC)
    assert time.perf_counter() - begun < 2
