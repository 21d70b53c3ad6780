"""The office's own nats-server: the program, its port, its process."""

import os
import shutil
import socket
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from services.cli.roster import SERVICES, Member
from services.cli.supervisor.child import Program
from services.cli.supervisor.logs import last_complaint, last_server_complaint
from shared import subjects
from shared.errors import StartError
from shared.settings import Settings, environment


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


SERVER_NAME = "nats"
AGENT, MEMORY, SERVER = range(3)
"""The stages of the end: agents first, so that memory takes what they still send; the server last."""


def server_program(config: Settings, port: int) -> Program:
    """The office's own nats-server on ``port``; raises StartError where there is no nats-server."""
    return Program(
        name=SERVER_NAME,
        command=tuple(server_command(config, find_server(config), port)),
        cwd=config.state_dir,
        env=environment(),
        log=config.logs / "nats.log",
        stage=SERVER,
        ready=lambda _: listens(port),
        complaint=last_server_complaint,
    )


def agent_programs(config: Settings, member: Member, url: str) -> Iterator[Program]:
    """The processes of one agent, one for each replica; they use the server at ``url``."""
    for number in range(1, config.replicas.get(member.name, 1) + 1):
        # No agent's name has a dot in it, so that no replica's log is another agent's.
        yield _agent_program(config, member, url, member.name if number == 1 else f"{member.name}.{number}")


def _agent_program(config: Settings, member: Member, url: str, name: str) -> Program:
    host = socket.gethostname()

    def sign_of_life(process: int) -> Path:
        return config.state_dir / "run" / f"{member.name}-{host}-{process}.alive"

    return Program(
        name=name,
        command=member.command,
        # Where ``services`` and ``shared`` are found, whatever folder the office was opened from.
        cwd=SERVICES.parent,
        env=_agent_environment(config, member, url),
        log=config.logs / f"{name}.log",
        stage=MEMORY if member.name == subjects.MEMORY_DAEMON else AGENT,
        ready=lambda process: sign_of_life(process).exists(),
        complaint=last_complaint,
        clean_up=lambda process: sign_of_life(process).unlink(missing_ok=True),
    )


def _agent_environment(config: Settings, member: Member, url: str) -> dict[str, str]:
    env = environment(config, nats_url=url, identity=member.name, log_format="json")
    if member.built_in:
        return env
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, [str(SERVICES.parent), env.get("PYTHONPATH")]))}
