"""Time zones, and moments formatted for people."""

from datetime import UTC, date, datetime, time, timedelta, tzinfo

import msgspec

from shared.errors import ConfigError

ALWAYS = "always"  # The setting ``night`` without a window


def utc_now() -> datetime:
    """Now, in UTC. What waits for a time of day takes the clock as a parameter, which tests move."""
    return datetime.now(UTC)


def read_zone(name: str) -> tzinfo | None:
    """The time zone of that name, as in the setting time_zone; None for an empty one: this machine's.

    Raises ConfigError if there is no such zone.
    """
    if not name:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"MAILROOM_TIME_ZONE is {name[:60]!r}, which is no time zone", "Write it as in 'Europe/Zurich'"
        ) from None


def parse_timestamp(text: str) -> datetime:
    """An ISO 8601 timestamp as an aware moment, in UTC if it names no zone; raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def localize(wall: datetime, zone: tzinfo | None) -> datetime:
    """The naive local time ``wall`` as a moment in ``zone`` (None: this machine's)."""
    return wall.astimezone() if zone is None else wall.replace(tzinfo=zone)


def datetime_exists(wall: datetime, zone: tzinfo | None) -> bool:
    """Whether the local time ``wall`` exists in ``zone``: summer time skips an hour when it begins."""
    moment = localize(wall, zone)
    return moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == wall


def format_zone(moment: datetime) -> str:
    """The zone of an aware ``moment``: ``Europe/Zurich, UTC+01:00``, or ``UTC``."""
    offset = moment.utcoffset() or timedelta()
    sign, minutes = "-" if offset < timedelta() else "+", abs(int(offset.total_seconds())) // 60
    hours = f"UTC{sign}{minutes // 60:02d}:{minutes % 60:02d}" if offset else "UTC"
    name = getattr(moment.tzinfo, "key", None) or moment.tzname() or ""
    return hours if not name or name == hours or name.startswith(("UTC", "+", "-")) else f"{name}, {hours}"


def format_moment(moment: datetime, zone: tzinfo | None) -> str:
    """``moment`` as text in ``zone``: ``Friday 27 November 2026 at 14:00 (Europe/Zurich, ...)``.

    Seconds are included unless they are 0.
    """
    here = moment.astimezone(zone)
    clock = f"{here:%H:%M:%S}" if here.second else f"{here:%H:%M}"
    return f"{here:%A} {here.day} {here:%B %Y} at {clock} ({format_zone(here)})"


class NightWindow(msgspec.Struct, frozen=True):
    """The hours in which work for the night begins, in ``zone`` (None: this machine's).

    It runs over midnight if ``end`` is not after ``start``. When clocks change within it, the night is an
    hour longer or shorter, and begins and ends at these local times.
    """

    start: time
    end: time
    zone: tzinfo | None = None

    def find(self, now: datetime) -> tuple[datetime, datetime]:
        """The beginning and end, in UTC, of the night that it is at ``now``, else of the next one."""
        today = now.astimezone(self.zone).date()
        nights = (self._night(today + timedelta(days=ahead)) for ahead in (-1, 0, 1, 2))
        return next(night for night in nights if night[1] > now)

    def holds(self, now: datetime) -> bool:
        """Whether it is night at ``now``."""
        return self.find(now)[0] <= now

    def _night(self, day: date) -> tuple[datetime, datetime]:
        last = day if self.end > self.start else day + timedelta(days=1)
        begin = localize(datetime.combine(day, self.start), self.zone)
        # Of an hour that clocks show twice, the night has both.
        end = localize(datetime.combine(last, self.end.replace(fold=1)), self.zone)
        return begin.astimezone(UTC), end.astimezone(UTC)

    @property
    def is_always(self) -> bool:
        """Whether there is no day: a night is then a calendar day."""
        return self.start == self.end

    def __str__(self) -> str:
        return f"{self.start:%H:%M} to {self.end:%H:%M}"


def read_night(text: str, zone: tzinfo | None) -> NightWindow:
    """The window of the setting ``night``, as ``22:00-06:00``; ``always`` is from midnight to midnight."""
    start, _, end = ("00:00", "", "00:00") if text == ALWAYS else text.partition("-")
    return NightWindow(time.fromisoformat(start), time.fromisoformat(end), zone)
