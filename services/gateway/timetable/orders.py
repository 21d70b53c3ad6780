"""Changes of the timetable: each is a message to the front desk, as anybody may write one.

What the desk asks back, such as for a time, is a Failure with its
question.
"""

import re
from datetime import datetime

from services.gateway.call import Call
from services.gateway.conversations import PAGE_SESSION, ask, wait_for_answer
from services.gateway.pages.agents import message_id_of
from services.gateway.problems import Failure, not_found
from services.gateway.timetable.items import view_due
from shared import subjects
from shared.clock import read_zone
from shared.contracts import Question, ResultOutcome
from shared.errors import BusUnavailable
from shared.queries.timetable import ENDED, read_timetable
from shared.views.desk import Answer
from shared.views.listed import Item

TIMEOUT = 20.0  # seconds until the front desk must have answered; if it runs, it takes a tenth of a second
ORDERS = {
    ("mail", "remove"): "Cancel the reminder {}",
    ("mail", "done"): "Mark the reminder {} as done",
    ("mail", "snooze"): "Snooze the reminder {} {time}",
    **{("goal", verb): f"/schedule {verb} {{}}" for verb in ("remove", "pause", "resume", "run")},
    **{("job", verb): f"/queue {verb} {{}}" for verb in ("remove", "run")},
}
"""The message for what is done with an item, by what it is."""
_DUE_ID = re.compile(r"r[0-9a-f]{6,40}|s[0-9a-f]{7}")
_JOB_ID = re.compile(r"(?=.*\d)[A-Za-z0-9_-]{1,100}")
_ADDED = re.compile(
    r"\breminder (?P<mail>r[0-9a-f]{6,})\b|^(?P<goal>s[0-9a-f]{7}) runs |^Queued as (?P<job>job-[0-9-]+)\."
)


async def add_item(call: Call, what: str, text: str, when: str) -> tuple[Answer, str]:
    """What the desk says, and the item's id; raises Failure with its question if the time is not clear."""
    text, when = text.strip(), " ".join(when.split())
    if what == "mail":
        words = text if re.match(r"(?i)remind\b", text) else f"Remind me to {text}"
        words = f"{words} {_format_time(when)}".strip()
    else:
        words = f"/{'schedule' if what == 'goal' else 'night_job'} add\n{when or 'night'}\n{text}"
    answer = await _give_order(call, words)
    found = _ADDED.search(answer.text)
    if found is None or not found[what]:
        raise Failure(422, answer.text)
    return answer, found[what]


async def change_item(call: Call, verb: str, time: str = "") -> Answer:
    """What the desk says to an order about the item that the path names."""
    item_id = call.path["id"]
    item = await find_item(call, item_id)
    is_job = item is None and _JOB_ID.fullmatch(item_id) and not _DUE_ID.fullmatch(item_id)
    if not is_job and (item is None or (item.what == "goal" and item.status in ENDED)):
        raise not_found(f"item {item_id[:40]!r}", "Read /api/v1/timetable for the ids")
    words = ORDERS.get((item.what if item else "job", verb))
    if words is None:
        raise Failure(422, f"{item_id[:100]} cannot be changed so: {verb}")
    return await _give_order(call, words.format(item_id, time=time.replace("\n", " ")))


async def find_item(call: Call, item_id: str) -> Item | None:
    """The item of the timetable with exactly this id, as it is now."""
    record = (await read_timetable(call.gateway.bus)).records.get(item_id)
    return view_due(record.value, read_zone(call.gateway.settings.time_zone)) if record else None


def _format_time(when: str) -> str:
    try:
        datetime.fromisoformat(when)
    except ValueError:
        return when
    return f"at {when}"


async def _give_order(call: Call, words: str) -> Answer:
    """The front desk's answer to a message of the person; raises Failure with its words if it did nothing."""
    question = Question(
        id=message_id_of(call),
        sender=subjects.USER,
        recipient=subjects.NEXUS,
        text=words,
        user_session_id=PAGE_SESSION,
        person=call.person.name,
    )
    turn = await wait_for_answer(call.gateway, await ask(call.gateway, question), TIMEOUT)
    if turn is None or turn.state == "waiting":
        raise BusUnavailable(
            f"The front desk has not answered within {TIMEOUT:g} s; the request stays in its mailbox",
            "See on the page of the agents whether nexus and cortex run",
        )
    if turn.answer is None:
        raise Failure(422, f"The front desk could not handle it: {turn.reason}")
    if turn.answer.outcome == ResultOutcome.FAILED:
        raise Failure(422, turn.answer.text)
    return turn.answer
