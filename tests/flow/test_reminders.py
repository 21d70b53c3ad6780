"""Reminders: set in plain words, fired once at their time, put off, done, cancelled."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from services.nexus.__main__ import Nexus
from shared import subjects, timetable
from shared.contracts import (
    Due,
    DueKind,
    DueStatus,
    Email,
    Question,
    TaskStatus,
    TimerDue,
    Timetable,
)
from shared.tasks.profiles import load_profile
from shared.timetable import LIMITS, contents_record, due_record, read_timetable, set_timer, to_timestamp
from tests.support.classifying import serve_classifiers
from tests.support.later import keep_items
from tests.support.team import Team, open_team
from tests.support.waiting import eventually

NEXUS = load_profile(Path(__file__).parents[2] / "services" / "nexus" / "profile.yaml")


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(
        tmp_path, ["nexus", "memory", "engineer"], MAILROOM_TIME_ZONE="Europe/Zurich"
    ) as team:
        await serve_classifiers(team)
        yield team


async def join(team: Team) -> Any:
    return await team.join(Nexus, NEXUS)


async def recorded(team: Team) -> dict[str, Due]:
    return {each.text: each for each in (await read_timetable(team.user)).of(DueKind.MAIL)}


async def mail(team: Team) -> list[dict[str, Any]]:
    request = {"seq": 1, "next_by_subj": subjects.mail("user", "nexus"), "batch": 500}
    return [json.loads(stored.data) async for stored in team.user.read(subjects.OFFICE, request)]


async def reminded(team: Team, text: str) -> list[dict[str, Any]]:
    return [letter for letter in await mail(team) if letter.get("subject") == f"Reminder: {text}"]


async def stands(team: Team, text: str, status: DueStatus) -> None:
    async def reached() -> bool:
        found = (await recorded(team)).get(text)
        return found is not None and found.status is status

    await eventually(reached, 10)


async def write_record(team: Team, *reminders: Due) -> None:
    """What a nexus that was killed left behind: the records, and no timer."""
    await keep_items(await team.connect("nexus"), *reminders)


def reminder(text: str, due: datetime, **more: Any) -> Due:
    return Due(
        due_id=f"r{text}", what=DueKind.MAIL, text=text, requester="user", at=to_timestamp(due), **more
    )


async def test_plain_words_become_a_reminder_that_goes_off_once(team: Team) -> None:
    await join(team)
    question = Question(sender="user", recipient="nexus", text="Remind me in 4 seconds to stretch")
    await team.write(question, "nexus")
    response = await team.receive("nexus")
    assert response["route_used"] == "tool:reminder_set"
    assert response["cause"] == question.id
    assert response["text"].startswith("I shall remind you on ")
    assert "(Europe/Zurich, UTC+0" in response["text"]
    await stands(team, "stretch", DueStatus.FIRED)
    found = (await recorded(team))["stretch"]
    due, asked = datetime.fromisoformat(found.at), datetime.fromisoformat(question.created_at)
    assert due - asked == timedelta(seconds=4)
    assert datetime.fromisoformat(found.last_at) - due < timedelta(seconds=3)
    await asyncio.sleep(0.5)
    (letter,) = await reminded(team, "stretch")
    assert letter["type"] == "email.v1"
    assert f"mailroom reminders snooze {found.due_id}" in letter["body"]
    assert "late" not in letter["body"]


async def test_the_same_question_again_sets_no_second_one(team: Team) -> None:
    await join(team)
    question = Question(sender="user", recipient="nexus", text="Remind me in 2 hours to stretch")
    await team.write(question, "nexus")
    await team.receive("nexus")
    again = question.to_json().replace(b'"user_session_id":""', b'"user_session_id":"s2"')
    await team.user.store(subjects.mail("nexus", "user"), again)
    await asyncio.sleep(0.4)
    assert len((await read_timetable(team.user)).items) == 3  # and the two briefings


async def test_a_letter_that_waited_too_long_goes_off_at_once_and_says_so(team: Team) -> None:
    wrote = datetime.now(UTC) - timedelta(hours=2)
    question = Question(
        sender="user", recipient="nexus", text="Remind me in 20 minutes to eat", created_at=wrote.isoformat()
    )
    await team.write(question, "nexus")
    await join(team)
    await stands(team, "eat", DueStatus.FIRED)
    texts = [letter.get("text", "") for letter in await mail(team)]
    assert any("before I came to it, so it goes off now: eat" in text for text in texts)
    (letter,) = await reminded(team, "eat")
    assert "It comes late" in letter["body"]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Remind me to call Ana", "At what time? For example: tomorrow at 9"),
        ("Remind me to call Ana on 3 May 2031", "At what time on Saturday 3 May? For example: at 9"),
        ("Remind me on 1 January 2020 at 09:00 to call Ana", "Wednesday 1 January 2020 has passed"),
        ("Remind me every minute to drink", "at most every 5 minutes"),
        ("Remind me at 18:00", "What shall I remind you of?"),
        ("Remind me to call Ana when the goal is done", "not when something happens"),
    ],
)
async def test_what_is_not_clear_is_asked_back_and_nothing_is_set(team: Team, text: str, asked: str) -> None:
    await join(team)
    await team.write(Question(sender="user", recipient="nexus", text=text), "nexus")
    response = await team.receive("nexus")
    assert asked in response["text"]
    assert response["confidence"] == 0.0
    assert await recorded(team) == {}


async def test_one_that_came_due_while_nobody_was_there_is_late_and_says_so(team: Team) -> None:
    daily = {"repeats": "DTSTART:20240101T090000\nRRULE:FREQ=DAILY"}
    missed = reminder("run", datetime.now(UTC) - timedelta(days=3), **daily)
    await write_record(team, reminder("tea", datetime.now(UTC) - timedelta(hours=2)), missed)
    nexus = await join(team)
    await stands(team, "tea", DueStatus.FIRED)
    (letter,) = await reminded(team, "tea")
    assert "It comes late" in letter["body"]

    async def told() -> bool:
        return bool(await reminded(team, "run"))

    await eventually(told)
    for number in (1, 2):
        due = TimerDue(sender="nexus", recipient="nexus", due_id="rrun")
        await set_timer(nexus.context.bus, f"again{number}", due, datetime.now(UTC))
    await asyncio.sleep(0.5)
    (letter,) = await reminded(team, "run")
    assert "It comes late" in letter["body"]
    assert "It goes off again on" in letter["body"]
    waits = (await recorded(team))["run"]
    assert (waits.status, waits.runs) == (DueStatus.WAITING, 1)
    assert datetime.now(UTC) < datetime.fromisoformat(waits.at) < datetime.now(UTC) + timedelta(days=1)


async def test_a_timer_lost_between_record_and_broker_is_set_at_the_start(team: Team) -> None:
    await write_record(team, reminder("tea", datetime.now(UTC) + timedelta(seconds=1.5)))
    await join(team)
    await asyncio.sleep(0.3)
    assert (await recorded(team))["tea"].status is DueStatus.WAITING
    await stands(team, "tea", DueStatus.FIRED)
    assert len(await reminded(team, "tea")) == 1


async def test_a_timer_that_goes_off_twice_or_for_an_earlier_setting_tells_once(team: Team) -> None:
    nexus = await join(team)
    done = await team.perform("nexus", "set_reminder", text="tea in 1 second")
    reminder_id = done.metadata["reminder"]["due_id"]
    await stands(team, "tea", DueStatus.FIRED)
    for number in (1, 1, 2, 7):
        due = TimerDue(sender="nexus", recipient="nexus", due_id=reminder_id)
        await set_timer(nexus.context.bus, f"again{number}", due, datetime.now(UTC))
    await asyncio.sleep(1.2)
    assert len(await reminded(team, "tea")) == 1


async def test_one_further_ahead_than_the_broker_keeps_timers_is_set_again_on_the_way(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timetable, "MAX_TIMER", timedelta(seconds=0.5))
    await join(team)
    await team.perform("nexus", "set_reminder", text="tea in 3 seconds")
    await asyncio.sleep(1.5)
    assert (await recorded(team))["tea"].status is DueStatus.WAITING
    await stands(team, "tea", DueStatus.FIRED)
    found = (await recorded(team))["tea"]
    assert found.last_at >= found.at
    assert len(await reminded(team, "tea")) == 1


async def test_put_off_done_and_cancelled(team: Team) -> None:
    await join(team)
    await team.perform("nexus", "set_reminder", text="tea in 1 second")
    await stands(team, "tea", DueStatus.FIRED)
    snooze_until = await team.perform("nexus", "snooze_reminder", reminder="tea", minutes=1 / 60)
    assert snooze_until.metadata["reminder"]["runs"] == 1
    await stands(team, "tea", DueStatus.SNOOZED)
    await stands(team, "tea", DueStatus.FIRED)
    assert len(await reminded(team, "tea")) == 2
    await team.perform("nexus", "finish_reminder", reminder="tea")
    await stands(team, "tea", DueStatus.DONE)
    refused = await team.perform("nexus", "snooze_reminder", reminder="tea")
    assert "is done, so it cannot be put off" in refused.error_message
    other = await team.perform("nexus", "set_reminder", text="bread", when="in 1 second")
    await team.perform("nexus", "cancel_reminder", reminder=other.metadata["reminder"]["due_id"][:5])
    await asyncio.sleep(1.5)
    assert (await recorded(team))["bread"].status is DueStatus.CANCELLED
    assert await reminded(team, "bread") == []


async def test_one_that_is_not_there_is_said_in_a_sentence(team: Team) -> None:
    await join(team)
    for action in ("snooze_reminder", "finish_reminder", "cancel_reminder"):
        result = await team.perform("nexus", action, reminder="r12345")
        assert result.status is TaskStatus.FAILED
        assert result.error_message.startswith("There is no reminder 'r12345'.")
    for text in ("tea with Ana", "tea with Bob"):
        await team.perform("nexus", "set_reminder", text=text, when="in 2 hours")
    several = await team.perform("nexus", "cancel_reminder", reminder="tea")
    assert "may mean 2 reminders" in several.error_message
    listed = await team.perform("nexus", "list_reminders")
    assert [each["text"] for each in listed.metadata["reminders"]] == ["tea with Ana", "tea with Bob"]


async def test_more_than_the_most_are_refused(team: Team) -> None:
    later = datetime.now(UTC) + timedelta(days=2)
    await write_record(team, *(reminder(f"t{number}", later) for number in range(LIMITS[DueKind.MAIL].kept)))
    await join(team)
    result = await team.perform("nexus", "set_reminder", text="tea in 1 hour")
    assert "1,000 reminders are waiting" in result.error_message


async def test_words_about_reminders_do_what_they_say(team: Team) -> None:
    await join(team)
    await team.perform("nexus", "set_reminder", text="call Ana", when="in 1 hour")

    async def say(text: str) -> str:
        question = Question(sender="user", recipient="nexus", text=text)
        await team.write(question, "nexus")
        while True:
            for letter in await mail(team):
                if letter["cause"] == question.id:
                    outcomes.add(letter["outcome"])
                    return str(letter["text"])
            await asyncio.sleep(0.02)

    outcomes: set[str] = set()
    assert "call Ana: goes off on" in await say("What reminders do I have?")
    assert "is put off until" in await say("Snooze the reminder about Ana for 2 hours")
    day = f"{datetime.now(UTC) + timedelta(days=3):%-d %B %Y}"
    assert "is put off until" in await say(f"Move the reminder about Ana to {day} at 07:15")
    assert "at 07:15" in await say("What reminders do I have?")
    assert "is moved to" in await say(f"Move the reminder about Ana to {day} at 06:15")
    assert "call Ana: moved to" in await say("What reminders do I have?")
    assert "is cancelled" in await say("Please cancel the reminder about Ana")
    told = await say("Remind me every weekday at 8:30 to clock in")
    assert told.startswith("I shall remind you every weekday at 08:30, first on ")
    assert "is done for this time; it goes off again on" in await say("mark the clock in reminder as done")
    assert "is cancelled" in await say("cancel the reminder to clock in")
    assert await say("my reminders") == "There are no open reminders."
    assert "There are no open reminders" in await say("snooze it")
    assert outcomes == {"done", "failed"}
    outcomes.clear()
    await say("remind me to call Ana")
    assert outcomes == {"failed"}


async def test_a_letter_sets_one_too_and_is_answered_by_a_letter(team: Team) -> None:
    await join(team)
    wrote = Email(
        sender="user", recipient="nexus", subject="Please", body="Remind me in 2 hours to water the plants."
    )
    await team.write(wrote, "nexus")
    reply = await team.receive("nexus")
    assert reply["type"] == "email.v1"
    assert reply["in_reply_to"] == wrote.id
    assert "water the plants" in reply["body"]


async def test_many_that_are_set_and_due_at_the_same_moment_all_go_off_once(team: Team) -> None:
    await join(team)
    due, count = (datetime.now(UTC) + timedelta(seconds=2)).isoformat(), 60
    await asyncio.gather(
        *(team.perform("nexus", "set_reminder", text=f"thing {number}", when=due) for number in range(count))
    )

    async def all_went_off() -> bool:
        found = await recorded(team)
        return len(found) == count and {each.status for each in found.values()} == {DueStatus.FIRED}

    await eventually(all_went_off, 20)
    subjects_told = [letter["subject"] for letter in await mail(team) if "subject" in letter]
    assert sorted(subjects_told) == sorted(f"Reminder: thing {number}" for number in range(count))


async def test_short_answers_complete_and_change_also_after_a_restart(team: Team) -> None:
    nexus = await join(team)

    async def say(text: str) -> str:
        question = Question(sender="user", recipient="nexus", text=text, user_session_id="s1")
        await team.write(question, "nexus")
        while True:
            for letter in await mail(team):
                if letter["cause"] == question.id:
                    return str(letter["text"])
            await asyncio.sleep(0.02)

    assert "At what time on Friday" in await say("Remind me next Friday to pay rent")
    await team.leave(nexus)
    await join(team)
    assert await recorded(team) == {}
    assert "at 09:00" in await say("at 9")
    assert "at 10:00" in await say("make it 10 instead")
    assert "is cancelled" in await say("cancel that")
    assert (await recorded(team))["pay rent"].status is DueStatus.CANCELLED
    assert "at 10:00" in await say("undo the last change of my reminders")
    assert (await recorded(team))["pay rent"].status is DueStatus.SNOOZED
    for text in ("tea with Ana", "tea with Bob"):
        await say(f"remind me in 2 hours to have {text}")
    assert "Which one?" in await say("cancel the reminder about tea")
    assert "tea with Bob) is cancelled" in await say("the second one")
    assert (await recorded(team))["have tea with Ana"].status is DueStatus.WAITING


async def test_a_record_that_is_damaged_is_named_and_the_others_go_on(team: Team) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1.5)
    await write_record(team, reminder("tea", soon), reminder("bread", soon), reminder("milk", soon))
    bus = await team.connect("nexus")
    await bus.store(due_record("rbread"), b'{"type":"due.v1","due_id":')
    await join(team)
    for text in ("tea", "milk"):
        await stands(team, text, DueStatus.FIRED)
    listed = await team.perform("nexus", "list_reminders")
    assert [each["text"] for each in listed.metadata["reminders"]] == ["tea", "milk"]
    assert listed.output.endswith("Not shown, because their records are damaged: rbread.")
    added = await team.perform("nexus", "set_reminder", text="jam in 2 hours")
    assert added.status is TaskStatus.COMPLETED
    assert list((await read_timetable(team.user)).damaged) == ["rbread"]
    assert await reminded(team, "bread") == []
    await bus.store(contents_record(), b"{")
    listed = await team.perform("nexus", "list_reminders")
    assert {each["text"] for each in listed.metadata["reminders"]} == {"tea", "milk", "jam"}
    await team.perform("nexus", "finish_reminder", reminder="milk")
    known = await read_timetable(team.user)
    assert {"rtea", "rmilk", "rbread", "morning", "evening"} < set(known.contents.ids)


async def test_a_damaged_record_of_a_briefing_is_written_anew_at_the_start(team: Team) -> None:
    await write_record(team, reminder("tea", datetime.now(UTC) + timedelta(seconds=1)))
    bus = await team.connect("nexus")
    contents = Timetable(sender="nexus", ids=("rtea", "morning"))
    await bus.store(contents_record(), contents.to_json())
    await bus.store(due_record("morning"), b"{")
    await join(team)
    await stands(team, "tea", DueStatus.FIRED)
    known = await read_timetable(team.user)
    assert known.records["morning"].value.status is DueStatus.WAITING
    assert not known.damaged
