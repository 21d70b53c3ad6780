"""``mailroom checkup``: check up on folders, and print what was found."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console

from services.cli.commands.goal_view import print_outcome
from services.cli.commands.options import (
    FolderType,
    fail_on_option,
    format_examples,
    json_option,
    quote,
    report_options,
    write_reports,
)
from services.cli.commands.submit import (
    Ended,
    format_hint,
    run_watched,
    watch_all,
)
from services.cli.commands.up import EXAMPLE
from services.cli.connection import connect, run_connected
from services.cli.output.console import open_console, print_json, print_result
from services.cli.output.outcomes import FAILED, CheckUp, exit_code
from services.cli.supervisor.lock import InstanceLock, is_held
from services.cli.supervisor.logs import COLOURS, LogLine
from services.cli.supervisor.supervisor import Supervisor
from shared import log, settings
from shared.bus import Bus
from shared.bus.connecting import find_instance
from shared.errors import StartError
from shared.operations.submission import make_body, submit_and_follow, submit_once


class Part(NamedTuple):
    """A playbook, and a request for it."""

    playbook: str
    request: str


CHECKUP = Part("checkup", f"{EXAMPLE} {{}}")
PARTS = {
    "tests": Part("tests", "Run the tests of {}"),
    "lint": Part("lint", "Lint {}"),
    "secrets": Part("secrets", "Check {} for secrets"),
    "drift": Part("rules", "Does {} follow its own architecture rules?"),
    "history": Part("history", "Show the latest commits of {}"),
}
"""The values of ``--only``."""


@click.command(
    epilog=format_examples(
        "mailroom checkup",
        "mailroom checkup ~/src/shop ~/src/site",
        "mailroom checkup --only tests --office --fail-on tests",
    )
)
@click.argument("folders", metavar="[PATH]...", nargs=-1, type=FolderType())
@click.option("--only", type=click.Choice(list(PARTS)), help="Only this part.")
@click.option("--no-wait", is_flag=True, help="Submit it and return.")
@click.option("--office", is_flag=True, help="Start the office if it is not running, and stop it afterwards.")
@fail_on_option
@report_options
@json_option
def checkup(
    folders: tuple[Path, ...],
    only: str | None,
    no_wait: bool,
    office: bool,
    fail_on: str | None,
    junit: Path | None,
    sarif: Path | None,
    as_json: bool,
) -> None:
    """Check up on projects: tests, lint, secrets, drift, history.

    PATH is the folder of a project (default: the current one). Nothing in it is changed.

    Exits with 0 if it is done, 1 if it failed or could not be checked, 3 if it is done with findings that
    --fail-on names.
    """
    places = list(dict.fromkeys(folders or (Path.cwd().resolve(),)))
    bodies = [_make_body(folder, only) for folder in places]
    if len(places) > 1 and (junit or sarif):
        raise click.UsageError("--junit and --sarif take one folder: the paths in them are relative to it")
    if no_wait:
        if office or fail_on or junit or sarif:
            raise click.UsageError("--no-wait goes without --office, --fail-on, --junit and --sarif")
        _submit(bodies, as_json)
        return
    ended = run_watched(
        lambda bus, console: _check_up(bus, console, bodies),
        as_json,
        office_for_command if office else _connect,
    )
    write_reports(ended[0][1], junit, sarif)
    codes = [exit_code(*each, fail_on) for each in ended]
    found = [
        CheckUp.of(*each, str(folder), code) for each, folder, code in zip(ended, places, codes, strict=True)
    ]
    if as_json:
        print_json(found[0] if len(found) == 1 else {"checkups": found})
    else:
        _print(ended, places)
    raise SystemExit(FAILED if FAILED in codes else max(codes))


@asynccontextmanager
async def _connect() -> AsyncIterator[Bus]:
    """As connect; the error without an office names --office too."""
    config = settings.load()
    if not config.nats_url and find_instance(config) is None and not is_held(config.state_dir):
        raise StartError(
            f"No office is running in {config.state_dir}",
            "Start one with 'mailroom up', or for this command alone with --office",
        )
    async with connect() as bus:
        yield bus


def _make_body(folder: Path, only: str | None) -> dict[str, Any]:
    part = PARTS[only] if only else CHECKUP
    context = {"playbook": part.playbook, "repo": str(folder)}
    return make_body(part.request.format(quote(str(folder))), context)


def _submit(bodies: list[dict[str, Any]], as_json: bool) -> None:
    async def submit(bus: Bus) -> None:
        for body in bodies:
            await submit_once(bus, body)

    run_connected(submit)
    ids = [str(body["goal_id"]) for body in bodies]
    text = "\n".join(f"Submitted as {goal_id}\n{format_hint(goal_id)}" for goal_id in ids)
    submitted = [{"goal_id": goal_id, "status": "submitted"} for goal_id in ids]
    print_result(submitted[0] if len(ids) == 1 else {"checkups": submitted}, text, as_json)


async def _check_up(bus: Bus, console: Console, bodies: list[dict[str, Any]]) -> list[Ended]:
    """Submit all, then follow them together."""
    folders = [Path(body["context"]["repo"]) for body in bodies]
    names = [folder.name for folder in folders]
    goals = {}
    for body, folder in zip(bodies, folders, strict=True):
        name = "" if len(bodies) == 1 else folder.name if names.count(folder.name) == 1 else str(folder)
        goals[str(body["goal_id"])] = name, await submit_and_follow(bus, body)
        console.print(f"{folder}: {body['goal_id']}", soft_wrap=True)
    return await watch_all(bus, console, goals)


def _print(ended: list[Ended], places: list[Path]) -> None:
    console = open_console()
    for (goal, results), folder in zip(ended, places, strict=True):
        if len(places) > 1:
            click.secho(f"\n== {folder}\n", bold=True)
        print_outcome(goal, console, results)


@asynccontextmanager
async def office_for_command() -> AsyncIterator[Bus]:
    """A connection as the person to the office, which runs at least until the end of the block.

    Raises StartError if the office is starting or stopping, MailroomError if it does not start.
    """
    config = settings.load()
    if config.nats_url or find_instance(config) is not None:
        async with connect() as bus:
            yield bus
        return
    lock = InstanceLock.acquire(config.state_dir)
    if lock is None:
        raise StartError(f"The office in {config.state_dir} is starting or stopping", "Try again in a moment")
    log.configure("mailroom", level="error", form="console")
    supervisor = Supervisor(config, lock, _report)
    click.echo(f"Starting the office in {config.state_dir}", err=True)
    try:
        await supervisor.start()
        async with connect() as bus:
            yield bus
    except asyncio.CancelledError:
        click.echo("\nThe office closes; what is open goes on with the next 'mailroom up'.", err=True)
        raise
    finally:
        await supervisor.stop()
        lock.release()


def _report(line: LogLine) -> None:
    """Print warnings and errors of the processes to standard error."""
    if line.level in COLOURS:
        click.echo(f"{line.name}: {line.text}", err=True)
