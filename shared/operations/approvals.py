"""The agents' requests for approval, their risk, and people's answers."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import seal
from shared.contracts import ApprovalAnswer, ApprovalRequest, StateChanged
from shared.errors import Conflict, MailroomError, NotFound, TooLate
from shared.gate.registries import PUBLIC
from shared.queries.records import count_subjects, read_last, read_newest_of_each, scan
from shared.sandbox import Reach
from shared.text.display import escape_invisible
from shared.text.times import parse_time
from shared.trace import HEADER, join_trace
from shared.views.approval import Approval, Grade, Reaching

MOST = 200  # The most requests of one agent that are read, unless more are wanted


def agent_of(approval: Approval) -> str:
    """The agent that asks."""
    return approval.request.sender


class ApprovalPage(NamedTuple):
    """Requests, latest last, and how many older ones there are of each agent that has such."""

    approvals: list[Approval]
    older: dict[str, int]


async def read_approvals(bus: Bus, limit: int = MOST, *, agent: str = "*") -> ApprovalPage:
    """The last ``limit`` requests of each agent, or of one."""
    asked, older = await read_newest_of_each(bus, subjects.approval_asked("{agent}", "*"), limit, agent=agent)
    return ApprovalPage(await _complete(bus, asked), older)


async def _complete(bus: Bus, asked: Iterable[Stored]) -> list[Approval]:
    """The requests in what was ``asked``, each once, with their answers."""
    requests = {each.approval_id: each for each in map(_parse_request, asked) if each is not None}
    subject_of = {
        each.approval_id: subjects.approval_answered(each.sender, each.approval_id)
        for each in requests.values()
    }
    answered = await read_last(bus, subjects.OFFICE, subject_of.values())
    counts = await count_subjects(bus, subjects.OFFICE, subjects.approval_asked("*", "*"))
    found = []
    for each in requests.values():
        approval = _to_approval(each, answered.get(subject_of[each.approval_id]))
        asked_on = subjects.approval_asked(each.sender, each.approval_id)
        changed = counts.get(asked_on, 0) > 1 and await _is_changed(bus, asked_on)
        found.append(replace(approval, state="changed") if changed else approval)
    waiting = {each.request.goal_id for each in found if each.state == "waiting"}
    ended = await _read_ended(bus, waiting)
    return [
        replace(each, state="over") if each.state == "waiting" and each.request.goal_id in ended else each
        for each in found
    ]


async def _read_ended(bus: Bus, goal_ids: set[str]) -> set[str]:
    """The goals that have ended; a request outside of a goal keeps waiting."""
    names = [subjects.goal(goal_id) for goal_id in goal_ids if goal_id]
    records = [
        StateChanged.from_json(each.data) for each in (await read_last(bus, subjects.OFFICE, names)).values()
    ]
    return {record.goal_id for record in records if record.goal is not None and record.goal.status.final}


async def _is_changed(bus: Bus, subject: str) -> bool:
    """Whether several texts were asked under one id."""
    requests = [_parse_request(stored) async for stored in scan(bus, subjects.OFFICE, subject)]
    return len({request.digest if request else "" for request in requests}) > 1


def _parse_request(stored: Stored) -> ApprovalRequest | None:
    try:
        request = ApprovalRequest.from_json(stored.data)
    except ValueError:
        return None
    return request if stored.subject == subjects.approval_asked(request.sender, request.approval_id) else None


def _to_approval(request: ApprovalRequest, stored: Stored | None) -> Approval:
    expires = parse_time(request.expires_at)
    answer = _parse_answer(stored)
    counts = answer is not None and (answer.allows(request) or not answer.granted)
    if answer is not None and stored is not None and counts and parse_time(stored.time) <= expires:
        return view_request(request, answer, "granted" if answer.granted else "refused")
    return view_request(request, None, "waiting" if datetime.now(UTC) < expires else "expired")


def view_request(request: ApprovalRequest, answer: ApprovalAnswer | None, state: str) -> Approval:
    """A request as people decide about it, without the text of its goal."""
    risk = grade_risk(request)
    return Approval(
        request=request,
        answer=answer,
        state=state,
        opens=describe_reach(request.reach),
        approval_id=request.approval_id,
        agent=request.sender,
        what=escape_invisible(request.what),
        rule=request.rule,
        why=request.why,
        risk=risk.grade,
        risk_reason=risk.reason,
        reach=request.reach,
        needs_hosts=ANY_HOST in request.reach,
        on_yes=describe_yes(request),
        on_no=describe_no(request),
        goal_id=request.goal_id,
        task_id=request.task_id,
        asked_at=request.created_at,
        expires_at=request.expires_at,
    )


def _parse_answer(stored: Stored | None) -> ApprovalAnswer | None:
    try:
        return ApprovalAnswer.from_json(stored.data) if stored else None
    except ValueError:
        return None  # the agent ignores it as well


async def find_approvals(bus: Bus, prefix: str) -> list[Approval]:
    """The requests whose id begins with ``prefix``, some of many; if none does, the latest of each agent."""
    names = await count_subjects(bus, subjects.OFFICE, subjects.approval_asked("*", "*"))
    fitting = [name for name in names if prefix and name.rpartition(".")[2].startswith(prefix)][:MOST]
    if not fitting:
        return (await read_approvals(bus)).approvals
    return await _complete(bus, (await read_last(bus, subjects.OFFICE, fitting)).values())


async def answer_request(
    bus: Bus,
    prefix: str,
    granted: bool,
    note: str,
    scope: Reaching = "command",
    hosts: tuple[str, ...] = (),
    *,
    person: str = "",
    check: Callable[[ApprovalRequest, bool], None] = lambda *_: None,
) -> ApprovalRequest:
    """Answer the request whose id begins with ``prefix``, as ``person``; returns it.

    ``check`` raises if that person may not answer it. ``scope`` is how far a grant of reach goes, ``hosts``
    are opened beside what was requested. Raises NotFound if there is none, MailroomError if several match,
    TooLate if it is answered, expired or over.
    """
    found = _require_one(await find_approvals(bus, prefix), prefix)
    request = found.request
    check(request, granted)
    if granted or found.state != "changed":
        _require_waiting(found)
    if granted:
        _require_reach(request, scope, hosts)
    subject = subjects.approval_answered(request.sender, request.approval_id)
    before = await bus.last(subjects.OFFICE, subject)
    asked = await bus.last(subjects.OFFICE, subjects.approval_asked(request.sender, request.approval_id))
    join_trace(asked.headers.get(HEADER, "") if asked else "")
    answer = ApprovalAnswer(
        sender=subjects.USER,
        recipient=request.sender,
        cause=request.id,
        goal_id=request.goal_id,
        approval_id=request.approval_id,
        granted=granted,
        note=note[:2_000],
        scope=scope,
        hosts=hosts,
        digest=request.digest,
        person=person,
    )
    known = _parse_answer(before)
    try:
        if known is None or (known.granted and not known.allows(request)):
            await bus.commit([seal(subject, answer, expect=before.seq if before else 0)])
            return request
    except Conflict:
        pass
    raise _already_answered(_require_one(await find_approvals(bus, prefix), prefix))


def _require_reach(request: ApprovalRequest, scope: Reaching, hosts: tuple[str, ...]) -> None:
    """Raise MailroomError if the options of a grant do not fit the request."""
    Reach(hosts=hosts)
    short = request.approval_id[:12]
    if not request.reach and (scope != "command" or hosts):
        raise MailroomError(f"The request {short} asks for no network", "Leave out --for and --host")
    if ANY_HOST in request.reach and not hosts:
        raise MailroomError(
            f"Which hosts the request {short} needs is not known beforehand",
            f"Name them: mailroom approvals grant {short} --host example.org",
        )


def _require_waiting(found: Approval) -> None:
    short = found.request.approval_id[:12]
    if found.state == "changed":
        raise TooLate(
            f"{found.request.sender} changed the text of the request {short} since then, so it is void",
            f"Refuse it: mailroom approvals refuse {short}",
        )
    if found.state == "expired":
        raise TooLate(
            f"The request {short} has expired, which refused it", "Submit the goal again, and answer in time"
        )
    if found.state == "over":
        raise TooLate(f"The request {short} is no longer waiting", "Its goal has ended")
    if found.state != "waiting":
        raise _already_answered(found)


def _already_answered(found: Approval) -> TooLate:
    by = f" by {found.answer.person}" if found.answer and found.answer.person else ""
    return TooLate(
        f"The request {found.request.approval_id[:12]} has been {found.state} already{by}",
        "An answer cannot be changed",
    )


def _require_one(approvals: list[Approval], prefix: str) -> Approval:
    # Scripts that read the list as JSON find the message's "id" beside it.
    matching = [
        each
        for each in approvals
        if prefix and (each.request.approval_id.startswith(prefix) or each.request.id == prefix)
    ]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise NotFound(f"There is no request {prefix[:40]!r}", "'mailroom approvals list' lists them")
    ids = ", ".join(each.request.approval_id[: len(prefix) + 6] for each in matching[:5])
    raise MailroomError(f"{len(matching)} requests begin with {prefix!r}: {ids}", "Give more of its id")


def describe_reach(reach: tuple[str, ...]) -> str:
    """What a grant of ``reach`` opens, for people."""
    shown = []
    for entry in reach:
        kind, _, name = entry.partition(":")
        named = (
            f"the {kind} registry ({', '.join(PUBLIC[kind])})"
            if kind in PUBLIC
            else "the hosts that you name"
        )
        shown.append(name if kind == "host" else named)
    return ", ".join(shown)


def describe_yes(request: ApprovalRequest) -> str:
    """What happens if the request is granted, in a sentence for the person who decides."""
    does = f"{request.sender} does exactly this, and nothing else, for this goal"
    if not request.reach:
        return f"{does}. Asked again for the same in this goal, the answer holds."
    opened = describe_reach(request.reach)
    return f"{does}. It may reach {opened}; you say whether later commands of its task or goal may too."


def describe_no(request: ApprovalRequest) -> str:
    """What happens if the request is refused."""
    return (
        f"Nothing of it is done. {request.sender} reads your note and goes on without it, or its task fails "
        f"and says why. Without an answer in time it counts as refused."
    )


GRADES: tuple[Grade, ...] = ("low", "medium", "high")
HOST = "host:"
ANY_HOST = "network"


class Risk(NamedTuple):
    """How bad it can get if the request is granted, and why in a sentence."""

    grade: Grade
    reason: str


UNKNOWN = Risk("high", "What it does cannot be told before it runs.")
NO_RULE = Risk("medium", "No rule of the command policy says what it can do. Read it with care.")
BY_FAMILY = {
    "unclear": UNKNOWN,
    "destroy": Risk("high", "What it deletes does not come back by itself."),
    "secret": Risk("high", "Who reads a secret can use it everywhere."),
    "share": Risk("high", "Others can see it at once, and it can hardly be taken back."),
    "others": Risk("high", "It changes something that other people use."),
    "database": Risk("high", "Data in a database may be lost."),
    "guard": Risk("high", "It may weaken what limits the agents."),
    "read": Risk("medium", "It reads what lies outside its work, and may repeat it in its answer."),
    "write": Risk("medium", "It changes files outside its own copy."),
    "run": Risk("medium", "It runs a program whose content was not examined. The jail confines it."),
    "git": Risk("medium", "It changes what git keeps in the agent's copy, not in your folder."),
    "reach": Risk("medium", "It opens a way to the network."),
    "mcp": Risk("medium", "A program of others does it, with all that [mcp.NAME] of the settings gives it."),
}
"""By the first part of a rule's name (shared/policy/rules.toml)."""
BY_RULE = {
    "destroy.workspace": Risk("low", "It deletes the agent's own copy, and a snapshot brings that back."),
    "git.discard": Risk("low", "It throws away work in the agent's own copy."),
    "mcp.destructive": Risk("high", "The tool says itself that it can destroy something."),
    "git.remote": Risk("high", "Later work would go to another place."),
}
"""Rules whose grade differs from that of their family."""


def grade_risk(request: ApprovalRequest) -> Risk:
    """The risk of granting a request: that of its rule, or of its reach if this is higher."""
    family = request.rule.partition(".")[0]
    ruled = BY_RULE.get(request.rule) or BY_FAMILY.get(family, NO_RULE)
    if not request.reach:
        return ruled
    reach = _grade_reach(request.reach)
    return reach if family == "reach" else max(reach, ruled, key=lambda risk: GRADES.index(risk.grade))


def _grade_reach(reach: tuple[str, ...]) -> Risk:
    hosts = [entry.removeprefix(HOST) for entry in reach if entry.startswith(HOST)]
    if ANY_HOST in reach:
        return Risk("high", "Which hosts it needs is not known. Data may leave to those that you name.")
    if hosts:
        return Risk("medium", f"What it reads may leave to {', '.join(hosts)}, and to no other host.")
    return Risk("low", "It fetches packages of a public registry. Their code runs in the jail alone.")
