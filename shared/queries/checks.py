"""Checks of an installation, and how to fix what they find, for the command and the gateway alike."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich.filesize import decimal

from shared import subjects
from shared.access.scopes import HookFile, People
from shared.bus import Bus
from shared.bus.commit import RATE
from shared.bus.records import read_presences
from shared.delivery.channels import read_deliver
from shared.errors import BusError, BusUnavailable, ConfigError, MailroomError
from shared.memory import Memory
from shared.queries.flooding import find_floods
from shared.queries.office import read_deliveries
from shared.queries.processes import SERVER, find_late, find_troubled
from shared.queries.records import call_server, last_sequence, scan
from shared.queries.replicas import read_replicas
from shared.queries.seals import CUTS, name_of, read_cuts, read_unsealed, read_witnessed
from shared.settings import Settings
from shared.text.times import format_utc, parse_time, seconds_between
from shared.views.status import Process

MIN_SERVER = (2, 12)
"""The first nats-server with atomic batches and message schedules, which commits and deadlines need."""
FREE_NONE = 32 * 1024**2
FREE_FAIL = 200 * 1000**2
FREE_WARN = 2 * 1000**3
"""Free bytes on the disk: with less it is full, streams cannot be created, a busy week may fill it."""
UNSEALED_WARN = 10_000  # Messages that no seal covers: more than ten seals' worth
BEHIND_WARN = 2_000  # Messages that the gateway's index may lack: some seconds of a busy office
ANSWER_WAIT, KNOWN_WAIT = 8.0, 1.8
"""Seconds until the server must have answered, the second if it is known why it may not (``may_answer``)."""
SIZES_WITHIN = 1.5  # Seconds in which sizes on disk are added up; larger ones are told as "over"
DAY, WEEK, HOUR = timedelta(days=1), timedelta(days=7), 3600.0
DAYS_WARN = 14  # Days for which there has to be room for the log
MEMORY_TIMEOUT = 5.0  # Seconds until memory must report its health


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check, and how to fix a problem; ``details`` are for programs."""

    name: str
    verdict: Literal["ok", "warn", "fail"]
    finding: str
    fix: str = ""
    details: dict[str, Any] = {}


def ok(name: str, finding: str, details: dict[str, Any] | None = None) -> Check:
    """The check that found nothing wrong."""
    return Check(name=name, verdict="ok", finding=finding, details=details or {})


def warn(name: str, finding: str, fix: str) -> Check:
    """The check found something to be fixed soon."""
    return Check(name=name, verdict="warn", finding=finding, fix=fix)


def fail(name: str, finding: str, fix: str) -> Check:
    """The check that found something broken."""
    return Check(name=name, verdict="fail", finding=finding, fix=fix)


def failed(name: str, error: MailroomError) -> Check:
    """The check that ended with an error."""
    return fail(name, error.cause, error.cure)


async def run_checks(
    checks: Mapping[str, Awaitable[Check]], report: Callable[[Check], None], seconds: float
) -> None:
    """Run all at once, and report each as it ends; one that takes longer than ``seconds`` has failed."""

    async def run(name: str, check: Awaitable[Check]) -> None:
        try:
            async with asyncio.timeout(seconds):
                found = await check
        except MailroomError as error:
            found = failed(name, error)
        except TimeoutError:
            found = fail(name, "no result in time", "See the other checks, that of the disk first")
        report(found)

    await asyncio.gather(*(run(*each) for each in checks.items()))


# --- on the bus ----------------------------------------------------------------------------------


def check_server(bus: Bus) -> Check:
    """Whether the server is new enough."""
    version = tuple(int(part) for part in bus.server_version.split("-")[0].split(".")[:2])
    if version < MIN_SERVER:
        fix = "Use the one that comes with Mailroom: unset NATS_URL and NATS_SERVER_BIN, then 'mailroom up'"
        return fail("bus", f"nats-server {bus.server_version} is too old: 2.12 is needed", fix)
    return ok("bus", f"nats-server {bus.server_version} at {bus.url}")


async def check_replicas(bus: Bus, config: Settings) -> Check:
    """Whether the log lies on as many servers as the settings say, and all of them follow."""
    found = await read_replicas(bus)
    if max(len(found), 1) < config.nats_replicas:
        fix = "'mailroom cluster adopt' puts it on three; if one was stopped, start it again"
        there = ", ".join(map(str, found)) or "one server"
        return fail("servers", f"the log is to lie on {config.nats_replicas} servers: {there}", fix)
    if not found:
        return ok("servers", "the log lies on one server")
    told = "; ".join(map(str, found))
    if not any(each.leads for each in found):
        return fail("servers", f"no server leads the log: {told}", "Start the others again; see their logs")
    if all(each.current for each in found):
        return ok("servers", told)
    return warn("servers", told, "Start it again, or wait until it has caught up; its log says more")


async def check_streams(bus: Bus, config: Settings, agents: Sequence[str]) -> Check:
    """Whether all streams and mailboxes exist; how fast the log grows, and when there is no room for it."""
    needed = [f"STREAM.INFO.{stream}" for stream in subjects.LOG]
    needed += [
        f"CONSUMER.INFO.{subjects.OFFICE}.{name}"
        for agent in (*agents, subjects.USER)
        for name in subjects.mailboxes(agent)
    ]
    there = await asyncio.gather(*(_exists(bus, verb) for verb in needed))
    missing = [verb.partition("INFO.")[2] for verb, found in zip(needed, there, strict=True) if not found]
    if missing:
        return fail("streams", f"missing: {', '.join(missing)}", "mailroom provision")
    account: dict[str, Any] = await call_server(bus, "INFO")
    stored = int(account["storage"])
    finding = f"all {len(needed)} streams and mailboxes, {decimal(stored)} stored"
    growth = sum(await asyncio.gather(*(read_growth(bus, stream) for stream in subjects.LOG)))
    if not growth:
        return ok("streams", f"{finding}; too new to say how fast the log grows")
    finding += f"; the log grows by {decimal(int(growth))} a day"
    room = await asyncio.to_thread(_room_for_log, config, stored)
    if room is None:
        return ok("streams", finding)
    days = room / growth
    finding += f", so there is room for {f'{days:,.0f} days' if days < 3_650 else 'over ten years'}"
    if days > DAYS_WARN:
        return ok("streams", finding)
    fix = "'mailroom audit archive' moves old messages elsewhere; or free space, or raise nats_max_store"
    return warn("streams", finding, fix)


async def read_growth(bus: Bus, stream: str) -> float:
    """By how many bytes a day a stream of the log grew in the last week, or since it began: by the number of
    messages, and the mean size of those that the server has. 0 if it is younger than an hour.
    """
    state: dict[str, Any] = (await call_server(bus, f"STREAM.INFO.{stream}"))["state"]  # type: ignore[assignment]
    since = datetime.now(UTC) - WEEK
    async with aclosing(scan(bus, stream, since=since)) as messages:
        first = await anext(messages, None)
    if first is None or not state["messages"]:
        return 0.0
    seconds = seconds_between(first.time if parse_time(str(state["first_ts"])) > since else format_utc(since))
    if seconds < HOUR:
        return 0.0
    number = int(state["last_seq"]) - first.seq + 1
    return number * int(state["bytes"]) / int(state["messages"]) / seconds * DAY.total_seconds()


def _room_for_log(config: Settings, stored: int) -> int | None:
    """The bytes that the server may still store; None if its folder is not here."""
    folder = config.state_dir / "nats"
    if not folder.is_dir():
        return None
    limit = config.nats_max_store
    with contextlib.suppress(OSError, ValueError):
        limit = limit or int((folder / "max_store").read_text())
    free = shutil.disk_usage(folder).free
    return min(free, max(0, limit - stored)) if limit else free


async def _exists(bus: Bus, verb: str) -> bool:
    try:
        await call_server(bus, verb)
    except BusUnavailable:
        raise
    except BusError:
        return False
    return True


async def check_agents(bus: Bus, config: Settings, agents: Sequence[str]) -> Check:
    """Whether every agent runs, and every process responds."""
    presences = await read_presences(bus)
    running = {presence.agent for presence in presences}
    troubled = [*await asyncio.to_thread(find_troubled, config), *find_late(presences)]
    missing = [name for name in agents if name not in running]
    if troubled:
        return check_troubled(troubled, missing)
    if missing:
        fix = "'mailroom up' starts them; their logs say why they ended"
        return warn("agents", f"not running: {', '.join(missing)}", fix)
    beside = ", and the gateway" if subjects.GATEWAY in running else ""
    return ok("agents", f"{len(running - {subjects.GATEWAY})} running{beside}")


def check_troubled(troubled: Sequence[Process], missing: Sequence[str] = ()) -> Check:
    """The check that found processes that do not run as they should, and agents that have none."""
    finding = "; ".join(map(str, troubled))
    missing = [name for name in missing if all(name != each.agent for each in troubled)]
    if missing:
        finding += f"; not running: {', '.join(missing)}"
    if all(each.state == "starting" for each in troubled):
        return warn("agents", finding, "Wait; their logs say what they do")
    stopped = " ".join(str(each.pid) for each in troubled if each.state == "stopped" and not each.host)
    resume = f", or resume what is stopped: kill -CONT {stopped}" if stopped else ""
    return fail(
        "agents", finding, f"Wait until the office starts it again (its log says what it did){resume}"
    )


async def check_deliver(bus: Bus, config: Settings) -> Check:
    """Whether people are told what happens: by which channels, and whether the gateway runs that tells it."""
    try:
        channels = read_deliver(config).channels
    except ConfigError as error:
        return fail("deliver", error.cause, error.cure)
    if not channels:
        return ok("deliver", "no channel is set: reminders and requests are in the mailbox and the dashboard")
    names = f"{', '.join(channels)} ('mailroom deliver test' tries them)"
    if all(presence.agent != subjects.GATEWAY for presence in await read_presences(bus)):
        fix = "'mailroom up' starts it; its log says why it ended"
        return fail("deliver", f"nothing is told by {names}: the gateway is not running", fix)
    failed = [each for each in await read_deliveries(bus, datetime.now(UTC) - DAY) if each.status == "failed"]
    if failed:
        fix = "'mailroom deliver log --open' says why"
        return warn("deliver", f"{len(failed)} of the last day could not be told; channels: {names}", fix)
    return ok("deliver", names)


async def check_memory(bus: Bus) -> Check:
    """Whether the memory daemon can read and write."""
    try:
        async with asyncio.timeout(MEMORY_TIMEOUT):
            health = await Memory(bus).health()
    except TimeoutError:
        fix = "Read its log, logs/memory.log; 'mailroom status' shows whether it runs"
        return fail("memory", f"no answer within {MEMORY_TIMEOUT:g} s", fix)
    if health.get("status") == "catching up":
        done = f"{health.get('done'):,} of {health.get('total'):,} writes"
        return warn("memory", f"it is being rebuilt from its log ({done})", "Wait until it is done")
    if health.get("status") != "ok":
        fix = "Free space on its disk if that is the reason; its log says more"
        return fail("memory", f"{health.get('status')}: {health.get('problem')}", fix)
    return ok("memory", f"graph version {health.get('version')} in {health.get('path')}")


async def check_index(bus: Bus, config: Settings) -> Check:
    """Whether the gateway's index has what the log has; a check for who is not the gateway."""
    path = config.gateway / "index.db"
    if not path.exists() and _is_elsewhere(path):
        return ok("index", "not checked: the gateway's folder is not here")
    if not path.exists():
        return ok("index", "the gateway has not made one yet")
    ends = [await last_sequence(bus, stream) for stream in subjects.LOG]
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            found = db.execute("SELECT office, memory FROM messages ORDER BY number DESC LIMIT 1").fetchone()
    except sqlite3.Error as error:
        return warn("index", f"{path} cannot be read: {error}", "Free space on its disk, or delete the file")
    behind = sum(max(0, end - has) for end, has in zip(ends, found or (0, 0), strict=True))
    if behind > BEHIND_WARN:
        fix = f"Does the gateway run? Is there space for {path.parent}? It catches up by itself"
        return warn("index", f"the gateway's index misses {behind:,} of {sum(ends):,} messages", fix)
    return ok("index", f"the gateway's index has the {sum(ends):,} messages of the log")


async def check_seals(bus: Bus, config: Settings) -> Check:
    """Whether the log is sealed, and its witnesses have the seals."""
    if cuts := read_cuts(config):
        fix = f"Restore a backup if you need them; delete {config.gateway / CUTS} once you know"
        return fail("seals", "; ".join(map(str, cuts[-3:])), fix)
    unsealed = sum((await read_unsealed(bus)).values())
    if unsealed > UNSEALED_WARN:
        fix = "The gateway seals it: does it run? Its log, logs/gateway.log, says why not"
        return warn("seals", f"{unsealed:,} messages of the log are not sealed", fix)
    witnessed = read_witnessed(config)
    failing = {name: state.problem for name, state in witnessed.items() if state.problem}
    if failing:
        told = "; ".join(f"{name}: {problem}" for name, problem in failing.items())
        return warn(
            "seals", f"not witnessed since: {told}", "It is tried again and again; correct [audit] witness"
        )
    state = f"the log is sealed but for its last {unsealed:,} messages"
    if not config.audit_witness:
        return ok("seals", f"{state}; nobody outside keeps a seal ([audit] witness)")
    return ok("seals", f"{state}, and witnessed by {', '.join(map(name_of, config.audit_witness))}")


# --- on this machine -----------------------------------------------------------------------------


async def check_rates(bus: Bus) -> Check:
    """Whether an agent publishes more than its client would let it by itself."""
    floods = await find_floods(bus)
    if not floods:
        return ok("rates", f"no agent publishes over {RATE:g} messages/s by itself")
    who = ", ".join(f"{name} {rate:,.0f}/s" for name, rate in floods.items())
    return warn(
        "rates",
        f"agents that publish over {RATE:g} messages/s by themselves: {who}",
        "see what it does with 'mailroom tail', and pause it: mailroom agents pause NAME",
    )


def check_keys(config: Settings) -> Check:
    """Whether the keys exist and only their owner can read them."""
    try:
        keys = sorted(config.keys.glob("*.nk"))
        readable = [path.name for path in keys if path.stat().st_mode & 0o077]
    except OSError as error:
        finding = f"{config.keys} cannot be read: {error.strerror}"
        return fail("keys", finding, "Correct its owner or MAILROOM_KEY_DIR")
    if not keys:
        return fail("keys", f"there are none in {config.keys}", "'mailroom up' makes them")
    if readable:
        return fail("keys", f"others can read {', '.join(readable)}", f"chmod 600 {config.keys}/*.nk")
    return ok("keys", f"{len(keys)} in {config.keys}, readable by you only")


def check_access(config: Settings) -> Check:
    """Whether the files that say who may use the gateway are right, and private."""
    try:
        people = People(config).read()
    except ConfigError as error:
        return fail("access", f"nobody can use the gateway: {error.cause}", error.cure)
    hooks = config.gateway / "hooks.toml"
    if hooks.exists() and hooks.stat().st_mode & 0o077:
        return warn("access", f"others can read {hooks}, which holds secrets", f"chmod 600 {hooks}")
    try:
        HookFile(config).read()
    except ConfigError as error:
        return fail("access", f"webhooks: {error.cause}", error.cure)
    if _is_elsewhere(config.gateway):
        return ok("access", "not checked: the gateway's folder is not here")
    return ok("access", f"people: {', '.join(people) or 'none'}")


def _is_elsewhere(path: Path) -> bool:
    """Whether ``path`` is not written here: in containers only that of the gateway has its folder."""
    folder = next(each for each in (path, *path.parents) if each.exists())
    return not os.access(folder, os.W_OK)


def check_disk(config: Settings) -> Check:
    """Whether the state directory is writable and its disk has free space."""
    folder = _existing(config.state_dir)
    if not folder.is_dir():
        return fail("disk", f"{folder} is a file, not a folder", "Set MAILROOM_STATE_DIR to another")
    size, _, free = shutil.disk_usage(folder)
    if not size:
        return fail("disk", f"{folder} is on no disk", "Set MAILROOM_STATE_DIR to a folder that is on one")
    place = config.state_dir
    if not os.access(folder, os.W_OK):
        mounted = _list_mounted(folder)
        if not mounted:
            fix = "Correct its owner, or set MAILROOM_STATE_DIR to another"
            return fail("disk", f"{folder} cannot be written", fix)
        written = [path for path in mounted if path.name != "run" and os.access(path, os.W_OK)]
        if not written:
            return ok("disk", f"nothing is written to {folder} here")
        place = min(written, key=lambda path: shutil.disk_usage(path).free)
        free = shutil.disk_usage(place).free
    finding = f"{decimal(free)} free for {place}"
    if free < FREE_NONE:
        finding = f"the disk is full, so nothing can be stored: {finding}"
    if free < FREE_FAIL:
        return fail("disk", finding, "Free space, or set MAILROOM_STATE_DIR to a larger disk")
    return warn("disk", finding, "Free space soon") if free < FREE_WARN else ok("disk", finding)


def may_answer(config: Settings, troubled: Sequence[Process]) -> bool:
    """False if it is known here why the server does not: its disk is full, or its process is stopped."""
    return read_free(config) >= FREE_NONE and all(each.agent != SERVER for each in troubled)


def read_free(config: Settings) -> int:
    """The bytes that are free on the disk of the state directory, also before it is made."""
    return shutil.disk_usage(_existing(config.state_dir)).free


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def check_kept(config: Settings) -> Check:
    """How much of each kind lies on disk, and for how many days it is kept without use."""
    places = {
        "outputs": (config.outputs, config.days_kept("outputs")),
        "sent": (config.sent, config.days_kept("outputs")),
        "workspaces": (config.workspaces, config.days_kept("workspaces")),
        "snapshots": (config.snapshots, config.days_kept("workspaces")),
        "logs": (config.logs, 0),
        "messages": (config.state_dir / "nats", 0),
        "memory": (config.state_dir / "memory", 0),
    }
    deadline = time.monotonic() + SIZES_WITHIN
    parts = []
    for kind, (folder, days) in places.items():
        if folder.is_dir():
            size, whole = _measure(folder, deadline)
            kept = f" (kept {days} days)" if days else ""
            parts.append(f"{kind} {'' if whole else 'over '}{decimal(size)}{kept}")
    return ok("kept", ", ".join(parts) or "nothing is stored here")


def _measure(folder: Path, deadline: float) -> tuple[int, bool]:
    """The bytes of the files in a folder, and whether all were counted before the ``deadline``."""
    size = 0
    for root, _, names in os.walk(folder):
        if time.monotonic() > deadline:
            return size, False
        for name in names:
            with contextlib.suppress(OSError):
                size += Path(root, name).lstat().st_size
    return size, True


def _list_mounted(folder: Path) -> list[Path]:
    """The folders in ``folder`` that are mounted there, as in a container, where ``folder`` itself is not
    written.
    """
    try:
        return [path for path in folder.iterdir() if path.is_mount()]
    except OSError:
        return []
