"""Goals on a schedule, as data: their rules, their next runs, and what becomes of runs that were missed."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.nexus.timetable.schedule_words import describe, read_rule, read_when
from services.nexus.timetable.scheduled_goals import advance, find_scheduled, pause, remove, resume
from shared.contracts import Due, DueKind, DueStatus
from shared.errors import ActionError
from shared.recurrence import format_recurrence, next_occurrence
from shared.timetable import LIMITS, drop_oldest, due_time, list_next, require_room

ZURICH = ZoneInfo("Europe/Zurich")
NOW = datetime(2026, 11, 23, 9, 30, tzinfo=ZURICH)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZURICH)


def make(when: str, now: datetime = NOW, **fields: object) -> Due:
    found = read_when(when, now, ZURICH)
    first = found.first.isoformat()
    known = {"due_id": "s1", "what": DueKind.GOAL, "text": "Check up on /srv/shop", "requester": "user"}
    return Due(**{**known, "repeats": found.repeats, "at": first, **fields})  # type: ignore[arg-type]


moment = due_time


@pytest.mark.parametrize(
    ("when", "first", "second"),
    [
        ("every weekday at 7:00", "2026-11-24T07:00", "2026-11-25T07:00"),
        ("every day at 02:00", "2026-11-24T02:00", "2026-11-25T02:00"),
        ("RRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=7;BYMINUTE=0", "2026-11-30T07:00", "2026-12-07T07:00"),
        ("FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=18", "2026-11-30T18:00", "2026-12-31T18:00"),
        ("FREQ=MINUTELY;INTERVAL=20", "2026-11-23T09:50", "2026-11-23T10:10"),
        ("FREQ=DAILY;BYHOUR=9,15;BYMINUTE=45", "2026-11-23T09:45", "2026-11-23T15:45"),
        ("DTSTART:20261201T080000 RRULE:FREQ=DAILY;INTERVAL=2", "2026-12-01T08:00", "2026-12-03T08:00"),
    ],
)
def test_the_next_runs(when: str, first: str, second: str) -> None:
    assert list_next(make(when), ZURICH, 2) == [at(first), at(second)]


@pytest.mark.parametrize(
    "when",
    [
        "FREQ=SECONDLY",
        "FREQ=DAILY",
        "FREQ=DAILY;BYHOUR=25",
        "FREQ=DAILY;BYHOUR=7;FREQ=WEEKLY",
        "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=7",
        "FREQ=DAILY;BYHOUR=7;BYEASTER=1",
        "FREQ=DAILY;BYHOUR=7;COUNT=1000000",
        "FREQ=DAILY;BYHOUR=7;INTERVAL=0",
        "FREQ=DAILY;BYHOUR=7;UNTIL=20200101",
        "FREQ=DAILY;BYHOUR=7;UNTIL=soon",
        "FREQ=DAILY;BYHOUR=",
        "DTSTART:soon RRULE:FREQ=DAILY",
        "RRULE:FREQ=DAILY;BYHOUR=7 RRULE:FREQ=DAILY;BYHOUR=8",
        "whenever it suits",
        "FREQ=WEEKLY;BYDAY=XX;BYHOUR=7",
        "RRULE:" + "FREQ=DAILY;" * 1000,
    ],
)
def test_a_time_that_is_not_clear_or_never_comes_is_refused_with_a_cure(when: str) -> None:
    with pytest.raises(ActionError) as refused:
        make(when)
    assert refused.value.cure
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("day", ["2026-03-28", "2026-10-24"])
def test_a_daily_run_keeps_its_local_time_when_clocks_change(day: str) -> None:
    runs = list_next(make("every day at 7:00", at(f"{day}T06:00")), ZURICH, 3)
    assert [run.astimezone(ZURICH).hour for run in runs] == [7, 7, 7]
    assert len({run.astimezone(ZURICH).date() for run in runs}) == 3


def test_a_run_in_the_hour_that_is_skipped_or_comes_twice_happens_once() -> None:
    spring = list_next(make("every day at 02:30", at("2026-03-28T12:00")), ZURICH, 2)
    assert [run.astimezone(ZURICH).strftime("%d %H:%M") for run in spring] == ["29 03:30", "30 02:30"]
    autumn = list_next(make("every day at 02:30", at("2026-10-24T12:00")), ZURICH, 2)
    assert [run.astimezone(ZURICH).strftime("%d %H:%M") for run in autumn] == ["25 02:30", "26 02:30"]


def test_a_run_at_its_time_goes_on_with_the_next_one() -> None:
    schedule = make("every day at 7:00")
    run = advance(schedule, moment(schedule), ZURICH)
    assert run.moment == at("2026-11-24T07:00")
    assert moment(run.after) == at("2026-11-25T07:00")
    assert (run.after.missed, run.after.note) == (0, "")


def test_what_was_missed_for_less_than_a_day_runs_once() -> None:
    run = advance(make("every day at 7:00"), at("2026-11-27T12:00"), ZURICH)
    assert run.moment == at("2026-11-27T07:00")
    assert moment(run.after) == at("2026-11-28T07:00")
    assert run.after.missed == 3
    assert run.after.note.endswith("began late, because Mailroom was stopped; 3 earlier runs left out")


def test_what_is_more_than_a_day_late_is_noted_and_does_not_run() -> None:
    schedule = make("FREQ=WEEKLY;BYDAY=MO;BYHOUR=7")
    run = advance(schedule, at("2026-12-02T12:00"), ZURICH)
    assert run.moment is None
    assert moment(run.after) == at("2026-12-07T07:00")
    assert run.after.missed == 1
    assert "Monday 30 November 2026 at 07:00" in run.after.note
    assert "more than a day" in run.after.note
    once = advance(make("tomorrow at 7:00"), at("2026-12-24T12:00"), ZURICH)
    assert (once.moment, once.after.status, list_next(once.after, ZURICH)) == (None, DueStatus.DONE, [])


def test_a_run_is_left_out_while_the_one_before_works_and_that_is_said() -> None:
    schedule = make("FREQ=MINUTELY")
    run = advance(schedule, moment(schedule), ZURICH, "goal_7 still works")
    assert run.moment is None
    assert run.after.missed == 1
    assert run.after.note.endswith("was left out: goal_7 still works")


def test_every_minute_for_a_month_of_being_stopped_is_one_run() -> None:
    run = advance(make("FREQ=MINUTELY"), NOW + timedelta(days=30), ZURICH)
    assert run.moment == NOW + timedelta(days=30)
    assert moment(run.after) == NOW + timedelta(days=30, minutes=1)


def test_a_single_run_ends_its_schedule_and_so_does_the_last_of_a_rule() -> None:
    once = make("tomorrow at 7:00")
    assert not once.repeats
    run = advance(once, moment(once), ZURICH)
    assert run.moment == at("2026-11-24T07:00")
    assert run.after.status is DueStatus.DONE
    twice = make("FREQ=DAILY;BYHOUR=7;UNTIL=20261125")
    run = advance(twice, moment(twice), ZURICH)
    assert run.after.status is DueStatus.DONE


def test_pausing_makes_up_for_nothing() -> None:
    paused = pause(make("every day at 7:00"))
    assert (paused.status, list_next(paused, ZURICH)) == (DueStatus.PAUSED, [])
    again = resume(paused, at("2026-12-01T12:00"), ZURICH)
    assert moment(again) == at("2026-12-02T07:00")
    with pytest.raises(ActionError, match="no further run"):
        resume(pause(make("tomorrow at 7:00")), NOW, ZURICH)


def test_schedules_are_found_by_id_and_words_and_old_ones_are_dropped() -> None:
    most, over = LIMITS[DueKind.GOAL][:2]
    known = [
        make("every day at 7:00", due_id=f"s{number:03}", text=f"Look {number:03}") for number in range(most)
    ]
    require_room(known[:-1], known[-1:])
    with pytest.raises(ActionError, match="200 schedules already"):
        require_room(known, [make("every day at 7:00", due_id="more")])
    assert find_scheduled(known, "s017").text == "Look 017"
    assert find_scheduled(known, "look 199").due_id == "s199"
    with pytest.raises(ActionError, match="may mean 10 schedules"):
        find_scheduled(known, "s01")
    known = drop_oldest([*(remove(each) for each in known[:60]), *known[60:]])
    assert len(known) == most - 60 + over
    with pytest.raises(ActionError, match="no schedule 's059'"):
        find_scheduled(known, "s059")


@settings(deadline=None, max_examples=40)
@given(
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1)),
    st.sampled_from(
        ["every day at 02:30", "FREQ=MINUTELY;INTERVAL=7", "FREQ=HOURLY", "every Monday at 12:00"]
    ),
    st.timedeltas(timedelta(0), timedelta(days=2)),
)
def test_the_next_run_lies_always_ahead_and_no_run_is_older_than_a_day(
    start: datetime, when: str, late: timedelta
) -> None:
    schedule = make(when, start.replace(tzinfo=UTC))
    now = moment(schedule) + late
    run = advance(schedule, now, ZURICH)
    assert moment(run.after) > now
    assert run.moment is None or timedelta(0) <= now - run.moment <= timedelta(days=1)


def test_rules_are_told_in_words() -> None:
    assert describe(make("every weekday at 7:00").repeats, NOW, ZURICH) == "every weekday at 07:00"
    odd = read_rule("FREQ=YEARLY;BYMONTH=1,7;BYMONTHDAY=1;BYHOUR=7", NOW, ZURICH)
    assert "BYMONTH=1,7" in describe(format_recurrence(odd), NOW, ZURICH)
    assert next_occurrence(odd, NOW, ZURICH) == at("2027-01-01T07:00")
    assert msgspec.json.decode(msgspec.json.encode(odd))
