"""``mailroom office``: further offices on the server of this one, each with accounts and a log of its own."""

import asyncio
import re
import shlex
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import click
import msgspec
from rich.filesize import decimal

from services.cli.commands.hosts import LOAD_WAIT, is_host_name
from services.cli.commands.options import NumberType, format_examples, json_option
from services.cli.commands.up import load_settings, state_dir_option
from services.cli.output.console import make_table, open_console, print_json, print_result
from services.cli.supervisor.lock import InstanceLock, is_held
from services.cli.supervisor.provisioning import (
    MIN_STORE,
    OFFICES,
    PUBLIC_KEYS,
    SLACK,
    provision_named,
    read_tenants,
    store_limit,
    write_config,
)
from shared import log, subjects
from shared.bus import Bus
from shared.bus.accounts import OFFICE_ACCOUNT
from shared.bus.connecting import find_instance
from shared.bus.provision import ask
from shared.errors import BusError, BusUnavailable, ConfigError, Denied, NotFound, StartError
from shared.files import write_atomically
from shared.settings import Settings, load
from shared.tasks.installed_agents import load_agents

USUAL_STORE = 1 << 30


class OfficeRow(msgspec.Struct, frozen=True, kw_only=True):
    """An office on this server; ``stored`` of its ``max_store`` bytes are used, None: nobody answered."""

    name: str
    open: bool
    stored: int | None
    max_store: int
    gateway_port: int
    state_dir: str


@click.group()
def office() -> None:
    """Add offices to the server of this one, list and remove them."""


@office.command(
    epilog=format_examples("mailroom office add lab", "mailroom office add lab --max-store 5000000000")
)
@click.argument("name")
@click.option(
    "--max-store",
    type=NumberType(MIN_STORE),
    help="The most bytes of its log, set aside for it [default: 1 GiB].",
)
@state_dir_option
@json_option
def add(name: str, max_store: float | None, state_dir: Path | None, as_json: bool) -> None:
    """Add the office NAME, with agents, keys and a log of its own.

    It shares the server with this office, and nothing else.

    The same command again goes on after an interruption, and updates keys, limit and streams.
    """
    config = load_settings(state_dir)
    log.configure("office", level="error")
    tenant = _prepare(config, name, int(max_store or 0))
    agents = [agent.name for agent in load_agents(tenant)]
    write_config(tenant, agents)
    in_force = asyncio.run(_provision(config, tenant, agents))
    command = f"MAILROOM_STATE_DIR={shlex.quote(str(tenant.state_dir))} mailroom up --detach"
    result = {"name": name, "state_dir": str(tenant.state_dir), "in_force": in_force, "command": command}
    later = "" if in_force else " once this office, whose server it uses, is open"
    told = (
        f"The office {name} is in {tenant.state_dir}, with a mailroom.toml of its own. Start it{later}:\n\n"
    )
    print_result(result, f"{told}  {command}", as_json)


@office.command(name="list")
@state_dir_option
@json_option
def list_offices(state_dir: Path | None, as_json: bool) -> None:
    """List the offices on the server of this one."""
    config = load_settings(state_dir)
    rows = [asyncio.run(_row(config, each)) for each in read_tenants(config)]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("No other office is on this server.\nmailroom office add NAME")
    else:
        table = make_table("office", "state", "stored", "limit", "gateway")
        for row in rows:
            stored = "?" if row.stored is None else decimal(row.stored)
            state, most = "open" if row.open else "closed", decimal(row.max_store)
            table.add_row(row.name, state, stored, most, str(row.gateway_port))
        open_console().print(table)
        click.echo(f"Their folders are in {config.state_dir / OFFICES}.")


@office.command()
@click.argument("name")
@click.option("--delete-folder", is_flag=True, help="Also its folder: settings, keys, memory, reports.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@state_dir_option
@json_option
def remove(name: str, delete_folder: bool, yes: bool, state_dir: Path | None, as_json: bool) -> None:
    """Delete the log of the office NAME for good, and its accounts.

    It has to be closed, and this one open. Its folder stays without its mailroom.toml, unless told otherwise.
    """
    config = load_settings(state_dir)
    tenant = next((each for each in read_tenants(config) if each.nats_tenant == name), None)
    if tenant is None:
        raise NotFound(
            f"There is no office {name[:64]!r} on this server", "'mailroom office list' lists them"
        )
    folder, gone = tenant.state_dir, tenant.state_dir.with_name(f".{name}.removed")
    log.configure("office", level="error")
    if not is_held(config.state_dir):
        raise StartError("Its log is deleted by the server, which does not run", "Open this office first")
    lock = InstanceLock.acquire(folder)
    if lock is None:
        raise StartError(f"The office {name} is open", f"Close it: mailroom down --state-dir {folder}")
    try:
        if not yes:
            also = f", and {folder}" if delete_folder else ""
            click.confirm(f"Delete all messages of the office {name}{also}?", abort=True, err=True)
        asyncio.run(_delete_streams(tenant))
        (tenant.keys / PUBLIC_KEYS).unlink(missing_ok=True)
        asyncio.run(_await_denial(config, tenant))
        # What the server did not know any more, since its keys were damaged
        shutil.rmtree(_store(config) / f"{name}.{OFFICE_ACCOUNT}", ignore_errors=True)
        if delete_folder:
            shutil.rmtree(gone, ignore_errors=True)  # of one that was interrupted
            folder.rename(gone)
            shutil.rmtree(gone)
        else:
            (folder / "mailroom.toml").unlink()
    finally:
        lock.release()
    print_result(
        {"name": name, "removed": True, "folder": "" if delete_folder else str(folder)},
        f"The office {name} is removed" + ("." if delete_folder else f"; its files are in {folder}."),
        as_json,
    )


def _prepare(config: Settings, name: str, max_store: int) -> Settings:
    """The settings of the office ``name``, written if it is a new one; raises ConfigError or StartError."""
    if config.nats_url or config.nats_replicas > 1 or not config.nats_port or config.key_dir is not None:
        raise ConfigError(
            "Another office needs one server that this office runs itself, on a fixed port, with its keys "
            "in its state folder",
            "Unset NATS_URL, nats_servers, nats_replicas and key_dir, and set nats_port",
        )
    if not is_host_name(name):
        raise ConfigError(f"{name!r} is no name for an office", "Use up to 40 small letters, digits and '-'")
    place, folder = config.state_dir / "nats", config.state_dir / OFFICES / name
    if not (place / "office.conf").exists():
        raise StartError(f"There is no office in {config.state_dir} yet", "Open it first: mailroom up")
    tenants = {each.nats_tenant: each for each in read_tenants(config)}
    known = tenants.pop(name, None)
    if known is None and folder.exists() and any(each.name[0] != "." for each in folder.iterdir()):
        raise ConfigError(f"{folder} is there already, and no office", "Choose another name, or move it away")
    limit = max_store or (known.nats_max_store if known else USUAL_STORE)
    files = (_store(config) / OFFICE_ACCOUNT).rglob("*")
    half = (config.nats_max_store or store_limit(place)) // 2
    if sum(each.stat().st_size for each in files if each.is_file()) > half:
        raise ConfigError(
            f"The log here has more than {decimal(half)}, the half that would stay this office's",
            "Raise nats_max_store and restart this office",
        )
    left = half - SLACK - sum(each.nats_max_store for each in tenants.values())
    if limit > left:
        raise ConfigError(
            f"Other offices may store {decimal(max(0, left))} more, not {decimal(limit)}",
            "Name less with --max-store, or raise nats_max_store, of which they share one half, and restart",
        )
    path = folder / "mailroom.toml"
    if known is None:
        taken = {config.gateway_port, *(each.gateway_port for each in tenants.values())}
        port = next(port for port in count(config.gateway_port or 8642) if port not in taken)
        text = (
            f"# The office {name} on the server of {config.state_dir}; its settings are its own.\n"
            f'gateway_port = {port}\n\n[nats]\ntenant = "{name}"\nmax_store = {limit}\n'
            f'servers = ["nats://127.0.0.1:{config.nats_port}"]\n'
        )
        write_atomically(path, text)
    elif limit != known.nats_max_store:
        write_atomically(path, re.sub(r"(?m)^max_store = .*$", f"max_store = {limit}", path.read_text()))
    return load({"MAILROOM_STATE_DIR": str(folder)})


def _store(config: Settings) -> Path:
    return config.state_dir / "nats" / "store" / "jetstream"


async def _provision(config: Settings, tenant: Settings, agents: list[str]) -> bool:
    """Wait until the server knows the tenant, and make its streams; False if the office is closed."""
    deadline = time.monotonic() + LOAD_WAIT
    while is_held(config.state_dir):
        try:
            await provision_named(tenant, agents)
            async with _connected(tenant, subjects.USER) as bus:
                # Imports work after the second time that the server reads its configuration
                await bus.last(subjects.OFFICE, subjects.OFFICE_STATE)
        except (BusError, StartError) as error:
            if time.monotonic() > deadline:
                cure = f"See {config.logs / 'office.log'} and nats.log there, then repeat the command"
                raise StartError(f"The server did not take the office over: {error}", cure) from None
            await asyncio.sleep(0.2)
        else:
            return True
    return False


@asynccontextmanager
async def _connected(tenant: Settings, name: str = subjects.ADMIN) -> AsyncIterator[Bus]:
    bus = await Bus.connect(name, tenant.nats_url, tenant.keys / f"{name}.nk", wait=1.0)
    try:
        yield bus
    finally:
        await bus.close()


async def _row(config: Settings, tenant: Settings) -> OfficeRow:
    stored = None
    if find_instance(config) is not None:
        with suppress(BusError):
            async with _connected(tenant) as bus:
                stored = int((await ask(bus, "INFO"))["storage"])
    return OfficeRow(
        name=tenant.nats_tenant,
        open=is_held(tenant.state_dir),
        stored=stored,
        max_store=tenant.nats_max_store,
        gateway_port=tenant.gateway_port,
        state_dir=str(tenant.state_dir),
    )


async def _delete_streams(tenant: Settings) -> None:
    with suppress(Denied):  # its accounts are gone already
        async with _connected(tenant) as bus:
            for name in (await ask(bus, "STREAM.NAMES"))["streams"] or []:
                await ask(bus, f"STREAM.DELETE.{name}")


async def _await_denial(config: Settings, tenant: Settings) -> None:
    """Return once the server does not know the tenant any more, or is stopped."""
    deadline = time.monotonic() + LOAD_WAIT
    while is_held(config.state_dir):
        with suppress(BusUnavailable):
            try:
                async with _connected(tenant):
                    pass
            except Denied:
                return
        if time.monotonic() > deadline:
            raise StartError("The server still knows the office", "Repeat the command")
        await asyncio.sleep(0.2)
