"""``mailroom up``, ``down`` and ``provision``: opening and closing the office."""

import asyncio
import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from services.cli.commands.options import NumberType, json_option
from services.cli.output.times import format_date
from services.cli.roster import load_roster
from services.cli.supervisor.lifecycle import await_end, close_office, keep_open, open_in_background
from services.cli.supervisor.lock import OfficeLock, holder, is_held
from services.cli.supervisor.provisioning import deal_keys, provision_named, write_config
from shared import log, settings, subjects
from shared.bus.discovery import RunningOffice, find_office
from shared.errors import StartError
from shared.settings import Settings

state_dir_option = click.option(
    "--state-dir", type=click.Path(path_type=Path), help="The office's folder [default: MAILROOM_STATE_DIR]."
)


@click.command()
@state_dir_option
@click.option("--port", type=NumberType(0, 65_535), help="Where the server listens; 0 takes a free port.")
@click.option("--detach", "-d", is_flag=True, help="Leave it running in the background.")
@json_option
def up(state_dir: Path | None, port: int | None, detach: bool, as_json: bool) -> None:
    """Open the office and keep it open.

    Server, memory and agents run until Ctrl-C or 'mailroom down'.

    With --json each event is a line of JSON; the one with a url says that all of it is ready.
    """
    config = load_settings(state_dir, port)
    lock = OfficeLock.acquire(config.state_dir)
    if lock is None and find_office(config) is None:
        lock = await_end(config)
    if lock is None:
        _say_what_runs(config, as_json)
        return
    require_usable(config)
    if detach:
        lock.release()
        office = open_in_background(config)
        if not as_json:
            click.echo(f"The office is open, process {office.pid}; 'mailroom down' closes it.")
        _announce(office, config=config, as_json=as_json)
    else:
        announce = partial(_announce, config=config, as_json=as_json)
        asyncio.run(keep_open(config, lock, announce, as_json=as_json))


@click.command()
@state_dir_option
@json_option
def down(state_dir: Path | None, as_json: bool) -> None:
    """Close the office.

    The one that runs in the state directory; all is well where none does.
    """
    config = load_settings(state_dir)
    process = holder(config.state_dir) if is_held(config.state_dir) else 0
    if process:
        close_office(config, process)
    if as_json:
        click.echo(json.dumps({"closed": bool(process), "pid": process, "state_dir": str(config.state_dir)}))
    elif process:
        click.echo(f"The office in {config.state_dir} is closed.")
    else:
        click.echo(f"No office is running in {config.state_dir}.")


@click.command()
@state_dir_option
@click.option("--config-dir", type=click.Path(path_type=Path), help="Where the server's configuration goes.")
@click.option("--store", default="", help="JetStream's folder, as the server will see it.")
@click.option(
    "--deal", type=click.Path(path_type=Path), help="Also put each key into a folder DEAL/NAME of its own."
)
@click.option("--only", type=click.Choice(["keys", "streams"]), help="Do one half; keys need no server.")
@json_option
def provision(
    state_dir: Path | None,
    config_dir: Path | None,
    store: str,
    deal: Path | None,
    only: str | None,
    as_json: bool,
) -> None:
    """Make keys, the server's configuration and its streams.

    The streams where NATS_URL names a server. 'mailroom up' does this by itself: this is for servers and
    containers that somebody else starts.
    """
    config = load_settings(state_dir)
    log.configure("provision", level="warning")
    agents = [member.name for member in load_roster(config)]
    done: dict[str, Any] = {}
    if only != "streams":
        done["config"] = str(config_dir or config.state_dir / "nats")
        done["config_changed"] = write_config(config, agents, folder=config_dir, store=store)
        if deal is not None:
            deal_keys(config, [*agents, subjects.USER, subjects.ADMIN], deal)
    if only == "streams" and not config.nats_url:
        raise StartError("Streams need a server", "Name it with NATS_URL")
    if only != "keys" and config.nats_url:
        done["server"] = config.nats_url
        done["changes"] = asyncio.run(provision_named(config, agents))
    _say_what_was_done(done, as_json)


def load_settings(state_dir: Path | None = None, port: int | None = None) -> Settings:
    """The settings of the environment, with these options in place of its variables."""
    return settings.load(settings.environment(state_dir=state_dir, nats_port=port))


def require_usable(config: Settings) -> None:
    """Raise the one sentence that every agent would end with, over and over."""
    from shared.clock import read_zone
    from shared.llm import make_model, make_small_model

    make_model(config)
    make_small_model(config)
    read_zone(config.time_zone)


def _say_what_runs(config: Settings, as_json: bool) -> None:
    office = find_office(config)
    if office is None:
        raise StartError(
            f"The office in {config.state_dir} is just being opened or closed", "Try again in a moment"
        )
    if as_json:
        click.echo(msgspec.json.encode(office))
        return
    since = format_date(office.started_at)
    click.echo(f"The office is running already: process {office.pid}, since {since}.\n")
    for line in where_things_are(office, config):
        click.echo(line)


def _announce(office: RunningOffice, *, config: Settings, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(office))
        return
    click.echo()
    for line in where_things_are(office, config):
        click.echo(line)
    click.echo()


def _say_what_was_done(done: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(done))
        return
    if "config" in done:
        state = "written" if done["config_changed"] else "as it was"
        click.echo(f"Keys and the server's configuration are in place: {done['config']} ({state})")
    if "server" in done:
        changes = ", ".join(done["changes"]) or "nothing to change"
        click.echo(f"Streams on {done['server']}: {changes}")


EXAMPLE = "Check up on the repository at"


def where_things_are(office: RunningOffice, config: Settings) -> Iterator[str]:
    """The lines that say where the office is and how to use it, ready to paste."""
    key = shlex.quote(str(config.keys / f"{subjects.USER}.nk"))
    server = f"--server {office.url} --nkey {key}"
    yield f"  server   {office.url}"
    yield f"  state    {config.state_dir}"
    yield f"  logs     {config.logs}"
    yield f"  reports  {config.outputs}"
    yield f"  model    {office.brain or 'none; MAILROOM_BRAIN names one'}"
    yield ""
    yield "Give it work and watch, from another terminal:"
    yield ""
    yield f'  {_command(config)} submit "{EXAMPLE} $PWD"'
    yield f"  {_command(config)} tail"
    yield ""
    yield "The same with any NATS client:"
    yield ""
    yield f"  nats pub {subjects.SUBMIT} {shlex.quote(json.dumps({'text': f'{EXAMPLE} {Path.cwd()}'}))} \\"
    yield f"    {server}"
    yield f"  nats sub '{subjects.AUDIT_ALL}' \\"
    yield f"    {server}"


def _command(config: Settings) -> str:
    """How this very command is called again for this office."""
    called = Path(sys.argv[0])
    if called.name != "mailroom":
        command = f"{shlex.quote(sys.executable)} -m services.cli"
    elif found := shutil.which("mailroom"):
        command = (
            "mailroom" if Path(found).resolve() == called.resolve() else shlex.quote(str(called.absolute()))
        )
    else:
        command = shlex.quote(str(called.absolute()))
    if config.state_dir == _usual_state_dir():
        return command
    return f"MAILROOM_STATE_DIR={shlex.quote(str(config.state_dir))} {command}"


def _usual_state_dir() -> Path:
    """Where another terminal looks for an office: what is set in this one alone is not known there."""
    bare = {name: text for name, text in settings.environment().items() if name != "MAILROOM_STATE_DIR"}
    return settings.load(bare).state_dir
