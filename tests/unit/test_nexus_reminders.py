"""Reminders as data: what words want, and how one reminder follows from another."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from services.nexus.conversation.pending import settle
from services.nexus.routing.unmistakable import INTENTS, decide_by_rule
from services.nexus.timetable.reminder_changes import (
    change_reminders,
    choose_reminders,
    end,
    find_reminders,
    finish,
    fire,
    undo_change,
)
from services.nexus.timetable.reminder_requests import (
    ReminderIntent,
    ReminderRequest,
    find_intent,
    format_time_answer,
    read_new,
    read_reminder_request,
)
from services.nexus.timetable.reminders import format_template
from services.nexus.tools.tool import load_tools
from shared.contracts import AskedBack, Due, DueKind, DueStatus
from shared.errors import ActionError
from shared.language.utterance import read_utterance
from shared.timetable import LIMITS, drop_oldest, due_time, to_timestamp

NOW = datetime(2026, 11, 25, 15, 20, tzinfo=UTC)
WEEKDAYS = "DTSTART:20240101T152000\nRRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"
OPEN = frozenset({DueStatus.WAITING, DueStatus.FIRED})

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
    postpone the reminder about Ana by 2 days          | MOVE
    move the bank reminder to 10am                     | MOVE
    push my rent reminder back an hour                 | MOVE
    snooze the bank one for an hour                    | SNOOZE
    rename the Ana reminder to call Bob                | RENAME
    stop reminding me about the plants                 | CANCEL
    don't remind me about the plants anymore           | CANCEL
    undo the last change of a reminder                 | UNDO
    bring back the reminder about Ana                  | UNDO
    what's coming up this week?                        | -
    what reminders did I have yesterday?               | LIST
    list my reminders for tomorrow                     | LIST
    every Monday at 9 remind me to plan                | SET
    reminder: standup at 9:30 tomorrow                 | SET
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


HOUR = timedelta(hours=1)


def test_of_which_one_and_for_how_long() -> None:
    def wish(text: str) -> tuple[str, timedelta | None, str]:
        read = read_reminder_request(text, NOW, UTC)
        return read.about, read.away, read.time

    assert wish("Snooze the reminder about Ana for 2 hours") == ("Ana", 2 * HOUR, "")
    assert wish("snooze r0123456789 for an hour") == ("r0123456789", HOUR, "")
    assert wish("snooze for 10 minutes") == ("", HOUR / 6, "")
    assert wish("remind me again in 10 minutes") == ("", HOUR / 6, "")
    assert wish("snooze the stretch reminder") == ("stretch", None, "")
    assert wish("snooze the bank one for an hour") == ("bank", HOUR, "")
    assert wish("move the reminder about Ana to tomorrow at 9") == ("Ana", None, "tomorrow at 9")
    assert wish("move the reminder about talking to Bob to 15:00") == ("talking to Bob", None, "15:00")
    assert wish("move the bank reminder to 10am") == ("bank", None, "10am")
    assert wish("move the bank reminder to seven") == ("bank", None, "at seven")
    assert wish("snooze it 10 minutes") == ("", HOUR / 6, "")
    assert wish("snooze it for another 2 hours") == ("", 2 * HOUR, "")
    assert wish("snooze the tea reminder for an hour and a half") == ("tea", 1.5 * HOUR, "")
    assert wish("snooze it until quarter to 10") == ("", None, "quarter to 10")
    assert wish("push the bank reminder back by an hour") == ("bank", HOUR, "")
    assert wish("move the bank reminder an hour earlier") == ("bank", -HOUR, "")
    assert wish("snooze it until 15:00") == ("", None, "15:00")
    assert wish("cancel the reminder about Ana please") == ("Ana", None, "")
    assert wish("cancel my rent reminder") == ("rent", None, "")
    assert wish("mark the reminder about rent as done")[0] == "rent"
    assert wish("stop reminding me about the plants")[0] == "plants"
    everything = read_reminder_request("cancel all reminders about the bank", NOW, UTC)
    assert (everything.about, everything.everything) == ("bank", True)
    renamed = read_reminder_request("rename the Ana reminder to call Bob", NOW, UTC)
    assert (renamed.about, renamed.text) == ("Ana", "call Bob")


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
    assert read_new(text, NOW, UTC).text == what


def reminder(number: int, **more: object) -> Due:
    fields = {"due_id": f"r{number:04d}", "what": DueKind.MAIL, "text": f"tea {number}", "requester": "user"}
    return Due(**{**fields, "at": to_timestamp(NOW), **more})  # type: ignore[arg-type]


def changed(found: Due, words: str, now: datetime) -> Due:
    """The reminder after a request about it."""
    request = read_reminder_request(words, now, UTC)
    (after,), _ = change_reminders([found], request, now, UTC)
    return after


def test_putting_off_counts_from_now_where_it_went_off_and_else_from_its_time() -> None:
    later = NOW + timedelta(hours=5)
    fired = fire(reminder(1), NOW, UTC)
    assert due_time(changed(fired, "snooze it", later)) == later + timedelta(minutes=30)
    waiting = reminder(1, at=to_timestamp(later))
    snoozed = changed(waiting, "snooze it for 30 minutes", NOW)
    assert due_time(snoozed) == later + timedelta(minutes=30)
    assert snoozed.status is DueStatus.SNOOZED


def test_a_move_keeps_what_it_does_not_name() -> None:
    tomorrow = reminder(1, at=to_timestamp(NOW + timedelta(days=1, hours=2)))  # Thursday at 17:20
    for words, wanted in (
        ("move the tea reminder to 10am", "11-26 10:00"),
        ("move the tea reminder to 18:00", "11-26 18:00"),
        ("move the tea reminder to Friday", "11-27 17:20"),
        ("move the tea reminder to Friday at 9", "11-27 09:00"),
        ("move the tea reminder to the evening", "11-26 19:00"),
        ("postpone the tea reminder by 2 days", "11-28 17:20"),
        ("move the tea reminder an hour earlier", "11-26 16:20"),
        ("postpone the tea reminder by a month", "12-26 17:20"),
        ("move the tea reminder to in 2 hours", "11-25 17:20"),
    ):
        assert f"{due_time(changed(tomorrow, words, NOW)):%m-%d %H:%M}" == wanted, words
    with pytest.raises(ActionError, match="has passed"):
        changed(tomorrow, "move the tea reminder to yesterday", NOW)


def test_a_new_time_of_day_moves_all_of_what_repeats_and_a_day_only_the_next_time() -> None:
    daily = reminder(1, repeats=WEEKDAYS, at=to_timestamp(NOW + timedelta(days=1)))
    moved = changed(daily, "move the tea reminder to 10am", NOW)
    assert (f"{due_time(moved):%m-%d %H:%M}", "100000" in moved.repeats) == ("11-26 10:00", True)
    once = changed(daily, "move the tea reminder to Saturday", NOW)
    assert (f"{due_time(once):%m-%d %H:%M}", once.repeats) == ("11-28 15:20", daily.repeats)
    weekly = changed(reminder(1), "make the tea reminder weekly", NOW)
    assert (f"{due_time(weekly):%m-%d %H:%M}", weekly.repeats.split(":")[-1]) == (
        "12-02 15:20",
        "FREQ=WEEKLY;BYDAY=WE",
    )


@pytest.mark.parametrize(
    ("said", "missing", "answer", "when", "text"),
    [
        ("remind me next Friday to pay rent", "time", "at 9", "12-04 09:00", "pay rent"),
        ("remind me next Friday to pay rent", "time", "9", "12-04 09:00", "pay rent"),
        ("remind me next Friday to pay rent", "time", "morning", "12-04 09:00", "pay rent"),
        ("remind me next Friday to pay rent", "time", "noon please", "12-04 12:00", "pay rent"),
        ("remind me next Friday to pay rent", "time", "let's say 17:30", "12-04 17:30", "pay rent"),
        ("remind me to pay rent", "time", "tomorrow at 9", "11-26 09:00", "pay rent"),
        ("remind me to pay rent", "time", "in 2 hours", "11-25 17:20", "pay rent"),
        ("remind me next week to pay rent", "day", "Tuesday at 10", "12-01 10:00", "pay rent"),
        ("remind me yesterday at 9 to pay rent", "past", "tomorrow", "11-26 09:00", "pay rent"),
        ("remind me on 03/04 at 9 to pay rent", "day", "3 April", "04-03 09:00", "pay rent"),
        ("remind me every month to pay rent", "day", "on the 1st at 9", "12-01 09:00", "pay rent"),
        ("remind me every Friday to pay rent", "time", "at noon", "11-27 12:00", "pay rent"),
        ("remind me twice a day to pay rent", "time", "at 9am and 9pm", "11-25 21:00", "pay rent"),
        ("remind me every minute to pay rent", "rate", "every 2 hours", "11-25 17:20", "pay rent"),
        ("remind me at 18:00", "text", "buy milk", "11-25 18:00", "buy milk"),
        ("remind me to sing when the goal is done", "event", "at 6pm", "11-25 18:00", "sing"),
    ],
)
def test_a_short_answer_completes_a_request(
    said: str, missing: str, answer: str, when: str, text: str
) -> None:
    asked = read_reminder_request(said, NOW, UTC)
    assert (asked.missing, bool(asked.question)) == (missing, True)
    found = read_reminder_request(complete(asked, said, answer), NOW, UTC)
    assert found.when is not None
    assert f"{found.when:%m-%d %H:%M}" == when
    assert found.text.startswith(text)


def complete(asked: ReminderRequest, said: str, answer: str) -> str:
    """The whole message that ``answer`` makes of a request that was asked about; empty if it is no answer."""
    asks = AskedBack(
        template=format_template(asked, said), expects="text" if asked.missing == "text" else "time"
    )
    found = settle(read_utterance(answer), asks)
    return (found.joined or found.text).removeprefix("/reminder_set ") if found else ""


def test_what_is_no_answer_is_left_to_others() -> None:
    said = "remind me next Friday to pay rent"
    asked = read_reminder_request(said, NOW, UTC)
    for text in (
        "what is the weather?", "run the tests", "remind me tomorrow at 9 to eat", "who is Ana?", "Ana", "",
        "the build is done", "move the bank reminder to 10am", "9 people came to the meeting on Friday at 9",
    ):  # fmt: skip
        assert complete(asked, said, text) == "", text


def test_two_steps_lead_to_the_day_and_then_to_the_time() -> None:
    said = "remind me next week to pay rent"
    both = complete(read_reminder_request(said, NOW, UTC), said, "on Tuesday")
    step = read_reminder_request(both, NOW, UTC)
    assert step.missing == "time"
    assert "Tuesday 1 December" in step.question
    done = read_reminder_request(complete(step, both, "9"), NOW, UTC)
    assert f"{done.when:%m-%d %H:%M}" == "12-01 09:00"


def test_words_of_a_time() -> None:
    assert format_time_answer("9") == "at 9"
    assert format_time_answer("ok, 9:30 then") == "9:30"
    assert format_time_answer("the 24th") == "on the 24th"
    assert format_time_answer("evening") == "in the evening"
    for text in ("yes", "9 lives", "Ana", "the report is due on Friday at 9"):
        assert format_time_answer(text) == ""


def test_one_that_repeats_waits_for_its_next_time_when_it_went_off() -> None:
    daily = reminder(1, repeats="DTSTART:20240101T152000\nRRULE:FREQ=DAILY")
    late = NOW + timedelta(days=2, hours=1)
    fired = fire(daily, late, UTC)
    assert (fired.status, fired.runs) == (DueStatus.WAITING, 1)
    assert due_time(fired) == NOW + timedelta(days=3)
    snoozed = changed(fired, "snooze it", late)
    assert due_time(snoozed) == late + timedelta(minutes=30)
    assert due_time(fire(snoozed, late + timedelta(minutes=30), UTC)) == NOW + timedelta(days=3)
    assert finish(fired, late, UTC) == fired
    done = finish(snoozed, late, UTC)
    assert (due_time(done), done.status) == (due_time(fired), DueStatus.WAITING)
    assert end(fired, DueStatus.CANCELLED).status is DueStatus.CANCELLED


def test_the_last_of_what_repeats_ends_it() -> None:
    rule = "DTSTART:20261124T152000\nRRULE:FREQ=DAILY;COUNT=2"
    assert fire(reminder(1, repeats=rule), NOW, UTC).status is DueStatus.FIRED


def test_an_ended_one_stays_ended() -> None:
    done = end(reminder(1), DueStatus.DONE)
    assert end(done, DueStatus.DONE) == done
    with pytest.raises(ActionError, match="is done already"):
        end(done, DueStatus.CANCELLED)


def test_the_latest_that_are_over_are_kept_and_all_that_wait() -> None:
    over = LIMITS[DueKind.MAIL].over
    ended = [reminder(number, status=DueStatus.CANCELLED) for number in range(1, over + 50)]
    kept = [each.due_id for each in drop_oldest([reminder(0), *ended])]
    assert len(kept) == over + 1
    assert kept[0] == "r0000"
    assert kept[-1] == f"r{over + 49:04d}"


def test_undoing_leaves_what_went_off_since() -> None:
    one, two = reminder(1), reminder(2)
    known = [end(one, DueStatus.CANCELLED), fire(two, NOW, UTC)]
    assert undo_change(known, [one, two]) == [one]
    with pytest.raises(ActionError, match="no change of a reminder"):
        undo_change(known, [two])
    with pytest.raises(ActionError, match="Another reminder was changed since"):
        undo_change(known, [one], ["r0009"])


def test_one_is_found_by_id_its_beginning_its_words_or_its_time() -> None:
    late = to_timestamp(NOW.replace(hour=21, minute=0))
    reminders = [reminder(1), reminder(2), reminder(12, at=late)]

    def ids(words: str) -> list[str]:
        return [each.due_id for each in find_reminders(reminders, words, preferred=OPEN, zone=UTC)]

    assert ids("r0001") == ["r0001"]
    assert ids("tea 12") == ["r0012"]
    assert ids("9") == ids("9pm") == ["r0012"]
    assert ids("tea") == ["r0001", "r0002", "r0012"]
    for words in ("", "coffee", "r9", "8pm"):
        with pytest.raises(ActionError):
            ids(words)


def test_it_is_what_was_spoken_of_or_the_only_one() -> None:
    reminders = [reminder(1), reminder(2)]
    request = ReminderRequest(intent=ReminderIntent.CANCEL)
    assert [each.due_id for each in choose_reminders(reminders, request, ("r0002",), UTC)] == ["r0002"]
    assert len(choose_reminders(reminders, request, (), UTC)) == 2
    with pytest.raises(ActionError, match="no open reminders"):
        choose_reminders([], request, (), UTC)


@pytest.mark.parametrize(
    "word", ["mark the reminder ", "remind me ", "snooze ", "for 2 ", "cancel reminder about "]
)
def test_long_messages_are_understood_quickly(word: str) -> None:
    begun = time.perf_counter()
    text = word * (100_000 // len(word))
    for message in (text, text[:3_900]):
        find_intent(message)
        read_reminder_request(message, NOW, UTC)
        settle(read_utterance(message), AskedBack(template="Remind me {answer} to x", expects="time"))
    assert time.perf_counter() - begun < 2


@pytest.mark.parametrize(
    ("text", "when", "what"),
    [
        ("Set a timer for 25 minutes.", "11-25T15:45", "timer"),
        ("remind me twice a day at 8 and 20 to take the drops", "11-25T20:00", "take the drops"),
        ("remind me daily 7am vitamins", "11-26T07:00", "vitamins"),
        ("start a 20 minute timer for the eggs", "11-25T15:40", "the eggs"),
        ("remind me the evening before the 3rd of May to pack", "05-02T19:00", "pack"),
        (
            "Ana's exam is on 12 May, remind me a week before at 10 to buy flowers",
            "05-05T10:00",
            "buy flowers (Ana's exam)",
        ),
        ("I miss my eye drops so remind me at 16 every day", "11-25T16:00", "I miss my eye drops"),
        (
            "The vet is late again. Remind me at 4 to ring her",
            "11-25T16:00",
            "ring her (The vet is late again)",
        ),
        ("could u ping me at half 4 about the plumber", "11-25T16:30", "the plumber"),
        ("reminder: dentist 27 November 10.15", "11-27T10:15", "dentist"),
        ("alarm for tomorrow five thirty am", "11-26T05:30", "alarm"),
        ("make sure I don't forget to lock the coop at 9pm", "11-25T21:00", "lock the coop"),
        ("nudge me friday quarter past eleven re the drill", "11-27T11:15", "the drill"),
        ("remind me weekly on fridays at 8 to pay", "11-27T08:00", "pay"),
        (
            "remind me on saturday at 9 to check the timer of the oven",
            "11-28T09:00",
            "check the timer of the oven",
        ),
    ],
)
def test_timers_and_days_before_others_are_read(text: str, when: str, what: str) -> None:
    found = read_new(text, NOW, UTC)
    assert found.when is not None
    assert found.when.isoformat()[5:16] == when
    assert found.text.endswith(what)
    assert find_intent(text) is ReminderIntent.SET


def test_the_evening_before_a_day_that_nothing_names_is_asked_about() -> None:
    assert read_new("remind me the evening before to pack", NOW, UTC).missing == "day"
