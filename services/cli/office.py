"""``mailroom up``, ``down``, ``demo`` and ``provision``: opening and closing the office."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from services.cli.announcement import where_things_are
from services.cli.connection import RunningOffice, find_office
from services.cli.lock import OfficeLock, holder, is_held
from services.cli.moment import format_date
from services.cli.numbers import NumberType
from services.cli.provisioning import deal_keys, provision_named, write_config
from services.cli.roster import SERVICES, load_roster
from services.cli.running import await_end, close_office, keep_open, open_in_background
from shared import log, settings, subjects
from shared.errors import StartError
from shared.settings import Settings

state_dir_option = click.option(
    "--state-dir", type=click.Path(path_type=Path), help="The office's folder [default: MAILROOM_STATE_DIR]."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


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
    config = _load(state_dir, port)
    lock = OfficeLock.acquire(config.state_dir)
    if lock is None and find_office(config) is None:
        lock = await_end(config)
    if lock is None:
        _say_what_runs(config, as_json)
        return
    _require_usable(config)
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
    config = _load(state_dir)
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
@click.argument(
    "repo", required=False, type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
)
def demo(repo: Path | None) -> None:
    """Check up on REPO, from start to end.

    An office of its own does it; REPO is not changed. Shows every envelope, prints the report and an
    answer from memory, and closes the office again.
    REPO is Mailroom's own checkout where none is named.
    """
    from services.cli.demo import demonstrate, prepare

    checkout = SERVICES.parent
    if repo is None and not (checkout / "pyproject.toml").is_file():
        raise StartError("Mailroom was installed without its repository", "Name one: mailroom demo PATH")
    _require_usable(_load(None))
    config, lock = prepare()
    reached = asyncio.run(demonstrate(config, lock, repo or checkout))
    if not reached:
        raise SystemExit(1)


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
    config = _load(state_dir)
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


def _load(state_dir: Path | None, port: int | None = None) -> Settings:
    return settings.load(settings.environment(state_dir=state_dir, nats_port=port))


def _require_usable(config: Settings) -> None:
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
