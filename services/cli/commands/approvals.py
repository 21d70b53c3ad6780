"""``mailroom approvals``: listing and answering the agents' requests for approval."""

from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from services.cli import api
from services.cli.commands.options import agent_option, json_option, limit_option
from services.cli.output.console import (
    open_console,
    print_block,
    print_json,
    print_line,
    print_rest,
    print_result,
)
from shared.text.display import clean, escape_invisible
from shared.text.times import format_span, parse_time, seconds_between
from shared.views.approval import Approval, Approvals, Decision, Reaching

STYLES = {
    "waiting": "yellow",
    "granted": "green",
    "refused": "red",
    "expired": "dim",
    "over": "dim",
    "changed": "red",
}


@click.group()
def approvals() -> None:
    """Grant or refuse what agents may not do without a person.

    A request that is not answered in time is refused. A grant is valid for this operation only, in the
    same goal, and for the text that was asked: DIGEST is that of 'mailroom approvals list --json'. Any NATS
    client with the key of 'user' can answer too:

    \b
      nats pub approval.AGENT.answered.ID \\
        '{"type": "approval_answer.v1", "approval_id": "ID",
          "granted": true, "digest": "DIGEST"}'
    """  # noqa: D301 - click reads the backspace as "keep these lines"


@approvals.command(name="list")
@click.option(
    "--all", "everything", is_flag=True, help="Include requests that are answered, expired or over."
)
@agent_option
@limit_option
@json_option
def list_approvals(everything: bool, agent: str, limit: int, as_json: bool) -> None:
    """List the requests that wait for an answer, latest last.

    Those of each agent come in turn, so that one that asks without end hides no other.
    """
    query: api.Query = {"all": everything, "agent": agent.removeprefix("*"), "limit": limit}
    page = api.get("/approvals", Approvals, query)
    if as_json:
        print_json([each.to_dict() for each in page.approvals])
        print_rest(page.more, as_json=True)
        return
    if not page.approvals:
        click.echo("There are no requests yet." if everything else "Nothing waits for approval.")
        return
    console = open_console()
    for each in page.approvals:
        print_approval(each, console)
    print_rest(page.more, as_json=False)
    if any(each.state == "waiting" for each in page.approvals):
        click.echo("mailroom approvals grant|refuse ID")


def print_approval(approval: Approval, console: Console) -> None:
    """Print a request in full, with its state and, if it asks for the network, what it opens."""
    request = approval.request
    when = f"{format_span(seconds_between(request.created_at))} ago"
    if approval.state == "waiting":
        left = (parse_time(request.expires_at) - datetime.now(UTC)).total_seconds()
        when += f", {format_span(max(left, 0.0))} left"
    state = (approval.state, STYLES[approval.state])
    by = f" by {clean(approval.answer.person)}" if approval.answer and approval.answer.person else ""
    head = Text.assemble((request.approval_id[:12], "bold"), "  ", state, f"{by}  {request.sender}  {when}")
    print_line(head, console)
    # In full, with nothing hidden, and the terminal alone breaks its lines: this is what is being allowed.
    for line in escape_invisible(request.what).split("\n"):
        console.print(Text(f"    | {line}"), soft_wrap=True)
    if request.why or request.rule:
        reason = f"{clean(request.rule)}: {clean(request.why)}".strip(": ")
        print_block(f"{'':4}{reason}", console, hang=4)
    if approval.answer is not None and approval.answer.note:
        _print_padded(f"Note: {clean(approval.answer.note)}", console)
    if request.reach:
        _print_padded(f"Opens {clean(approval.opens)}", console)
        if approval.state == "waiting":
            host = " --host NAME" if "network" in request.reach else ""
            command = f"mailroom approvals grant {request.approval_id[:12]} --for command|task|goal{host}"
            _print_padded(command, console)
    if request.goal_id:
        _print_padded(Text(f"goal {clean(request.goal_id)}", style="dim"), console)
    console.print()


def _print_padded(text: str | Text, console: Console) -> None:
    console.print(Padding(text, (0, 0, 0, 4), expand=False))


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
def grant(approval_id: str, note: str, scope: Reaching, hosts: tuple[str, ...], as_json: bool) -> None:
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
    scope: Reaching = "command",
    hosts: tuple[str, ...] = (),
) -> None:
    decision = Decision(granted=granted, note=note[:2_000], scope=scope, hosts=hosts)
    request = api.post(f"/approvals/{api.segment(approval_id)}", Approval, decision).request
    word, may = ("granted", "may") if granted else ("refused", "may not")
    value: dict[str, Any] = {
        "approval_id": request.approval_id,
        "agent": request.sender,
        "state": word,
        "note": note,
    }
    if request.reach:
        value |= {"reach": request.reach, "scope": scope, "hosts": hosts}
    text = f"{request.approval_id[:12]} {word}: {request.sender} {may} {escape_invisible(request.what)}"
    print_result(value, text, as_json)
