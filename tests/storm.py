"""A storm over an office as people run it: kills, stops and restarts while goals come in.

``python -m tests.storm`` submits 500 goals at 3 a second while every process is killed twice, four are
stopped for 14 s, nats-server is killed four times and the supervisor once. It prints one JSON line last.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from services.cli.supervisor.programs import free_port
from shared import subjects
from shared.bus import Bus
from shared.contracts import Goal, StateChanged, TaskChanged, TaskResult, TaskStatus
from shared.errors import BusError
from tests.support.server import environment, run_mailroom
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.up import UpCommand, processes_of
from tests.support.waiting import eventually, wait_for

SERVER, SUPERVISOR = "nats", "supervisor"
STOPPED_SECONDS = 14.0
WORK_SECONDS = 2.0
"""How long the task of every second goal takes, so that kills interrupt some."""
PATIENCE = 120.0
"""Seconds after the last blow in which every goal has to end."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How hard a storm blows: ``rate`` is goals a second, the others count blows of each kind."""

    goals: int = 500
    rate: float = 3.0
    kills: int = 2
    stops: int = 4
    server_kills: int = 4
    supervisor_kills: int = 1
    seed: int = 1

    @property
    def seconds(self) -> float:
        """How long goals come in."""
        return self.goals / self.rate


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the goals.

    ``failed`` counts the goals that ended otherwise than completed, by cause; ``lost`` were accepted and have
    not ended; ``twice`` are goals or tasks with two ends; ``dead`` are dead letters. ``longest_takeover`` is
    the most seconds from the end of a process to the next claim on what it had begun, ``longest_by_blow`` the
    same by what ended it.
    """

    accepted: int
    ended_once: int
    failed: dict[str, int]
    lost: int
    twice: int
    dead: int
    takeovers: int
    p50_takeover: float
    longest_takeover: float
    longest_by_blow: dict[str, float]
    audit_whole: bool
    blows: dict[str, int]
    seconds: float

    @property
    def survived(self) -> bool:
        """Whether every goal that was accepted was completed, once, and the log is whole."""
        whole = self.audit_whole and self.accepted == self.ended_once
        return whole and not (self.failed or self.lost or self.twice or self.dead)


class Storm:
    """A running office, and what was done to its processes, when."""

    def __init__(self, folder: Path) -> None:
        self.state_dir = folder / "state"
        self._more = {
            **install_slow_agent(folder),
            "MAILROOM_NATS_PORT": str(free_port()),
            "MAILROOM_NATS_MAX_STORE": str(4 << 30),
        }
        self._offices: list[UpCommand] = []
        self.blows: dict[str, list[datetime]] = defaultdict(list)
        """When the processes of an agent, of the server, or all of them ended."""
        self.stops = 0

    @property
    def office(self) -> UpCommand:
        """The ``mailroom up`` that runs now."""
        return self._offices[-1]

    async def open(self) -> str:
        """Start the office; returns the URL of its server."""
        self._offices.append(UpCommand(self.state_dir, **self._more))
        return str((await asyncio.to_thread(self.office.record))["url"])

    async def strike(self, name: str) -> None:
        """Kill one process by the name of its agent, the server, or the supervisor with all the others."""
        if name == SUPERVISOR:
            self.office.up.kill()
            self.blows[name].append(datetime.now(UTC))
            await self.open()
            return
        process = await self._process(name)
        os.kill(process, signal.SIGKILL)
        self.blows[name].append(datetime.now(UTC))

    async def stop(self, name: str) -> None:
        """Stop a process for STOPPED_SECONDS; it may be killed meanwhile."""
        process = await self._process(name)
        self.stops += 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
            await asyncio.sleep(STOPPED_SECONDS)
            os.kill(process, signal.SIGCONT)

    async def _process(self, name: str) -> int:
        part = "nats-server.conf" if name == SERVER else f"{name}"

        def running() -> int:
            if name == SERVER:
                return self.office.process(part)
            return self.office.signs_of_life().get(name, 0)

        return int(await asyncio.to_thread(wait_for, running))

    def mailroom(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in the office."""
        return run_mailroom(environment(self.state_dir, **self._more), *arguments)

    def close(self) -> None:
        """Stop the office; nothing is left behind."""
        for office in self._offices:
            office.close()
        for process in processes_of(self.state_dir):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@asynccontextmanager
async def _opened(folder: Path) -> AsyncIterator[tuple[Storm, Bus]]:
    storm = Storm(folder)
    try:
        url = await storm.open()
        user = await Bus.connect(subjects.USER, url, storm.state_dir / "keys" / f"{subjects.USER}.nk")
        yield storm, user
        await user.close()
    finally:
        await asyncio.to_thread(storm.close)


async def run_storm(plan: Plan, folder: Path) -> Outcome:
    """Let the storm of ``plan`` pass over an office in ``folder``, and count what became of the goals."""
    begun = time.monotonic()
    project = _make_project(folder)
    async with _opened(folder) as (storm, user):
        agents = sorted(storm.office.signs_of_life())
        accepted, _ = await asyncio.gather(_submit_all(user, plan, project), _blow(storm, plan, agents))
        await _wait_until_ended(user, accepted)
        goals = await _read_goals(user)
        failed = await _failed(user, goals)
        waits = await _takeovers(user, storm)
        return Outcome(
            accepted=len(accepted),
            ended_once=sum(len(goals[each]) == 1 for each in accepted),
            failed=failed,
            lost=sum(not goals[each] for each in accepted),
            twice=sum(len(ends) > 1 for ends in goals.values()) + await _tasks_ended_twice(user),
            dead=len(await _read(user, subjects.dead("*"))),
            takeovers=len(waits),
            p50_takeover=round(statistics.median([wait for _, wait in waits] or [0.0]), 2),
            longest_takeover=round(max((wait for _, wait in waits), default=0.0), 2),
            longest_by_blow={name: round(wait, 2) for name, wait in sorted(waits, key=lambda each: each[1])},
            audit_whole=storm.mailroom("audit", "verify").returncode == 0,
            blows={**{name: len(at) for name, at in sorted(storm.blows.items())}, "stopped": storm.stops},
            seconds=round(time.monotonic() - begun, 1),
        )


# --- what is done ----------------------------------------------------------------------------------


def _make_project(folder: Path) -> Path:
    """A repository that goals read."""
    project = folder / "project"
    project.mkdir()
    (project / "README.md").write_text("# A project\n\nAll is well.\n")
    commands = (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Begin"])
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in commands:
        subprocess.run(["git", *who, *command], cwd=project, check=True)
    return project


def _goal(number: int, project: Path) -> dict[str, object]:
    """Every second goal takes its time; the others read what a person named, by action and by playbook."""
    goal_id = f"g{number}"
    if number % 2 == 0:
        return slow_goal(goal_id, WORK_SECONDS)
    kinds: Sequence[dict[str, object]] = (
        {"text": "Read it", "context": _action("scout", "read_document", path=f"{project}/README.md")},
        {"text": "Latest", "context": _action("engineer", "git_log", repo=str(project))},
        {"text": f"Read the documentation in {project} and tell me what the project is"},
    )
    return {**kinds[number // 2 % len(kinds)], "goal_id": goal_id}


def _action(assignee: str, action: str, **params: str) -> dict[str, object]:
    return {"assignee": assignee, "action": action, "params": params}


async def _submit_all(user: Bus, plan: Plan, project: Path) -> list[str]:
    """Submit the goals at the plan's rate; returns the ids of those that the server accepted."""
    begun = time.monotonic()

    async def submit(number: int) -> str:
        await asyncio.sleep(max(0.0, begun + number / plan.rate - time.monotonic()))
        payload = msgspec.json.encode(_goal(number, project))
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await user.store(subjects.SUBMIT, payload, headers={"Nats-Msg-Id": f"g{number}"})
                except BusError:  # the server is away: the same id is stored once
                    await asyncio.sleep(0.1)
                else:
                    return f"g{number}"

    return list(await asyncio.gather(*(submit(number) for number in range(plan.goals))))


async def _blow(storm: Storm, plan: Plan, agents: Sequence[str]) -> None:
    """Kill and stop at even intervals, in an order that the seed decides."""
    chance = random.Random(plan.seed)
    order = [(storm.strike, name) for name in agents for _ in range(plan.kills)]
    order += [(storm.stop, name) for name in chance.sample(agents, min(plan.stops, len(agents)))]
    order += [(storm.strike, SERVER)] * plan.server_kills + [
        (storm.strike, SUPERVISOR)
    ] * plan.supervisor_kills
    chance.shuffle(order)
    # The busiest first: on a slow machine the office is not yet back from the others when the goals end.
    order.insert(0, order.pop(order.index((storm.strike, "slow"))))
    pause = plan.seconds / (len(order) + 1)
    async with asyncio.TaskGroup() as blowing:
        for number, (strike, name) in enumerate(order):
            await asyncio.sleep(pause)
            print(f"{number + 1}/{len(order)} {strike.__name__} {name}", file=sys.stderr, flush=True)
            blow = blowing.create_task(strike(name))
            if strike == storm.strike:
                await blow


# --- what became of it -----------------------------------------------------------------------------


async def _read(user: Bus, pattern: str) -> list[tuple[str, bytes]]:
    """What OFFICE holds on ``pattern``, oldest first."""
    found: list[tuple[str, bytes]] = []
    seq = 1
    while True:
        request = {"seq": seq, "batch": 500, "next_by_subj": pattern}
        page = [stored async for stored in user.read(subjects.OFFICE, request)]
        if not page:
            return found
        found += [(each.subject, each.data) for each in page]
        seq = page[-1].seq + 1


async def _read_goals(user: Bus) -> dict[str, list[Goal]]:
    """The final records of every goal."""
    goals: dict[str, list[Goal]] = defaultdict(list)
    for _, data in await _read(user, subjects.goal("*")):
        goal = StateChanged.from_json(data).goal
        if goal is not None and goal.status.final:
            goals[goal.goal_id].append(goal)
    return goals


async def _wait_until_ended(user: Bus, accepted: Iterable[str]) -> None:
    async def all_ended() -> bool:
        try:
            return set(accepted) <= set(await _read_goals(user))
        except BusError:
            return False

    with contextlib.suppress(TimeoutError):
        await eventually(all_ended, PATIENCE)


async def _failed(user: Bus, goals: dict[str, list[Goal]]) -> dict[str, int]:
    """The causes of goals that were not completed: the reason of the goal, and those of its tasks."""
    results = [TaskResult.from_json(data) for _, data in await _read(user, "task.*.*.*.ended")]
    errors = {each.task_id: each.error_message for each in results if each.error_message}
    causes: Counter[str] = Counter()
    for goal in itertools.chain.from_iterable(goals.values()):
        if goal.status is not TaskStatus.COMPLETED:
            told = [errors[task.task_id] for task in (*goal.tasks, *goal.earlier) if task.task_id in errors]
            causes["; ".join([*told, goal.reason])[:300]] += 1
    return dict(causes)


async def _tasks_ended_twice(user: Bus) -> int:
    ends = Counter(subject for subject, _ in await _read(user, "task.*.*.*.ended"))
    return sum(count > 1 for count in ends.values())


async def _takeovers(user: Bus, storm: Storm) -> list[tuple[str, float]]:
    """The last blow before each repeated claim, and the seconds between the two."""
    waits = []
    claims: dict[str, list[datetime]] = defaultdict(list)
    for subject, data in await _read(user, subjects.task("*", "*", "*", subjects.CLAIMED)):
        claims[subject].append(datetime.fromisoformat(TaskChanged.from_json(data).created_at))
    for subject, begun in claims.items():
        names = (subject.split(".")[1], SERVER, SUPERVISOR)
        blows = sorted((at, name) for name in names for at in storm.blows[name])
        for before, after in itertools.pairwise(begun):
            between = [(at, name) for at, name in blows if before < at < after]
            waits += [(name, (after - at).total_seconds()) for at, name in between[-1:]]
    return waits


def main() -> None:
    """Run the storm; exit code 1 unless it was survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    for name, default in msgspec.to_builtins(Plan()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    plan = msgspec.convert(vars(parser.parse_args()), Plan)
    with TemporaryDirectory(prefix="mailroom-storm-") as folder:
        outcome = asyncio.run(run_storm(plan, Path(folder)))
    print(json.dumps(msgspec.to_builtins(outcome)))
    sys.exit(not outcome.survived)


if __name__ == "__main__":
    main()
