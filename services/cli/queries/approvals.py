"""What waits for a person's approval: how each request stands, and how it is answered."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from services.cli.output.times import parse_time
from services.cli.queries.records import count_subjects, read_last
from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import seal
from shared.contracts import ApprovalAnswer, ApprovalRequest, StateChanged
from shared.errors import Conflict, MailroomError


class Standing(NamedTuple):
    """A request, the answer to it if there is one, and its state: waiting, granted, refused, expired or over.

    It is over where its goal ended before anybody answered.
    """

    request: ApprovalRequest
    answer: ApprovalAnswer | None
    state: str

    def to_dict(self) -> dict[str, Any]:
        """The request with its state and the note of the answer."""
        answer = {"note": self.answer.note, "answered_at": self.answer.created_at} if self.answer else {}
        return {**self.request.to_dict(), "agent": self.request.sender, "state": self.state, **answer}


async def read_standings(bus: Bus) -> list[Standing]:
    """Every request there is, the one that was asked last at the end."""
    asked = await _read(bus, subjects.approval_asked("*", "*"))
    answered = await _read(bus, subjects.approval_answered("*", "*"))
    found = []
    for stored in sorted(asked.values(), key=lambda stored: stored.seq):
        request = _request_in(stored)
        if request is not None:
            place = subjects.approval_answered(request.sender, request.approval_id)
            found.append(_standing(request, answered.get(place)))
    ended = await _read_ended(bus, {one.request.goal_id for one in found if one.state == "waiting"})
    over = {
        one.request.approval_id for one in found if one.request.goal_id in ended and one.state == "waiting"
    }
    return [one._replace(state="over") if one.request.approval_id in over else one for one in found]


async def _read_ended(bus: Bus, goal_ids: set[str]) -> set[str]:
    """Those of the goals that have ended; what a person asked of an agent without one waits on."""
    names = [subjects.goal(goal_id) for goal_id in goal_ids if goal_id]
    records = [
        StateChanged.from_json(each.data) for each in (await read_last(bus, subjects.OFFICE, names)).values()
    ]
    return {record.goal_id for record in records if record.goal is not None and record.goal.status.final}


async def _read(bus: Bus, pattern: str) -> dict[str, Stored]:
    return await read_last(bus, subjects.OFFICE, await count_subjects(bus, subjects.OFFICE, pattern))


def _request_in(stored: Stored) -> ApprovalRequest | None:
    try:
        request = ApprovalRequest.from_json(stored.data)
    except ValueError:
        return None
    return request if stored.subject == subjects.approval_asked(request.sender, request.approval_id) else None


def _standing(request: ApprovalRequest, stored: Stored | None) -> Standing:
    expires = parse_time(request.expires_at)
    answer = _answer_in(stored)
    if answer is not None and stored is not None and parse_time(stored.time) <= expires:
        return Standing(request, answer, "granted" if answer.granted else "refused")
    return Standing(request, None, "waiting" if datetime.now(UTC) < expires else "expired")


def _answer_in(stored: Stored | None) -> ApprovalAnswer | None:
    try:
        return ApprovalAnswer.from_json(stored.data) if stored else None
    except ValueError:
        return None  # the agent takes it for no answer either


async def answer(bus: Bus, begin: str, granted: bool, note: str) -> ApprovalRequest:
    """Answer the request whose id begins with ``begin``; returns it.

    Raises MailroomError where there is none or more than one, and where it was answered or has expired.
    """
    request = _require_open(await read_standings(bus), begin)
    subject = subjects.approval_answered(request.sender, request.approval_id)
    before = await bus.last(subjects.OFFICE, subject)
    reply = ApprovalAnswer(
        sender=subjects.USER,
        recipient=request.sender,
        cause=request.id,
        goal_id=request.goal_id,
        approval_id=request.approval_id,
        granted=granted,
        note=note[:2_000],
    )
    try:
        if _answer_in(before) is None:
            await bus.commit([seal(subject, reply, expect=before.seq if before else 0)])
            return request
    except Conflict:
        pass
    raise _answered(_require_one(await read_standings(bus), begin))


def _require_open(standings: list[Standing], begin: str) -> ApprovalRequest:
    one = _require_one(standings, begin)
    if one.state == "expired":
        raise MailroomError(
            f"The request {one.request.approval_id[:12]} has expired, which refused it",
            "Submit the goal again, and answer in time",
        )
    if one.state == "over":
        raise MailroomError(f"Nobody waits for {one.request.approval_id[:12]} any more", "Its goal has ended")
    if one.state != "waiting":
        raise _answered(one)
    return one.request


def _answered(one: Standing) -> MailroomError:
    return MailroomError(
        f"The request {one.request.approval_id[:12]} has been {one.state} already",
        "An answer is not taken back",
    )


def _require_one(standings: list[Standing], begin: str) -> Standing:
    fitting = [one for one in standings if begin and one.request.approval_id.startswith(begin)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise MailroomError(f"There is no request {begin[:40]!r}", "'mailroom approvals list' lists them")
    ids = ", ".join(one.request.approval_id[: len(begin) + 6] for one in fitting[:5])
    raise MailroomError(f"{len(fitting)} requests begin with {begin!r}: {ids}", "Give more of its id")
