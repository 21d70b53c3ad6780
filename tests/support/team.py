"""Agents at work in the test's own process, on a real nats-server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from shared import subjects
from shared.agent.base import Agent
from shared.agent.process import AgentProcess
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_task_state, submission_entry
from shared.contracts import Envelope, Task, TaskResult, generate_task_id
from shared.tasks.profiles import Profile
from tests.support.server import Server


class Team:
    """A running server, the agents on it, and a person who writes to them."""

    def __init__(self, server: Server, user: Bus) -> None:
        self.config = server.config
        self.server = server
        self.user = user
        self.processes: list[AgentProcess] = []

    async def join(self, agent_class: type[Agent], profile: Profile) -> Any:
        """Put an agent to work and return it."""
        bus = await self.connect(profile.name)
        process = AgentProcess(agent_class(profile, self.config, bus), self.config)
        self.processes.append(process)
        await process.open()
        return process.agent

    async def connect(self, name: str) -> Bus:
        """A connection under ``name`` for the test's own use."""
        return await self.server.connect(name)

    async def close(self) -> None:
        """Stop every agent."""
        await asyncio.gather(*(process.close() for process in self.processes))

    async def leave(self, agent: Agent) -> None:
        """Stop an agent."""
        process = next(process for process in self.processes if process.agent is agent)
        self.processes.remove(process)
        await process.close()

    async def perform(self, assignee: str, action: str, **params: Any) -> TaskResult:
        """Have ``assignee`` perform one action, as a task of a person."""
        task = Task(
            task_id=generate_task_id(),
            text=action,
            assignee=assignee,
            requester=subjects.USER,
            context={"action": action, "params": params},
        )
        await self.user.commit([submission_entry(task)])
        return await self.result(task.assignee, task.requester, task.task_id)

    async def result(self, assignee: str, requester: str, task_id: str) -> TaskResult:
        """The result of a task, once there is one."""
        while True:
            state = await read_task_state(self.user, assignee, requester, task_id)
            if state is not None and state.result is not None:
                return state.result
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
    settings = {
        "HOME": str(tmp_path),
        "MAILROOM_NATS_SYNC": "2m",
        "MAILROOM_TASK_ACK_WAIT": "2",
        "MAILROOM_DRAIN_TIMEOUT": "0.5",
        **environment,
    }
    server = Server(tmp_path, agents, **settings)
    try:
        await server.start()
        team = Team(server, await server.connect())
        try:
            yield team
        finally:
            await team.close()
    finally:
        await server.close()
