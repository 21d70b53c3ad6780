"""What the office runs: its nats-server and its agents, as programs for a supervisor."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from services.cli.child import Program
from services.cli.logbook import last_complaint, last_server_complaint
from services.cli.roster import SERVICES, Member
from services.cli.server import find_server, listens, server_command
from shared import subjects
from shared.settings import Settings, environment

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
