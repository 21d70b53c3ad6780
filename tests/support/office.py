"""The whole system as people run it: each agent a process, on a nats-server of its own."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.records import TaskState, read_task_state
from shared.contracts import Goal, StateChanged, Task, TaskResult
from shared.queries.records import last_sequence
from shared.tasks.installed_agents import InstalledAgent, load_agents
from tests.support.forking import ForkedProcess, start_program
from tests.support.server import Server
from tests.support.waiting import eventually

START_TIMEOUT = 40.0


class Office:
    """Processes of agents against a server of their own; any of them can be killed and started again."""

    def __init__(self, folder: Path, **environment: str) -> None:
        settings = {"MAILROOM_NATS_MAX_STORE": str(4 << 30), "MAILROOM_TASK_ACK_WAIT": "2", **environment}
        self.server = Server(folder, **settings)
        self.environment, self.config = self.server.environment, self.server.config
        self.processes: dict[str, subprocess.Popen[bytes] | ForkedProcess] = {}
        self.members: dict[str, InstalledAgent] = {member.name: member for member in load_agents(self.config)}

    async def open(self, names: Sequence[str] | None = None) -> None:
        """Start the server and the agents ``names`` (default: all but the gateway), and wait for them.

        Call ``close`` in any case.
        """
        await self.server.start()
        self.environment["NATS_URL"] = self.server.url
        self.user = await self.connect(subjects.USER)
        chosen = [name for name in self.members if name != subjects.GATEWAY] if names is None else names
        for name in chosen:
            self.start(name)
        for name in chosen:
            await self.ready(name)

    async def connect(self, name: str) -> Bus:
        return await self.server.connect(name)

    def start(self, name: str, instance: str = "", **more: str) -> None:
        """Start a process of an agent; ``instance`` tells several of one apart, ``more`` is for it alone."""
        log = self.config.logs / f"{name}{instance}.log"
        self.processes[name + instance] = start_program(
            self.members[name].command, {**self.environment, **more}, log
        )

    async def ready(self, name: str, instance: str = "") -> None:
        """Wait until a process of an agent is ready."""
        process = self.processes[name + instance]
        folder = self.config.state_dir / "run"

        def alive() -> bool:
            assert process.poll() is None, (self.config.logs / f"{name}{instance}.log").read_text()[-2000:]
            return any(folder.glob(f"{name}-*-{process.pid}.alive"))

        await eventually(alive, START_TIMEOUT)

    def signal(self, name: str, number: int) -> None:
        self.processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self.processes[name].wait()

    async def submit(self, body: dict[str, object] | bytes) -> None:
        """Submit a goal as the user."""
        await self.user.store(subjects.SUBMIT, body if isinstance(body, bytes) else msgspec.json.encode(body))

    async def goal(self, goal_id: str) -> Goal | None:
        stored = await self.user.last(subjects.OFFICE, subjects.goal(goal_id))
        return StateChanged.from_json(stored.data).goal if stored else None

    async def finished(self, goal_id: str, timeout: float = 30.0) -> Goal:
        """The goal, as soon as it has ended."""

        async def ended() -> Goal | None:
            goal = await self.goal(goal_id)
            return goal if goal is not None and goal.status.final else None

        goal: Goal = await eventually(ended, timeout)
        return goal

    async def claimed(self, agent: str) -> list[str]:
        """The ids of the tasks that a process of ``agent`` has claimed or ended, in this order."""
        steps = [
            subject.split(".") for _, subject, _ in await self.stored(subjects.task(agent, "*", "*", "*"))
        ]
        taken = (subjects.CLAIMED, subjects.ENDED)
        return list(dict.fromkeys(task_id for *_, task_id, step in steps if step in taken))

    async def task(self, assignee: str, task_id: str, requester: str = subjects.USER) -> TaskState | None:
        """The present state of a task."""
        return await read_task_state(self.user, assignee, requester, task_id)

    async def result(
        self, assignee: str, task_id: str, requester: str = subjects.USER, timeout: float = 30.0
    ) -> TaskResult:
        """The result of a task, as soon as it has ended."""

        async def ended() -> TaskResult | None:
            state = await self.task(assignee, task_id, requester)
            return state.result if state else None

        result: TaskResult = await eventually(ended, timeout)
        return result

    async def submitted(self, assignee: str = "*", requester: str = "*") -> list[Task]:
        """Every task that was submitted, oldest first."""
        steps = await self.stored(subjects.task(assignee, requester, "*", "*"))
        new = subjects.NEW.values()
        return [Task.from_json(data) for _, subject, data in steps if subject.rpartition(".")[2] in new]

    async def results(self, assignee: str = "*", requester: str = "*") -> list[TaskResult]:
        """Every result that an assignee stored, oldest first."""
        ends = await self.stored(subjects.task(assignee, requester, "*", subjects.ENDED))
        return [TaskResult.from_json(data) for _, _, data in ends]

    async def stored(self, pattern: str = ">", stream: str = subjects.OFFICE) -> list[tuple[int, str, bytes]]:
        """Everything a stream holds on subjects that match ``pattern``, oldest first."""
        result: list[tuple[int, str, bytes]] = []
        seq = 1
        while True:
            request = {"seq": seq, "batch": 500, "next_by_subj": pattern}
            batch = [(m.seq, m.subject, m.data) async for m in self.user.read(stream, request)]
            if not batch:
                return result
            result += batch
            seq = batch[-1][0] + 1

    async def stored_count(self, stream: str) -> int:
        """The sequence of the last message of a stream."""
        return await last_sequence(self.user, stream)

    async def close(self) -> None:
        """Stop the processes that run, close the connections, and stop the server."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        await self.server.close()
