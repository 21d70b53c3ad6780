"""Spans and times as people write and read them."""

from datetime import UTC, datetime, timedelta

import click
import pytest

from services.cli.commands.options import TimeType
from shared.text.times import (
    format_clock,
    format_span,
    format_utc,
    parse_span,
    parse_time,
    seconds_between,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("1.5h", 5400), ("250ms", 0.25)],
)
def test_spans_are_read(text: str, seconds: float) -> None:
    assert parse_span(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "ten minutes", "10m ago", "-5m", "5w"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a span of time"):
        parse_span(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 ms"),
        (0.0123, "12 ms"),
        (3.44, "3.4 s"),
        (125, "2m05s"),
        (3 * 3600 + 12 * 60, "3h12m"),
        (4 * 86_400 + 7 * 3600, "4d07h"),
    ],
)
def test_spans_are_written_short(seconds: float, text: str) -> None:
    assert format_span(seconds) == text


def test_the_servers_nanoseconds_are_read() -> None:
    assert parse_time("2026-01-02T14:30:22.123456789Z") == datetime(2026, 1, 2, 14, 30, 22, 123456, UTC)


def test_a_time_without_zone_is_local() -> None:
    assert parse_time("2026-01-02T14:30") == datetime(2026, 1, 2, 14, 30).astimezone(UTC)


def test_seconds_between_two_times_of_different_zones() -> None:
    assert seconds_between("2026-01-02T14:30:00+02:00", "2026-01-02T12:30:01.5Z") == 1.5


def test_the_clock_shows_milliseconds() -> None:
    assert format_clock("2026-01-02T14:30:22.123987+00:00").endswith(":22.123")


def test_past_and_future_options_take_spans_and_times() -> None:
    now = datetime.now(UTC)
    past, future = TimeType().convert("10m", None, None), TimeType(future=True).convert("1h", None, None)
    assert abs(past - (now - timedelta(minutes=10))) < timedelta(seconds=5)
    assert abs(future - (now + timedelta(hours=1))) < timedelta(seconds=5)
    assert TimeType().convert("2026-01-02T00:00:00Z", None, None) == datetime(2026, 1, 2, tzinfo=UTC)


def test_wire_times_are_utc() -> None:
    assert format_utc(parse_time("2026-01-02T14:30:00+02:00")) == "2026-01-02T12:30:00.000000Z"


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "99999999999d", "-10m", "9999-12-31T23:59:59-14:00"])
def test_what_is_no_moment_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.BadParameter):
        TimeType().convert(text, None, None)


def test_a_deadline_in_the_past_is_a_usage_error() -> None:
    with pytest.raises(click.BadParameter, match="has passed"):
        TimeType(future=True).convert("2020-01-01", None, None)
