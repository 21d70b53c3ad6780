"""The moment, or the moments that repeat (RFC 5545), of a text in plain words; or what it leaves open."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

import msgspec

from shared.clock import datetime_exists, localize
from shared.errors import ActionError
from shared.language.times.clocks import ZONE, Clock, decide, parse_zone, read_clocks, read_part, zone_name
from shared.language.times.days import (
    Day,
    UnclearTime,
    find_day,
    is_short,
    join_days,
    month_day,
    ordinal,
    read_amount,
    read_day,
)
from shared.language.times.time_phrases import (
    ISO_MOMENT,
    NUMBERS,
    WEEKDAYS,
    Phrase,
    cluster,
    find_phrases,
    spell_plainly,
)
from shared.recurrence import WEEKDAYS as CODES
from shared.recurrence import Recurrence, format_recurrence, next_occurrence

FARTHEST = timedelta(days=3_660)  # A time more than ten years ahead is taken for a typing error
LEAST_INTERVAL = 5  # The fewest minutes after which something may repeat
_WHOLE_DAY = re.compile(r"(?i)\b(?:birthdays?|anniversar(?:y|ies))\b")
_VAGUE = re.compile(
    r"(?i)\b(?:later|soon|sometime|some\s+day|in\s+a\s+(?:while|moment|bit))(?:\s+(?:today|this\s+week))?\b"
)
_AGO = re.compile(
    r"(?i)(?:\b(?:an?|\w+)\s+(?:minutes?|hours?|days?|weeks?|months?|years?)\s+ago|\blast\s+(?:night"
    r"|week|month|year))\b"
)
_BESIDE = re.compile(r"(?i)\b(?:after|before|between|than|until)\s+$")
_DAY_BEFORE = re.compile(r"(?i)\bthe\s+(?:day|evening|night)\s+before\b")
"""A day that is counted from one that nothing names."""
_UNREAD = re.compile(
    r"(?i)\W*(?:on|during|over|in|by|before|after|around|within|last|end)\b(?!\s+(?:i|we|you|he|she|they)\b).*"
)
_ENDS = re.compile(r"(?i)\W*(?:please|thanks|thank\s+you|ok)?\W*")


class ParsedTime(msgspec.Struct, frozen=True, kw_only=True):
    """What a text says about time: ``moment`` and ``rrule`` (as records hold it; "" for a single one).

    ``rest`` is the text without that. ``missing`` is what must be asked ("time", "day", "past", "rate"),
    ``why`` a sentence about it, ``day`` the day if it is known. ``note`` says what was assumed.
    """

    moment: datetime | None = None
    rrule: str = ""
    rest: str = ""
    missing: str = ""
    why: str = ""
    day: date | None = None
    note: str = ""


class Phrases(msgspec.Struct, frozen=True):
    """The phrases of a text that say when, by kind, and the text around them."""

    chosen: tuple[Phrase, ...]
    rest: str
    text: str
    zone: re.Match[str] | None = None
    request: str = ""

    def __getitem__(self, kind: str) -> list[Phrase]:
        return [each for each in self.chosen if each.kind == kind]

    def join(self, later: "Phrases") -> "Phrases":
        """With the phrases of an answer: they take the place of those of their kind here."""
        kinds = {_slot(each) for each in later.chosen}
        kept = [each for each in self.chosen if _slot(each) not in kinds]
        return Phrases(
            (*kept, *later.chosen), self.rest, f"{self.text} {later.text}", later.zone or self.zone
        )


def read_time(text: str, now: datetime, zone: tzinfo | None) -> ParsedTime:
    """When ``text`` says, seen from ``now`` in ``zone`` (None: this machine's)."""
    return resolve(choose(text), now, zone)


def choose(text: str) -> Phrases:
    """The phrases that say when: those at the beginning or the end of ``text``, then others that add to them.

    A phrase of a kind that is there belongs to the rest: "at 9 prepare for the 10:00 meeting".
    """
    text = spell_plainly(ISO_MOMENT.sub(r"\1 \2", text))
    found = find_phrases(text)
    dated = [each for each in found if "birthday" not in each["vague"]]
    found = dated if any(each.kind == "day" for each in dated) else found
    groups = cluster(text, found)
    heads = [group for group in groups if not re.search(r"\w", text[: group[0].match.start()])]
    tails = [group for group in groups if group not in heads and _ENDS.fullmatch(text, group[-1].match.end())]
    chosen: list[Phrase] = []
    for group in [*heads, *tails, *(each for each in groups if each not in heads and each not in tails)]:
        if not chosen or not _slots(chosen) & _slots(group):
            chosen += group
    if not any(each.kind == "repeat" or each["period"].startswith(("ea", "ev")) for each in chosen):
        chosen = [each for each in chosen if each.kind not in ("lasting", "except") and not each["bound"]]
    chosen.sort(key=lambda each: each.match.start())
    zone = next(
        (m for each in chosen if each.kind == "clock" and (m := ZONE.match(text, each.match.end()))), None
    )
    rest = text
    for match in sorted([each.match for each in chosen] + ([zone] if zone else []), key=lambda m: -m.start()):
        rest = f"{rest[: match.start()]} {rest[match.end() :]}"
    return Phrases(tuple(chosen), " ".join(re.sub(r"\s+(?=[.,;!?])", "", rest).split()), text, zone)


def _slots(phrases: list[Phrase]) -> set[str]:
    """What ``phrases`` settle; hours and minutes from now settle the day and the time."""
    slots = {_slot(each) for each in phrases}
    short = any(each.kind == "span" and is_short(each["amount"] or each["later"]) for each in phrases)
    return slots | ({"day"} if "span" in slots else set()) | ({"clock"} if short else set())


def _slot(phrase: Phrase) -> str:
    if phrase.kind == "day":
        return "bound" if phrase["bound"] else "day"
    if phrase.kind == "offset" and phrase["amount"] and is_short(phrase["amount"]):
        return "offset"
    return {"part": "clock", "offset": "day"}.get(phrase.kind, phrase.kind)


def resolve(phrases: Phrases, now: datetime, zone: tzinfo | None) -> ParsedTime:
    """What ``phrases`` come to, seen from ``now``."""
    reader = _Reader(phrases, now, zone)
    try:
        return reader.read()
    except UnclearTime as error:
        return ParsedTime(
            missing=error.missing,
            why=error.why,
            rest=phrases.rest,
            day=reader.day,
            rrule=reader.rule,
        )
    except ActionError as error:
        return ParsedTime(missing="time", why=str(error), rest=phrases.rest)
    except IndexError:  # dateutil of the tenth Monday of a month
        return ParsedTime(missing="day", why="There is no such day in the calendar", rest=phrases.rest)
    except (OverflowError, ValueError):
        return ParsedTime(missing="past", why="That is too far away", rest=phrases.rest)


class _Reader:
    """Reads the phrases of one text."""

    def __init__(self, phrases: Phrases, now: datetime, zone: tzinfo | None) -> None:
        self._phrases = phrases
        self._zone = zone
        self._now = now
        self.day: date | None = None
        self.rule = ""

    def read(self) -> ParsedTime:
        """The time; raises UnclearTime, ActionError, ValueError or OverflowError."""
        phrases = self._phrases
        self._named = parse_zone(phrases.zone) if phrases.zone else None
        self._zone = self._named or self._zone
        self._wall = self._now.astimezone(self._zone).replace(tzinfo=None, fold=0)
        today = self._wall.date()
        if not phrases.chosen:
            raise self._nothing()
        days = [read_day(each, today) for each in phrases["day"] if not each["bound"]]
        day = self._offset(join_days(days))
        if not phrases["repeat"] and day and not day.vague and not day.every:
            self.day = find_day(day, today)
        clocks = [clock for each in phrases["clock"] for clock in read_clocks(each, self._wall)]
        if phrases["repeat"] or (day and day.every):
            return self._repeat(day, clocks)
        if (spans := phrases["span"]) and (moment := self._span(spans[0], bool(clocks))):
            return self._once(moment)
        if spans:
            day = Day(on=(self._wall + read_amount(spans[0]["amount"] or spans[0]["later"])).date())
        if day and day.vague:
            raise UnclearTime("day", "")
        self.day = find_day(day, today) if day else None
        if self.day and self.day < today:
            raise UnclearTime("past", f"{_format_day(self.day)} has passed")
        before = phrases.text[: min(each.match.start() for each in phrases.chosen)]
        if not day and not spans and (unread := _UNREAD.match(before)):
            raise UnclearTime("day", f"I do not understand {unread[0].strip()!r}")
        if not day and not spans and _DAY_BEFORE.search(phrases.text):
            raise UnclearTime("day", "")
        if not phrases["offset"] and any(
            _BESIDE.search(phrases.text[: each.match.start()]) for each in phrases["clock"]
        ):
            raise UnclearTime("time", "")
        if len(clocks) > 1:
            raise UnclearTime("time", "I read more than one time of day in that")
        return self._at(clocks, day)

    def _nothing(self) -> UnclearTime:
        if ago := _AGO.search(self._phrases.text):
            return UnclearTime("past", f"{ago[0]!r} has passed")
        return UnclearTime("time", "")

    def _span(self, span: Phrase, has_clock: bool) -> datetime | None:
        """The moment after a span; None if it only names a day."""
        words = span["amount"] or span["later"]
        if is_short(words):
            if has_clock or self._phrases["day"]:
                raise UnclearTime("time", "I read more than one time in that")
            return self._now.astimezone(UTC) + read_amount(words)  # type: ignore[no-any-return]
        if has_clock or self._phrases["part"]:
            return None
        return localize(self._wall + read_amount(words), self._zone)

    def _offset(self, day: Day | None) -> Day | None:
        """``day``, or the day so long before or after it as is said; minutes and hours move the moment."""
        for each in self._phrases["offset"]:
            if day is not None and each["weekday"]:
                found, step = find_day(day, self._wall.date()), 1 if each["side"] == "after" else -1
                number = WEEKDAYS[each["weekday"][:3]]
                return Day(
                    on=found + timedelta(days=step * ((step * (number - found.weekday()) - 1) % 7 + 1))
                )
            away = read_amount(each["amount"] or f"1 {each['unit']}")
            if day is not None and not is_short(each["amount"] or f"1 {each['unit']}"):
                found = find_day(day, self._wall.date())
                return Day(on=found - away if each["way"] in ("before", "prior to") else found + away)
        return day

    def _at(self, clocks: list[Clock], day: Day | None) -> ParsedTime:
        """The moment of a time of day, or of a part of the day, on ``self.day``."""
        wall, notes = self._wall, []
        part, hour, said = read_part(self._phrases.chosen)
        if clocks:
            clock, note = decide(clocks[0], part, self.day, wall, self._hint())
            notes.append(note)
        elif part:
            clock = time(int(hour), round(hour % 1 * 60))
            notes.append(f"I took {said!r} as {clock:%H:%M}.")
        else:
            raise UnclearTime("time", "")
        date_of = self.day or wall.date()
        if clock == time(0) and clocks and clocks[0].said.lower().endswith("midnight"):
            date_of += timedelta(days=1)
        moment = self._moved(localize(datetime.combine(date_of, clock), self._zone))
        is_open = self.day is None or bool(day and day.rule.startswith("BYDAY") and self.day == wall.date())
        if (
            moment <= self._now
            and is_open
            and not re.search(r"(?i)\bthis\s+" + (part or "-"), self._phrases.text)
        ):
            date_of += timedelta(days=1 if self.day is None else 7)
            moment = self._moved(localize(datetime.combine(date_of, clock), self._zone))
        if not datetime_exists(datetime.combine(date_of, clock), self._zone):
            notes.append(f"The clocks leave out {clock:%H:%M} in that night: summer time begins.")
        return self._once(moment, note=" ".join(filter(None, notes)))

    def _hint(self) -> str:
        return f"{self._phrases.request}\n{self._phrases.text}\n{self._phrases.rest}"

    def _moved(self, moment: datetime) -> datetime:
        for each in self._phrases["offset"]:
            if each["amount"] and is_short(each["amount"]):
                away = read_amount(each["amount"])
                moment = moment - away if each["way"] in ("before", "prior to") else moment + away
        return moment

    def _once(self, moment: datetime, *, note: str = "") -> ParsedTime:
        self.day = moment.astimezone(self._zone).date()
        if moment <= self._now:
            raise UnclearTime(
                "past", f"{_format_day(self.day)} at {moment.astimezone(self._zone):%H:%M} has passed"
            )
        if moment - self._now > FARTHEST:
            raise UnclearTime("past", "That is more than ten years ahead")
        return ParsedTime(moment=moment, rest=self._phrases.rest, day=self.day, note=note)

    # --- what repeats ----------------------------------------------------------------------------

    def _repeat(self, day: Day | None, clocks: list[Clock]) -> ParsedTime:
        """The rule of what repeats, and its first moment."""
        rule = frequency_of(self._phrases["repeat"], day, len(clocks))
        self.rule = rule
        if rule.startswith(("FREQ=HOURLY", "FREQ=MINUTELY")):
            minutes = int((re.search(r"INTERVAL=(\d+)", rule) or ["", "1"])[1]) * (
                60 if "HOURLY" in rule else 1
            )
            if "SECOND" in rule or minutes < LEAST_INTERVAL:
                raise UnclearTime("rate", f"I repeat at most every {LEAST_INTERVAL} minutes")
            if clocks:
                raise UnclearTime("time", "What repeats by the hour runs day and night from now on")
            moment = (self._now.astimezone(UTC) + timedelta(minutes=minutes)).replace(microsecond=0)
            self.rule = format_recurrence(Recurrence(start=moment, rule=rule + self._bounds()[1]))
            return msgspec.structs.replace(self._once(moment), rrule=self.rule)
        if rule in ("FREQ=MONTHLY", "FREQ=YEARLY", "FREQ=WEEKLY") or (
            rule.startswith(("FREQ=MONTHLY;INTERVAL", "FREQ=YEARLY;INTERVAL", "FREQ=WEEKLY;INTERVAL"))
            and "BY" not in rule
        ):
            raise UnclearTime("day", "")
        for each in self._phrases["except"]:
            rule = leave_out(rule, each)
        if not self._phrases["except"] and re.search(r"(?i)\bexcept\b|\bbut\s+not\b", self._phrases.text):
            raise UnclearTime("day", "I can leave out weekdays alone")
        part, hour, said = read_part(self._phrases.chosen)
        notes = []
        if clocks:
            times = [decide(each, part, date.max, self._wall, self._hint()) for each in clocks]
            notes += [note for _, note in times]
        elif part:
            times = [(time(int(hour), round(hour % 1 * 60)), "")]
            notes.append(f"I took {said!r} as {times[0][0]:%H:%M}.")
        elif rule.startswith("FREQ=YEARLY") and _WHOLE_DAY.search(self._phrases.text):
            times = [(time(9), "")]
            notes.append("You named no time, so I took 09:00.")
        else:
            raise UnclearTime("time", "")
        walls = sorted(each for each, _ in times)
        if len({each.minute for each in walls}) > 1:
            raise UnclearTime("time", "I can repeat at several hours only with the same minutes")
        if len(walls) > 1:
            rule += f";BYHOUR={','.join(str(each.hour) for each in walls)}"
        return self._first(rule, walls[0], " ".join(filter(None, notes)))

    def _first(self, rule: str, clock: time, note: str) -> ParsedTime:
        """The first moment of ``rule`` is where its intervals count from."""
        start, end = self._bounds()
        first_wall = datetime.combine(start, clock)
        every = re.sub(r";INTERVAL=\d+", "", rule)
        after = max(self._now, localize(first_wall, self._zone) - timedelta(seconds=1))
        name = zone_name(self._named) if self._named else ""
        moment = next_occurrence(Recurrence(start=first_wall, rule=every, zone=name), after, self._zone)
        if moment is None:
            raise UnclearTime("day", "There is no such day in the calendar")
        wall = moment.astimezone(self._zone).replace(tzinfo=None)
        if (wall.hour, wall.minute) != (clock.hour, clock.minute) and "BYHOUR" not in rule:
            wall = datetime.combine(wall.date(), clock)
        self.rule = format_recurrence(Recurrence(start=wall, rule=rule + end, zone=name))
        return msgspec.structs.replace(self._once(moment, note=note), rrule=self.rule)

    def _bounds(self) -> tuple[date, str]:
        """The day from which on it repeats, and the part of the rule that says how long."""
        start, end = self._wall.date(), ""
        for each in self._phrases["day"]:
            if not each["bound"]:
                continue
            found = find_day(read_day(msgspec.structs.replace(each), start), self._wall.date())
            if each["bound"] in ("until", "till", "through", "up to"):
                end = f";UNTIL={found:%Y%m%d}T235959"
            else:
                start = found
        for each in self._phrases["lasting"]:
            if each["times"]:
                end = f";COUNT={int(each['times'])}"
            else:
                end = f";UNTIL={self._wall + read_amount(each['amount']):%Y%m%dT%H%M%S}"
        return start, end


def _format_day(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B %Y}"


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
