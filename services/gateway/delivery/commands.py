"""What the first line of a reply means."""

import re
from typing import NamedTuple

from shared.language.times.time_parser import choose

_APPROVE, _REFUSE = ("approve", "approved", "grant"), ("refuse", "refused", "deny", "reject")
_WORDS = {**dict.fromkeys(_APPROVE, "approve"), **dict.fromkeys(_REFUSE, "refuse")}
_WEAK = {"yes": "approve", "ok": "approve", "okay": "approve", "no": "refuse"}
"""What begins other sentences too: "ok, what is it for?" decides nothing."""
_CODE = re.compile(r"[A-Za-z0-9]{6}")
_POLITE = re.compile(r"(please|thanks|thank you|go ahead|do it)?[\s.!]*$", re.IGNORECASE)
_REMINDER = re.compile(r"(done|snooze|cancel)\b[\s:,.!]*(.{0,100})$", re.IGNORECASE)
_LATER = re.compile(
    r"(?:please,? )?(?:later|(?:(?:remind|tell|ask) me )?(?:again )?"
    r"((?:in|for|until|till|at|on|next|this|tomorrow|tonight|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b.{0,40}?))"
    r"[\s.!,]*(?:please)?[\s.!]*$",
    re.IGNORECASE,
)
"""A moment alone, or "remind me again" with one."""


class Command(NamedTuple):
    """An act of LABELS, its ``code`` and the ``rest`` of the line; an empty act is a message for the desk."""

    act: str = ""
    code: str = ""
    rest: str = ""


def parse_decision(text: str) -> Command:
    """The answer to a request: ``approve CODE`` or ``refuse CODE why``."""
    line = text.strip().split("\n")[0]
    words = line.split()
    first = words[0].strip(".,:;!*").casefold() if words else ""
    act = _WORDS.get(first, "") or _WEAK.get(first, "")
    if not act:
        return Command()
    given = words[1].strip(".,:;!*()\"'") if len(words) > 1 else ""
    code = given if _CODE.fullmatch(given) else ""
    rest = " ".join(words[1:])
    asks = "?" in line or (first in _WEAK and not _POLITE.match(rest))
    if asks and not (code and any(each.isdigit() or each.isupper() for each in code)):
        return Command()
    return Command(act, code, " ".join(words[2 if code else 1 :])[:500])


def parse_reminder(text: str) -> Command:
    """The answer to a reminder: ``done``, ``cancel``, ``snooze``, ``snooze 2 hours``, ``tomorrow at 9``."""
    line = text.strip().split("\n")[0].strip()
    if found := _REMINDER.match(line):
        return Command(found[1].casefold(), "", found[2].strip())
    later = _LATER.match(line)
    if later is None or (later[1] and not choose(later[1]).chosen):
        return Command()
    return Command("snooze", "", later[1] or "")
