"""``mailroom cluster``: the log on three servers, moved there from one, and their certificates."""

import asyncio
import os
import signal
from pathlib import Path

import click

from services.cli.commands.options import json_option
from services.cli.commands.up import load_settings, state_dir_option
from services.cli.connection import find_url, require_office
from services.cli.output.console import print_result
from services.cli.supervisor.adopting import Move, manifest_of
from services.cli.supervisor.cluster import CERTIFICATES, CLUSTER_CONFIG, folders, make_certificates
from services.cli.supervisor.lock import InstanceLock
from services.cli.supervisor.logs import LogLine, print_log_line
from services.cli.supervisor.provisioning import read_tenants
from services.cli.supervisor.servers_watch import ServersWatch
from shared.errors import StartError
from shared.settings import Settings
from shared.tasks.installed_agents import load_agents, load_specialists
from shared.text.display import count


@click.group()
def cluster() -> None:
    """Keep the log on three servers instead of one."""


@cluster.command()
@state_dir_option
@json_option
def adopt(state_dir: Path | None, as_json: bool) -> None:
    """Move the log of a closed office from one server to three.

    All streams are saved to disk with their digests, restored on three servers and verified; sequences, gaps
    and times stay. If it is interrupted, the same command goes on, and nothing is lost. The store of before
    stays beside the new one until you delete it.
    """
    config = load_settings(state_dir)
    require_office(config)
    lock = InstanceLock.acquire(config.state_dir)
    if lock is None:
        raise StartError(f"The office in {config.state_dir} is open", "Close it first: mailroom down")
    try:
        first = folders(config, 1)[0]
        if read_tenants(config):
            raise StartError("Other offices are on its server, which stays one", "See: mailroom office list")
        if (first / CLUSTER_CONFIG).exists() and not manifest_of(config).exists():
            raise StartError("The log lies on three servers already", "Start them: mailroom up --servers 3")
        if not manifest_of(config).exists() and not (first / "store").exists():
            raise StartError("There is no log yet", "Begin one on three servers: mailroom up --servers 3")
        agents = [agent.name for agent in (*load_agents(config), *load_specialists(config))]
        move = Move(config, agents, lambda step: None if as_json else click.echo(step))
        asyncio.run(move.run())
    finally:
        lock.release()
    told = (
        f"The log lies on three servers. Write 'replicas = 3' below '[nats]' of mailroom.toml, or start with "
        f"'mailroom up --servers 3'; delete {move.old} once you are sure"
    )
    print_result({"adopted": True, "before": str(move.old)}, told, as_json)


@cluster.command()
@state_dir_option
@click.option(
    "--config-dir",
    type=click.Path(path_type=Path, exists=True),
    help="Where 'provision' wrote them, if not there.",
)
@json_option
def rotate(state_dir: Path | None, config_dir: Path | None, as_json: bool) -> None:
    """Make new certificates for the connections between the servers.

    Servers of this machine's office read them at once, and connections stay; others are sent SIGHUP by you.
    The authority of before is accepted until the next rotation.
    """
    config = load_settings(state_dir)
    folder = (config_dir or folders(config, 1)[0]) / CERTIFICATES
    if not folder.exists():
        raise StartError("There are no certificates yet", "'mailroom up --servers 3' makes them")
    make_certificates(folder, renew=True)
    reached = [] if config_dir else _reload(config)
    told = f"New certificates are in {folder}; {count(len(reached), 'server')} read them"
    print_result({"folder": str(folder), "reloaded": reached}, told, as_json)


@cluster.command()
@state_dir_option
def watch(state_dir: Path | None) -> None:
    """Watch servers that run elsewhere, until it is stopped.

    Has another server lead if one answers no write, and tells what it cannot cure. 'mailroom up' does this
    for servers of its own.
    """
    config = load_settings(state_dir)
    (config.state_dir / "run").mkdir(parents=True, exist_ok=True)

    def cannot_restart(name: str) -> None:
        print_log_line(LogLine("office", "error", f"start {name} again: it leads, and answers no write"))

    servers = ServersWatch(config.state_dir, print_log_line, cannot_restart)
    asyncio.run(servers.run(config, find_url(config)))


def _reload(config: Settings) -> list[int]:
    """Have the servers that run read their configuration again; returns their process ids."""
    reached = []
    for folder in folders(config, 3):
        try:
            process = int((folder / "server.pid").read_text())
            os.kill(process, signal.SIGHUP)
        except (OSError, ValueError):
            continue
        reached.append(process)
    return reached
