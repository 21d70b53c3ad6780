"""The office that a story is told to: a server, the memory daemon and nexus; what it answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import msgspec

from services.conductor.report import memories_of
from shared import subjects
from shared.bus import Bus
from shared.contracts import (
    Briefing,
    BriefQuery,
    Edge,
    EdgesQuery,
    Goal,
    GoalTask,
    Hit,
    ListQuery,
    MemoryWrite,
    Node,
    Question,
    Relation,
    Response,
    ResultOutcome,
    TaskStatus,
    generate_id,
)
from shared.memory import Memory, WriteRefused
from tests.bench.answers.story import AGENTS, DAYS, Planted, Story
from tests.support.asking import ask_nexus
from tests.support.office import Office
from tests.support.server import ROOT

SPAN = 10
"""Days between two rounds of the linker."""
IN_FLIGHT = 16
GATED = frozenset({"claim", "lookalike", "fact", "ruling"})
"""What passes the write gate as it does when a person adds it; the rest is written in batches."""
AT_ONCE = 4
PATIENCE = 60.0
SEARCHED = 10

Given = TypeVar("Given")
Found = TypeVar("Found")


class Ground:
    """Memory and nexus, filled with one story; ``refused`` are the ids that the write gate did not take."""

    def __init__(self, office: Office, conductor: Bus) -> None:
        self.office = office
        self.memory = Memory(office.user)
        self._conductor = Memory(conductor)
        self.refused: set[str] = set()

    async def fill(self, story: Story, start: datetime) -> None:
        """Write the story in the order of its days, with a round of the linker every SPAN of them."""
        for first in range(0, DAYS, SPAN):
            begin, end = ((start + timedelta(days=day)).isoformat() for day in (first, first + SPAN))
            span = [one for one in story.planted if begin <= one.node.created_at < end]
            await each(self._add, [one for one in span if one.label in GATED], IN_FLIGHT)
            rest = tuple(one.node for one in span if one.label not in GATED)
            await self.memory.write(MemoryWrite(sender=subjects.USER, nodes=rest, insist=True))
            for number, (day, text) in enumerate(story.goals):
                if first <= day < first + SPAN:
                    await self.end_goal(number, text, (start + timedelta(days=day)).isoformat())
            await self.memory.linker_trigger()

    async def _add(self, planted: Planted) -> None:
        try:
            await self.memory.add(planted.node)
        except WriteRefused:
            self.refused.add(planted.node.id)

    async def end_goal(self, number: int, text: str, ended: str) -> None:
        """Remember an ended goal with the conductor's own function, under the date that it ended."""
        failed = number % 3 == 0
        task = GoalTask(
            name="work",
            task_id=generate_id(),
            text=text,
            assignee=AGENTS[number % 3],
            status=TaskStatus.FAILED if failed else TaskStatus.COMPLETED,
            summary="It could not be found." if failed else "It is done.",
        )
        goal = Goal(
            goal_id=generate_id(),
            text=text,
            requester=subjects.USER,
            status=task.status,
            outcome=ResultOutcome.FAILED if failed else ResultOutcome.DONE,
            tasks=(task,),
            answer=task.summary,
            submitted_at=ended,
            ended_at=ended,
        )
        nodes, edges = memories_of(goal, {}, Path("outputs/report.md"), lambda *_: generate_id())
        dated = [msgspec.structs.replace(node, created_at=ended) for node in nodes]
        await self._conductor.add(*dated, edges=edges, insist=True)

    async def nodes(self) -> dict[str, Node]:
        """All nodes by id, retired ones included."""
        query = ListQuery(limit=1_000, retired=True)
        return {node.id: node async for node in self.memory.iterate_nodes(query)}

    async def statements(self) -> list[Edge]:
        """The edges that say that one node replaces or contradicts another."""
        edges = [edge async for edge in self.memory.iterate_edges(EdgesQuery(limit=1_000))]
        return [edge for edge in edges if edge.relation in (Relation.SUPERSEDES, Relation.CONTRADICTS)]

    async def ask(self, questions: Sequence[str]) -> list[Response]:
        """What ``mailroom ask`` answers to each question."""

        async def answer(text: str) -> Response:
            question = Question(sender=subjects.USER, recipient=subjects.NEXUS, text=text)
            return await ask_nexus(self.office.user, question, PATIENCE)

        return await each(answer, questions, AT_ONCE)

    async def search(self, questions: Sequence[str]) -> list[list[Hit]]:
        """What ``mailroom memory search`` finds for each question."""
        return await each(lambda text: self.memory.search(text, limit=SEARCHED), questions, AT_ONCE)

    async def brief_twice(self, agent: str, number: int) -> tuple[Briefing, bool]:
        """An agent's briefing, and whether it is the same to the byte by its version after another write."""
        first = await self.memory.brief(agent)
        await self.memory.add(Node(title=f"The counter in the hall shows {number}."), insist=True)
        again = await self._read_brief(BriefQuery(agent=agent, at=first.version))
        once_more = await self._read_brief(BriefQuery(agent=agent, at=first.version))
        return first, again == once_more == msgspec.json.encode((first.sections, first.text))

    async def _read_brief(self, query: BriefQuery) -> bytes:
        briefing = await self.memory.brief(query.agent, at=query.at)
        return msgspec.json.encode((briefing.sections, briefing.text))


@asynccontextmanager
async def open_ground() -> AsyncIterator[Ground]:
    """A Ground that is up and empty; gone afterwards."""
    with TemporaryDirectory(prefix="mailroom-answers-") as folder:
        office = Office(
            Path(folder),
            MAILROOM_LINKER_INTERVAL="1000000",  # the linker works when it is triggered
            MAILROOM_TASK_ACK_WAIT="30",
            MAILROOM_LOG_LEVEL="warning",
            PYTHONPATH=str(ROOT),
        )
        try:
            await office.open([subjects.MEMORY_DAEMON, subjects.NEXUS])
            yield Ground(office, await office.connect(subjects.CONDUCTOR))
        finally:
            await office.close()


async def each(
    work: Callable[[Given], Awaitable[Found]], items: Iterable[Given], at_once: int
) -> list[Found]:
    """What ``work`` makes of each item, so many at once, in their order."""
    places = asyncio.Semaphore(at_once)

    async def one(item: Given) -> Found:
        async with places:
            return await work(item)

    return await asyncio.gather(*map(one, items))
