"""``mailroom approvals``: listing and answering the agents' requests for approval."""

from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from services.cli.commands.options import json_option
from services.cli.connection import run_connected
from services.cli.output.console import open_console, print_block, print_json, print_line, print_result
from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import seal
from shared.contracts import ApprovalAnswer, ApprovalRequest, StateChanged
from shared.errors import Conflict, MailroomError
from shared.gate.registries import PUBLIC
from shared.queries.records import count_subjects, read_last
from shared.sandbox import Reach
from shared.text.printable import clean
from shared.text.times import format_span, parse_time, seconds_between

STYLES = {"waiting": "yellow", "granted": "green", "refused": "red", "expired": "dim", "over": "dim"}


Scope = Literal["command", "task", "goal"]


class Approval(NamedTuple):
    """A request, its answer if there is one, and its state: waiting, granted, refused, expired or over.

    It is over if its goal ended before anyone answered.
    """

    request: ApprovalRequest
    answer: ApprovalAnswer | None
    state: str

    def to_dict(self) -> dict[str, Any]:
        """The request with its state and the note of the answer."""
        answer = {"note": self.answer.note, "answered_at": self.answer.created_at} if self.answer else {}
        return {**self.request.to_dict(), "agent": self.request.sender, "state": self.state, **answer}


async def read_approvals(bus: Bus) -> list[Approval]:
    """Every request, latest last."""
    asked = await _read_latest(bus, subjects.approval_asked("*", "*"))
    answered = await _read_latest(bus, subjects.approval_answered("*", "*"))
    found = []
    for stored in sorted(asked.values(), key=lambda stored: stored.seq):
        request = _parse_request(stored)
        if request is not None:
            subject = subjects.approval_answered(request.sender, request.approval_id)
            found.append(_to_approval(request, answered.get(subject)))
    waiting = {each.request.goal_id for each in found if each.state == "waiting"}
    ended = await _read_ended(bus, waiting)
    return [
        each._replace(state="over") if each.state == "waiting" and each.request.goal_id in ended else each
        for each in found
    ]


async def _read_ended(bus: Bus, goal_ids: set[str]) -> set[str]:
    """The goals that have ended; a request outside of a goal keeps waiting."""
    names = [subjects.goal(goal_id) for goal_id in goal_ids if goal_id]
    records = [
        StateChanged.from_json(each.data) for each in (await read_last(bus, subjects.OFFICE, names)).values()
    ]
    return {record.goal_id for record in records if record.goal is not None and record.goal.status.final}


async def _read_latest(bus: Bus, pattern: str) -> dict[str, Stored]:
    return await read_last(bus, subjects.OFFICE, await count_subjects(bus, subjects.OFFICE, pattern))


def _parse_request(stored: Stored) -> ApprovalRequest | None:
    try:
        request = ApprovalRequest.from_json(stored.data)
    except ValueError:
        return None
    return request if stored.subject == subjects.approval_asked(request.sender, request.approval_id) else None


def _to_approval(request: ApprovalRequest, stored: Stored | None) -> Approval:
    expires = parse_time(request.expires_at)
    answer = _parse_answer(stored)
    if answer is not None and stored is not None and parse_time(stored.time) <= expires:
        return Approval(request, answer, "granted" if answer.granted else "refused")
    return Approval(request, None, "waiting" if datetime.now(UTC) < expires else "expired")


def _parse_answer(stored: Stored | None) -> ApprovalAnswer | None:
    try:
        return ApprovalAnswer.from_json(stored.data) if stored else None
    except ValueError:
        return None  # the agent ignores it as well


async def answer_request(
    bus: Bus, prefix: str, granted: bool, note: str, scope: Scope = "command", hosts: tuple[str, ...] = ()
) -> ApprovalRequest:
    """Answer the request whose id begins with ``prefix``; returns it.

    ``scope`` is how far a grant of reach goes, ``hosts`` are opened beside what was requested. Raises
    MailroomError if none or several match, and if it is answered, expired or over.
    """
    request = _require_waiting(await read_approvals(bus), prefix)
    if granted:
        _require_reach(request, scope, hosts)
    subject = subjects.approval_answered(request.sender, request.approval_id)
    before = await bus.last(subjects.OFFICE, subject)
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
    )
    try:
        if _parse_answer(before) is None:
            await bus.commit([seal(subject, answer, expect=before.seq if before else 0)])
            return request
    except Conflict:
        pass
    raise _already_answered(_require_one(await read_approvals(bus), prefix))


def _require_reach(request: ApprovalRequest, scope: Scope, hosts: tuple[str, ...]) -> None:
    """Raise MailroomError if the options of a grant do not fit the request."""
    Reach(hosts=hosts)
    short = request.approval_id[:12]
    if not request.reach and (scope != "command" or hosts):
        raise MailroomError(f"The request {short} asks for no network", "Leave out --for and --host")
    if "network" in request.reach and not hosts:
        raise MailroomError(
            f"Which hosts the request {short} needs is not known beforehand",
            f"Name them: mailroom approvals grant {short} --host example.org",
        )


def _require_waiting(approvals: list[Approval], prefix: str) -> ApprovalRequest:
    found = _require_one(approvals, prefix)
    short = found.request.approval_id[:12]
    if found.state == "expired":
        raise MailroomError(
            f"The request {short} has expired, which refused it", "Submit the goal again, and answer in time"
        )
    if found.state == "over":
        raise MailroomError(f"The request {short} is no longer waiting", "Its goal has ended")
    if found.state != "waiting":
        raise _already_answered(found)
    return found.request


def _already_answered(found: Approval) -> MailroomError:
    return MailroomError(
        f"The request {found.request.approval_id[:12]} has been {found.state} already",
        "An answer cannot be changed",
    )


def _require_one(approvals: list[Approval], prefix: str) -> Approval:
    matching = [each for each in approvals if prefix and each.request.approval_id.startswith(prefix)]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise MailroomError(f"There is no request {prefix[:40]!r}", "'mailroom approvals list' lists them")
    ids = ", ".join(each.request.approval_id[: len(prefix) + 6] for each in matching[:5])
    raise MailroomError(f"{len(matching)} requests begin with {prefix!r}: {ids}", "Give more of its id")


@click.group()
def approvals() -> None:
    """Grant or refuse what agents may not do without a person.

    A request that is not answered in time is refused. A grant is valid for this operation only, in the
    same goal. Any NATS client with the key of 'user' can answer too:

    \b
      nats pub approval.AGENT.answered.ID \\
        '{"type": "approval_answer.v1", "approval_id": "ID", "granted": true}'
    """  # noqa: D301 - click reads the backspace as "keep these lines"


@approvals.command(name="list")
@click.option(
    "--all", "everything", is_flag=True, help="Include requests that are answered, expired or over."
)
@json_option
def list_approvals(everything: bool, as_json: bool) -> None:
    """List the requests that wait for an answer, latest last."""
    found = [each for each in run_connected(read_approvals) if everything or each.state == "waiting"]
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    if not found:
        click.echo("There are no requests yet." if everything else "Nothing waits for approval.")
        return
    console = open_console()
    for each in found:
        _print_approval(each, console)
    if any(each.state == "waiting" for each in found):
        click.echo("mailroom approvals grant|refuse ID")


def _print_approval(approval: Approval, console: Console) -> None:
    request = approval.request
    when = f"{format_span(seconds_between(request.created_at))} ago"
    if approval.state == "waiting":
        left = (parse_time(request.expires_at) - datetime.now(UTC)).total_seconds()
        when += f", {format_span(max(left, 0.0))} left"
    state = (approval.state, STYLES[approval.state])
    head = Text.assemble((request.approval_id[:12], "bold"), "  ", state, f"  {request.sender}  {when}")
    print_line(head, console)
    # In full, with nothing hidden: this is what is being allowed.
    _print_padded(escape_invisible(request.what), console)
    if request.why or request.rule:
        reason = f"{clean(request.rule)}: {clean(request.why)}".strip(": ")
        print_block(f"{'':4}{reason}", console, hang=4)
    if approval.answer is not None and approval.answer.note:
        _print_padded(f"Note: {clean(approval.answer.note)}", console)
    if request.reach:
        _print_padded(f"Opens {clean(describe_reach(request.reach))}", console)
        if approval.state == "waiting":
            host = " --host NAME" if "network" in request.reach else ""
            command = f"mailroom approvals grant {request.approval_id[:12]} --for command|task|goal{host}"
            _print_padded(command, console)
    if request.goal_id:
        _print_padded(Text(f"goal {clean(request.goal_id)}", style="dim"), console)
    console.print()


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


def _print_padded(text: str | Text, console: Console) -> None:
    console.print(Padding(text, (0, 0, 0, 4), expand=False))


def escape_invisible(text: str) -> str:
    """``text`` with its lines; control and other invisible characters as their code points."""
    shown = (each if each.isprintable() or each == "\n" else f"\\u{{{ord(each):x}}}" for each in text)
    return "".join(shown)


id_argument = click.argument("approval_id", metavar="ID")
note_option = click.option("--note", default="", help="A note to the agent, kept with the answer.")


@approvals.command()
@id_argument
@note_option
@click.option(
    "--for",
    "scope",
    type=click.Choice(["command", "task", "goal"]),
    default="command",
    show_default=True,
    help="Which commands may reach what it asks of the network: this one, all of its task, or of its goal.",
)
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="A further host to open; may be repeated."
)
@json_option
def grant(approval_id: str, note: str, scope: Scope, hosts: tuple[str, ...], as_json: bool) -> None:
    """Grant the request ID, for its goal.

    ID may be shortened as long as it is unique. A host's NAME is example.org or *.example.org, if
    needed with a port. With --for task or goal, later commands that need no more are not asked about.
    """
    _answer(approval_id, True, note, as_json, scope, hosts)


@approvals.command()
@id_argument
@note_option
@json_option
def refuse(approval_id: str, note: str, as_json: bool) -> None:
    """Refuse the request ID, for its goal.

    ID may be shortened as long as it is unique.
    """
    _answer(approval_id, False, note, as_json)


def _answer(
    approval_id: str,
    granted: bool,
    note: str,
    as_json: bool,
    scope: Scope = "command",
    hosts: tuple[str, ...] = (),
) -> None:
    request = run_connected(lambda bus: answer_request(bus, approval_id, granted, note, scope, hosts))
    word, may = ("granted", "may") if granted else ("refused", "may not")
    value: dict[str, Any] = {
        "approval_id": request.approval_id,
        "agent": request.sender,
        "state": word,
        "note": note,
    }
    if request.reach:
        value |= {"reach": request.reach, "scope": scope, "hosts": hosts}
    text = f"{request.approval_id[:12]} {word}: {request.sender} {may} {clean(request.what)[:500]}"
    print_result(value, text, as_json)
