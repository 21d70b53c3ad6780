"""``mailroom demo``: an office of its own does one piece of work before your eyes."""

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from services.cli.commands.ask import ask_desk, print_answer
from services.cli.commands.goal_view import print_outcome
from services.cli.commands.submit import publish
from services.cli.commands.tail import Wanted, show, warn
from services.cli.commands.up import EXAMPLE, load_settings, require_usable
from services.cli.output.console import open_console
from services.cli.queries.audit_log import Gap, Tail
from services.cli.queries.progress import Follower
from services.cli.roster import SERVICES
from services.cli.supervisor.lifecycle import before, stop_signals
from services.cli.supervisor.lock import OfficeLock, is_held
from services.cli.supervisor.logs import Line, print_line
from services.cli.supervisor.supervisor import Supervisor
from shared import log, settings, subjects
from shared.bus import Bus
from shared.contracts import Goal, Question, TaskStatus, generate_task_id
from shared.errors import StartError
from shared.settings import Settings


@click.command()
@click.argument(
    "repo", required=False, type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
)
def demo(repo: Path | None) -> None:
    """Check up on REPO, from start to end.

    An office of its own does it; REPO is not changed. Shows every envelope, prints the report and an
    answer from memory, and closes the office again.
    REPO is Mailroom's own checkout where none is named.
    """
    checkout = SERVICES.parent
    if repo is None and not (checkout / "pyproject.toml").is_file():
        raise StartError("Mailroom was installed without its repository", "Name one: mailroom demo PATH")
    require_usable(load_settings())
    config, lock = prepare()
    reached = asyncio.run(demonstrate(config, lock, repo or checkout))
    if not reached:
        raise SystemExit(1)


QUESTION = "What did the check-up find?"
KEPT = 3
"""How many demonstrations are kept, so that their reports can be read later."""
NAME = re.compile(r"\d{8}-\d{6}-\d{6}")
SETTLE = 0.5
"""Seconds in which the last envelopes reach the tail."""
ANSWER_TIMEOUT = 60.0
"""Seconds the front desk may take to answer."""


def prepare() -> tuple[Settings, OfficeLock]:
    """A new state directory below the usual one, and its lock; older demonstrations are removed."""
    parent = settings.load().state_dir / "demo"
    folder = parent / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    lock = OfficeLock.acquire(folder)
    if lock is None:
        raise StartError(f"Another process uses {folder}", "Try again")
    _remove_old(parent)
    env = settings.environment(state_dir=folder, key_dir=folder / "keys", nats_port=0)
    # A demonstration has a server of its own, whatever is set for the office.
    own = {name: value for name, value in env.items() if name not in ("NATS_URL", "MAILROOM_NATS_URL")}
    return settings.load(own), lock


def _remove_old(parent: Path) -> None:
    earlier = sorted(folder for folder in parent.iterdir() if NAME.fullmatch(folder.name))
    for folder in earlier[:-KEPT]:
        if not is_held(folder):
            shutil.rmtree(folder, ignore_errors=True)


async def demonstrate(config: Settings, lock: OfficeLock, repo: Path) -> bool:
    """Open the office, have ``repo`` checked up on, ask about it, close the office.

    Returns whether the goal was reached; raises MailroomError where it did not come to that.
    """
    log.configure("mailroom", level="error", form="console")
    supervisor = Supervisor(config, lock, print_line)
    with stop_signals(supervisor.kill) as stop:
        try:
            reached = await before(stop, _work(supervisor, repo))
            print_line(Line("office", "info", "closing"))
        finally:
            await supervisor.close()
            lock.release()
    if reached is None:
        raise StartError("The demonstration was interrupted")
    return reached


async def _work(supervisor: Supervisor, repo: Path) -> bool:
    config = supervisor.config
    click.echo(f"An office of its own opens in {config.state_dir}\n")
    office = await supervisor.open()
    bus = await Bus.connect(subjects.USER, office.url, config.keys / f"{subjects.USER}.nk")
    try:
        text = f"{EXAMPLE} {repo}"
        _head(f'mailroom submit "{text}"  and every envelope, as in  mailroom tail')
        async with _tail(bus):
            goal = await _submit(bus, text, repo)
        _head("What came of it")
        print_outcome(goal, open_console())
        if goal.status is not TaskStatus.COMPLETED:
            return False
        _head(f'mailroom ask "{QUESTION}"')
        question = Question(sender=subjects.USER, recipient=subjects.NEXUS, text=QUESTION)
        print_answer(await ask_desk(bus, question, ANSWER_TIMEOUT))
        click.echo(f"\nThe report: {goal.report_path}\n")
        return True
    finally:
        await bus.close()


async def _submit(bus: Bus, text: str, repo: Path) -> Goal:
    goal_id = generate_task_id("goal")
    body = {"text": text, "goal_id": goal_id, "requester": subjects.USER, "context": {"repo": str(repo)}}
    follower = Follower(bus, goal_id)
    await follower.listen()
    submitted = await publish(bus, body)
    goal: Goal | None = None
    async with aclosing(follower.follow(submitted)) as changes:
        async for progress in changes:
            goal = progress.goal
    assert goal is not None
    return goal


@asynccontextmanager
async def _tail(bus: Bus) -> AsyncIterator[None]:
    tailing = asyncio.create_task(_show_all(bus, datetime.now(UTC)))
    try:
        yield
        await asyncio.sleep(SETTLE)
    finally:
        tailing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tailing


async def _show_all(bus: Bus, since: datetime) -> None:
    console, wanted = open_console(), Wanted()
    async with aclosing(Tail(bus).follow(since)) as items:
        async for item in items:
            if isinstance(item, Gap):
                warn(item)
            else:
                show(item, wanted, console, as_json=False)


def _head(text: str) -> None:
    click.secho(f"\n== {text}\n", bold=True)
