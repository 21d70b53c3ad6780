"""What offices of different teams hold after fourteen days, and a memory that is filled with it."""

import asyncio
import os
import time
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from services.conductor.report import memories_of
from services.memory.ingest.folder import IngestFolder
from services.memory.linking.linker import link_cycle
from shared import settings, subjects
from shared.agent.process import agent_node_write
from shared.contracts import Goal, GoalTask, MemoryWrite, Node, ResultOutcome, Source, TaskStatus
from shared.tasks.installed_agents import load_agents
from shared.text.prose import split_title
from tests.support.direct_memory import DirectMemory
from tests.support.waiting import eventually

AGENTS = ("engineer", "scout", "critic", "nexus", "cortex", "frontier", "conductor")
DAYS = 14


class Store(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file MEMORY.md; what a person said, what agents found, and the goals that ended, each by its day."""

    memory: str
    said: list[tuple[int, str, str]]
    found: list[tuple[int, str, str, str]]
    goals: list[tuple[int, str, list[str], str]]

    def incident(self) -> str:
        """What happened yesterday."""
        return next(text for day, kind, text in self.said if kind == "event" and day == DAYS - 1)


def read_store(name: str) -> Store:
    """The store in the file of that name."""
    text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Store)


async def fill(memory: DirectMemory, store: Store, root: Path) -> None:
    """Write the store as the office does, the last of its days being yesterday, and link it."""
    now = datetime.now(UTC)

    def moment(day: int) -> str:
        return (now - timedelta(days=DAYS - day) + timedelta(hours=2)).isoformat()

    for agent in load_agents(settings.load({"MAILROOM_STATE_DIR": str(root)})):
        await memory.write(agent_node_write(agent.profile))
    await _take_in(memory, root / "ingest", store.memory, (now - timedelta(days=DAYS)).timestamp())
    told = [(day, subjects.USER, kind, text) for day, kind, text in store.said]
    for place, (day, who, kind, text) in enumerate(sorted([*told, *store.found])):
        title, body = split_title(text)
        node = Node(
            id=f"said-{place}",
            kind=kind,
            title=title,
            body=body,
            importance=0.6 if who == subjects.USER else 0.5,
            source=Source(agent=who, channel="command line"),
            created_at=moment(day),
        )
        await memory.write(MemoryWrite(sender=who, nodes=(node,), insist=True))
    for place, (day, text, agents, answer) in enumerate(store.goals):
        await memory.write(_end_goal(f"g{place}", text, agents, answer, moment(day)))
    cursor = -1
    while cursor != (found := link_cycle(memory.engine.view, max(cursor, 0), time.time())).cursor:
        cursor = found.cursor
        if found.write:
            await memory.write(found.write)


async def _take_in(memory: DirectMemory, folder: Path, text: str, written: float) -> None:
    folder.mkdir()
    (folder / "MEMORY.md").write_text(text, encoding="utf-8")
    os.utime(folder / "MEMORY.md", (written, written))
    ingest = IngestFolder(folder, memory.write, memory.engine, settle=0.05)
    running = asyncio.create_task(ingest.run())
    await eventually(lambda: ingest.status()["files"] and not ingest.status()["waiting"], 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def _end_goal(goal_id: str, text: str, agents: list[str], answer: str, ended: str) -> MemoryWrite:
    tasks = tuple(
        GoalTask(
            name=f"work-{agent}",
            task_id=f"{goal_id}-{agent}",
            text=text,
            assignee=agent,
            status=TaskStatus.COMPLETED,
            summary=answer if len(agents) == 1 else f"The part of {agent} is done",
        )
        for agent in agents
    )
    is_checkup = text.startswith("Check up on ")
    goal = Goal(
        goal_id=goal_id,
        text=text,
        requester=subjects.USER,
        status=TaskStatus.COMPLETED,
        outcome=ResultOutcome.DONE,
        tasks=tasks,
        answer=answer,
        playbook="checkup" if is_checkup else "",
        parameters={"repo": text.removeprefix("Check up on ")} if is_checkup else {},
        submitted_at=ended,
        ended_at=ended,
    )
    nodes, edges = memories_of(goal, {}, Path("outputs/report.md"), lambda *parts: "-".join(parts))
    dated = tuple(msgspec.structs.replace(node, created_at=ended) for node in nodes)
    return MemoryWrite(sender=subjects.CONDUCTOR, nodes=dated, edges=tuple(edges), insist=True)
