"""How often something repeats, as a rule of RFC 5545."""

import re

from shared.language.times.days import Day, UnclearTime, month_day, ordinal
from shared.language.times.time_phrases import NUMBERS, WEEKDAYS, Phrase
from shared.recurrence import WEEKDAYS as CODES

_UNITS = {
    "fo": ("WEEKLY", 2),
    "q": ("MONTHLY", 3),
    "mo": ("MONTHLY", 1),
    "m": ("MINUTELY", 1),
    "h": ("HOURLY", 1),
    "d": ("DAILY", 1),
    "w": ("WEEKLY", 1),
    "y": ("YEARLY", 1),
}
_ADVERBS = {
    "daily": "day",
    "nightly": "day",
    "annually": "year",
    "biweekly": "fortnight",
    "bi weekly": "fortnight",
}


def frequency_of(repeats: list[Phrase], day: Day | None, clocks: int) -> str:
    """The rule that "every ..." and a day beside it say."""
    if not repeats:
        return f"FREQ={day.every};{day.rule}" if day else ""
    if any(each["days"] or each["plural"] for each in repeats):  # "every week, on Mondays"
        repeats = [each for each in repeats if not _is_week(each)]
    if len(repeats) > 1:
        raise UnclearTime("day", "I read more than one repetition in that")
    each = repeats[0]
    count = _interval(each)
    words = each["days"] or each["plural"] or (f"{each['first']} to {each['last']}" if each["first"] else "")
    if words:
        return _weekly(each, words, count)
    if each["often"]:
        if each["often"] != "once" and clocks < 2:
            raise UnclearTime("time", "")
        return _with_day(each["per"], 1, day)
    if each["part"]:
        return f"FREQ=DAILY{_every(count)}"
    if each["bare"]:
        if day is None or not day.rule:
            raise UnclearTime("day", "")
        return f"FREQ={'YEARLY' if 'BYMONTH=' in day.rule else 'MONTHLY'};{day.rule}"
    return _with_day(each["unit"] or each["adverb"], count, day)


def leave_out(rule: str, but: Phrase) -> str:
    """``rule`` without the weekdays of ``but``; raises UnclearTime if it names none of its own or all."""
    left = re.search(r"BYDAY=([A-Z,]+)$", rule)
    days = left[1].split(",") if left else CODES if rule == "FREQ=DAILY" else ()
    kept = [day for day in days if day not in {CODES[each] for each in _weekdays(but["days"])}]
    if not kept:
        raise UnclearTime("day", f"I cannot leave out {but['days']}")
    return f"{rule.partition(';BYDAY')[0].replace('DAILY', 'WEEKLY')};BYDAY={','.join(kept)}"


def _is_week(repeat: Phrase) -> bool:
    """Whether a repetition says no more than how often in a week it is."""
    if repeat["often"] and repeat["per"] == "week":
        return True
    return (repeat["unit"].startswith("week") and _interval(repeat) == 1) or repeat["adverb"] == "weekly"


def _interval(repeat: Phrase) -> float:
    if repeat["nth"]:
        return 2 if repeat["nth"] == "other" else float(ordinal(repeat["nth"]))
    words = repeat["count"]
    return NUMBERS.get(words) or float(words.replace(",", ".")) if words else 1


def _weekdays(words: str) -> list[int]:
    """The weekdays that ``words`` name, from 0 for Monday."""
    named = [WEEKDAYS[word[:3]] for word in re.findall(r"[a-z]+", words) if word[:3] in WEEKDAYS]
    if "weekend" in words:
        named += [5, 6]
    elif re.search(r"weekday|work|business", words):
        named += range(5)
    return named


def _weekly(repeat: Phrase, words: str, count: float) -> str:
    named = _weekdays(words)
    if repeat["first"]:
        named = [(named[0] + more) % 7 for more in range((named[-1] - named[0]) % 7 + 1)]
    codes = [CODES[day] for day in sorted(set(named))]
    if repeat["nth"] not in ("", "other", "second") or repeat["of"]:
        return f"FREQ=MONTHLY;BYDAY={','.join(f'{int(count)}{code}' for code in codes)}"
    return f"FREQ=WEEKLY{_every(count)};BYDAY={','.join(codes)}"


def _with_day(unit: str, count: float, day: Day | None) -> str:
    """The rule of a unit of time, with the parts of ``day``."""
    unit = _ADVERBS.get(unit, unit)
    if unit.startswith("s") or (unit.startswith("h") and count == 0.25):
        return "FREQ=MINUTELY;INTERVAL=15" if unit.startswith("h") else "FREQ=MINUTELY;INTERVAL=1"
    if unit.startswith("h") and count % 1:
        return f"FREQ=MINUTELY;INTERVAL={round(count * 60)}"
    frequency, times = next(what for start, what in _UNITS.items() if unit.startswith(start))
    rule = f"FREQ={frequency}{_every(count * times)}"
    if day and day.vague:
        raise UnclearTime("day", "")
    if day and day.on and not day.rule:
        on = day.on
        yearly = f";BYMONTH={on.month};BYMONTHDAY={on.day}"
        return rule + {
            "YEARLY": yearly, "MONTHLY": f";{month_day(on.day)}", "WEEKLY": f";BYDAY={CODES[on.weekday()]}"
        }.get(frequency, "")  # fmt: skip
    if frequency in ("WEEKLY", "MONTHLY", "YEARLY") and day:
        if frequency == "YEARLY" and "BYMONTH=" not in day.rule:
            raise UnclearTime("day", "")
        return f"{'FREQ=YEARLY' if 'BYMONTH=' in day.rule else rule};{day.rule}"
    return rule


def _every(count: float) -> str:
    return f";INTERVAL={int(count)}" if count > 1 else ""
