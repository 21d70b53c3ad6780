"""Spans: the moment that lies so much later."""

import calendar
from datetime import UTC, datetime, timedelta, tzinfo

from services.nexus.phrases import EXAMPLE, LONG_UNITS, MONTHLY_UNITS, NUMBERS, UNITS
from services.nexus.reading import Found
from shared.clock import place
from shared.errors import ActionError


def go_ahead(here: datetime, found: Found, zone: tzinfo | None) -> datetime:
    """So much later: hours and shorter by the clock that runs, days and longer by the one on the wall."""
    said = found.said
    seconds = days = months = 0.0
    half = "0.5" if said["half"] else None
    for number, named in (
        (said["number"], said["unit"]),
        (said["more"], said["more_unit"]),
        (half, said["unit"]),
    ):
        if not number:
            continue
        size = NUMBERS.get(" ".join(number.lower().split())) or float(number)
        unit = named.strip()[:2].lower()
        if unit in MONTHLY_UNITS:
            months += size * MONTHLY_UNITS[unit]
        elif unit in LONG_UNITS:
            days += size * LONG_UNITS[unit]
        else:
            seconds += size * UNITS[unit[0]]
    try:
        if months:
            here = place(_months_later(here, months, found.phrase), zone)
        if days:
            here = place((here + timedelta(days=days)).replace(tzinfo=None, fold=0), zone)
        return (here.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(zone) if seconds else here
    except (OverflowError, ValueError):
        raise ActionError(f"{found.phrase!r} is too far ahead", EXAMPLE) from None


def _months_later(here: datetime, months: float, phrase: str) -> datetime:
    """The same day of a later month, or its last day where it has no such day."""
    if months % 1:
        raise ActionError(f"{phrase!r} is no whole number of months", EXAMPLE)
    later = here.year * 12 + here.month - 1 + int(months)
    last = calendar.monthrange(later // 12, later % 12 + 1)[1]
    wall = here.replace(tzinfo=None, fold=0)
    return wall.replace(year=later // 12, month=later % 12 + 1, day=min(here.day, last))
