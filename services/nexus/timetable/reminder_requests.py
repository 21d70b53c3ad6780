"""What a message asks for about reminders, read once: the intent, the time, the text, or a time alone."""

import re
from datetime import date, datetime, time, timedelta, tzinfo
from enum import Enum
from itertools import islice
from typing import Any

import msgspec

from shared.clock import localize
from shared.language.sayings import read_sayings
from shared.language.times.days import is_short, read_amount
from shared.language.times.time_parser import FARTHEST, ParsedTime, Phrases, choose, resolve
from shared.language.times.time_phrases import ISO_MOMENT, find_delay, find_phrases, spell_plainly
from shared.text.prose import split_sentences

TIMER_WAYS = read_sayings(__file__, "timers")


def spell_out(text: str) -> str:
    """``text`` with timers and days before others said as times are read: "in 20 minutes"."""
    text = spell_plainly(text)
    text = TIMER_WAYS["timer_first"].sub(
        "remind me in ", TIMER_WAYS["timer_last"].sub(r"remind me in \g<amount>", text, count=1), count=1
    )
    text = TIMER_WAYS["eve"].sub(r"in the \g<part> the day before ", text, count=1)
    away = TIMER_WAYS["before_it"].search(text)
    if not away or choose(text)["offset"]:
        return text
    bare = f"{text[: away.start()]}{text[away.end() :]}"
    days = [each for each in choose(bare)["day"] if not each["bound"] and not each["relative"]]
    if len(days) != 1:
        return text
    at = days[0].match.start()
    return f"{bare[:at]} {away[0].strip()} {bare[at:].strip()}"


WAYS = read_sayings(__file__, "reminder_requests")
LEAD = WAYS["lead"]
RENAME = WAYS["rename"]
WATCH = WAYS["watch"]

MAX_LENGTH = 4_000  # Characters of a message that are read; a longer one is no request about reminders


class ReminderIntent(Enum):
    """What can be done about reminders."""

    SET = "set"
    LIST = "list"
    SNOOZE = "snooze"
    MOVE = "move"
    RENAME = "rename"
    FINISH = "finish"
    CANCEL = "cancel"
    UNDO = "undo"


def find_intent(text: str) -> ReminderIntent | None:
    """What ``text`` asks for about reminders; None if it is about something else.

    "Remind me of the decision" without a time is a question to memory, as "remind me what ..." is.
    """
    if len(text) > MAX_LENGTH:
        return None
    text = spell_out(ISO_MOMENT.sub(r"\1 \2", text))
    first = next(iter(split_sentences(text)), "")
    if WATCH.fullmatch(text.strip()):
        return ReminderIntent.SET
    if WAYS["setting"].search(first):
        return ReminderIntent.SET
    for intent, pattern in (
        (ReminderIntent.SNOOZE, WAYS["snooze"]),
        (ReminderIntent.UNDO, WAYS["undo"]),
        (ReminderIntent.CANCEL, WAYS["cancel"]),
        (ReminderIntent.FINISH, WAYS["finish"]),
    ):
        if pattern.search(first):
            return intent
    if WAYS["calling"].search(first) and find_phrases(first):
        return ReminderIntent.SET
    if (found := WAYS["remind"].search(text)) and not WAYS["list"].search(first):
        before = text[: found.start()]
        recalls = re.match(r"\s*(?:of|about)\b", found["rest"], re.IGNORECASE)
        if (WAYS["before"].match(before) or find_phrases(before)) and (not recalls or find_phrases(text)):
            return ReminderIntent.SET
    if (found := RENAME.search(first)) and WAYS["a_thing"].search(first):
        return ReminderIntent.RENAME
    if WAYS["move"].search(first):
        return ReminderIntent.MOVE
    return ReminderIntent.LIST if WAYS["list"].search(first) else None


ANSWERED = ", that is: "  # What stands between a request and a short answer that completes it
MIN_TOLD = 3  # The fewest words before a request that tell something by themselves
MAX_LINKS = 8  # How many places are tried at which a message may go on with a second reminder


class ReminderRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request about reminders; ``intent`` is None if the message is about something else.

    ``when`` is the (first) moment and ``rrule`` what repeats, as records hold it. ``text`` is what to be
    reminded of, or the new text. ``missing`` is what must be asked ("text", "time", "day", "past", "rate",
    "event"), with ``question``; ``day`` is the day if that much is known. ``note`` says what was assumed.
    ``about`` are words of the reminder that is meant ("": that which was spoken of last), ``everything``
    whether all that match are. ``away`` is how long it is put off, ``time`` are the words of its new time.
    ``also`` are further reminders.
    """

    intent: ReminderIntent | None = None
    when: datetime | None = None
    rrule: str = ""
    text: str = ""
    missing: str = ""
    question: str = ""
    day: date | None = None
    note: str = ""
    about: str = ""
    everything: bool = False
    away: timedelta | None = None
    time: str = ""
    also: tuple["ReminderRequest", ...] = ()


def read_reminder_request(text: str, now: datetime, zone: tzinfo | None) -> ReminderRequest:
    """What ``text`` asks for about reminders, seen from ``now`` in ``zone`` (None: this machine's)."""
    intent = find_intent(text)
    if intent is None:
        return ReminderRequest()
    if intent is ReminderIntent.SET:
        return read_new(text, now, zone)
    if intent is ReminderIntent.RENAME and (found := RENAME.search(text.strip())):
        about, name = found["a"] or found["b"] or found["c"], found["to"] or found["to2"] or found["to3"]
        return ReminderRequest(intent=intent, about=_strip(about), text=name.strip(" \"'“”.!"))
    if intent is ReminderIntent.LIST:
        return ReminderRequest(intent=intent, time=text)
    away, until, rest = None, "", text
    if intent in (ReminderIntent.SNOOZE, ReminderIntent.MOVE):
        away, until, rest = _read_delay(text)
    about = _strip(WAYS["verb"].sub("", rest, count=1))
    return ReminderRequest(
        intent=intent, about=about, everything=bool(WAYS["all"].search(rest)), away=away, time=until
    )


def read_new(text: str, now: datetime, zone: tzinfo | None) -> ReminderRequest:
    """The new reminder, or the several, that ``text`` asks for; ANSWERED and what follows adds to it."""
    text, *answers = text.split(ANSWERED)
    said, text = text, spell_out(text)
    found = LEAD.search(text)
    body = f"{text[: found.start()]} {text[found.end() :]}" if found else text
    if not answers and (parts := _split(body)):
        first, second = parts
        one = _read_one(first, now, zone, said)
        two = _read_one(second, now if second["day"] else one.when or now, zone, said)
        if not one.missing and not two.missing:
            return msgspec.structs.replace(one, also=(two,))
    phrases = choose(body)
    for answer in answers:
        phrases = phrases.join(choose(answer))
    return _read_one(phrases, now, zone, said)


def _split(body: str) -> tuple[Phrases, Phrases] | None:
    """Two reminders of one message; what one of them does not say, it has from the other."""
    inside = find_phrases(body)
    for link in islice(WAYS["and"].finditer(body), MAX_LINKS):
        if any(
            each.match.start() < link.start() + 1 < each.match.end() or each.kind == "repeat"
            for each in inside
        ):
            continue
        one, two = choose(body[: link.start()]), choose(body[link.end() :])
        both = all(
            any(each.kind in ("clock", "span", "day", "part") for each in part.chosen) for part in (one, two)
        )
        texts = [clean_text(part.rest) for part in (one, two)]
        if not both or not any(texts) or (not texts[1] and texts[0]) or not two["clock"] + two["span"]:
            continue
        if not texts[0] and not one["clock"] + one["span"] + one["part"] and not two["day"]:
            continue
        first = Phrases(
            (*one.chosen, *(() if one["clock"] or one["span"] else two["clock"])),
            one.rest if texts[0] else two.rest,
            one.text,
            one.zone,
        )
        second = Phrases(
            (*two.chosen, *(() if two["day"] or two["span"] else one["day"])), two.rest, two.text, two.zone
        )
        return first, second
    return None


def _read_one(phrases: Phrases, now: datetime, zone: tzinfo | None, text: str) -> ReminderRequest:
    found = resolve(msgspec.structs.replace(phrases, request=text), now, zone)
    what = _read_text(phrases.rest, text)
    if not what and re.search(r"(?i)\bwake\b", text):
        what = "wake up"
    if not what and (named := re.search(r"(?i)\b(?:alarm|timer)\b", text)):
        what = named[0].lower()
    event = WAYS["event"].search(what) if found.missing == "time" and not phrases.chosen else None
    if found.missing == "time" and WATCH.fullmatch(text.strip()):
        found = msgspec.structs.replace(found, missing="event", why="")
    elif event:
        what = what[: event.start()].strip() or re.sub(r"^\s*\S+\s+", "", event[0])
        found = msgspec.structs.replace(found, missing="event", why="")
    missing = found.missing or ("" if what else "text")
    return ReminderRequest(
        intent=ReminderIntent.SET,
        when=found.moment,
        rrule=found.rrule,
        text=what,
        missing=missing,
        question=format_question(missing, found, what) if missing else "",
        day=found.day,
        note=found.note,
    )


def _read_text(rest: str, said: str) -> str:
    """What to be reminded of; what was told before it was asked for stands behind it, in brackets."""
    lead = LEAD.search(said)
    told = lead and re.search(r"(?i)(?:[.;,–—-]|\bso|\b(?:please|pls))\s*$", said[: lead.start()])
    before = clean_text(choose(said[: lead.start()]).rest) if lead and told else ""
    if len(before.split()) < MIN_TOLD or not rest.startswith(before):
        return clean_text(rest)
    wanted = clean_text(re.sub(r"^(?:[\s.,;–—-]|so\b|please\b)+", "", rest[len(before) :]))
    before = WAYS["open"].sub("", before)
    return f"{wanted} ({before})" if wanted else before


def format_question(missing: str, found: ParsedTime, what: str) -> str:
    """What to ask a person: what is not clear, a question, and an example of a short answer."""
    why = f"{found.why}. " if found.why else ""
    day = f" on {found.day:%A} {found.day.day} {found.day:%B}" if found.day and not found.rrule else ""
    if missing == "text":
        return "What shall I remind you of?"
    if missing == "event":
        cannot = "I can remind you at a time, not when something happens"
        return f"{cannot}. At what time shall I remind you? For example: tomorrow at 9"
    if missing == "day":
        return f"{why}On which day? For example: Monday at 9, or 24 March at 10:00"
    if missing == "rate":
        return f"{why}How often? For example: every 30 minutes, or every day at 9"
    if missing == "past":
        return f"{why}When instead? For example: tomorrow at 9"
    example = "at 9" if day or found.rrule else "tomorrow at 9"
    return f"{why}At what time{day}? For example: {example}"


def clean_text(text: str) -> str:
    """What to be reminded of, without the words that lead to it and courtesies."""
    what = WAYS["fragment"].sub("", text.strip(" \t\n,;:?!"))
    what = WAYS["links"].sub("", what).strip(" \t\n,;:?")
    what = re.sub(r"(?i)[\s,]+(?:it['’]?s|it\s+is|on|at|some\s?time|which\s+is)$", "", what)
    what = WAYS["courtesies"].sub("", what).strip()
    what = what if ". " in what else what.rstrip(".")
    return (
        what if re.search(r"\w", what) and not re.fullmatch(r"(?i)(?:please|thanks|me|again)", what) else ""
    )


def _strip(text: str) -> str:
    words = WAYS["words"].sub(" ", text)
    words = re.sub(r"(?i)^\W*(?:(?:to|for|of|on)\b\s*)*", "", " ".join(words.split()))
    return words.strip(" \"'“”.,!?")


def _read_delay(text: str) -> tuple[timedelta | None, str, str]:
    """How long a reminder is put off, or the words of its new time, and the text without either."""
    text = WAYS["same_time"].sub(" ", text)
    for link in WAYS["to"].finditer(text):
        words = text[link.end() :].strip(" .!?")
        chosen = choose(words)
        if chosen.chosen and not clean_text(chosen.rest) and not re.match(r"(?i)for", link[0]):
            return None, words, text[: link.start()]
    if bare := WAYS["bare_hour"].search(text):
        return None, f"at {bare[1]}", text[: bare.start()]
    if found := find_delay(text):
        words = found["amount"]
        away = read_amount(words)
        sign = -1 if (found["way"] or "").lower() in ("earlier", "sooner", "forward") else 1
        sign = -1 if re.search(r"(?i)\bbring\b.*\bforward\b", text) else sign
        epoch = datetime(2026, 1, 1)  # noqa: DTZ001 - only the length counts
        return (
            (epoch + away - epoch) * sign,
            "" if is_short(words) else f"in {words}",
            text[: found.start()] + text[found.end() :],
        )
    chosen = choose(text)
    if chosen.chosen:
        return None, " ".join(each.match[0] for each in chosen.chosen), chosen.rest
    return None, "", text


ALONE = read_sayings(__file__, "when")


def format_time_answer(text: str) -> str:
    """``text`` as a phrase of time, such as "at 9" for "9 please"; empty if it says anything else."""
    words = ALONE["tail"].sub("", ALONE["tail"].sub("", ALONE["lead"].sub("", text.strip()))).strip(" .!?,")
    ways = ["in the {}"] if ALONE["bare"].fullmatch(words) else ["{}", "at {}", "on the {}", "on {}", "in {}"]
    for phrase in (way.format(words.removeprefix("the ") if "the" in way else words) for way in ways):
        chosen = choose(phrase)
        if chosen.chosen and not clean_text(chosen.rest):
            return phrase
    return ""


def read_when(text: str, when: str, now: datetime, zone: tzinfo | None) -> ReminderRequest:
    """The new reminder of ``text``, whose time is ``when``: plain words, ISO 8601, or another language."""
    found = read_time_alone(when, now, zone)
    what = read_new(text, now, zone)
    whole = re.sub(r"\s+", " ", text).strip()
    missing = found.missing or ("" if whole else "text")
    return msgspec.structs.replace(
        what,
        intent=ReminderIntent.SET,
        when=found.moment,
        rrule=found.rrule,
        text=what.text if what.missing == "time" and what.text else whole,
        missing=missing,
        question=format_question(missing, found, whole) if missing else "",
        day=found.day,
        note=found.note,
        also=(),
    )


def read_time_alone(words: str, now: datetime, zone: tzinfo | None) -> ParsedTime:
    """The moment, or what is missing, of ``words`` that say nothing but when."""
    try:
        moment = datetime.fromisoformat(words.strip())
    except ValueError:
        moment = None
    if moment is not None and (moment.tzinfo is not None or moment.time() != time()):
        return _checked(moment if moment.tzinfo else localize(moment, zone), now)
    for phrase in (words, f"at {words}", f"on {words}"):
        phrases = choose(phrase)
        if phrases.chosen and not re.search(r"\w", phrases.rest):
            return resolve(phrases, now, zone)
    return _read_foreign(words, now, zone)


def _read_foreign(text: str, now: datetime, zone: tzinfo | None) -> ParsedTime:
    """A time as dateparser reads it; it must name a time of day."""
    import dateparser

    here = now.astimezone(zone).replace(tzinfo=None)
    settings: Any = {"PREFER_DATES_FROM": "future", "RELATIVE_BASE": here, "RETURN_AS_TIMEZONE_AWARE": False}
    found = dateparser.parse(text[:100], settings=settings) if re.search(r"\d", text) else None
    if found is None or found.time() == time(0) or not (found - here) % timedelta(days=1):
        return ParsedTime(missing="time", why=f"{text.strip()[:60]!r} is no time of day that I understand")
    return _checked(localize(found, zone), now)


def _checked(moment: datetime, now: datetime) -> ParsedTime:
    if now < moment <= now + FARTHEST:
        return ParsedTime(moment=moment)
    return ParsedTime(missing="past", why="That has passed, or lies more than ten years ahead")
