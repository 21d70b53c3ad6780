"""The clock on the wall: zones by name, hours that are left out, moments as they are told."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from shared.clock import datetime_exists, format_moment, localize, read_zone
from shared.errors import ConfigError

ZURICH = ZoneInfo("Europe/Zurich")


def test_a_zone_by_its_name() -> None:
    assert read_zone("") is None
    assert read_zone("Europe/Zurich") == ZURICH
    for name in ("Mars/Olympus", "../etc/passwd", "/etc/localtime", "x" * 500, "Europe"):
        with pytest.raises(ConfigError, match=r"^MAILROOM_TIME_ZONE is .* which is no time zone\. Write"):
            read_zone(name)


def test_moments_are_told_with_their_zone() -> None:
    moment = datetime(2026, 11, 27, 13, 0, tzinfo=UTC)
    assert format_moment(moment, ZURICH) == "Friday 27 November 2026 at 14:00 (Europe/Zurich, UTC+01:00)"
    assert format_moment(moment, UTC) == "Friday 27 November 2026 at 13:00 (UTC)"
    assert format_moment(moment, ZoneInfo("America/St_Johns")).endswith(
        "at 09:30 (America/St_Johns, UTC-03:30)"
    )
    assert "13:00:05" in format_moment(moment + timedelta(seconds=5), UTC)


def test_an_hour_that_clocks_leave_out() -> None:
    assert not datetime_exists(datetime(2027, 3, 28, 2, 30), ZURICH)
    assert datetime_exists(datetime(2027, 3, 28, 3, 30), ZURICH)
    assert datetime_exists(datetime(2027, 10, 31, 2, 30), ZURICH)
    assert localize(datetime(2027, 10, 31, 2, 30), ZURICH).utcoffset() == timedelta(hours=2)
    here = datetime(2027, 1, 1, 12, 0)
    assert localize(here, None).replace(tzinfo=None) == here
