"""Hours: which time of day a phrase names."""

import re
from datetime import time

from services.nexus.phrases import DAY_PARTS, EXAMPLE
from shared.errors import ActionError

HOURS = ("hour", "hour2", "hour3", "hour4", "hour5")
"""The groups of TIMES that hold an hour."""


def read_hour(said: re.Match[str], part: str, is_today: bool, here: time) -> time:
    """The time of day that a phrase of TIMES names, in the ``part`` of the day that is named, if any.

    Raises ActionError, which asks back, where it is none, or can be read in two ways. ``here`` is what the
    clock shows: an hour that has passed on the day itself may mean the one twelve hours later.
    """
    phrase = said[0].strip()
    if said["either"]:
        raise ActionError(f"{phrase!r} names two times", EXAMPLE)
    if said["word"]:
        return time(0) if said["word"].lower() == "midnight" else time(12)
    digits = next(filter(None, (said[name] for name in HOURS)))
    hour, minute = int(digits), int(said["minute"] or said["minute2"] or said["minute4"] or 0)
    half = (said["half_day"] or said["half_day2"] or "").lower().replace(".", "")
    if hour > 23 or minute > 59 or (half and not 1 <= hour <= 12):
        raise ActionError(f"{phrase!r} is no time of day", EXAMPLE)
    if half:
        return time(hour % 12 + (12 if half == "pm" else 0), minute)
    if hour > 12 or hour == 0 or digits.startswith("0"):
        return time(hour, minute)
    if part in DAY_PARTS:
        return _in_part(hour, minute, part, phrase)
    later = time(hour % 12 + 12, minute)
    if hour < 7:
        raise ActionError(
            f"{phrase!r} can be read in two ways: {hour:02d}:{minute:02d} or {later:%H:%M}", EXAMPLE
        )
    if hour < 12 and is_today and time(hour, minute) <= here < later:
        raise ActionError(
            f"{hour:02d}:{minute:02d} has passed today, and {phrase!r} does not say whether "
            f"{later:%H:%M} is meant or another day",
            EXAMPLE,
        )
    return time(hour, minute)


def _in_part(hour: int, minute: int, part: str, phrase: str) -> time:
    first, last = DAY_PARTS[part]
    fitting = [each for each in (hour % 24, (hour + 12) % 24) if first <= each <= last]
    if len(fitting) != 1:
        raise ActionError(f"{phrase!r} is no time of the {part}", EXAMPLE)
    return time(fitting[0], minute)
