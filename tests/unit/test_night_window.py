"""The night window: over midnight, by day, and in the nights in which clocks change."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cli.commands.later import parse_moment
from shared import settings
from shared.clock import NightWindow, read_night
from shared.errors import ConfigError

ZURICH = ZoneInfo("Europe/Zurich")
NIGHT = read_night("22:00-06:00", ZURICH)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZURICH)


@pytest.mark.parametrize(
    ("moment", "is_night"),
    [
        ("2026-11-23T21:59:59", False),
        ("2026-11-23T22:00:00", True),
        ("2026-11-24T00:00:00", True),
        ("2026-11-24T05:59:59", True),
        ("2026-11-24T06:00:00", False),
        ("2026-11-24T12:00:00", False),
    ],
)
def test_it_is_night_from_its_beginning_to_before_its_end(moment: str, is_night: bool) -> None:
    assert NIGHT.holds(at(moment)) is is_night


def test_a_window_within_a_day_and_one_of_the_whole_day() -> None:
    noon = read_night("12:00-13:00", ZURICH)
    assert noon.holds(at("2026-11-23T12:30:00"))
    assert not noon.holds(at("2026-11-23T23:30:00"))
    always = read_night("always", ZURICH)
    assert always.is_always
    assert always.find(at("2026-11-23T12:30:00")) == (at("2026-11-23T00:00:00"), at("2026-11-24T00:00:00"))


@pytest.mark.parametrize(
    ("day", "hours"),
    [("2026-03-28", 7), ("2026-10-24", 9), ("2026-11-23", 8)],
    ids=["spring", "autumn", "other"],
)
def test_a_night_in_which_clocks_change_keeps_its_local_times(day: str, hours: int) -> None:
    began, ends = NIGHT.find(at(f"{day}T23:00:00"))
    assert (began.astimezone(ZURICH).time(), ends.astimezone(ZURICH).time()) == (time(22), time(6))
    assert ends - began == timedelta(hours=hours)


def test_an_end_that_clocks_show_twice_or_never() -> None:
    short = read_night("23:00-02:30", ZURICH)
    began, ends = short.find(at("2026-10-24T23:30:00"))
    assert ends - began == timedelta(hours=4, minutes=30)
    began, ends = short.find(at("2026-03-28T23:30:00"))
    assert timedelta(hours=2, minutes=30) <= ends - began <= timedelta(hours=3, minutes=30)
    late = read_night("02:30-06:00", ZURICH)
    assert late.holds(at("2026-03-29T03:45:00"))
    assert not late.holds(at("2026-03-29T01:45:00"))


clocks = st.times().map(lambda clock: clock.replace(second=0, microsecond=0))


@given(
    clocks,
    clocks,
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
    st.sampled_from(["Europe/Zurich", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]),
)
def test_the_night_that_is_found_is_the_present_or_the_next_one(
    start: time, end: time, moment: datetime, zone: str
) -> None:
    window = NightWindow(start, end, ZoneInfo(zone))
    now = moment.replace(tzinfo=UTC)
    began, ends = window.find(now)
    assert now < ends
    assert began <= ends
    assert ends - now <= timedelta(hours=50)
    assert window.holds(now) is (began <= now)


@pytest.mark.parametrize("text", ["22-6", "24:00-06:00", "22:00", "at night", "22:00 - 06:00"])
def test_a_wrong_night_is_refused_with_an_example(tmp_path, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match="22:00-06:00"):
        settings.load({"MAILROOM_STATE_DIR": str(tmp_path), "MAILROOM_NIGHT": text})


def test_the_time_of_a_job_is_the_next_of_that_name() -> None:
    now = at("2026-11-23T12:00:00")
    assert parse_moment("23:30", now, ZURICH) == at("2026-11-23T23:30:00")
    assert parse_moment("2:05", now, ZURICH) == at("2026-11-24T02:05:00")
    assert parse_moment("2026-12-01T02:00", now, ZURICH) == at("2026-12-01T02:00:00")
    with pytest.raises(ValueError, match="hour must be in"):
        parse_moment("25:00", now, ZURICH)
