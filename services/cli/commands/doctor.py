"""``mailroom doctor``: whether everything that Mailroom needs is there, and how to fix what is not."""

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
from rich.console import Console
from rich.filesize import decimal

from services.cli.agents import load_agents
from services.cli.commands.options import json_option
from services.cli.connection import connect
from services.cli.output.console import open_console, print_block, print_json
from shared import settings, subjects
from shared.bus import Bus
from shared.bus.discovery import find_instance
from shared.bus.records import read_presences
from shared.errors import BusError, ConfigError, MailroomError
from shared.llm.config import configured_model, configured_small_model
from shared.llm.remote import probe as probe_model
from shared.memory import Memory
from shared.queries.open_batches import WATCHED, find_open_batches, format_open_batches
from shared.queries.records import call_server
from shared.settings import Settings
from shared.text.printable import clean

STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}
MIN_SERVER = (2, 12)
"""The first nats-server with atomic batches and message schedules, which commits and deadlines need."""
FREE_FAIL = 200 * 1000**2
FREE_WARN = 2 * 1000**3
"""Free bytes on the disk: with less streams cannot be created; with less a busy week may fill it."""
MEMORY_TIMEOUT = 5.0
"""Seconds until memory must report its health."""
_MODEL_CHECK = """
import sys
from pathlib import Path
from services.memory.model import is_complete
sys.exit(0 if is_complete(Path(sys.argv[1])) else 1)
"""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check, and how to fix a problem."""

    name: str
    verdict: Literal["ok", "warn", "fail"]
    finding: str
    fix: str = ""


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check the installation, and say how to fix problems.

    Checks bus, streams, agents, memory, commits, keys, disk, embedding model, language model and sandbox.
    Exits with 1 if a check fails.
    """
    checks = asyncio.run(_run_checks())
    if as_json:
        print_json(checks)
    else:
        console = open_console()
        for check in checks:
            _print(check, console)
    if any(check.verdict == "fail" for check in checks):
        raise SystemExit(1)


def _print(check: Check, console: Console) -> None:
    line = f"{check.verdict:<5}{check.name:<11}{clean(check.finding)}"
    print_block(line, console, hang=16, lead=5, style=STYLES[check.verdict])
    if check.fix:
        print_block(f"{'':16}fix: {clean(check.fix)}", console, hang=21)


async def _run_checks() -> list[Check]:
    """All checks; without a connection, those that need one are left out."""
    try:
        config = settings.load()
    except ConfigError as error:
        return [_failed("settings", error)]
    checks = [
        check_keys(config),
        check_disk(config),
        await check_embedder(config.models),
        await check_model(config),
        await check_sandbox(),
    ]
    try:
        async with connect() as bus:
            return [check_server(bus), *await _run_bus_checks(bus, config), *checks]
    except MailroomError as error:
        return [_failed("bus", error), *checks]


async def _run_bus_checks(bus: Bus, config: Settings) -> list[Check]:
    probes: dict[str, Callable[[], Awaitable[Check]]] = {
        "streams": lambda: check_streams(bus, config),
        "agents": lambda: check_agents(bus, config),
        "memory": lambda: check_memory(bus),
        "commits": lambda: check_commits(bus, config),
    }
    checks = []
    for name, probe in probes.items():
        try:
            checks.append(await probe())
        except MailroomError as error:
            checks.append(_failed(name, error))
    return checks


def _ok(name: str, finding: str) -> Check:
    return Check(name=name, verdict="ok", finding=finding)


def _warn(name: str, finding: str, fix: str) -> Check:
    return Check(name=name, verdict="warn", finding=finding, fix=fix)


def _fail(name: str, finding: str, fix: str) -> Check:
    return Check(name=name, verdict="fail", finding=finding, fix=fix)


def _failed(name: str, error: MailroomError) -> Check:
    return _fail(name, error.cause, error.cure)


# --- on the bus ----------------------------------------------------------------------------------


def check_server(bus: Bus) -> Check:
    """Whether the server is new enough."""
    version = tuple(int(part) for part in bus.server_version.split("-")[0].split(".")[:2])
    if version < MIN_SERVER:
        fix = "Use the one that comes with Mailroom: unset NATS_URL and NATS_SERVER_BIN, then 'mailroom up'"
        return _fail("bus", f"nats-server {bus.server_version} is too old: 2.12 is needed", fix)
    return _ok("bus", f"nats-server {bus.server_version} at {bus.url}")


async def check_streams(bus: Bus, config: Settings) -> Check:
    """Whether all streams and mailboxes exist."""
    needed = [f"STREAM.INFO.{stream}" for pair in subjects.AUDITED.items() for stream in pair]
    needed += [
        f"CONSUMER.INFO.{subjects.OFFICE}.{name}"
        for agent in (*_agents(config), subjects.USER)
        for name in subjects.mailboxes(agent)
    ]
    missing = []
    for verb in needed:
        try:
            await call_server(bus, verb)
        except BusError:
            missing.append(verb.partition("INFO.")[2])
    if missing:
        return _fail("streams", f"missing: {', '.join(missing)}", "mailroom provision")
    account: dict[str, Any] = await call_server(bus, "INFO")
    size = decimal(int(account["storage"]))
    return _ok("streams", f"all {len(needed)} streams and mailboxes, {size} stored")


async def check_agents(bus: Bus, config: Settings) -> Check:
    """Whether every agent runs."""
    running = {presence.agent for presence in await read_presences(bus)}
    missing = [name for name in _agents(config) if name not in running]
    if missing:
        fix = "'mailroom up' starts them; their logs say why they ended"
        return _warn("agents", f"not running: {', '.join(missing)}", fix)
    return _ok("agents", f"{len(running)} running")


async def check_commits(bus: Bus, config: Settings) -> Check:
    """Whether a client leaves atomic commits open."""
    left = await find_open_batches(config, f"nats://{bus.url}")
    if left is None:
        return _ok("commits", "not watched: the admin's key is not here")
    if left:
        fix = f"Stop it; if its key was stolen, delete {config.keys}/<name>.nk and start the office again"
        return _warn("commits", format_open_batches(left, WATCHED), fix)
    return _ok("commits", f"nobody left one open within {WATCHED:g} s")


def _agents(config: Settings) -> list[str]:
    return [agent.name for agent in load_agents(config)]


async def check_memory(bus: Bus) -> Check:
    """Whether the memory daemon can read and write."""
    try:
        health = await asyncio.wait_for(Memory(bus).health(), MEMORY_TIMEOUT)
    except TimeoutError:
        fix = "Read its log, logs/memory.log; 'mailroom status' shows whether it runs"
        return _fail("memory", f"no answer within {MEMORY_TIMEOUT:g} s", fix)
    if health.get("status") == "catching up":
        done = f"{health.get('done'):,} of {health.get('total'):,} writes"
        return _warn("memory", f"it is being rebuilt from its log ({done})", "Wait until it is done")
    if health.get("status") != "ok":
        fix = "Free space on its disk if that is the reason; its log says more"
        return _fail("memory", f"{health.get('status')}: {health.get('problem')}", fix)
    return _ok("memory", f"graph version {health.get('version')} in {health.get('path')}")


# --- on this machine -----------------------------------------------------------------------------


def check_keys(config: Settings) -> Check:
    """Whether the keys exist and only their owner can read them."""
    try:
        keys = sorted(config.keys.glob("*.nk"))
        readable = [path.name for path in keys if path.stat().st_mode & 0o077]
    except OSError as error:
        finding = f"{config.keys} cannot be read: {error.strerror}"
        return _fail("keys", finding, "Correct its owner or MAILROOM_KEY_DIR")
    if not keys:
        return _fail("keys", f"there are none in {config.keys}", "'mailroom up' makes them")
    if readable:
        return _fail("keys", f"others can read {', '.join(readable)}", f"chmod 600 {config.keys}/*.nk")
    return _ok("keys", f"{len(keys)} in {config.keys}, readable by you only")


def check_disk(config: Settings) -> Check:
    """Whether the state directory is writable and its disk has free space."""
    folder = next(path for path in (config.state_dir, *config.state_dir.parents) if path.exists())
    if not folder.is_dir():
        return _fail("disk", f"{folder} is a file, not a folder", "Set MAILROOM_STATE_DIR to another")
    size, _, free = shutil.disk_usage(folder)
    if not size:
        return _fail("disk", f"{folder} is on no disk", "Set MAILROOM_STATE_DIR to a folder that is on one")
    if not os.access(folder, os.W_OK):
        fix = "Correct its owner, or set MAILROOM_STATE_DIR to another"
        return _fail("disk", f"{folder} cannot be written", fix)
    finding = f"{decimal(free)} free for {config.state_dir}"
    if free < FREE_FAIL:
        return _fail("disk", finding, "Free space, or set MAILROOM_STATE_DIR to a larger disk")
    return _warn("disk", finding, "Free space soon") if free < FREE_WARN else _ok("disk", finding)


async def check_embedder(folder: Path) -> Check:
    """Whether the files of the embedding model are there with the right checksums."""
    # A service imports no other service, so memory's own check runs in a process of its own.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MODEL_CHECK, str(folder), stderr=asyncio.subprocess.DEVNULL
    )
    if await process.wait():
        finding = f"the model is missing or damaged in {folder}"
        return _fail("embedder", finding, "python -m services.memory.model")
    return _ok("embedder", f"the model is in {folder}, its checksums are right")


async def check_model(config: Settings) -> Check:
    """Which language models are set, and whether their servers answer; this costs no tokens."""
    try:
        chosen = dict.fromkeys(filter(None, (configured_model(config), configured_small_model(config))))
    except ConfigError as error:
        return _failed("brain", error)
    instance = find_instance(config)
    if instance is not None and instance.brain != config.brain:
        finding = f"the running office uses {instance.brain or 'no model'}"
        if not config.brain:
            return _ok("brain", f"{finding}; not tried, since MAILROOM_BRAIN is not set here")
        return _warn("brain", f"{finding}, not {config.brain}", "Restart it, or unset MAILROOM_BRAIN")
    if not chosen:
        return _ok("brain", "no model: playbooks, and actions named in a task's context, work without one")
    for choice in chosen:
        try:
            await probe_model(choice)
        except MailroomError as error:
            return _warn("brain", f"{choice.name}: {error.cause}", error.cure)
    return _ok("brain", ", ".join(f"{choice.setting} {choice.name}" for choice in chosen))


async def check_sandbox() -> Check:
    """Whether the jail works, tried with a command."""
    from shared.sandbox import check_jail

    if reason := await check_jail():
        cause, _, cure = reason.partition(". ")
        return _warn("sandbox", f"commands are refused, because the jail does not work here: {cause}", cure)
    return _ok("sandbox", "the jail works: commands run isolated, without network and without your files")
