"""The office's own nats-server: the program, its port, its process."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sysconfig
from pathlib import Path

from shared.errors import StartError
from shared.settings import Settings

READY_TIMEOUT = 15.0
"""Seconds the server may take until it listens: a large store is checked first."""


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
