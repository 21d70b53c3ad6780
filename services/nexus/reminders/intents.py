"""What a message asks for about reminders: the intent, by how it begins."""

import re
from enum import Enum

from services.nexus.reminders.timers import spell_out
from shared.language.sayings import read_sayings
from shared.language.times.time_phrases import ISO_MOMENT, find_phrases
from shared.text.prose import split_sentences

WAYS = read_sayings(__file__, "requests")
LEAD = WAYS["lead"]
RENAME = WAYS["rename"]
WATCH = WAYS["watch"]

MAX_LENGTH = 4_000
"""Characters of a message that are read; a longer one is no request about reminders."""


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
    for intent, pattern in (
        (ReminderIntent.SNOOZE, WAYS["snooze"]),
        (ReminderIntent.UNDO, WAYS["undo"]),
        (ReminderIntent.CANCEL, WAYS["cancel"]),
        (ReminderIntent.FINISH, WAYS["finish"]),
    ):
        if pattern.search(first):
            return intent
    if WAYS["setting"].search(first) or (WAYS["calling"].search(first) and find_phrases(first)):
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
