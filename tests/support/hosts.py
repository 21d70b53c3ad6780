"""An office with other hosts, which join with the real command; the supervisor's part runs in the test."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from services.cli.supervisor.hosts import HostDesk, is_in_force
from services.cli.supervisor.programs import agent_programs
from shared import settings
from shared.bus.records import submission_entry
from shared.contracts import Task
from shared.tasks.installed_agents import load_agents
from tests.support.cluster import run
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


class Cable:
    """A network namespace with a cable to this machine, which can be cut. As root."""

    def __init__(self) -> None:
        self.name = f"mrc{os.getpid() % 10_000}"
        self.here = f"10.212.{os.getpid() % 250}.1"
        self.prefix = ("ip", "netns", "exec", self.name)

    def __enter__(self) -> Self:
        run("netns", "add", self.name)
        run("link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("addr", "add", f"{self.here}/24", "dev", self.name)
        run("link", "set", self.name, "up")
        run("-n", self.name, "addr", "add", f"{self.here[:-1]}2/24", "dev", "eth0")
        for each in ("lo", "eth0"):
            run("-n", self.name, "link", "set", each, "up")
        return self

    def __exit__(self, *_: object) -> None:
        run("link", "del", self.name, check=False)
        run("netns", "del", self.name, check=False)

    def cut(self, *, whole: bool = False) -> None:
        """Have nothing come through, or again (``whole``)."""
        run("link", "set", self.name, "up" if whole else "down")


def hide(folder: Path) -> tuple[str, ...]:
    """What a command begins with for which ``folder`` is empty: it has mounts of its own."""
    return ("unshare", "-rm", "sh", "-c", f'mount -t tmpfs none "{folder}" && exec "$@"', "sh")


class Hosts:
    """An office with a desk for hosts, and the hosts that joined."""

    def __init__(self, folder: Path) -> None:
        home = folder / "agents" / AGENT
        home.mkdir(parents=True)
        (home / "profile.yaml").write_text(f"name: {AGENT}\ndescription: Works.\nconcurrency: 8\n")
        (home / "__main__.py").write_text(WORKER)
        self._folder = folder
        self._more = {"MAILROOM_AGENTS_DIR": str(folder / "agents"), "PYTHONPATH": str(Path.cwd())}
        open_to_others = {"MAILROOM_NATS_ADDRESS": "0.0.0.0"}
        self.office = Office(folder, MAILROOM_TASK_ACK_WAIT="30", **open_to_others, **self._more)
        self.told: list[str] = []
        self._desk: asyncio.Task[None] | None = None

    @property
    def config(self) -> settings.Settings:
        return self.office.config

    def environment(self, host: str) -> dict[str, str]:
        """The environment of a host's processes."""
        return environment(self._folder / host, **self._more)

    def log(self, host: str, *, clear: bool = False) -> str:
        """What the agent's processes on a host logged."""
        file = Path(self.environment(host)["MAILROOM_STATE_DIR"]) / "logs" / f"{AGENT}.log"
        if clear:
            file.unlink(missing_ok=True)
        return file.read_text() if file.exists() else ""

    async def open(self) -> None:
        await self.office.open(["conductor"])
        self.start_desk()

    def start_desk(self) -> None:
        desk = HostDesk(
            self.config,
            self.office.server.url,
            lambda: self.office.server.agents,
            self.office.server.reload,
            lambda line: self.told.append(line.text),
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

    async def start(
        self,
        host: str = "",
        *,
        cable: "Cable | None" = None,
        hidden: Path | None = None,
        path: str = "",
        number: int = 0,
    ) -> str:
        """Start the agent's process on a host, "" for the office; returns its name here.

        With a cable it is at the other end of it. What is in the folder ``hidden`` is not there for it;
        ``path`` is looked at first for programs, and ``number`` tells several apart.
        """
        name = f"{AGENT}@{host}{number or ''}"
        variables = self.environment(host) if host else self.office.environment
        config = settings.load(variables)
        agent = next(each for each in load_agents(config) if each.name == AGENT)
        (program,) = agent_programs(config, agent, self.office.server.url)
        config.logs.mkdir(parents=True, exist_ok=True)
        url = self.office.server.url.replace("127.0.0.1", cable.here) if cable else self.office.server.url
        command = [*(cable.prefix if cable else ()), *(hide(hidden) if hidden else ()), *program.command]
        mine = {key: text for key, text in program.env.items() if key.startswith("MAILROOM_")}
        env = {**variables, **mine, "MAILROOM_NATS_URL": url}
        if path:
            env["PATH"] = f"{path}:{env['PATH']}"
        process = self.office.processes[name] = start_program(command, env, program.log)

        def alive() -> bool:
            assert process.poll() is None, program.log.read_text()[-2000:]
            return any((config.state_dir / "run").glob(f"{AGENT}-*-{process.pid}.alive"))

        await eventually(alive, 40)
        return name

    async def give(
        self, task_id: str, *, goal_id: str = "", starts_from: Sequence[str] = (), **params: object
    ) -> None:
        """Give the agent a task."""
        task = Task(
            task_id=task_id,
            goal_id=goal_id,
            starts_from=tuple(starts_from),
            text="work",
            assignee=AGENT,
            requester="user",
            context={"action": "work", "params": params},
        )
        await self.office.user.commit([submission_entry(task)])
