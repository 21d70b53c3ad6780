"""The office's own nats-server, and what makes any nats-server the office's: keys, accounts, streams."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from shared import subjects
from shared.bus import Bus
from shared.bus.identity import OFFICE_ACCOUNT, ensure_keys, write_server_config
from shared.bus.provision import provision
from shared.errors import BusUnavailable, Denied, StartError
from shared.settings import Settings

READY_TIMEOUT = 15.0
"""Seconds the server may take until it listens: a large store is checked first."""
NAMED_WAIT = 3.0
"""Seconds the server that NATS_URL names may take to answer."""
TEMPLATES = Path(__file__).resolve().parents[2] / "deploy" / "nats"
MIN_STORE = 64 * 1024 * 1024
"""The least room JetStream can work with, in bytes."""


def write_config(
    settings: Settings, agents: Sequence[str], *, folder: Path | None = None, store: str = ""
) -> bool:
    """Make the missing keys and write the server's configuration; returns whether it changed.

    ``folder`` is where the configuration goes (default ``<state_dir>/nats``), ``store`` the folder of
    JetStream's files as the server sees it. Raises StartError where the disk is full or not writable.
    """
    folder = folder or settings.state_dir / "nats"
    keys = ensure_keys(settings.keys, [*agents, subjects.USER, subjects.ADMIN])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        limit = settings.nats_max_store or _store_limit(folder)
        changed = write_server_config(
            folder / "office.conf",
            settings,
            agents,
            keys,
            store=store or str(folder / "store"),
            max_store=limit,
        )
        for template in TEMPLATES.glob("*.conf"):
            shutil.copyfile(template, folder / template.name)
    except OSError as error:
        raise StartError(
            f"The folder {folder} cannot be written: {error.strerror}",
            "Make room or make it writable, or set MAILROOM_STATE_DIR to another folder",
        ) from None
    return changed


def _store_limit(folder: Path) -> int:
    """Half of what is free, so that the server refuses in time instead of failing on a full disk.

    What it was given once it keeps: the store itself uses the room it was given.
    """
    remembered = folder / "max_store"
    if remembered.exists():
        return int(remembered.read_text())
    free = shutil.disk_usage(folder).free
    limit = min(10 * 1024**3, free // 2)
    if limit < MIN_STORE:
        raise StartError(f"Only {free // 1024**2} MB are free in {folder}", "Make room for at least 128 MB")
    remembered.write_text(str(limit))
    return limit


def deal_keys(settings: Settings, names: Sequence[str], folder: Path) -> None:
    """Give each identity a folder ``<folder>/<name>`` with nothing but its own key, for containers to mount.

    Raises StartError where that cannot be written.
    """
    for name in names:
        target = folder / name / f"{name}.nk"
        key = (settings.keys / target.name).read_bytes()
        try:
            if target.exists() and target.read_bytes() == key:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.touch(mode=0o600)
            target.write_bytes(key)
        except OSError as error:
            raise StartError(
                f"The key {target} cannot be written: {error.strerror}", "Make its folder writable"
            ) from None


class NatsServer:
    """A nats-server process of our own."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process = process
        self.url = url

    @classmethod
    async def start(cls, settings: Settings, *, log: Path) -> "NatsServer":
        """Start it on 127.0.0.1; raises StartError with the cause where it does not come up."""
        port = choose_port(settings)
        command = server_command(settings, find_server(settings), port)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: ASYNC220 - a fork takes a moment, and its end is not awaited here
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        server = cls(process, f"nats://127.0.0.1:{port}")
        await server._await_ready(port, log)
        return server

    async def _await_ready(self, port: int, log: Path) -> None:
        for _ in range(int(READY_TIMEOUT / 0.02)):
            if self.process.poll() is not None:
                raise StartError(f"nats-server ended at once: {_last_error(log)}", f"Its log is {log}")
            if listens(port):
                return
            await asyncio.sleep(0.02)
        self.stop()
        raise StartError(
            f"nats-server did not listen on port {port} within {READY_TIMEOUT:g} s", f"Its log is {log}"
        )

    def stop(self, timeout: float = 10.0) -> None:
        """Stop it, so that it writes everything down first."""
        self.process.terminate()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def reload(self) -> None:
        """Have it read its configuration again."""
        import signal

        self.process.send_signal(signal.SIGHUP)


async def provision_office(settings: Settings, url: str, agents: Sequence[str]) -> list[str]:
    """Make or update streams, buckets and durables as the admin; returns what changed."""
    bus = await Bus.connect(subjects.ADMIN, url, settings.keys / f"{subjects.ADMIN}.nk")
    try:
        return await provision(
            bus, agents, ack_wait=settings.task_ack_wait, max_attempts=settings.max_attempts
        )
    finally:
        await bus.close()


async def provision_named(settings: Settings, agents: Sequence[str]) -> list[str]:
    """The same on the server that NATS_URL names; raises StartError with the cure where it is of no use."""
    try:
        if not await _enforces_rights(settings):
            raise Denied("It takes anybody")
        return await provision_office(settings, settings.nats_url, agents)
    except Denied:
        include = settings.state_dir / "nats" / "office.conf"
        raise StartError(
            f"The server at {settings.nats_url} does not know the office's keys",
            f"Add the line 'include {include}' to its configuration and reload it",
        ) from None
    except BusUnavailable as error:
        raise StartError(
            f"NATS_URL names a server that cannot be used: {error.cause}",
            "Start that server, correct NATS_URL, or unset it and have the office start a server of its own",
        ) from None


async def _enforces_rights(settings: Settings) -> bool:
    """Whether the server has the office's accounts; one without any lets everybody do everything."""
    key = settings.keys / f"{subjects.ADMIN}.nk"
    bus = await Bus.connect(subjects.ADMIN, settings.nats_url, key, wait=NAMED_WAIT)
    try:
        answer = json.loads(await bus.request("$SYS.REQ.USER.INFO"))
        return bool(answer["data"]["account"] == OFFICE_ACCOUNT)
    finally:
        await bus.close()


def find_server(settings: Settings) -> Path:
    """The nats-server program; raises StartError where there is none."""
    if settings.nats_server_bin:
        path = Path(settings.nats_server_bin).expanduser().absolute()
        if os.access(path, os.X_OK):
            return path
        raise StartError(f"NATS_SERVER_BIN names {path}, which is no program", "Correct it, or unset it")
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise StartError("There is no nats-server", "Run 'make setup', or name one with NATS_SERVER_BIN")
    return Path(found)


def server_command(settings: Settings, program: Path, port: int) -> list[str]:
    """What runs the server on 127.0.0.1 with the state directory's configuration; it notes its id there."""
    folder = settings.state_dir / "nats"
    listen = ["--addr", "127.0.0.1", "--port", str(port)]
    return [
        str(program),
        "--config",
        str(folder / "nats-server.conf"),
        "--pid",
        str(folder / "server.pid"),
        *listen,
    ]


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def choose_port(settings: Settings) -> int:
    """Where the server is to listen; raises StartError where somebody else listens there."""
    port = settings.nats_port or free_port()
    if listens(port):
        raise StartError(
            f"Port {port} is taken by another program",
            "Stop it, choose another with --port or MAILROOM_NATS_PORT (0 takes a free one), "
            "or use the server there through NATS_URL",
        )
    return port


def listens(port: int) -> bool:
    """Whether somebody listens on ``port`` of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _last_error(log: Path) -> str:
    lines = [
        line for line in log.read_text(errors="replace").splitlines() if "[FTL]" in line or "[ERR]" in line
    ]
    return json.dumps(lines[-1].partition("] ")[2]) if lines else "see its log"
