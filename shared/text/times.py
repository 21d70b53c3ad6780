"""Times and spans: parsing what people type, and formatting."""

import re
from datetime import UTC, datetime

SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def parse_span(text: str) -> float:
    """Seconds of a span such as ``90s``, ``10m`` or ``1h30m``; raises ValueError."""
    if not re.fullmatch(f"(?:{SPAN.pattern})+", text):
        raise ValueError(f"{text!r} is not a span of time such as 90s, 10m, 1h30m or 2d")
    return sum(float(number) * _SECONDS[unit] for number, unit in SPAN.findall(text))


def parse_time(text: str) -> datetime:
    """An ISO 8601 time in UTC (local time if it has no zone), with up to nine decimals. Raises ValueError."""
    shortened = re.sub(r"(\.\d{6})\d+", r"\1", text.strip())
    try:
        return datetime.fromisoformat(shortened).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is neither a span such as 10m nor a time such as 2026-01-31T14:30"
        ) from None


def format_span(seconds: float) -> str:
    """A span in at most six characters: ``12 ms``, ``3.4 s``, ``2m05s``, ``3h12m``, ``4d07h``."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h"


def seconds_between(start: str, end: str = "") -> float:
    """Seconds from one timestamp to another (default: now); 0 if one of them is no time."""
    try:
        until = parse_time(end) if end else datetime.now(UTC)
        return (until - parse_time(start)).total_seconds()
    except ValueError:
        return 0.0


def format_clock(time: str) -> str:
    """The local time of day in milliseconds."""
    local = parse_time(time).astimezone()
    return f"{local:%H:%M:%S}.{local.microsecond // 1000:03d}"


def format_date(time: str) -> str:
    """Local date and time of day in seconds."""
    return f"{parse_time(time).astimezone():%Y-%m-%d %H:%M:%S}"


def format_utc(time: datetime) -> str:
    """ISO 8601 in UTC, as the server and the contracts require it."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
