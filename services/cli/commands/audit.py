"""``mailroom audit``: the audit trail as a file, and the proof that it is whole."""

import asyncio
import base64
import json
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from services.cli.commands.options import PastType, json_option
from services.cli.connection import connect
from services.cli.output.console import clean, colour, open_console, print_json, print_json_line

if TYPE_CHECKING:
    from services.cli.queries.audit_log import Copy, Finding


@click.group()
def audit() -> None:
    """Export the audit trail, or prove that it is whole."""


@audit.command()
@click.option(
    "--since", type=PastType(), metavar="TIME", help="Only what came since: 10m ago, or an ISO 8601 time."
)
@click.option(
    "--json", is_flag=True, expose_value=False, help="Accepted for likeness: the export is JSON lines anyway."
)
def export(since: datetime | None) -> None:
    """Print every envelope there was.

    As a line of JSON each: stream, seq, time, subject, headers, envelope.
    """
    asyncio.run(_export(since))


async def _export(since: datetime | None) -> None:
    from services.cli.queries.audit_log import read_trail

    async with connect() as bus, aclosing(read_trail(bus, since)) as trail:
        async for copy in trail:
            print_json_line(line_of(copy))


def line_of(copy: "Copy") -> dict[str, Any]:
    """A copy as data; ``envelope`` is null, and ``payload`` in Base64, where the message is not JSON."""
    line = {
        "stream": copy.source,
        "seq": copy.source_seq,
        "time": copy.time,
        "subject": copy.subject,
        "headers": copy.headers,
    }
    try:
        return {**line, "envelope": json.loads(copy.data)}
    except (ValueError, RecursionError):
        return {**line, "envelope": None, "payload": base64.b64encode(copy.data).decode()}


@audit.command()
@json_option
def verify(as_json: bool) -> None:
    """Prove that the audit trail is whole.

    It holds every message of OFFICE and MEMORY, unchanged and in order; else this exits with 1.
    """
    findings = asyncio.run(_verify())
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            _print(finding)
    if any(finding.problem_count for finding in findings):
        raise SystemExit(1)


async def _verify() -> list["Finding"]:
    from services.cli.queries.audit_log import verify_copies
    from shared import subjects

    console = open_console(stderr=True)
    async with connect() as bus:
        with console.status("Comparing the audit trail with the streams") as shown:
            return [
                await verify_copies(bus, source, audit_stream, shown.update)
                for source, audit_stream in subjects.AUDITED.items()
            ]


def _print(finding: "Finding") -> None:
    verdict = colour("not whole", "red") if finding.problem_count else colour("whole", "green")
    click.echo(f"{finding.audit}: {verdict}, {finding.compared:,} messages of {finding.source} compared")
    if finding.removed_count:
        click.echo(
            f"  {finding.removed_count:,} messages were removed from {finding.source}; the trail has them"
        )
    for problem in finding.problems:
        click.echo(f"  {clean(problem)}")
    hidden = finding.problem_count - len(finding.problems)
    if hidden:
        click.echo(f"  ... and {hidden:,} more")
