"""Zones: the time zone that stands behind a time, such as "9:00 UTC" or "3 pm London time"."""

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from services.nexus.phrases import EXAMPLE
from shared.errors import ActionError

_REGIONS = {
    **dict.fromkeys(("ET", "EST", "EDT"), "America/New_York"),
    **dict.fromkeys(("CT", "CDT"), "America/Chicago"),
    **dict.fromkeys(("MT", "MST", "MDT"), "America/Denver"),
    **dict.fromkeys(("PT", "PST", "PDT"), "America/Los_Angeles"),
    **dict.fromkeys(("CET", "CEST", "MEZ", "MESZ"), "Europe/Paris"),
    **dict.fromkeys(("EET", "EEST"), "Europe/Athens"),
    **dict.fromkeys(("WET", "WEST"), "Europe/Lisbon"),
    **dict.fromkeys(("AEST", "AEDT"), "Australia/Sydney"),
    "JST": "Asia/Tokyo",
}
"""Where people are who say so; that they say EST in summer too does not make it another hour there."""
_SEVERAL = ("AST", "BST", "CST", "IST", "SST")
_OFFSET = r"[+-]\d{1,2}(?::?[0-5]\d)?(?![\d:])"
ZONE = re.compile(
    rf"\s*\(?(?:(?P<utc>(?:UTC|GMT)(?P<utc_offset>{_OFFSET})?|Z)(?!\w)|(?P<offset>{_OFFSET})"
    r"|(?P<name>[A-Z][a-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?)"
    rf"|(?P<short>{'|'.join((*_REGIONS, *_SEVERAL))})\b"
    r"|(?P<city>[A-Z][a-z]+(?:\s[A-Z][a-z]+){0,2})\s+(?:local\s+)?time\b)\)?"
)
"""What may stand right behind a time of day; in capitals, since "est" and "met" are words."""


def read_named_zone(said: re.Match[str]) -> tzinfo:
    """The zone that a match of ZONE names; raises ActionError where that is no zone, or may be several."""
    if said["utc"] or said["offset"]:
        return _fixed(said["utc_offset"] or said["offset"] or "")
    if said["short"] in _SEVERAL:
        raise ActionError(f"{said['short']!r} names several time zones", _CURE)
    name = said["name"] or _REGIONS.get(said["short"] or "") or _cities().get((said["city"] or "").lower())
    try:
        return ZoneInfo(name or "")
    except (KeyError, ValueError, OSError):
        named = said["name"] or f"{said['city']} time"
        raise ActionError(f"{named!r} is no time zone that I know", _CURE) from None


_CURE = f"Write it as in '9:00 Europe/London' or '9:00 UTC+01:00'. {EXAMPLE}"


def _fixed(offset: str) -> tzinfo:
    if not offset:
        return UTC
    digits = re.sub(r"\D", "", offset)
    hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    if hours > 14:
        raise ActionError(f"{offset!r} is no time zone", _CURE)
    away = timedelta(hours=hours, minutes=minutes)
    return timezone(-away if offset.startswith("-") else away)


@cache
def _cities() -> dict[str, str]:
    return {name.rpartition("/")[2].replace("_", " ").lower(): name for name in available_timezones()}


def name_zone(zone: tzinfo) -> str:
    """The name under which ``zone`` is kept for what repeats; raises ActionError for a mere offset."""
    name = "UTC" if zone is UTC else getattr(zone, "key", "")
    if not name:
        raise ActionError("What repeats needs a time zone with a name, for its clocks may change", _CURE)
    return str(name)
