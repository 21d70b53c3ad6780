"""Whether an answer tells what was said: the time, the words, the place, the value that the message names.

Only what a person can see is judged: the answer's text, and the whole message that it asks to complete.
"""

import re
from collections.abc import Iterator
from typing import Any

from shared.text.prose import find_stems

TELLING = frozenset(
    (
        "arithmetic calendar calendar_add clock correct night_job papers remember reminder_change"
        " reminder_set schedule web work"
    ).split()
)
"""The tools whose answers tell what they understood; the others name what they found."""
LEAST_WORDS = 2 / 3
"""The least share of the words of a text that must be told: people label in their own words."""
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS = {
    "MO": "Monday",
    "TU": "Tuesday",
    "WE": "Wednesday",
    "TH": "Thursday",
    "FR": "Friday",
    "SA": "Saturday",
    "SU": "Sunday",
}
_WEEKDAYS = "MO,TU,WE,TH,FR"
_ISO = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?:T(?P<clock>\d\d:\d\d))?")


def judge(tool: str, slots: dict[str, Any], told: str) -> Iterator[tuple[str, bool]]:
    """Each slot that can be judged, and whether ``told`` has it."""
    if tool not in TELLING:
        return
    for name, value in slots.items():
        if isinstance(value, str) and (name != "time" or _ISO.fullmatch(value) or value.startswith("FREQ=")):
            kind = "time" if _ISO.fullmatch(value) else name
            yield name, _is_told(kind, value, told)


def _is_told(name: str, value: str, told: str) -> bool:
    if name == "time":
        return _has_time(value, told)
    if name in ("text", "topic"):
        wanted = find_stems(value)
        return len(wanted & find_stems(told)) >= LEAST_WORDS * len(wanted)
    return bool(re.search(rf"(?i)(?<![\w.]){re.escape(value)}(?!\w)", told.replace(",", "")))


def _has_time(value: str, told: str) -> bool:
    if found := _ISO.fullmatch(value):
        day = f"{int(found['day'])} {_MONTHS[int(found['month']) - 1]}"
        dated = value[:10] in told or bool(re.search(rf"\b{day}\b", told))
        return dated and (found["clock"] or "") in told
    rule = dict(part.split("=", 1) for part in value.split(";"))
    clock = (
        f"{int(rule['BYHOUR'].split(',')[0]):02}:{int(rule.get('BYMINUTE', '0')):02}"
        if "BYHOUR" in rule
        else ""
    )
    days = [_DAYS[each[-2:]] for each in rule.get("BYDAY", "").split(",") if each]
    on_weekdays = rule.get("BYDAY") == _WEEKDAYS and "weekday" in told
    return clock in told and (on_weekdays or all(day in told for day in days))
