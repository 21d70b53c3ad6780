"""What the first line of a reply means."""

import re
from typing import NamedTuple

_APPROVE = ("approve", "approved", "yes", "ok", "grant")
_REFUSE = ("refuse", "refused", "no", "deny", "reject")
_WORDS = {**dict.fromkeys(_APPROVE, "approve"), **dict.fromkeys(_REFUSE, "refuse")}
_CODE = re.compile(r"[A-Za-z0-9]{6}")
_REMINDER = re.compile(r"(done|snooze)\b[\s:,.!]*(.{0,100})$", re.IGNORECASE)


class Command(NamedTuple):
    """An act of LABELS, its ``code`` and the ``rest`` of the line; an empty act is a message for the desk."""

    act: str = ""
    code: str = ""
    rest: str = ""


def parse_decision(text: str) -> Command:
    """The answer to a request: ``approve CODE`` or ``refuse CODE why``."""
    words = text.strip().split("\n")[0].split()
    act = _WORDS.get(words[0].strip(".,:;!").casefold(), "") if words else ""
    if not act:
        return Command()
    code = words[1] if len(words) > 1 and _CODE.fullmatch(words[1]) else ""
    return Command(act, code, " ".join(words[2 if code else 1 :])[:500])


def parse_reminder(text: str) -> Command:
    """The answer to a reminder: ``done``, ``snooze``, ``snooze 2 hours``."""
    found = _REMINDER.match(text.strip().split("\n")[0].strip())
    return Command(found[1].casefold(), "", found[2].strip()) if found else Command()
