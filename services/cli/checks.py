"""What ``mailroom doctor`` looks at, one function a check."""

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich.filesize import decimal

from services.cli.connection import call_server, connect, find_office
from services.cli.records import read_presences
from services.cli.roster import load_roster
from shared import settings, subjects
from shared.bus import Bus
from shared.errors import BusError, ConfigError, MailroomError
from shared.llm.config import configured_model, configured_small_model
from shared.llm.remote import probe as probe_brain
from shared.memory import Memory
from shared.settings import Settings

LEAST_SERVER = (2, 12)
"""The first nats-server with atomic batches and message schedules, which every commit and deadline needs."""
FREE_FAIL = 200 * 1000**2
FREE_WARN = 2 * 1000**3
"""Bytes free on the disk: below, streams cannot be made; below, a busy week may fill it."""
MEMORY_PATIENCE = 5.0
"""Seconds memory may take to say how it is."""
MODEL_CURE = "python -m services.memory.model"
_MODEL_CHECK = """
import sys
from pathlib import Path
from services.memory.model import is_complete
sys.exit(0 if is_complete(Path(sys.argv[1])) else 1)
"""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at, and what to do about it where it is not well."""

    name: str
    verdict: Literal["ok", "warn", "fail"]
    finding: str
    fix: str = ""


def _ok(name: str, finding: str) -> Check:
    return Check(name=name, verdict="ok", finding=finding)


def _warn(name: str, finding: str, fix: str) -> Check:
    return Check(name=name, verdict="warn", finding=finding, fix=fix)


def _fail(name: str, finding: str, fix: str) -> Check:
    return Check(name=name, verdict="fail", finding=finding, fix=fix)


def _failed(name: str, error: MailroomError) -> Check:
    return _fail(name, error.cause, error.cure)


async def examine() -> list[Check]:
    """Every check; one that needs the bus is left out where there is none, since that failed already."""
    try:
        config = settings.load()
    except ConfigError as error:
        return [_failed("settings", error)]
    checks = [
        check_keys(config),
        check_disk(config),
        await check_model(config.models),
        await check_brain(config),
        await check_sandbox(),
    ]
    try:
        async with connect() as bus:
            return [check_server(bus), *await _ask_around(bus, config), *checks]
    except MailroomError as error:
        return [_failed("bus", error), *checks]


async def _ask_around(bus: Bus, config: Settings) -> list[Check]:
    probes: dict[str, Callable[[], Awaitable[Check]]] = {
        "streams": lambda: check_streams(bus, config),
        "agents": lambda: check_agents(bus, config),
        "memory": lambda: check_memory(bus),
    }
    checks = []
    for name, probe in probes.items():
        try:
            checks.append(await probe())
        except MailroomError as error:
            checks.append(_failed(name, error))
    return checks


# --- on the bus ----------------------------------------------------------------------------------


def check_server(bus: Bus) -> Check:
    """Whether the server is new enough."""
    numbers = tuple(int(part) for part in bus.server_version.split("-")[0].split(".")[:2])
    if numbers < LEAST_SERVER:
        fix = "Use the one that comes with Mailroom: unset NATS_URL and NATS_SERVER_BIN, then 'mailroom up'"
        return _fail("bus", f"nats-server {bus.server_version} is too old: 2.12 is needed", fix)
    return _ok("bus", f"nats-server {bus.server_version} at {bus.url}")


async def check_streams(bus: Bus, config: Settings) -> Check:
    """Whether JetStream holds every stream and mailbox."""
    needed = [f"STREAM.INFO.{stream}" for pair in subjects.AUDITED.items() for stream in pair]
    needed += [f"CONSUMER.INFO.{subjects.OFFICE}.{name}" for name in (*_agents(config), subjects.USER)]
    missing = []
    for verb in needed:
        try:
            await call_server(bus, verb)
        except BusError:
            missing.append(verb.partition("INFO.")[2])
    if missing:
        return _fail("streams", f"missing: {', '.join(missing)}", "mailroom provision")
    account: dict[str, Any] = await call_server(bus, "INFO")
    return _ok(
        "streams", f"all {len(needed)} streams and mailboxes, {decimal(int(account['storage']))} stored"
    )


async def check_agents(bus: Bus, config: Settings) -> Check:
    """Whether every agent of the roster is at work."""
    present = {presence.agent for presence in await read_presences(bus)}
    absent = [name for name in _agents(config) if name not in present]
    if absent:
        return _warn(
            "agents",
            f"not at work: {', '.join(absent)}",
            "'mailroom up' starts them; their logs say why they ended",
        )
    return _ok("agents", f"{len(present)} at work")


def _agents(config: Settings) -> list[str]:
    return [member.name for member in load_roster(config)]


async def check_memory(bus: Bus) -> Check:
    """Whether the memory daemon can read and write."""
    try:
        health = await asyncio.wait_for(Memory(bus).health(), MEMORY_PATIENCE)
    except TimeoutError:
        return _fail(
            "memory",
            f"no answer within {MEMORY_PATIENCE:g} s",
            "Look into its log; 'mailroom status' shows it",
        )
    if health.get("status") == "catching up":
        done = f"{health.get('done'):,} of {health.get('total'):,} writes"
        return _warn("memory", f"it is being made anew from its log ({done})", "Wait for it to be done")
    if health.get("status") != "ok":
        fix = "Make room on its disk if that is the reason; its log says more"
        return _fail("memory", f"{health.get('status')}: {health.get('problem')}", fix)
    return _ok("memory", f"graph version {health.get('version')} in {health.get('path')}")


# --- on this machine -----------------------------------------------------------------------------


def check_keys(config: Settings) -> Check:
    """Whether the keys are there and nobody else can read them."""
    try:
        keys = sorted(config.keys.glob("*.nk"))
        open_to_others = [path.name for path in keys if path.stat().st_mode & 0o077]
    except OSError as error:
        return _fail(
            "keys", f"{config.keys} cannot be read: {error.strerror}", "Correct its owner or MAILROOM_KEY_DIR"
        )
    if not keys:
        return _fail("keys", f"there are none in {config.keys}", "'mailroom up' makes them")
    if open_to_others:
        return _fail("keys", f"others can read {', '.join(open_to_others)}", f"chmod 600 {config.keys}/*.nk")
    return _ok("keys", f"{len(keys)} in {config.keys}, readable by you alone")


def check_disk(config: Settings) -> Check:
    """Whether there is room, and the state directory can be written."""
    folder = next(path for path in (config.state_dir, *config.state_dir.parents) if path.exists())
    if not folder.is_dir():
        return _fail("disk", f"{folder} is a file, not a folder", "Set MAILROOM_STATE_DIR to another")
    size, _, free = shutil.disk_usage(folder)
    if not size:
        return _fail("disk", f"{folder} is on no disk", "Set MAILROOM_STATE_DIR to a folder that is on one")
    if not os.access(folder, os.W_OK):
        return _fail(
            "disk", f"{folder} cannot be written", "Correct its owner, or set MAILROOM_STATE_DIR to another"
        )
    finding = f"{decimal(free)} free for {config.state_dir}"
    if free < FREE_FAIL:
        return _fail("disk", finding, "Make room, or set MAILROOM_STATE_DIR to a larger disk")
    return _warn("disk", finding, "Make room soon") if free < FREE_WARN else _ok("disk", finding)


async def check_model(folder: Path) -> Check:
    """Whether the embedding model's files are there and are the right ones, as memory itself judges it."""
    # A service imports no other service, so memory's own check runs in a process of its own.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MODEL_CHECK, str(folder), stderr=asyncio.subprocess.DEVNULL
    )
    if await process.wait():
        return _fail("embedder", f"the model is missing or damaged in {folder}", MODEL_CURE)
    return _ok("embedder", f"the model is in {folder}, its checksums are right")


async def check_brain(config: Settings) -> Check:
    """Which models think, and whether their servers are there; no token is spent."""
    try:
        chosen = dict.fromkeys(filter(None, (configured_model(config), configured_small_model(config))))
    except ConfigError as error:
        return _failed("brain", error)
    office = find_office(config)
    if office is not None and office.brain != config.brain:
        finding = f"the office that runs thinks with {office.brain or 'no model'}"
        if not config.brain:
            return _ok("brain", f"{finding}; MAILROOM_BRAIN is not set here, so that was not tried")
        return _warn(
            "brain",
            f"{finding}, and not with {config.brain}",
            "Close it and open it anew, or unset MAILROOM_BRAIN",
        )
    if not chosen:
        return _ok("brain", "offline: playbooks, and actions named in a task's context, work without a model")
    for choice in chosen:
        try:
            await probe_brain(choice)
        except MailroomError as error:
            return _warn("brain", f"{choice.name}: {error.cause}", error.cure)
    return _ok("brain", ", ".join(f"{choice.setting} {choice.name}" for choice in chosen))


async def check_sandbox() -> Check:
    """Whether a command can be shut in, tried with one."""
    from shared.sandbox import check_jail

    if reason := await check_jail():
        cause, _, cure = reason.partition(". ")
        return _warn("sandbox", f"commands are refused, because the jail does not work here: {cause}", cure)
    return _ok("sandbox", "the jail works: commands run shut in, with no network and nothing of yours")
