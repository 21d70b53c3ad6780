"""``mailroom hosts``, ``join`` and ``leave``: agents on other hosts than the office's."""

import asyncio
import contextlib
import re
import ssl
import sys
import time
from pathlib import Path

import click
import msgspec

from services.cli.commands.options import NumberType, format_examples, json_option
from services.cli.commands.up import load_settings, state_dir_option
from services.cli.connection import connect, require_office
from services.cli.output.console import make_table, open_console, print_json, print_result
from services.cli.supervisor.cluster import client_certificate
from services.cli.supervisor.hosts import is_in_force, read_in_force
from services.cli.supervisor.lifecycle import stop_instance
from services.cli.supervisor.lock import is_held
from shared import subjects
from shared.bus import Bus
from shared.bus.connecting import ensure_keys, find_instance, public_key, read_supervisor
from shared.bus.hosts import (
    HOST_KEY,
    MEMBERSHIP,
    Invitation,
    Membership,
    changing_hosts,
    make_seed,
    read_hosts,
    read_membership,
    write_membership,
)
from shared.bus.joining import JoinRequest, Token, ask_office, open_answer, read_token, write_request
from shared.bus.records import read_presences
from shared.contracts import Presence
from shared.errors import BusError, ConfigError, Denied, MailroomError, StartError
from shared.settings import Settings
from shared.tasks.installed_agents import load_agents
from shared.tasks.speaker import WITNESSES
from shared.text.times import format_span

OFFICE_ROLES = {*WITNESSES, subjects.MEMORY_DAEMON, subjects.GATEWAY}
"""The agents that stay in the office: those that sign what people said, and those there is one of."""
RESERVED = {subjects.OFFICE_HOST, subjects.TAKEN}
LOAD_WAIT = 15.0  # Seconds for the supervisor to have the servers know what changed
KEY_WAIT = 15.0  # Seconds for the servers to know the keys of a host


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """A host as ``mailroom hosts`` shows it: ``processes`` are at work, with ``load`` messages in hand.

    ``state`` is working, away (joined, nothing at work) or invited.
    """

    name: str
    state: str
    roles: tuple[str, ...]
    processes: int = 0
    load: int = 0
    seen: float = 0.0
    until: float = 0.0


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def hosts(ctx: click.Context, as_json: bool) -> None:
    """Show the hosts that run agents; invite one, revoke one."""
    if ctx.invoked_subcommand is not None:
        return
    config = load_settings()
    if (member := read_membership(config.keys)) is not None:
        told = f"This is the host {member.host} of {member.servers}: {', '.join(member.roles)}"
        print_result({"host": member.host, "office": member.servers, "roles": member.roles}, told, as_json)
        return
    require_office(config)
    rows = _rows(config, asyncio.run(_read_presences()))
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("All agents run on this machine.\nmailroom hosts invite NAME --role engineer")
    else:
        table = make_table("host", "state", "roles", "processes", "in hand", right=("processes", "in hand"))
        for row in rows:
            table.add_row(
                row.name, _format_state(row), ", ".join(row.roles), str(row.processes), str(row.load)
            )
        open_console().print(table)


role_option = click.option("--role", "roles", required=True, metavar="AGENT,...", help="The agents it runs.")


@hosts.command(epilog=format_examples("mailroom hosts invite lab --role engineer,critic"))
@click.argument("name")
@role_option
@click.option(
    "--minutes", type=NumberType(1, 10_080), default=60, show_default=True, help="How long the token counts."
)
@state_dir_option
@json_option
def invite(name: str, roles: str, minutes: float, state_dir: Path | None, as_json: bool) -> None:
    """Print a token with which a machine joins as NAME, once.

    A further one for the same NAME takes the place of this one.
    """
    config = load_settings(state_dir)
    require_office(config)
    if config.nats_tenant:
        raise ConfigError("No host can join an office on the server of another", "Run its agents here")
    office = find_instance(config)
    if office is not None:  # what counts is where its server listens now
        config = msgspec.structs.replace(config, nats_address=office.nats_address)
    chosen = _parse_roles(roles)
    if not is_host_name(name):
        raise ConfigError(f"{name!r} is no name for a host", "Use up to 40 small letters, digits and '-'")
    known = {agent.name for agent in load_agents(config)}
    if strange := sorted({*chosen} - known):
        raise ConfigError(f"There is no agent {strange[0]!r}", f"There are {', '.join(sorted(known))}")
    if staying := sorted({*chosen} & OFFICE_ROLES):
        raise ConfigError(f"{staying[0]} stays in the office", "Other hosts may run the other agents")
    seed = make_seed()
    until = time.time() + minutes * 60
    with changing_hosts(config.keys) as listed:
        if name in listed.joined:
            raise ConfigError(f"There is a host {name} already", f"'mailroom hosts revoke {name}' removes it")
        listed.invited[name] = Invitation(key=public_key(seed.encode()), roles=chosen, until=until)
    in_force = _wait_until_loaded(config)
    token = Token(host=name, roles=chosen, seed=seed, authority=_authority(config))
    if as_json:
        print_json({"name": name, "roles": chosen, "token": str(token), "until": until, "counts": in_force})
        return
    click.echo(str(token))
    lasts = format_span(minutes * 60)
    click.echo(
        f"\nThis is shown once. It counts for {lasts}, once, on the machine that is to be {name}:", err=True
    )
    url = config.nats_url or (office.url if office else f"nats://127.0.0.1:{config.nats_port}")
    url = url.replace("127.0.0.1", "THIS-HOST")
    click.echo(f"mailroom join {url} --role {','.join(chosen)} --token ...", err=True)
    if config.nats_address == "127.0.0.1" and not config.nats_url:
        click.echo("The server listens for this machine alone: set nats_address to 0.0.0.0", err=True)
    if not in_force:
        click.echo("The office is closed: the token counts once it is open", err=True)


@hosts.command()
@click.argument("name")
@state_dir_option
@json_option
def revoke(name: str, state_dir: Path | None, as_json: bool) -> None:
    """Take the keys of the host NAME, or its token, from it.

    Its connections end at once. What its agents had in hand is given to others.
    """
    config = load_settings(state_dir)
    require_office(config)
    with changing_hosts(config.keys) as listed:
        gone = [listed.joined.pop(name, None), listed.invited.pop(name, None)]
    if not any(gone):
        raise ConfigError(f"There is no host {name!r}", "'mailroom hosts' lists them")
    in_force = _wait_until_loaded(config)
    later = "" if in_force else "; the office is closed, its server learns of it at the next start"
    print_result({"name": name, "revoked": True, "counts": in_force}, f"{name} is revoked{later}", as_json)


@click.command(
    epilog=format_examples("mailroom join nats://office.example:4222 --role engineer --token mrj_...")
)
@click.argument("url")
@role_option
@click.option("--token", "text", required=True, help="What 'mailroom hosts invite' printed; '-' reads it.")
@state_dir_option
@json_option
def join(url: str, roles: str, text: str, state_dir: Path | None, as_json: bool) -> None:
    """Have this machine run agents of an office elsewhere.

    URL is that of the office's server. The keys are made here and stay here; 'mailroom up' then starts these
    agents, and nothing else. Settings and secrets, such as those of models, are this machine's.
    """
    config = load_settings(state_dir)
    token = read_token(sys.stdin.read() if text == "-" else text)
    chosen = _parse_roles(roles)
    if (config.keys / f"{subjects.ADMIN}.nk").exists():
        raise ConfigError(f"There is an office in {config.state_dir}", "Name another folder with --state-dir")
    if (member := read_membership(config.keys)) is not None:
        raise ConfigError(f"This is the host {member.host} of {member.servers}", "Leave it: mailroom leave")
    if more := sorted({*chosen} - {*token.roles}):
        raise ConfigError(f"The token is for {', '.join(token.roles)}", f"Leave {', '.join(more)} out")
    member = asyncio.run(_join(config, url, token, chosen))
    told = f"This is now the host {member.host} of {url}: {', '.join(chosen)}. 'mailroom up' starts them"
    if not member.authority:
        click.echo("Warning: messages are not encrypted between here and the office.", err=True)
    print_result({"host": member.host, "office": url, "roles": chosen}, told, as_json)


@click.command()
@click.option("--force", is_flag=True, help="Also if the office cannot be told.")
@state_dir_option
@json_option
def leave(force: bool, state_dir: Path | None, as_json: bool) -> None:
    """Stop the agents here, and give the keys back to the office.

    What they had in hand is given to others.
    """
    config = load_settings(state_dir)
    member = read_membership(config.keys)
    if member is None:
        raise ConfigError("This machine has joined no office", "")
    if process := read_supervisor(config.state_dir) if is_held(config.state_dir) else 0:
        stop_instance(config, process)
    try:
        seed = (config.keys / f"{HOST_KEY}.nk").read_bytes().strip()
        subject = subjects.asking(member.host)
        click.echo(f"Asking the office at {member.servers}...", err=True)
        asked = ask_office(member.servers, seed, subject, b"", authority=member.authority)
        open_answer(asyncio.run(asked), seed)
    except Denied:  # it was revoked
        pass
    except (MailroomError, OSError) as error:
        if not force:
            cure = f"Try again, or with --force, and there: mailroom hosts revoke {member.host}"
            raise StartError(f"The office was not told: {error}", cure) from None
    for name in (HOST_KEY, *member.roles):
        (config.keys / f"{name}.nk").unlink(missing_ok=True)
    (config.keys / MEMBERSHIP).unlink()
    told = f"This machine is no longer the host {member.host}"
    print_result({"host": member.host, "left": True}, told, as_json)


async def _join(config: Settings, url: str, token: Token, roles: tuple[str, ...]) -> Membership:
    """Ask the office with keys that are made once, and try what it answers."""
    keys = await asyncio.to_thread(ensure_keys, config.keys, [HOST_KEY, *roles])
    request = JoinRequest(host=token.host, key=keys[HOST_KEY], roles={role: keys[role] for role in roles})
    seed, secret = token.seed.encode(), (config.keys / f"{HOST_KEY}.nk").read_bytes().strip()
    subject, asked = subjects.joining(token.host), write_request(request, seed)
    authority = ssl.DER_cert_to_PEM_cert(token.authority) if token.authority else ""
    click.echo(f"Asking the office at {url}...", err=True)
    answer = await ask_office(url, seed, subject, asked, authority=authority)
    member = open_answer(answer, secret)
    if member is None or {*member.roles} != {*roles}:
        raise BusError("The office answered something else", "It is of another version: use the same")
    member = msgspec.structs.replace(member, servers=url, authority=authority)
    await asyncio.to_thread(write_membership, config.keys, member)
    try:
        for role in roles:
            await _try_key(role, url, config.keys / f"{role}.nk")
    except BaseException:
        (config.keys / MEMBERSHIP).unlink()
        raise
    return member


async def _try_key(role: str, url: str, seed: Path) -> None:
    """Return once the servers let this host in as ``role``; raises what they said last after KEY_WAIT."""
    deadline = time.monotonic() + KEY_WAIT
    while True:
        try:
            bus = await Bus.connect(role, url, seed, wait=2.0)
            try:
                await bus.last(subjects.OFFICE, subjects.record(role, "any", "any"))
            finally:
                await bus.close()
        except BusError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


def _parse_roles(text: str) -> tuple[str, ...]:
    roles = tuple(dict.fromkeys(filter(None, (role.strip() for role in text.split(",")))))
    if not roles:
        raise click.BadParameter("name at least one agent", param_hint="'--role'")
    return roles


def is_host_name(name: str) -> bool:
    """Whether a host can be called so: it is a token of subjects, a folder, and a part of buckets' names."""
    return re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name) is not None and name not in RESERVED


def _authority(config: Settings) -> bytes:
    """The certificate of the office's own servers; empty if they speak no TLS with clients."""
    path = None if config.nats_url else client_certificate(config)
    return ssl.PEM_cert_to_DER_cert(path.read_text()) if path else b""


def _wait_until_loaded(config: Settings) -> bool:
    """Whether the servers know of the last change; False if the office is closed."""
    deadline = time.monotonic() + LOAD_WAIT
    while is_held(config.state_dir):
        if is_in_force(config):
            return True
        if time.monotonic() > deadline:
            raise StartError("The office did not take the change over", f"See {config.logs / 'office.log'}")
        time.sleep(0.1)
    return False


async def _read_presences() -> list[Presence]:
    """The processes at work, as far as the office is open."""
    with contextlib.suppress(MailroomError):
        async with connect(wait=0) as bus:
            return await read_presences(bus)
    return []


def _rows(config: Settings, presences: list[Presence]) -> list[HostRow]:
    listed, seen = read_hosts(config.keys), read_in_force(config).seen
    rows = []
    for name, host in sorted(listed.joined.items()):
        here = [each for each in presences if subjects.host_of(each.instance) == name]
        rows.append(
            HostRow(
                name=name,
                state="working" if here else "away",
                roles=tuple(host.roles),
                processes=len(here),
                load=sum(each.load for each in here),
                seen=time.time() if here else seen.get(name, 0.0),
            )
        )
    rows += [
        HostRow(name=name, state="invited", roles=each.roles, until=each.until)
        for name, each in sorted(listed.invited.items())
        if name not in listed.joined and each.until > time.time()
    ]
    return rows


def _format_state(row: HostRow) -> str:
    if row.state == "invited":
        return f"invited for {format_span(row.until - time.time())} more"
    if row.state == "working":
        return row.state
    return f"away for {format_span(time.time() - row.seen)}" if row.seen else "joined, not seen yet"
