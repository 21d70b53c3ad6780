"""Specialists: an agent is started when its profile appears in the folder, and stopped when it is removed."""

import asyncio
import os
from typing import TYPE_CHECKING

from services.cli.agents import InstalledAgent, load_specialists
from services.cli.supervisor.child import Child
from services.cli.supervisor.logs import LogLine
from services.cli.supervisor.provisioning import provision_streams, write_config
from shared import subjects
from shared.bus import Bus
from shared.contracts import generate_iso_timestamp
from shared.errors import BusError, MailroomError, StartError
from shared.settings import Settings
from shared.tasks.specialists import (
    Supervision,
    end_supervision,
    read_retired,
    read_specialists,
    refusal_path,
    write_supervision,
)

if TYPE_CHECKING:
    from services.cli.supervisor.supervisor import Supervisor

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
