"""What the loop itself costs a step: think, detect, negotiate, act, feed back; the brain answers at once."""

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shared import subjects
from shared.agent.base import Agent
from shared.bus import Entry
from shared.bus.records import submission_entry
from shared.contracts import Task, generate_id
from shared.llm.protocol import Message, Thought, Tool, ToolCall, Usage
from shared.reasoning.loop import AgentLoop, Checkpoint
from shared.reasoning.tools import Caps, Proposal, Toolbox
from shared.tasks.actions import ActionRegistry, Bound, register_action
from shared.tasks.profiles import Profile
from tests.bench.plan import Plan
from tests.bench.rows import Row, at_most, compare
from tests.support.team import Team, open_team

NAME = "thinking"
STEPS = 200
STEP = at_most(2.0)
"""Milliseconds of a step."""
BARE = "the brain and the action called bare"
COMMITS = "two bare commits"


def bound(owner: object) -> dict[str, Bound]:
    actions = ActionRegistry("test")
    actions.register(owner)
    return actions.select()


class Adder(Agent):
    """Adds."""

    @register_action("Add two numbers", {"a": "The first", "b": "The second"})
    async def add(self, a: int, b: int) -> str:
        """The sum."""
        return str(a + b)


class Desk:
    """The same action without an agent around it."""

    @register_action("Add two numbers", {"a": "The first", "b": "The second"})
    async def add(self, a: int, b: int) -> str:
        """The sum."""
        return str(a + b)


class Scripted:
    """Adds ``steps`` times and ends; by tool calls, or in ``words`` and a cerebellum."""

    def __init__(self, steps: int, words: bool) -> None:
        self.steps, self.words, self.said = steps, words, 0

    async def ask_model(
        self, messages: Sequence[Message], tools: Sequence[Tool], *, persona: str = ""
    ) -> Thought:
        """The next call."""
        self.said += 1
        if self.said > self.steps:
            return _thought(ToolCall(id="end", name="finish_task", arguments='{"result": "done"}'))
        if self.words:
            return Thought(text=f"I will now call add with {self.said} and 1.", usage=Usage(calls=1))
        arguments = json.dumps({"a": self.said, "b": 1})
        return _thought(ToolCall(id=f"c{self.said}", name="add", arguments=arguments))

    async def ask_small_model_for(self, messages: Sequence[Message], kind: Any) -> tuple[Any, Usage]:
        """The numbers of the last thought."""
        return Proposal(status="READY", params={"a": self.said, "b": 1}), Usage(calls=1)


class Nowhere:
    """A journal that keeps nothing."""

    loop = "loop"

    async def write(self, *_: Any) -> None:
        """Nothing."""

    async def read(self) -> AsyncIterator[Checkpoint]:
        """Nothing."""
        for page in ():
            yield page

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Nothing."""
        yield


async def measure(plan: Plan) -> list[Row]:
    """The loop alone with both kinds of thought, then within a task whose thoughts are stored."""
    steps, rounds = (10, 1) if plan.quick else (STEPS, plan.rounds)
    rows = []
    for words, name in ((False, "a step by tool calls"), (True, "a step in words, negotiated")):
        loop = [await _loop(steps, words) for _ in range(rounds)]
        bare = [await _bare(steps, words) for _ in range(rounds)]
        rows.append(
            compare(NAME, name, _median(loop), "ms", BARE, _median(bare), STEP, "without its journal")
        )
    return [*rows, await _stored(steps, rounds)]


async def _loop(steps: int, words: bool) -> float:
    micro = AgentLoop(Scripted(steps, words), Toolbox(bound(Desk())), Caps(steps=steps + 1), Nowhere())
    return await _time(lambda: micro.run("Add"), steps)


async def _bare(steps: int, words: bool) -> float:
    brain, desk = Scripted(steps, words), Desk()

    async def call() -> None:
        for number in range(steps):
            await brain.ask_model((), ())
            await desk.add(number, 1)

    return await _time(call, steps)


async def _stored(steps: int, rounds: int) -> Row:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "script.yaml"
        calls = [{"call": {"name": "add", "arguments": {"a": n, "b": 1}}} for n in range(steps)]
        end = {"call": {"name": "finish_task", "arguments": {"result": "done"}}}
        path.write_text(json.dumps([{"replies": [*calls, end]}]))
        settings = {
            "MAILROOM_BRAIN": f"scripted:{path}",
            "MAILROOM_NATS_SYNC": "always",
            "MAILROOM_MAX_STEPS": "1000",
            "MAILROOM_TASK_TOKENS": "0",
        }
        async with open_team(Path(folder), ["adder"], **settings) as team:
            await team.join(Adder, Profile(name="adder", description="Adds."))
            await _task(team, "warm")
            took = [await _time(lambda number=n: _task(team, f"t{number}"), steps) for n in range(rounds)]
            commits = [await _time(lambda: _commits(team, 2 * steps), steps) for _ in range(rounds)]
    note = "each step is stored before it is done, and after; nats syncs each"
    return compare(NAME, "a stored step of a task", _median(took), "ms", COMMITS, _median(commits), note=note)


async def _task(team: Team, task_id: str) -> None:
    task = Task(task_id=task_id, text="Add", assignee="adder", requester=subjects.USER)
    await team.user.commit([submission_entry(task)])
    await team.result("adder", subjects.USER, task_id)


async def _commits(team: Team, count: int) -> None:
    for _ in range(count):
        name = generate_id()
        await team.user.commit([Entry(subjects.mail(subjects.USER, subjects.USER), b"{}", name)])


async def _time(work: Callable[[], Any], steps: int) -> float:
    await asyncio.sleep(0)
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1_000 / steps


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _thought(call: ToolCall) -> Thought:
    return Thought(text="", tool_calls=(call,), usage=Usage(calls=1), stop="tools")
