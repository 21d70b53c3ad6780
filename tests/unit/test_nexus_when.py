"""When: times in plain words, and what is asked back."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.nexus.reminders.recurrence import (
    EVERY_DAY,
    decode_recurrence,
    encode_recurrence,
    format_recurrence,
    next_occurrence,
)
from services.nexus.reminders.time_parser import find_time, parse_time
from services.nexus.routing.calendar_range import parse_calendar_range
from shared.errors import ActionError

ZONE = ZoneInfo("Europe/Zurich")
NOW = datetime(2026, 11, 25, 15, 20, tzinfo=ZONE)  # a Wednesday

CLEAR = """
    call Ana tomorrow at 9                      | 2026-11-26 09:00 | call Ana
    tomorrow at 9 call Ana                      | 2026-11-26 09:00 | call Ana
    in 20 minutes to stretch                    | 2026-11-25 15:40 | to stretch
    next Friday 14:00 submit the report         | 2026-11-27 14:00 | submit the report
    next wednesday at 16:00 x                   | 2026-12-02 16:00 | x
    on Wednesday at 16:00 x                     | 2026-11-25 16:00 | x
    on Mon at 10 x                              | 2026-11-30 10:00 | x
    at 18:00 x                                  | 2026-11-25 18:00 | x
    tomorrow at 5pm x                           | 2026-11-26 17:00 | x
    tomorrow at 05:00 x                         | 2026-11-26 05:00 | x
    tomorrow 9                                  | 2026-11-26 09:00 |
    at 9.30 tomorrow                            | 2026-11-26 09:30 |
    in an hour and a half x                     | 2026-11-25 16:50 | x
    in 1h30m x                                  | 2026-11-25 16:50 | x
    in 2 hours and 30 minutes x                 | 2026-11-25 17:50 | x
    in half an hour x                           | 2026-11-25 15:50 | x
    in five minutes x                           | 2026-11-25 15:25 | x
    in 3 days x                                 | 2026-11-28 15:20 | x
    in 3 days at 9 x                            | 2026-11-28 09:00 | x
    in two weeks at 08:00 x                     | 2026-12-09 08:00 | x
    tonight at 8 watch                          | 2026-11-25 20:00 | watch
    this evening at 8 x                         | 2026-11-25 20:00 | x
    at 8 in the evening x                       | 2026-11-25 20:00 | x
    8 in the morning tomorrow x                 | 2026-11-26 08:00 | x
    tomorrow morning at 8 x                     | 2026-11-26 08:00 | x
    tomorrow at noon x                          | 2026-11-26 12:00 | x
    at midnight x                               | 2026-11-26 00:00 | x
    the day after tomorrow at 08:15 x           | 2026-11-27 08:15 | x
    on 24 December at 10:00 x                   | 2026-12-24 10:00 | x
    on December 24th at 10am x                  | 2026-12-24 10:00 | x
    on the 1st of January at 10:00 x            | 2027-01-01 10:00 | x
    24.12.2026 at 10:00 x                       | 2026-12-24 10:00 | x
    25/12/2026 at 10:00 x                       | 2026-12-25 10:00 | x
    2027-01-31T08:30 x                          | 2027-01-31 08:30 | x
    2027-01-31 08:30 x                          | 2027-01-31 08:30 | x
    29 February at 09:00 x                      | 2028-02-29 09:00 | x
    in 20 minutes about the 14:00 meeting       | 2026-11-25 15:40 | about the 14:00 meeting
    tomorrow at 9 about Friday's meeting        | 2026-11-26 09:00 | about Friday's meeting
    buy sun cream tomorrow at 9                 | 2026-11-26 09:00 | buy sun cream
    buy 2 kg of flour tomorrow at 17:30         | 2026-11-26 17:30 | buy 2 kg of flour
    may I call Ana tomorrow at 9                | 2026-11-26 09:00 | may I call Ana
    on the 3rd at 10:00 x                       | 2026-12-03 10:00 | x
    on the 31st at 10:00 x                      | 2026-12-31 10:00 | x
    at 18:00 about the 3rd chapter              | 2026-11-25 18:00 | about the 3rd chapter
    on the first of December at 9am x           | 2026-12-01 09:00 | x
    half past nine tomorrow x                   | 2026-11-26 09:30 | x
    tomorrow at quarter to ten x                | 2026-11-26 09:45 | x
    at nine tomorrow x                          | 2026-11-26 09:00 | x
    look at one thing tomorrow at 9             | 2026-11-26 09:00 | look at one thing
    in thirty-five minutes x                    | 2026-11-25 15:55 | x
    in one and a half hours x                   | 2026-11-25 16:50 | x
    20 minutes from now x                       | 2026-11-25 15:40 | x
    a week from today at 10:00 x                | 2026-12-02 10:00 | x
    in 3 months at 09:00 x                      | 2027-02-25 09:00 | x
    in a year and a half x                      | 2028-05-25 15:20 | x
    tmrw at 9 x                                 | 2026-11-26 09:00 | x
    at 9.30pm x                                 | 2026-11-25 21:30 | x
    Friday, November 27, 2026 at 9am x          | 2026-11-27 09:00 | x
    9am UTC tomorrow x                          | 2026-11-26 10:00 | x
    tomorrow at 9am EST x                       | 2026-11-26 15:00 | x
    tomorrow at 15:00 London time x             | 2026-11-26 16:00 | x
    2026-12-01T09:00Z x                         | 2026-12-01 10:00 | x
    2026-12-01T09:00:00+02:00 x                 | 2026-12-01 08:00 | x
    at 23:30 Asia/Tokyo x                       | 2026-11-25 15:30 | x
    every day at 9 x                            | 2026-11-26 09:00 | x
    daily at 18:00 x                            | 2026-11-25 18:00 | x
    each evening at 8 x                         | 2026-11-25 20:00 | x
    on Mondays at 9 x                           | 2026-11-30 09:00 | x
    every Tuesday and Friday at 9 x             | 2026-11-27 09:00 | x
    weekdays at 8:30 x                          | 2026-11-26 08:30 | x
    Mon-Fri at 9 x                              | 2026-11-26 09:00 | x
    call Ana tomorrow at 9 to plan              | 2026-11-26 09:00 | call Ana to plan
    at 18:00 write the weekly report            | 2026-11-25 18:00 | write the weekly report
    at 18:00 about next week's plan             | 2026-11-25 18:00 | about next week's plan
"""
ASKED_BACK = """
    call Ana                            | says no time
    tomorrow                            | 'tomorrow' says no time of day
    on Friday x                         | 'on Friday' says no time of day
    tomorrow morning x                  | says no time of day
    next week x                         | 'next week' says no time
    in a while x                        | says no time
    at 14:00 x                          | 14:00 has passed today
    at 9 x                              | does not say whether 21:00 is meant
    at 5 x                              | two ways: 05:00 or 17:00
    tomorrow at 5 x                     | two ways: 05:00 or 17:00
    yesterday at 09:00 x                | has passed
    2020-01-31 08:30 x                  | has passed
    03/04/2027 at 10:00 x               | the day first or the month
    tomorrow at 9 or 10 x               | names two times
    Monday at 9 and Tuesday at 10 x     | more than one time in that: 'Monday' and 'Tuesday'
    tomorrow at 9 and at 11 x           | more than one time
    every 2 hours x                     | repeated on days of the week, and 'every 2 hours' names none
    every other Monday at 9 x           | repeated on days of the week
    monthly on the 1st at 09:00 x       | repeated on days of the week
    twice a day x                       | repeated on days of the week
    every morning x                     | 'every morning' says no time of day
    every day at 5 x                    | two ways: 05:00 or 17:00
    every day at 9 until Friday x       | more than one time
    yesterday x                         | 'yesterday' has passed
    2 hours ago x                       | '2 hours ago' has passed
    2020-01-31 x                        | '2020-01-31' has passed
    last Friday at 09:00 x              | has passed
    next month on the 5th at 18:00 x    | I do not understand 'next month' beside
    on the 5th of next month at 18:00 x | I do not understand 'of next month' beside
    a week on Friday at 18:00 x         | I do not understand 'a week' beside
    Friday week at 18:00 x              | I do not understand 'week' beside
    tomorrow after 18:00 x              | I do not understand 'after' beside
    in 2 hours at 20:00 x               | I do not understand 'at 20:00' beside
    every day at 9 for a week x         | I do not understand 'for a week' beside
    on my birthday at 18:00 x           | I do not understand 'birthday' beside
    on our trip at 18:00 to pack        | I do not understand 'on our trip' beside
    on Thursday 27 November at 9:00 x   | '27 November' is a Friday
    from 9 to 10 tomorrow x             | says no time of day
    10 minutes before 18:00 x           | I do not understand '10 minutes before' beside
    at 18:00 BST x                      | names several time zones
    at 18:00 Nowhere time x             | no time zone that I know
    every day at 18:00 UTC+01:00 x      | needs a time zone with a name
    at 25:00 x                          | is no time of day
    tomorrow at 13pm x                  | is no time of day
    on 30 February at 10:00 x           | no day of the calendar
    31.11.2026 at 10:00 x               | no day of the calendar
    2027-03-28 02:30 x                  | leave out 02:30
    in 5000 days x                      | more than ten years ahead
    in 99999999999 days x               | too far ahead
    tomorrow at midnight x              | where that day begins or where it ends
"""


def rows(block: str) -> list[list[str]]:
    return [[part.strip() for part in line.split("|")] for line in block.strip().splitlines()]


@pytest.mark.parametrize(("text", "moment", "rest"), rows(CLEAR))
def test_a_clear_time(text: str, moment: str, rest: str) -> None:
    found = find_time(text, NOW, ZONE)
    assert found.moment.astimezone(ZONE).strftime("%Y-%m-%d %H:%M") == moment
    assert found.rest == rest


@pytest.mark.parametrize(("text", "reason"), rows(ASKED_BACK))
def test_what_is_not_clear_is_asked_back(text: str, reason: str) -> None:
    with pytest.raises(ActionError) as error:
        find_time(text, NOW, ZONE)
    assert reason in str(error.value)
    assert "Name one time, such as" in str(error.value)


def test_hours_run_by_the_clock_and_days_by_the_wall() -> None:
    before = datetime(2027, 3, 27, 12, 0, tzinfo=ZONE)
    assert find_time("in 1 day x", before, ZONE).moment.astimezone(ZONE).hour == 12
    assert find_time("in 24 hours x", before, ZONE).moment.astimezone(ZONE).hour == 13


def test_a_clock_that_shows_an_hour_twice_means_the_first_time() -> None:
    moment = find_time("2027-10-31 02:30 x", NOW, ZONE).moment
    assert moment.utcoffset() == timedelta(hours=2)


def test_the_zone_of_the_machine_where_none_is_set() -> None:
    moment = find_time("tomorrow at 9 x", NOW, None).moment
    assert moment.tzinfo is not None
    assert moment.astimezone().hour == 9


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("tomorrow at 9", "2026-11-26T08:00"),
        ("2027-01-31T08:30:00+00:00", "2027-01-31T08:30"),
        ("2027-01-31T08:30", "2027-01-31T07:30"),
        ("24. Dezember 10:00", "2026-12-24T09:00"),
        ("dans 20 minutes", "2026-11-25T14:40"),
    ],
)
def test_a_time_by_itself(text: str, moment: str) -> None:
    assert parse_time(text, NOW, ZONE).moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M") == moment


@pytest.mark.parametrize(
    "text", ["", "x", "soon", "24. Dezember", "morgen", "2020-01-31T08:30:00Z", "9" * 400]
)
def test_what_is_no_time_by_itself(text: str) -> None:
    with pytest.raises(ActionError):
        parse_time(text, NOW, ZONE)


@given(st.text(max_size=80))
def test_any_text_is_a_time_or_asked_back(text: str) -> None:
    try:
        assert find_time(text, NOW, ZONE).moment > NOW
    except ActionError as error:
        assert "\n" not in error.cause or "\n" in text


@pytest.mark.parametrize(
    "piece",
    ["in 1 ", "at 9 ", "on ", "1.", "next ", "in an hour and ", "12 of ", "every Monday and ", "the 3rd ",
     "half past ", "a week from ", "twice "],
)  # fmt: skip
def test_long_texts_are_read_quickly(piece: str) -> None:
    import time

    begun = time.perf_counter()
    with pytest.raises(ActionError):
        find_time(piece * (20_000 // len(piece)), NOW, ZONE)
    assert time.perf_counter() - begun < 2


@pytest.mark.parametrize(
    ("text", "start", "days"),
    [
        ("What is on my calendar?", "2026-11-25", 1),
        ("What is on my calendar tomorrow?", "2026-11-26", 1),
        ("my calendar on Friday", "2026-11-27", 1),
        ("the calendar for next week", "2026-11-30", 7),
        ("the calendar of this week", "2026-11-25", 5),
        ("my calendar for the next 3 days", "2026-11-25", 3),
        ("the calendar for the weekend", "2026-11-28", 2),
        ("when is my next meeting?", "2026-11-25", 30),
        ("the calendar on 24 December", "2026-12-24", 1),
    ],
)
def test_the_days_a_question_about_the_calendar_is_after(text: str, start: str, days: int) -> None:
    assert parse_calendar_range(text, NOW.date()) == (datetime.fromisoformat(start).date(), days)


@pytest.mark.parametrize(
    ("text", "written", "told"),
    [
        ("every day at 9", "mon,tue,wed,thu,fri,sat,sun 09:00", "every day at 09:00"),
        ("weekends at 10", "sat,sun 10:00", "every Saturday and Sunday at 10:00"),
        ("every weekday at 7:30", "mon,tue,wed,thu,fri 07:30", "every weekday at 07:30"),
        ("on Mondays, Wednesdays and Fridays at noon", "mon,wed,fri 12:00", ""),
        ("every Monday at 9:00 UTC", "mon 09:00 UTC", "every Monday at 09:00 (UTC)"),
    ],
)
def test_what_repeats_is_kept_as_it_was_said(text: str, written: str, told: str) -> None:
    repeat = find_time(text, NOW, ZONE).recurrence
    assert repeat is not None
    assert encode_recurrence(repeat) == written
    assert decode_recurrence(written) == repeat
    assert format_recurrence(repeat).startswith(told or "every Monday, ")


def test_what_repeats_keeps_to_the_clock_on_the_wall_when_summer_time_begins_and_ends() -> None:
    daily = decode_recurrence("mon,tue,wed,thu,fri,sat,sun 09:00")
    assert daily.weekdays == EVERY_DAY
    for day in (datetime(2027, 3, 27, 12, tzinfo=ZONE), datetime(2027, 10, 30, 12, tzinfo=ZONE)):
        assert next_occurrence(daily, day, ZONE).astimezone(ZONE).hour == 9
    gap = decode_recurrence("mon,tue,wed,thu,fri,sat,sun 02:30")
    moments = [datetime(2027, 3, 27, 1, tzinfo=ZONE)]
    for _ in range(4):
        moments.append(next_occurrence(gap, moments[-1], ZONE))
    assert [moment.astimezone(UTC).strftime("%d %H:%M") for moment in moments[1:]] == [
        "27 01:30", "28 01:30", "29 00:30", "30 00:30"
    ]  # fmt: skip
