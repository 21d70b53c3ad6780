"""An office with other hosts, which join with the real command; the supervisor's part runs in the test."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from services.cli.supervisor.hosts import HostDesk, is_in_force
from services.cli.supervisor.programs import agent_programs
from shared import settings
from shared.bus.records import submission_entry
from shared.contracts import Task
from shared.tasks.installed_agents import load_agents
from tests.support.forking import start_program
from tests.support.office import Office
from tests.support.server import environment, run_mailroom
from tests.support.waiting import eventually

WORKER = '''"""An agent for tests: adds a line to a file as an effect, and waits before and after."""
import asyncio
from pathlib import Path
from shared.agent.base import Agent
from shared.agent.process import run
from shared.tasks.actions import register_action


class Worker(Agent):
    """Works."""

    @register_action("Work", {"seconds": "how long", "effects": "a file", "first": "where the wait counts"})
    async def work(self, seconds: float, effects: str, first: str = "") -> str:
        """Where it ran."""
        host = self.context.bus.host
        await self.context.progress("begins")
        if first in ("", host):
            await asyncio.sleep(seconds)
        async with self.context.effect("add a line"):
            with Path(effects).open("a") as file:
                file.write(f"{host}\\n")
        return host


if __name__ == "__main__":
    run(Worker, __file__)
'''
AGENT = "worker"


class Hosts:
    """An office with a desk for hosts, and the hosts that joined."""

    def __init__(self, folder: Path) -> None:
        home = folder / "agents" / AGENT
        home.mkdir(parents=True)
        (home / "profile.yaml").write_text(f"name: {AGENT}\ndescription: Works.\nconcurrency: 8\n")
        (home / "__main__.py").write_text(WORKER)
        self._folder = folder
        self._more = {"MAILROOM_AGENTS_DIR": str(folder / "agents"), "PYTHONPATH": str(Path.cwd())}
        self.office = Office(folder, MAILROOM_TASK_ACK_WAIT="30", **self._more)
        self.told: list[str] = []
        self._desk: asyncio.Task[None] | None = None

    @property
    def config(self) -> settings.Settings:
        return self.office.config

    def environment(self, host: str) -> dict[str, str]:
        """The environment of a host's processes."""
        return environment(self._folder / host, **self._more)

    async def open(self) -> None:
        await self.office.open(["conductor"])
        self.start_desk()

    def start_desk(self) -> None:
        desk = HostDesk(
            self.config,
            self.office.server.url,
            agents=lambda: self.office.server.agents,
            reload=self.office.server.reload,
            report=lambda line: self.told.append(line.text),
        )
        self._desk = asyncio.create_task(desk.run())

    async def stop_desk(self) -> None:
        if self._desk is not None:
            self._desk.cancel()
            await asyncio.gather(self._desk, return_exceptions=True)

    async def close(self) -> None:
        await self.stop_desk()
        await self.office.close()

    async def run(self, host: str, *arguments: str) -> "dict[str, object] | str":
        """What ``mailroom`` prints on a host, as JSON, or the error that it ended with; "" is the office."""
        variables = self.environment(host) if host else self.office.environment
        done = await asyncio.to_thread(run_mailroom, variables, *arguments, "--json")
        if done.returncode:
            return done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    async def invite(self, name: str, roles: str = AGENT) -> str:
        """A token that counts."""
        invited = await self.run("", "hosts", "invite", name, "--role", roles)
        assert isinstance(invited, dict), invited
        await eventually(lambda: is_in_force(self.config))
        return str(invited["token"])

    async def join(self, name: str, roles: str = AGENT, *, token: str = "") -> "dict[str, object] | str":
        """Have a machine with a folder of its own join."""
        token = token or await self.invite(name, roles)
        url = self.office.server.url
        return await self.run(name, "join", url, "--role", roles, "--token", token)

    async def start(self, host: str = "", *, prefix: Sequence[str] = ()) -> str:
        """Start the agent's process on a host, "" for the office; returns its name here."""
        name = f"{AGENT}@{host}"
        variables = self.environment(host) if host else self.office.environment
        config = settings.load(variables)
        agent = next(each for each in load_agents(config) if each.name == AGENT)
        (program,) = agent_programs(config, agent, self.office.server.url)
        config.logs.mkdir(parents=True, exist_ok=True)
        command = [*prefix, *program.command]
        env = {**variables, **{k: v for k, v in program.env.items() if k.startswith("MAILROOM_")}}
        self.office.processes[name] = start_program(
            command, {**env, "NATS_URL": self.office.server.url}, program.log
        )

        def alive() -> bool:
            assert self.office.processes[name].poll() is None, program.log.read_text()[-2000:]
            return any((config.state_dir / "run").glob(f"{AGENT}-*.alive"))

        await eventually(alive, 40)
        return name

    async def give(self, task_id: str, **params: object) -> None:
        """Give the agent a task."""
        task = Task(
            task_id=task_id,
            text="work",
            assignee=AGENT,
            requester="user",
            context={"action": "work", "params": params},
        )
        await self.office.user.commit([submission_entry(task)])
