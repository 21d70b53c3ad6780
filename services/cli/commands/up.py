"""``mailroom up``, ``down`` and ``provision``: starting and stopping Mailroom, preparing a server."""

import asyncio
import json
import logging
import shlex
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from services.cli import api
from services.cli.commands.options import NumberType, json_option
from services.cli.connection import find_url, require_office
from services.cli.supervisor.cluster import require_synced, write_containers
from services.cli.supervisor.lifecycle import (
    run_until_stopped,
    start_in_background,
    stop_instance,
    wait_for_lock,
)
from services.cli.supervisor.lock import InstanceLock, is_held
from services.cli.supervisor.logs import print_log_line
from services.cli.supervisor.provisioning import (
    carry_out_left,
    carry_out_without_end,
    deal_keys,
    provision_named,
    read_tenants,
    write_config,
)
from services.cli.supervisor.restoring import finish_restore
from shared import log, settings, subjects
from shared.access.credentials import LINK_LIFETIME
from shared.bus.connecting import RunningInstance, find_instance, read_supervisor
from shared.bus.hosts import read_membership
from shared.errors import MailroomError, StartError
from shared.settings import Settings
from shared.tasks.installed_agents import load_agents, load_specialists, read_agents
from shared.text.display import count
from shared.text.times import format_date

EXAMPLE = "Check up on the repository at"
state_dir_option = click.option(
    "--state-dir", type=click.Path(path_type=Path), help="The state directory [default: MAILROOM_STATE_DIR]."
)


@click.command()
@state_dir_option
@click.option("--port", type=NumberType(0, 65_535), help="Port for nats-server; 0 picks a free one.")
@click.option(
    "--servers",
    type=click.Choice(["1", "3"]),
    help="On how many servers the log lies [default: nats_replicas].",
)
@click.option("--detach", "-d", is_flag=True, help="Run in the background.")
@json_option
def up(state_dir: Path | None, port: int | None, servers: str | None, detach: bool, as_json: bool) -> None:
    """Start the office: server, memory and agents.

    On a host that joined an office elsewhere, its agents alone. They run until Ctrl-C or 'mailroom down'.

    With --json each event is a line of JSON; the one with a url means that everything is ready.
    """
    config = load_settings(state_dir, port, servers)
    lock = InstanceLock.acquire(config.state_dir)
    if lock is None and find_instance(config) is None:
        lock = wait_for_lock(config)
    if lock is None:
        _print_running(config, as_json)
        return
    finish_restore(config.state_dir)
    require_valid_settings(config)
    if detach:
        lock.release()
        instance = start_in_background(config)
        if not as_json:
            click.echo(f"The office is open, process {instance.pid}; 'mailroom down' closes it.")
        _print_started(instance, config=config, as_json=as_json)
    else:
        on_started = partial(_print_started, config=config, as_json=as_json)
        # What ends while the office gives up its start may be reaped after the loop has ended.
        logging.getLogger("asyncio").addFilter(lambda record: "that handles pid" not in str(record.msg))
        asyncio.run(run_until_stopped(config, lock, on_started, as_json=as_json))


@click.command()
@state_dir_option
@json_option
def down(state_dir: Path | None, as_json: bool) -> None:
    """Stop the office of the state directory.

    Succeeds as well if none is running.
    """
    config = load_settings(state_dir)
    process = read_supervisor(config.state_dir) if is_held(config.state_dir) else 0
    if process:
        stop_instance(config, process)
    if as_json:
        click.echo(json.dumps({"closed": bool(process), "pid": process, "state_dir": str(config.state_dir)}))
    elif process:
        click.echo(f"The office in {config.state_dir} is closed.")
        if waiting := [each.nats_tenant for each in read_tenants(config) if is_held(each.state_dir)]:
            click.echo(f"Offices on its server wait until it is open again: {', '.join(waiting)}.")
    else:
        click.echo(f"No office is running in {config.state_dir}.")


@click.command()
@state_dir_option
@click.option("--config-dir", type=click.Path(path_type=Path), help="Folder for the server's configuration.")
@click.option("--store", default="", help="JetStream's folder, as the server sees it.")
@click.option("--deal", type=click.Path(path_type=Path), help="Also copy each key to a folder PATH/NAME.")
@click.option(
    "--only",
    type=click.Choice(["keys", "streams", "erasures"]),
    help="Only this part; keys need no server, and erasures are carried out until it is stopped.",
)
@json_option
def provision(
    state_dir: Path | None,
    config_dir: Path | None,
    store: str,
    deal: Path | None,
    only: str | None,
    as_json: bool,
) -> None:
    """Create keys, the server's configuration, and streams.

    Streams are created if NATS_URL names a server, and what people had forgotten is erased. 'mailroom up'
    does all this by itself; this command is for servers and containers that are started in another way.
    """
    config = load_settings(state_dir)
    require_office(config)
    log.configure("provision", level="warning")
    if only == "erasures":
        asyncio.run(carry_out_without_end(config, find_url(config), print_log_line))
        return
    agents = [agent.name for agent in load_agents(config)]
    done: dict[str, Any] = {}
    if only != "streams":
        done["config"] = str(config_dir or config.state_dir / "nats")
        done["config_changed"] = write_config(config, agents, folder=config_dir, store=store)
        if config_dir is not None and config.nats_replicas > 1:
            require_synced(config)
            write_containers(config_dir)
        if deal is not None:
            deal_keys(config, [*agents, subjects.USER, subjects.ADMIN, subjects.ERASER], deal)
    if only == "streams" and not config.nats_url:
        raise StartError("Streams need a server", "Name it with NATS_URL")
    if only != "keys" and config.nats_url:
        done["server"] = config.nats_url
        done["changes"] = asyncio.run(provision_named(config, agents))
        if orders := asyncio.run(carry_out_left(config)):
            done["changes"].append(f"erased what quoted forgotten memories ({count(orders, 'order')})")
    _print_provisioned(done, as_json)


def load_settings(
    state_dir: Path | None = None, port: int | None = None, servers: str | None = None
) -> Settings:
    """The settings of the environment, with these options in place of its variables."""
    return settings.load(settings.environment(state_dir=state_dir, nats_port=port, nats_replicas=servers))


def require_valid_settings(config: Settings) -> None:
    """Raise ConfigError for settings that every agent would exit with."""
    from shared.clock import read_zone
    from shared.llm import make_model, make_small_model
    from shared.llm.config import configured_models, require_known_agents

    make_model(config)  # a script is read
    make_small_model(config)
    configured_models(config)
    agents, refused = read_agents(config)
    named = [agent.name for agent in (*agents, *load_specialists(config))]
    require_known_agents(config, [*named, *refused])
    read_zone(config.time_zone)


def _print_running(config: Settings, as_json: bool) -> None:
    instance = find_instance(config)
    if instance is None:
        raise StartError(f"The office in {config.state_dir} is starting or stopping", "Try again in a moment")
    if as_json:
        click.echo(msgspec.json.encode(instance))
        return
    since = format_date(instance.started_at)
    click.echo(f"The office is running already: process {instance.pid}, since {since}.\n")
    click.echo(format_usage(instance, config))


def _print_started(instance: RunningInstance, *, config: Settings, as_json: bool) -> None:
    click.echo(msgspec.json.encode(instance) if as_json else f"\n{format_usage(instance, config)}\n")


def _print_provisioned(done: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(done))
        return
    if "config" in done:
        state = "written" if done["config_changed"] else "unchanged"
        click.echo(f"Keys and the server's configuration are in place: {done['config']} ({state})")
    if "server" in done:
        changes = ", ".join(done["changes"]) or "nothing to change"
        click.echo(f"Streams on {done['server']}: {changes}")


def format_usage(instance: RunningInstance, config: Settings) -> str:
    """Where everything is, and commands to paste."""
    if (member := read_membership(config.keys)) is not None:
        return f"""\
  office   {instance.url}
  host     {member.host}: {", ".join(member.roles)}
  state    {config.state_dir}
  logs     {config.logs}
  model    {instance.brain or "none; MAILROOM_BRAIN names one"}"""
    key = shlex.quote(str(config.keys / f"{subjects.USER}.nk"))
    server = f"--server {instance.url} --nkey {key}"
    command = _own_command(config)
    submission = shlex.quote(json.dumps({"text": f"{EXAMPLE} {Path.cwd()}"}))
    return f"""\
  server   {instance.url}
  state    {config.state_dir}
  logs     {config.logs}
  reports  {config.outputs}
  model    {instance.brain or "none; MAILROOM_BRAIN names one"}
{_format_link(config)}
In another terminal, examine the project in its folder, or submit any goal:

  {command} checkup
  {command} submit "{EXAMPLE} ." --wait
  {command} tail

The same with any NATS client:

  nats pub {subjects.SUBMIT} {submission} \\
    {server}
  nats sub '{subjects.AUDIT_ALL}' \\
    {server}"""


def _format_link(config: Settings) -> str:
    """A link that opens the dashboard; empty if no gateway runs."""
    try:
        link, _ = api.create_link(config, wait=0.0)
    except MailroomError:
        return ""
    minutes = LINK_LIFETIME.total_seconds() / 60
    return f"""
In a browser, with this link, which works once, within {minutes:g} minutes; 'mailroom web' prints another:

  {link}
"""


def _own_command(config: Settings) -> str:
    """How this command is called from another terminal for the same state directory."""
    called = Path(sys.argv[0])
    found = shutil.which("mailroom")
    if called.name != "mailroom":
        command = f"{shlex.quote(sys.executable)} -m services.cli"
    elif found and Path(found).resolve() == called.resolve():
        command = "mailroom"
    else:
        command = shlex.quote(str(called.absolute()))
    # Another terminal does not have the variables of this one.
    bare = {name: text for name, text in settings.environment().items() if name != "MAILROOM_STATE_DIR"}
    if config.state_dir == settings.load(bare).state_dir:
        return command
    return f"MAILROOM_STATE_DIR={shlex.quote(str(config.state_dir))} {command}"
