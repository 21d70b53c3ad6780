"""``mailroom audit``: exporting the log, verifying it, archiving it, and proving one message of it."""

import base64
import json
from collections.abc import Iterator
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from services.cli.commands.archiving import archive
from services.cli.commands.options import format_examples, json_option, since_option
from services.cli.connection import find_url, run_connected
from services.cli.output.console import colour, open_console, print_json, print_json_line, print_result
from services.cli.output.reports import replaced_file
from shared import settings, subjects
from shared.bus import Bus, Stored
from shared.contracts import Seal
from shared.errors import NotFound
from shared.queries.audit_log import read_audit_log
from shared.settings import Settings
from shared.text.display import clean, count
from shared.text.times import format_date
from shared.trail.bundle import Written, prove, write_bundle
from shared.trail.seals import read_kept
from shared.trail.verification import MAX_LISTED, Verification, verify_here, verify_replicas

always_json_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    help="Accepted for consistency; the output is always JSON.",
)
bundles_option = click.option(
    "--bundles",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    metavar="FOLDER",
    help="Where the bundles of 'audit archive' are, if not where they were written.",
)


@click.group()
def audit() -> None:
    """Export the log, verify it, archive it, or prove a message."""


@audit.command(
    epilog=format_examples("mailroom audit export --since 1h", "mailroom audit export bundle.jsonl")
)
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@since_option
@bundles_option
@json_option
def export(file: Path | None, since: datetime | None, bundles: Path | None, as_json: bool) -> None:
    """Print every message as a line of JSON, or write a bundle to FILE.

    Keys of a line: stream, seq, time, subject, headers, envelope. A bundle has the bytes of all messages,
    what is left of those that were erased, and the seals: docs/verify-bundle.mjs checks it without Mailroom.
    """
    if file is not None:
        if since is not None:
            raise click.UsageError("A bundle begins with the first message: seals are checked from there")
        written = run_connected(lambda bus: _write(bus, file, bundles))
        print_result(
            {"path": str(file), **msgspec.to_builtins(written)}, _format_written(file, written), as_json
        )
        return

    async def print_all(bus: Bus) -> None:
        async with aclosing(read_audit_log(bus, since)) as messages:
            async for stored in messages:
                print_json_line(_export_line(stored))

    run_connected(print_all)


async def _write(bus: Bus, file: Path, bundles: Path | None) -> Written:
    with replaced_file(file) as output, open_console(stderr=True).status("Writing the bundle") as status:
        return await write_bundle(bus, output, bundles, status.update)


def _format_written(file: Path, written: Written) -> str:
    parts = [count(written.messages, "message"), count(written.seals, "seal")]
    if written.erased:
        parts.append(f"{written.erased:,} erased")
    return f"Wrote {', '.join(parts)} to {file}; check it: node verify-bundle.mjs {file}"


def _export_line(stored: Stored) -> dict[str, Any]:
    """A message as data; if it is not JSON, ``envelope`` is null and ``payload`` has it in Base64."""
    line = {
        "stream": stored.stream,
        "seq": stored.seq,
        "time": stored.time,
        "subject": stored.subject,
        "headers": stored.headers,
    }
    try:
        return {**line, "envelope": json.loads(stored.data)}
    except (ValueError, RecursionError):
        return {**line, "envelope": None, "payload": base64.b64encode(stored.data).decode()}


@audit.command(
    epilog=format_examples("mailroom audit verify", "mailroom audit verify --from /mnt/stick/seals.jsonl")
)
@click.option(
    "--from",
    "kept",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="SEAL",
    help="A file with seals that were kept elsewhere, one a line.",
)
@click.option(
    "--replica",
    metavar="SERVER",
    help="Verify the copy that one server of three has, or those of 'all'; needs the admin's key.",
)
@bundles_option
@json_option
def verify(kept: Path | None, replica: str | None, bundles: Path | None, as_json: bool) -> None:
    """Verify that nothing in the log is missing or altered.

    Every message is read and compared with the seals over it; what was erased must be on record, with the
    order of a person. Otherwise the exit code is 1. A holder of the admin's key could rewrite the log with
    other seals: a seal that was kept elsewhere tells (the setting [audit] witness, --from). What follows the
    last seal is not proven yet. What was archived is read from its bundles; of one that is not here, only
    what the server still has is compared.
    """
    config = settings.load()
    seals = read_kept(kept) if kept else []
    results = run_connected(lambda bus: _verify(bus, seals, bundles, config, replica))
    if as_json:
        print_json(results)
    else:
        for result in results:
            click.echo("\n".join(_describe(result)))
        for reason in results[0].unread:
            click.echo(f"Not compared with the witness {clean(reason)}")
    if any(result.problem_count for result in results):
        raise SystemExit(1)


async def _verify(
    bus: Bus, outside: list[Seal], bundles: Path | None, config: Settings, replica: str | None
) -> list[Verification]:
    with open_console(stderr=True).status("Verifying the log") as status:

        async def verify(bus: Bus) -> list[Verification]:
            return await verify_here(bus, config, outside, bundles, status.update)

        if replica is None:
            return await verify(bus)
        return await verify_replicas(config, find_url(config).split(","), replica, verify)


def _describe(result: Verification) -> Iterator[str]:
    """What was found in a stream, in lines."""
    whole = "whole where it was read" if result.away else "whole"
    verdict = colour("not whole", "red") if result.problem_count else colour(whole, "green")
    name = f"{result.stream} of {result.replica}" if result.replica else result.stream
    yield f"{name}: {verdict}, {count(result.messages, 'message')}, {count(result.seals, 'seal')}"
    for problem in result.problems:
        yield f"  {clean(problem)}"
    if (hidden := result.problem_count - len(result.problems)) and len(result.problems) == MAX_LISTED:
        yield f"  ... and {hidden:,} more"
    if result.bundles:
        bundles = count(len(result.bundles), "bundle")
        yield f"  {count(result.archived, 'message')} of them read from {bundles}"
    for absence in result.away:
        yield f"  Not verified: {clean(absence)}"
    if result.erased:
        yield f"  {count(result.erased, 'text')} erased, on record:"
        for each in result.orders:
            who = clean(each.person) if each.person else "a person"
            yield f"  - {each.messages:,} by order of {who}, {format_date(each.at)} (order {each.order})"
    if rest := result.last - result.sealed:
        after = f" after {result.sealed:,}" if result.sealed else ""
        verb = "is" if rest == 1 else "are"
        yield f"  {count(rest, 'message')}{after} {verb} not proven yet: no seal covers what is so new"
    if result.outside and result.witnessed:
        yield f"  Up to {result.witnessed:,} also proven by a seal that was kept elsewhere"
    elif result.sealed:
        yield "  Not compared with a seal kept elsewhere, so this host could have rewritten the log"


@audit.command(name="prove", epilog=format_examples("mailroom audit prove OFFICE 1200"))
@click.argument("stream", type=click.Choice(subjects.LOG))
@click.argument("seq", type=click.IntRange(1))
@bundles_option
@always_json_option
def prove_message(stream: str, seq: int, bundles: Path | None) -> None:
    """Print the proof that message SEQ of STREAM is in the log, as JSON.

    It has the message, the hashes beside it in the tree, and the seal whose root they lead to, and nothing of
    other messages. docs/verify-bundle.mjs checks it.
    """
    proof = run_connected(lambda bus: prove(bus, stream, seq, bundles))
    if proof is None:
        raise NotFound(
            f"There is no sealed message {seq} of {stream}", "New messages are sealed within a minute"
        )
    click.echo(msgspec.json.encode(proof))


audit.add_command(archive)
