"""Agents at work in the test's own process, on a real nats-server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from services.cli.provisioning import provision_office, write_config
from services.cli.server import NatsServer
from shared import settings, subjects
from shared.agent.base import Agent
from shared.agent.process import AgentProcess
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import submission_entries
from shared.contracts import Envelope, Task, TaskChanged, TaskResult, generate_task_id
from shared.settings import Settings
from shared.tasks.profile import Profile


class Team:
    """A running server, the agents on it, and a person who writes to them."""

    def __init__(self, config: Settings, server: NatsServer, user: Bus) -> None:
        self.config = config
        self.server = server
        self.user = user
        self.offices: list[AgentProcess] = []
        self._buses: list[Bus] = []

    async def join(self, agent_class: type[Agent], profile: Profile) -> Any:
        """Put an agent to work and return it."""
        bus = await self._connect(profile.name)
        office = AgentProcess(agent_class(profile, self.config, bus), self.config)
        self.offices.append(office)
        await office.open()
        return office.agent

    async def connect(self, name: str) -> Bus:
        """A connection under ``name`` for the test's own use."""
        self._buses.append(await self._connect(name))
        return self._buses[-1]

    async def close(self) -> None:
        """Stop every agent and connection."""
        await asyncio.gather(*(office.close() for office in self.offices))
        await asyncio.gather(*(bus.close() for bus in (*self._buses, self.user)))

    async def _connect(self, name: str) -> Bus:
        return await Bus.connect(name, self.server.url, self.config.keys / f"{name}.nk", wait=3)

    async def leave(self, agent: Agent) -> None:
        """Stop an agent."""
        office = next(office for office in self.offices if office.agent is agent)
        self.offices.remove(office)
        await office.close()

    async def perform(self, assignee: str, action: str, **params: Any) -> TaskResult:
        """Have ``assignee`` perform one action, as a task of a person."""
        task = Task(
            task_id=generate_task_id(),
            text=action,
            assignee=assignee,
            requester=subjects.USER,
            context={"action": action, "params": params},
        )
        await self.user.commit(submission_entries(task, subjects.USER))
        return await self.result(task.assignee, task.requester, task.task_id)

    async def result(self, assignee: str, requester: str, task_id: str) -> TaskResult:
        """The result of a task, once there is one."""
        while True:
            stored = await self.user.last(subjects.OFFICE, subjects.state(assignee, requester, task_id))
            record = TaskChanged.from_json(stored.data) if stored else None
            if record is not None and record.result is not None:
                return record.result
            await asyncio.sleep(0.02)

    async def write(self, envelope: Envelope, recipient: str) -> None:
        """Send a letter as the person."""
        await self.user.commit([seal(subjects.mail(recipient, subjects.USER), envelope)])

    async def receive(self, sender: str) -> dict[str, Any]:
        """The last letter from ``sender``, once there is one."""
        while True:
            stored = await self.user.last(subjects.OFFICE, subjects.mail(subjects.USER, sender))
            if stored is not None:
                return dict(msgspec.json.decode(stored.data))
            await asyncio.sleep(0.02)


@asynccontextmanager
async def open_team(tmp_path: Path, agents: Sequence[str], **environment: str) -> AsyncIterator[Team]:
    """A server provisioned for ``agents``, stopped in the end with every agent that joined."""
    config = settings.load(
        {
            "MAILROOM_STATE_DIR": str(tmp_path / "state"),
            "MAILROOM_NATS_PORT": "0",
            "MAILROOM_NATS_MAX_STORE": str(1 << 28),
            "MAILROOM_NATS_SYNC": "2m",
            "MAILROOM_TASK_ACK_WAIT": "2",
            "MAILROOM_DRAIN_TIMEOUT": "0.5",
            "HOME": str(tmp_path),
            **environment,
        }
    )
    write_config(config, agents)
    server = await NatsServer.start(config, log=config.logs / "nats.log")
    team = None
    try:
        await provision_office(config, server.url, agents)
        user = await Bus.connect(subjects.USER, server.url, config.keys / f"{subjects.USER}.nk", wait=3)
        team = Team(config, server, user)
        yield team
    finally:
        if team is not None:
            await team.close()
        server.stop()
