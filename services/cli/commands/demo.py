"""``mailroom demo``: a separate instance checks up on a repository, and prints every message."""

import asyncio
import contextlib
import re
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from services.cli import api
from services.cli.api import Login
from services.cli.commands.chat.answering import Question, ask_nexus, make_session
from services.cli.commands.goal_view import print_outcome
from services.cli.commands.options import format_examples, quote
from services.cli.commands.tail import MessageFilter, print_gap, print_message
from services.cli.commands.up import EXAMPLE, load_settings, require_valid_settings
from services.cli.output.answers import print_answer
from services.cli.output.console import open_console
from services.cli.supervisor.lifecycle import run_until, stop_on_signals
from services.cli.supervisor.lock import InstanceLock, is_held
from services.cli.supervisor.logs import LogLine, print_log_line
from services.cli.supervisor.supervisor import Supervisor
from shared import log, settings, subjects
from shared.access.credentials import find_address, read_command_token
from shared.bus import Bus
from shared.contracts import TaskStatus
from shared.errors import StartError
from shared.operations.submission import make_body, publish
from shared.queries.audit_log import AuditFollower, Gap
from shared.queries.progress import follow_to_results
from shared.settings import Settings
from shared.tasks.installed_agents import SERVICES


@click.command(epilog=format_examples("mailroom demo ~/src/shop"))
@click.argument(
    "repo", required=False, type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
)
def demo(repo: Path | None) -> None:
    """Check up on REPO in a temporary office.

    Starts it, prints every message, the report, an answer from memory and a link that shows the goal in a
    browser, and stops it: on a terminal at Ctrl-C, elsewhere at once. REPO is not changed; the default is
    Mailroom's own checkout.
    """
    checkout = SERVICES.parent
    if repo is None and not (checkout / "pyproject.toml").is_file():
        raise StartError("Mailroom was installed without its repository", "Name one: mailroom demo PATH")
    require_valid_settings(load_settings())
    config, lock = prepare()
    reached = asyncio.run(run_demo(config, lock, repo or checkout))
    if not reached:
        raise SystemExit(1)


QUESTION = "What did the check-up find?"
MAX_KEPT = 3  # How many demos are kept whole; of older ones the reports are kept
OUTPUTS = "outputs"  # The folder of a state directory with the reports
NAME = re.compile(r"\d{8}-\d{6}-\d{6}")
SETTLE_TIME = 0.5  # Seconds until the last messages have been printed
ANSWER_TIMEOUT = 60.0  # Seconds until nexus must answer


def prepare() -> tuple[Settings, InstanceLock]:
    """A new state directory below the default one, and its lock; older demos are removed."""
    parent = settings.load().state_dir / "demo"
    folder = parent / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    lock = InstanceLock.acquire(folder)
    if lock is None:
        raise StartError(f"Another process uses {folder}", "Try again")
    _remove_old(parent)
    env = settings.environment(state_dir=folder, key_dir=folder / "keys", nats_port=0, gateway_port=0)
    # A demo has a server of its own, even if NATS_URL is set.
    own = {name: value for name, value in env.items() if name not in ("NATS_URL", "MAILROOM_NATS_URL")}
    return settings.load(own), lock


def _remove_old(parent: Path) -> None:
    earlier = sorted(folder for folder in parent.iterdir() if NAME.fullmatch(folder.name))
    for folder in earlier[:-MAX_KEPT]:
        for part in () if is_held(folder) else folder.iterdir():
            if part.is_dir() and part.name != OUTPUTS:
                shutil.rmtree(part, ignore_errors=True)


async def run_demo(config: Settings, lock: InstanceLock, repo: Path) -> bool:
    """Start the instance, submit a check-up of ``repo``, ask about it, and stop the instance.

    Returns whether the goal was completed; raises MailroomError if it could not be submitted.
    """
    log.configure("mailroom", level="error", form="console")
    supervisor = Supervisor(config, lock, print_log_line)
    with stop_on_signals(supervisor.kill) as stop:
        try:
            reached = await run_until(stop, _work(supervisor, repo))
            if reached and not stop.is_set() and sys.stdout.isatty():
                click.echo("The office stays open until Ctrl-C.\n")
                await stop.wait()
            print_log_line(LogLine("office", "info", "closing"))
        finally:
            await supervisor.stop()
            lock.release()
    if reached is None:
        raise StartError("The demo was interrupted")
    return reached


async def _work(supervisor: Supervisor, repo: Path) -> bool:
    config = supervisor.config
    click.echo(f"Starting an office in {config.state_dir}\n")
    instance = await supervisor.start()
    bus = await Bus.connect(subjects.USER, instance.url, config.keys / f"{subjects.USER}.nk")
    try:
        text = f"{EXAMPLE} {quote(str(repo))}"
        _print_heading(f'mailroom submit "{text}"  and every message, as in  mailroom tail')
        async with _tail(bus):
            body = make_body(text, {"repo": str(repo)})
            submitted = await publish(bus, body)
            changes = follow_to_results(bus, config, str(body["goal_id"]), submitted)
            *_, ended = [progress async for progress in changes]
        _print_heading("Outcome")
        goal = ended.goal
        assert goal is not None
        print_outcome(goal, open_console(), ended.results)
        if goal.report_path:
            click.echo(f"\nAll of it: less {shlex.quote(goal.report_path)}")
        if goal.status is not TaskStatus.COMPLETED:
            return False
        _print_heading(f'mailroom ask "{QUESTION}"')
        login = Login(url=find_address(config), token=read_command_token(config), is_here=True)
        question = Question(session=make_session(), text=QUESTION)
        print_answer(await ask_nexus(question, ANSWER_TIMEOUT, login))
        if sys.stdout.isatty():  # elsewhere the office closes at once
            click.echo(f"\nIn a browser: {api.create_link(config, page=f'/goals/{goal.goal_id}')[0]}\n")
        return True
    finally:
        await bus.close()


@asynccontextmanager
async def _tail(bus: Bus) -> AsyncIterator[None]:
    tailing = asyncio.create_task(_show_all(bus, datetime.now(UTC)))
    try:
        yield
        await asyncio.sleep(SETTLE_TIME)
    finally:
        tailing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tailing


async def _show_all(bus: Bus, since: datetime) -> None:
    console, message_filter = open_console(), MessageFilter()
    async with aclosing(AuditFollower(bus).follow(since)) as items:
        async for item in items:
            if isinstance(item, Gap):
                print_gap(item)
            else:
                print_message(item, message_filter, console, as_json=False)


def _print_heading(text: str) -> None:
    click.secho(f"\n== {text}\n", bold=True)
