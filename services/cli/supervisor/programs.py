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
from typing import TYPE_CHECKING

from services.cli.installed_agents import SERVICES, InstalledAgent, load_specialists
from services.cli.supervisor.child import Child, Program
from services.cli.supervisor.logs import LogLine, read_last_error, read_last_server_error
from services.cli.supervisor.provisioning import provision_streams, write_config
from shared import subjects
from shared.bus import Bus
from shared.contracts import generate_iso_timestamp
from shared.errors import BusError, MailroomError, StartError
from shared.heartbeat import heartbeat_path
from shared.settings import Settings, environment, without_secrets
from shared.tasks.profiles import (
    Supervision,
    end_supervision,
    read_retired,
    read_specialists,
    refusal_path,
    write_supervision,
)

if TYPE_CHECKING:
    from services.cli.supervisor.supervisor import Supervisor


SERVER_NAME = "nats"
AGENT, MEMORY, SERVER = range(3)
"""The order of stopping: agents first, then memory, which stores what they still send; the server last."""
GREETING = 0.5
"""Seconds until nats-server must greet a client."""


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
        start_limit=config.start_limit,
        unresponsive_limit=config.unresponsive_limit,
        beat=partial(_greet, port),
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
    """The processes of an agent, one per replica, connected to the server at ``url``."""
    for number in range(1, config.replicas.get(agent.name, 1) + 1):
        # No agent's name contains a dot, so no replica's log is another agent's.
        yield _agent_program(config, agent, url, agent.name if number == 1 else f"{agent.name}.{number}")


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
        clean_up=lambda process: heartbeat(process).unlink(missing_ok=True),
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


POLL_INTERVAL = 0.5
"""Seconds between checks of the specialists' folder."""
RELOAD_INTERVAL = 0.2
"""Seconds between two reloads of the server; one takes about 30 ms."""
MAX_RELOADS = 40
FOREIGN_SERVER = "The server that NATS_URL names is not the office's own, so new agents cannot be added to it"


class SpecialistSupervisor:
    """Keeps the running specialists in line with the profiles in their folder.

    Only the supervisor has the admin's key, so the limits on profiles are checked here again. ``agents`` are
    the names of the other agents.
    """

    def __init__(self, supervisor: "Supervisor", agents: list[str]) -> None:
        self._supervisor = supervisor
        self._agents = agents
        self._children: dict[str, Child] = {}
        self._rejected: dict[str, str] = {}
        self._seen: object = None
        self._task: asyncio.Task[None] | None = None

    def agent_names(self) -> list[str]:
        """The names that need a key and an account, those of retired specialists included."""
        valid, _ = read_specialists(self._supervisor.config)
        return list(dict.fromkeys((*self._agents, *valid, *read_retired(self._supervisor.config))))

    def start(self, *, foreign: bool) -> None:
        """Watch the folder until ``stop``; on a ``foreign`` server only publish the reason why not."""
        write_supervision(
            self._supervisor.config, Supervision(pid=os.getpid(), refusal=FOREIGN_SERVER if foreign else "")
        )
        if not foreign:
            self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop watching; the supervisor stops the processes."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        end_supervision(self._supervisor.config)

    async def _watch(self) -> None:
        while True:
            try:
                await self._sync()
            except (MailroomError, OSError) as error:
                self._report("office", "warning", f"the specialists could not be updated: {error}")
            await asyncio.sleep(POLL_INTERVAL)

    async def _sync(self) -> None:
        config = self._supervisor.config
        seen = await asyncio.to_thread(_modification_times, config)
        if seen == self._seen:
            return
        installed = {agent.name: agent for agent in await asyncio.to_thread(load_specialists, config)}
        _, rejected = await asyncio.to_thread(read_specialists, config)
        for name in self._children.keys() - installed.keys():
            await self._retire(name)
        for name, reason in rejected.items():
            self._reject(name, reason)
        for name in installed.keys() - self._children.keys():
            await self._try_start(installed[name])
        self._seen = seen

    async def _try_start(self, agent: InstalledAgent) -> None:
        try:
            await self._start(agent)
        except (MailroomError, OSError) as error:
            self._reject(agent.name, str(error))

    async def _start(self, agent: InstalledAgent) -> None:
        """Create its key and account, load them into the server, and start it."""
        supervisor, config = self._supervisor, self._supervisor.config
        agents = await asyncio.to_thread(self.agent_names)
        changed = await asyncio.to_thread(write_config, config, agents)
        if changed or await self._check_access(agent.name):
            await self._reload_until_known(agent.name)
        await provision_streams(config, supervisor.url, agents)
        self._children[agent.name] = supervisor.start_agent(agent)

    async def _reload_until_known(self, name: str) -> None:
        """Reload the server until the agent can log in and read; raises StartError if it never can.

        One reload is not enough: nats-server 2.15.1 connects the imports of a new account only at the reload
        after the one that adds it. Reloads disconnect no client and lose no message.
        """
        for _ in range(MAX_RELOADS):
            self._supervisor.reload_server()
            await asyncio.sleep(RELOAD_INTERVAL)
            reason = await self._check_access(name)
            if not reason:
                return
        raise StartError(f"The server does not accept {name}: {reason}", "See its log, logs/nats.log")

    async def _check_access(self, name: str) -> str:
        """Why the agent cannot log in or read its own records; empty if it can."""
        key = self._supervisor.config.keys / f"{name}.nk"
        try:
            bus = await Bus.connect(name, self._supervisor.url, key, wait=0.1)
        except BusError as error:
            return str(error)
        try:
            await bus.last(subjects.OFFICE, subjects.record(name, "any", "any"))
        except BusError as error:
            return str(error)
        else:
            return ""
        finally:
            await bus.close()

    async def _retire(self, name: str) -> None:
        await self._supervisor.stop_child(self._children.pop(name))
        self._report(name, "info", "retired")

    def _reject(self, name: str, reason: str) -> None:
        if self._rejected.get(name) == reason:
            return
        self._rejected[name] = reason
        self._report(name, "warning", f"not started: {reason}")
        path = refusal_path(self._supervisor.config, name)
        if path.parent.is_dir():
            path.write_text(f"{reason}\n{generate_iso_timestamp()}\n")

    def _report(self, name: str, level: str, text: str) -> None:
        self._supervisor.report(LogLine(name, level, text))


def _modification_times(config: Settings) -> tuple[tuple[str, int], ...]:
    """The profiles and their modification times; a difference means that one changed."""
    found = []
    for path in config.specialists.glob("*/profile.yaml"):
        try:
            found.append((path.parent.name, path.stat().st_mtime_ns))
        except OSError:
            continue
    return tuple(sorted(found))
