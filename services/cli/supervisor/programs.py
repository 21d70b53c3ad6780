"""What an instance runs: nats-server, the agents, and specialists when their profile appears."""

import asyncio
import contextlib
import os
import shutil
import socket
import sysconfig
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from services.cli.supervisor.child import Program
from services.cli.supervisor.logs import read_last_error, read_last_server_error
from shared import subjects
from shared.bus.hosts import read_membership
from shared.errors import StartError
from shared.heartbeat import heartbeat_path, remove_heartbeat
from shared.settings import Settings, environment, without_secrets
from shared.tasks.installed_agents import SERVICES, InstalledAgent

SERVER_NAME = "nats"
AGENT, MEMORY, SERVER = range(3)
"""The order of stopping: agents first, then memory, which stores what they still send; the server last."""
GREETING = 0.5  # Seconds until nats-server must greet a client


def server_program(config: Settings, port: int, name: str = SERVER_NAME, file: Path | None = None) -> Program:
    """The instance's own nats-server on ``port``; raises StartError if nats-server is not installed.

    One of several has another ``name``, and its own configuration in ``file``.
    """
    return Program(
        name=name,
        command=tuple(server_command(config, find_server(config), port, file)),
        cwd=config.state_dir,
        env=without_secrets(environment()),
        log=config.logs / f"{name}.log",
        stage=SERVER,
        ready=lambda _: is_listening(port),
        last_error=read_last_server_error,
        start_limit=config.start_limit,
        unresponsive_limit=config.unresponsive_limit,
        beat=partial(_greet, port),
        needed=True,
    )


def server_command(settings: Settings, program: Path, port: int, file: Path | None = None) -> list[str]:
    """The command that runs nats-server with the configuration ``file``, by default in ``<state_dir>/nats``;
    other files are beside it.
    """
    file = file or settings.state_dir / SERVER_NAME / "nats-server.conf"
    files = ["--config", str(file), "--pid", str(file.parent / "server.pid")]
    return [str(program), *files, "--addr", settings.nats_address, "--port", str(port)]


def find_server(settings: Settings) -> Path:
    """The path of nats-server; raises StartError if it is not installed."""
    if settings.nats_server_bin:
        path = Path(settings.nats_server_bin).expanduser().absolute()
        if os.access(path, os.X_OK):
            return path
        raise StartError(f"NATS_SERVER_BIN names {path}, which is not executable", "Correct it, or unset it")
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise StartError("nats-server is not installed", "Run 'make setup', or name one with NATS_SERVER_BIN")
    return Path(found)


def choose_port(settings: Settings) -> int:
    """The port for the server; raises StartError if another program listens on the one that is set."""
    port = settings.nats_port or free_port()
    if is_listening(port):
        raise StartError(
            f"Port {port} is taken by another program",
            "Stop it, choose another port with --port or MAILROOM_NATS_PORT (0 picks a free one), "
            "or use the server there through NATS_URL",
        )
    return port


def free_port() -> int:
    """A free port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Whether a program listens on ``port`` of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def _greet(port: int, _: int) -> float:
    """Now if the nats-server on ``port`` of 127.0.0.1 sends what it sends first to every client, else 0.

    For one that is stopped the kernel still accepts connections.
    """
    with contextlib.suppress(OSError):
        async with asyncio.timeout(GREETING):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return time.monotonic() if await reader.read(4) == b"INFO" else 0
            finally:
                writer.close()
    return 0


def agent_programs(config: Settings, agent: InstalledAgent, url: str) -> Iterator[Program]:
    """The processes of an agent, one per replica, connected to the server at ``url``; of memory its readers
    too.
    """
    for number in range(1, config.replicas.get(agent.name, 1) + 1):
        # No agent's name contains a dot, so no replica's log is another agent's.
        yield _agent_program(config, agent, url, agent.name if number == 1 else f"{agent.name}.{number}")
    if agent.name == subjects.MEMORY_DAEMON:
        reader = msgspec.structs.replace(agent, command=(*agent.command, "reader"))
        for number in range(1, config.replicas.get(subjects.MEMORY_READER, 0) + 1):
            yield _agent_program(config, reader, url, f"{subjects.MEMORY_READER}.{number}")


def _agent_program(config: Settings, agent: InstalledAgent, url: str, name: str) -> Program:
    def heartbeat(process: int) -> Path:
        return heartbeat_path(config, agent.name, process)

    async def beat(process: int) -> float:
        # Not in a thread: the logs beside it are read here too, and ten processes beat each two seconds.
        os.utime(heartbeat(process).parent)  # fails if the process cannot touch its file either
        return heartbeat(process).stat().st_mtime_ns

    return Program(
        name=name,
        command=agent.command,
        # ``services`` and ``shared`` are found from here, whatever the current folder is.
        cwd=SERVICES.parent,
        env=_agent_environment(config, agent, url),
        log=config.logs / f"{name}.log",
        stage=MEMORY if agent.name == subjects.MEMORY_DAEMON else AGENT,
        ready=lambda process: heartbeat(process).exists(),
        last_error=read_last_error,
        start_limit=config.start_limit,
        unresponsive_limit=config.unresponsive_limit,
        beat=beat,
        clean_up=lambda process: remove_heartbeat(heartbeat(process)),
    )


def _agent_environment(config: Settings, agent: InstalledAgent, url: str) -> dict[str, str]:
    member = read_membership(config.keys)
    given = member.settings if member else {"gateway_port": config.gateway_port}
    env = environment(config, nats_url=url, identity=agent.name, log_format="json", **given)
    if agent.name != subjects.GATEWAY:
        env = without_secrets(env)
    if agent.built_in:
        return env
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, [str(SERVICES.parent), env.get("PYTHONPATH")]))}
