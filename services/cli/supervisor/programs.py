"""What an instance runs: nats-server and the agents, as programs for the supervisor."""

import os
import shutil
import socket
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from services.cli.agents import SERVICES, InstalledAgent
from services.cli.supervisor.child import Program
from services.cli.supervisor.logs import read_last_error, read_last_server_error
from shared import subjects
from shared.errors import StartError
from shared.settings import Settings, environment, without_secrets

SERVER_NAME = "nats"
AGENT, MEMORY, SERVER = range(3)
"""The order of stopping: agents first, then memory, which stores what they still send; the server last."""


def server_program(config: Settings, port: int) -> Program:
    """The instance's own nats-server on ``port``; raises StartError if nats-server is not installed."""
    return Program(
        name=SERVER_NAME,
        command=tuple(server_command(config, find_server(config), port)),
        cwd=config.state_dir,
        env=without_secrets(environment()),
        log=config.logs / "nats.log",
        stage=SERVER,
        ready=lambda _: is_listening(port),
        last_error=read_last_server_error,
        needed=True,
    )


def server_command(settings: Settings, program: Path, port: int) -> list[str]:
    """The command that runs nats-server on 127.0.0.1 with its files in ``<state_dir>/nats``."""
    folder = settings.state_dir / "nats"
    files = ["--config", str(folder / "nats-server.conf"), "--pid", str(folder / "server.pid")]
    return [str(program), *files, "--addr", "127.0.0.1", "--port", str(port)]


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


def agent_programs(config: Settings, agent: InstalledAgent, url: str) -> Iterator[Program]:
    """The processes of an agent, one per replica, connected to the server at ``url``."""
    for number in range(1, config.replicas.get(agent.name, 1) + 1):
        # No agent's name contains a dot, so no replica's log is another agent's.
        yield _agent_program(config, agent, url, agent.name if number == 1 else f"{agent.name}.{number}")


def _agent_program(config: Settings, agent: InstalledAgent, url: str, name: str) -> Program:
    host = socket.gethostname()

    def alive_file(process: int) -> Path:
        return config.state_dir / "run" / f"{agent.name}-{host}-{process}.alive"

    return Program(
        name=name,
        command=agent.command,
        # ``services`` and ``shared`` are found from here, whatever the current folder is.
        cwd=SERVICES.parent,
        env=_agent_environment(config, agent, url),
        log=config.logs / f"{name}.log",
        stage=MEMORY if agent.name == subjects.MEMORY_DAEMON else AGENT,
        ready=lambda process: alive_file(process).exists(),
        last_error=read_last_error,
        clean_up=lambda process: alive_file(process).unlink(missing_ok=True),
    )


def _agent_environment(config: Settings, agent: InstalledAgent, url: str) -> dict[str, str]:
    env = environment(
        config, nats_url=url, identity=agent.name, gateway_port=config.gateway_port, log_format="json"
    )
    if agent.name != subjects.GATEWAY:
        env = without_secrets(env)
    if agent.built_in:
        return env
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, [str(SERVICES.parent), env.get("PYTHONPATH")]))}
