"""``mailroom checkup``: check up on folders, and print what was found."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from services.cli import api
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
from services.cli.commands.sending import must_send, send_named
from services.cli.commands.submit import Ended, format_hint, run_watched, send_goal, watch_all
from services.cli.commands.up import EXAMPLE
from services.cli.output.console import open_console, print_json, print_result
from services.cli.output.outcomes import FAILED, CheckUp, exit_code
from services.cli.supervisor.lock import InstanceLock, is_held
from services.cli.supervisor.logs import COLOURS, LogLine
from services.cli.supervisor.supervisor import Supervisor
from shared import log, settings
from shared.bus.connecting import find_instance
from shared.errors import StartError
from shared.views.listed import NewGoal


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
    part = PARTS[only] if only else CHECKUP
    send, goals = must_send(), []
    for path in map(str, places):
        text, context = part.request.format(quote(path)), {"playbook": part.playbook, "repo": path}
        if send:
            text, context = send_named(text, context, [path])
        goals.append(NewGoal(text=text, context=context, is_resolved=True))
    if len(places) > 1 and (junit or sarif):
        raise click.UsageError("--junit and --sarif take one folder: the paths in them are relative to it")
    if no_wait:
        if office or fail_on or junit or sarif:
            raise click.UsageError("--no-wait goes without --office, --fail-on, --junit and --sarif")
        submitted = [send_goal(goal) for goal in goals]
        text = "\n".join(f"Submitted as {each.goal_id}\n{format_hint(each.goal_id)}" for each in submitted)
        shown = [{"goal_id": each.goal_id, "status": each.status} for each in submitted]
        print_result(shown[0] if len(shown) == 1 else {"checkups": shown}, text, as_json)
        return
    work = partial(_check_up, places, goals)
    ended = run_watched(work, as_json, office_for_command if office else _require_office)
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
async def _require_office() -> AsyncIterator[None]:
    """Raise StartError if there is no office here, with a cure that names --office too."""
    config = settings.load()
    is_asked = config.url or config.nats_url or api.read_login(config)
    if not is_asked and find_instance(config) is None and not is_held(config.state_dir):
        raise StartError(
            f"No office is running in {config.state_dir}",
            "Start one with 'mailroom up', or for this command alone with --office",
        )
    yield


async def _check_up(folders: list[Path], goals: list[NewGoal], console: Console) -> list[Ended]:
    """Submit all, then follow them together."""
    names = [folder.name for folder in folders]
    submitted = {}
    for folder, goal in zip(folders, goals, strict=True):
        name = "" if len(goals) == 1 else folder.name if names.count(folder.name) == 1 else str(folder)
        submitted[name] = await asyncio.to_thread(send_goal, goal)
        console.print(f"{folder}: {submitted[name].goal_id}", soft_wrap=True)
    return await watch_all(submitted, console)


def _print(ended: list[Ended], places: list[Path]) -> None:
    console = open_console()
    for (goal, results), folder in zip(ended, places, strict=True):
        if len(places) > 1:
            click.secho(f"\n== {folder}\n", bold=True)
        print_outcome(goal, console, results)


@asynccontextmanager
async def office_for_command() -> AsyncIterator[None]:
    """An office, which runs at least until the end of the block.

    Raises StartError if the office is starting or stopping, MailroomError if it does not start.
    """
    config = settings.load()
    if config.nats_url or find_instance(config) is not None:
        yield
        return
    lock = InstanceLock.acquire(config.state_dir)
    if lock is None:
        raise StartError(f"The office in {config.state_dir} is starting or stopping", "Try again in a moment")
    log.configure("mailroom", level="error", form="console")
    supervisor = Supervisor(config, lock, _report)
    click.echo(f"Starting the office in {config.state_dir}", err=True)
    try:
        await supervisor.start()
        yield
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
