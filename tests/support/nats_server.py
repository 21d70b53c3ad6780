"""A nats-server process for tests."""

import asyncio
import json
import subprocess
from pathlib import Path

from services.cli.supervisor.programs import choose_port, find_server, is_listening, server_command
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
            if is_listening(port):
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


def _last_error(log: Path) -> str:
    lines = [
        line for line in log.read_text(errors="replace").splitlines() if "[FTL]" in line or "[ERR]" in line
    ]
    return json.dumps(lines[-1].partition("] ")[2]) if lines else "see its log"
