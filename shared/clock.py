"""The clock on the office's wall: the time zone of its people, and how moments are told to them."""

from datetime import UTC, datetime, timedelta, tzinfo

from shared.errors import ConfigError


def read_zone(name: str) -> tzinfo | None:
    """The time zone of that name, as in the setting time_zone; None for an empty one: this machine's.

    Raises ConfigError where there is no such zone.
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


def place(wall: datetime, zone: tzinfo | None) -> datetime:
    """The moment at which clocks in ``zone`` (None: this machine's) show ``wall``, which names no zone."""
    return wall.astimezone() if zone is None else wall.replace(tzinfo=zone)


def exists(wall: datetime, zone: tzinfo | None) -> bool:
    """Whether clocks in ``zone`` ever show ``wall``: they leave out an hour when summer time begins."""
    moment = place(wall, zone)
    return moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == wall


def tell_zone(moment: datetime) -> str:
    """The zone of an aware ``moment``: ``Europe/Zurich, UTC+01:00``, or ``UTC``."""
    offset = moment.utcoffset() or timedelta()
    sign, minutes = "-" if offset < timedelta() else "+", abs(int(offset.total_seconds())) // 60
    told = f"UTC{sign}{minutes // 60:02d}:{minutes % 60:02d}" if offset else "UTC"
    name = getattr(moment.tzinfo, "key", None) or moment.tzname() or ""
    return told if not name or name == told or name.startswith(("UTC", "+", "-")) else f"{name}, {told}"


def tell(moment: datetime, zone: tzinfo | None) -> str:
    """``moment`` as people in ``zone`` read it: ``Friday 27 November 2026 at 14:00 (Europe/Zurich, ...)``.

    Seconds are told where there are any.
    """
    here = moment.astimezone(zone)
    clock = f"{here:%H:%M:%S}" if here.second else f"{here:%H:%M}"
    return f"{here:%A} {here.day} {here:%B %Y} at {clock} ({tell_zone(here)})"
