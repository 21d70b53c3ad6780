"""The time zones that people name behind a time of day."""

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

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
"""The zone of each abbreviation. Standard and summer time are one: people say EST in summer too."""
_SEVERAL = ("AST", "BST", "CST", "IST", "SST")
_OFFSET = r"[+-]\d{1,2}(?::?[0-5]\d)?(?![\d:])"
ZONE = re.compile(
    rf"\s*\(?(?:(?P<utc>(?:UTC|GMT)(?P<utc_offset>{_OFFSET})?|Z)(?!\w)|(?P<offset>{_OFFSET})"
    r"|(?P<name>[A-Z][a-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?)"
    rf"|(?P<short>{'|'.join((*_REGIONS, *_SEVERAL))})\b"
    r"|(?P<city>[A-Z][a-z]+(?:\s[A-Z][a-z]+){0,2})\s+(?:local\s+)?time\b)\)?"
)
"""A zone right behind a time of day; in capitals, since "est" and "met" are words."""


def parse_zone(match: re.Match[str]) -> tzinfo:
    """The zone that a match of ZONE names; raises ActionError if it is unknown or ambiguous."""
    if match["utc"] or match["offset"]:
        offset = match["utc_offset"] or match["offset"] or ""
        if not offset:
            return UTC
        digits = re.sub(r"\D", "", offset)
        hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
        if hours > 14:
            raise ActionError(f"{offset!r} is no time zone", _ZONE_CURE)
        away = timedelta(hours=hours, minutes=minutes)
        return timezone(-away if offset.startswith("-") else away)
    if match["short"] in _SEVERAL:
        raise ActionError(f"{match['short']!r} names several time zones", _ZONE_CURE)
    name = match["name"] or _REGIONS.get(match["short"] or "") or _cities().get((match["city"] or "").lower())
    try:
        return ZoneInfo(name or "")
    except (KeyError, ValueError, OSError):
        named = match["name"] or f"{match['city']} time"
        raise ActionError(f"{named!r} is no time zone that I know", _ZONE_CURE) from None


_ZONE_CURE = "Write it as in '9:00 Europe/London' or '9:00 UTC+01:00'."


@cache
def _cities() -> dict[str, str]:
    return {name.rpartition("/")[2].replace("_", " ").lower(): name for name in available_timezones()}


def zone_name(zone: tzinfo) -> str:
    """The name of ``zone`` as a recurrence stores it; raises ActionError for a fixed offset."""
    name = "UTC" if zone is UTC else getattr(zone, "key", "")
    if not name:
        raise ActionError("What repeats needs a time zone with a name, for its clocks may change", _ZONE_CURE)
    return str(name)
