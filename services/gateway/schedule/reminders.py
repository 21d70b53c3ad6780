"""Reminders: read from their record, changed by messages to nexus, as anybody may."""

import re
from datetime import datetime

from services.gateway.context import Call
from services.gateway.problems import Failure, not_found
from services.gateway.schedule.orders import give_order
from shared import subjects
from shared.bus.records import read_record
from shared.contracts import Reminder, Reminders, ReminderStatus

ENDED = (ReminderStatus.ACKNOWLEDGED, ReminderStatus.CANCELLED)
_SET = re.compile(r"\breminder (r[0-9a-f]{6,})\b")
_ID = re.compile(r"r[0-9a-f]{6,40}")


async def read_reminders(call: Call) -> list[Reminder]:
    """All that are known: the open ones first, and of these the next one."""
    subject = subjects.record(subjects.NEXUS, "reminders", "all")
    record = await read_record(call.gateway.bus, subject, Reminders)
    found = record.value.reminders if record else ()
    return sorted(found, key=lambda each: (each.status in ENDED, each.due_at))


async def set_reminder(call: Call, text: str, when: str) -> tuple[str, Reminder]:
    """What nexus says, and the reminder; raises Failure with its question if the time is not clear."""
    words = text if re.match(r"(?i)\s*remind\b", text) else f"Remind me to {text.strip()}"
    answer = (await give_order(call, f"{words} {_format_time(when)}".strip())).text
    found = _SET.search(answer)
    if found is None:
        raise Failure(422, answer)
    return answer, await find_reminder(call, found[1])


async def change_reminder(call: Call, reminder_id: str, words: str) -> tuple[str, Reminder]:
    """What nexus says to ``words``, in which ``{}`` stands for the reminder; and the reminder after that."""
    await find_reminder(call, reminder_id)
    answer = (await give_order(call, words.format(f"the reminder {reminder_id}"))).text
    return answer, await find_reminder(call, reminder_id)


async def find_reminder(call: Call, reminder_id: str) -> Reminder:
    """The reminder with exactly this id; raises Failure if there is none."""
    known = await read_reminders(call) if _ID.fullmatch(reminder_id) else []
    for each in known:
        if each.reminder_id == reminder_id:
            return each
    raise not_found(f"reminder {reminder_id[:40]!r}", "Read /api/v1/reminders for the ids")


def _format_time(when: str) -> str:
    try:
        datetime.fromisoformat(when.strip())
    except ValueError:
        return when.strip()
    return f"at {when.strip()}"
