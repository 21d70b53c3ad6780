"""Submitting goals, so that the same submission begins nothing twice."""

from typing import Any

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import Goal, TaskPriority, generate_id, generate_task_id
from shared.errors import BusError, Refused, TooLate
from shared.queries.records import read_goal
from shared.tasks.said import names_something, words_in
from shared.text.display import flatten
from shared.trail.archives import read_message
from shared.views.listed import SubmittedGoal

QUOTED = 80  # The most characters that are quoted of another goal


def make_body(
    text: str, context: dict[str, Any], goal_id: str | None = None, *, person: str = ""
) -> dict[str, Any]:
    """A submission of ``person``; further fields are ``priority`` and ``deadline``."""
    body = {
        "text": text,
        "goal_id": goal_id or generate_task_id("goal"),
        "requester": subjects.USER,
        "context": context,
    }
    return with_person(body, person)


def with_person(body: dict[str, Any], person: str) -> dict[str, Any]:
    """A submission with the name of the person, unless that is empty."""
    return body | {"person": person} if person else body


async def find_known(bus: Bus, body: dict[str, Any]) -> Goal | None:
    """The goal that was submitted before under this id; raises Refused if it is another one.

    If two are submitted at the same moment, the conductor decides.
    """
    found = await read_goal(bus, str(body["goal_id"]))
    if found is None:
        return None
    known = found[0]
    if "retry" in body:  # the id was made for it
        return known
    same = all(getattr(known, name) == body[name] for name in ("text", "requester", "context"))
    words = words_in(str(body["text"]), body["context"])
    if not same or (names_something(words) and not known.said):
        raise Refused(
            f"The id {known.goal_id!r} is that of another goal, of {known.requester}: "
            f"{flatten(known.text, QUOTED)!r}",
            "Choose another with --id, or leave that out",
        )
    return known


async def publish(bus: Bus, body: dict[str, Any]) -> int:
    """Publish a submission; returns its sequence in OFFICE.

    Its message id is random. The goal's id would not do: the server drops a message whose id any other
    message had in the last two minutes, from any sender.
    """
    stored = await _store(bus, body, generate_id())
    if stored.get("duplicate"):
        raise BusError("The server took the submission for a repeated message", "Submit it again")
    return int(stored["seq"])


def derive_goal_id(bus: Bus, person: str, key: str) -> str:
    """The id of the goal that ``person`` submits under an idempotency key; a new one without a key."""
    return f"goal_{bus.derive_id('submission', person, key)[:24]}" if key else generate_task_id("goal")


async def submit_once(bus: Bus, body: dict[str, Any], key: str = "") -> SubmittedGoal:
    """Submit a goal once, however often that is asked under its id or the same ``key``.

    ``derive_goal_id`` made the id of a goal with a key; the id of its message is derived from the key too,
    and cannot be guessed by others. Raises Refused if another goal was submitted under the id, TooLate under
    the key.
    """
    goal_id = str(body["goal_id"])
    other = TooLate("Another goal was submitted under this key", "Use a key of its own for each goal")
    try:
        known = await find_known(bus, body)
    except Refused:
        if not key:
            raise
        raise other from None
    if not key:
        if known:
            return SubmittedGoal(goal_id=goal_id, status=str(known.status))
        return SubmittedGoal(goal_id=goal_id, seq=await publish(bus, body))
    same = SubmittedGoal(goal_id=goal_id)  # the answer to each of several times
    if known:
        return same
    stored = await _store(bus, body, bus.derive_id("submission", str(body.get("person", "")), key))
    if stored.get("duplicate"):
        first = await read_message(bus, subjects.OFFICE, int(stored["seq"]))
        if first is None or msgspec.json.decode(first.data) != msgspec.json.decode(msgspec.json.encode(body)):
            raise other
    return same


async def _store(bus: Bus, body: dict[str, Any], message_id: str) -> dict[str, Any]:
    # what is said of a goal or an agent at work waits behind no goals
    said = "resume" in body or "control" in body
    subject = subjects.SUBMIT_AS["URGENT" if said else TaskPriority(body.get("priority", "MEDIUM"))]
    return await bus.store(subject, msgspec.json.encode(body), headers={"Nats-Msg-Id": message_id})
