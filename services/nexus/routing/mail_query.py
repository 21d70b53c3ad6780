"""The mail that a message asks for: words in it, who sent it, and the days it came on."""

import re
from datetime import date, timedelta

import msgspec

from shared.delivery.mailbox import MOST_WORDS
from shared.language.times.time_phrases import MONTHS, WEEKDAYS
from shared.text.prose import find_terms

COMMON = frozenset(
    find_terms(
        """
        mail mails email e-mail emails letter letters message messages inbox mailbox box thread post
        conversation new unread unanswered read show find search look looking check list open pull scan
        write wrote written writes any anything something anybody anyone last latest newest recent get got
        come came there here please can could you my me us our mine need want tell summarise summarize
        about regarding concerning mention mentions subject answer answers answered reply replies replied
        response respond responded confirm confirmed send sent say says said ask asked again yet today
        yesterday tonight overnight morning evening afternoon week weekend month days many what when who
        where which how whether someone does did has have was were been is are still long via by from with
        contain contains containing attachment attachments attached actually through words word time cant
        somewhere it its thing mr mrs ms dr
        """
    )
)
"""Words that say what to do with mail, or when, and nothing of what is in it."""
_NEW = re.compile(r"(?i)\bnew\b")
_NAME = r"(?:(?:the|my|our|a|an|[Mm]rs?|[Mm]s|[Dd]r)\.?\s+)*(?P<name>[\w.+@-]+(?:\s+[A-Z][\w-]+)?)"
_SENDERS = (
    re.compile(rf"\b(?:[Ff]rom|[Bb]y)\s+{_NAME}"),
    re.compile(
        rf"\b(?:[Dd]id|[Hh]as|[Hh]ave)\s+{_NAME}\s+(?:already\s+|ever\s+)?"
        r"(?:writ|wrote|repl|answer|respon|send|sent|confirm|mail|email)"
    ),
    re.compile(
        rf"\b(?:[Mm]ails?|[Ee]mails?|letters?|messages?)\s+(?:where|that|which)\s+{_NAME}\s+(?:sent|wrote)"
    ),
    re.compile(
        r"\b(?P<name>[A-Z][\w-]+)['’]s\s+(?:last\s+|latest\s+)?(?:e-?mails?|mails?|letters?|messages?)\b"
    ),
)
_SINCE = re.compile(
    r"(?i)\b(?P<when>today|this\s+morning|overnight|yesterday|(?:this|last|past)\s+(?:week|month)|weekend"
    r"|(?:since|on|last)\s+(?P<weekday>mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|(?:from|in|since)\s+(?P<month>jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)"
    r"(?:r?uary|ch|il|ust|(?:em|o)?ber)?)\b"
)


class MailWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The mail to find: words in it, who sent it, the days as 2026-03-18, whether it is unread.

    ``before`` is not included.
    """

    words: tuple[str, ...] = ()
    senders: tuple[str, ...] = ()
    since: str = ""
    before: str = ""
    unread: bool = False


def parse_wanted(text: str, today: date) -> MailWanted:
    """The words, senders and days of a message; a question for what is new wants what is unread."""
    since, before = _find_days(text, today)
    rest, senders = _SINCE.sub(" ", text), []
    for pattern in _SENDERS:
        for found in pattern.finditer(rest):
            name = " ".join(find_terms(found["name"]).values())
            if name and not find_terms(name).keys() <= COMMON:
                senders.append(name)
    named = {term for name in senders for term in find_terms(name)}
    words = [word for term, word in find_terms(rest).items() if term not in COMMON | named]
    return MailWanted(
        words=tuple(words[:MOST_WORDS]),
        senders=tuple(dict.fromkeys(senders)),
        since=since,
        before=before,
        unread="unread" in text.lower() or (bool(_NEW.search(text)) and not words and not senders),
    )


def _find_days(text: str, today: date) -> tuple[str, str]:
    """The first day that the mail may have come on, and the first on which it may not."""
    found = _SINCE.search(text)
    if found is None:
        return "", ""
    when = " ".join(found["when"].lower().split())
    if weekday := (found["weekday"] or "").lower():
        start = today - timedelta(days=(today.weekday() - WEEKDAYS[weekday[:3]]) % 7 or 7)
        return start.isoformat(), "" if when.startswith("since") else (start + timedelta(days=1)).isoformat()
    if month := found["month"]:
        number = MONTHS[month[:3].lower()]
        month_start = date(today.year - (number > today.month), number, 1)
        after = (month_start + timedelta(days=31)).replace(day=1)
        return month_start.isoformat(), "" if when.startswith("since") else after.isoformat()
    monday = today - timedelta(days=today.weekday())
    spans = {
        "overnight": (today - timedelta(days=1), None),
        "yesterday": (today - timedelta(days=1), today),
        "this week": (monday, None),
        "last week": (monday - timedelta(days=7), monday),
        "past week": (today - timedelta(days=7), None),
        "this month": (today.replace(day=1), None),
        "last month": ((today.replace(day=1) - timedelta(days=1)).replace(day=1), today.replace(day=1)),
        "past month": (today - timedelta(days=31), None),
        "weekend": (today - timedelta(days=(today.weekday() - 5) % 7 or 7), None),
    }
    first, end = spans.get(when, (today, None))
    return first.isoformat(), end.isoformat() if end else ""
