"""The front desk: how long it takes to know who a message is for, and to write the morning briefing."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from services.nexus.__main__ import Nexus
from shared import settings, subjects
from shared.agent.base import Agent
from shared.agent.process import AgentProcess
from shared.bus.records import read_task, submission_entry
from shared.contracts import Node, Question, Task, TaskStatus
from shared.memory import Memory
from shared.tasks.profiles import Profile, load_profile
from tests.bench.plan import Plan
from tests.bench.rows import Row, at_most, compare
from tests.support.asking import ask_nexus
from tests.support.briefing import (
    CORTEX,
    FRONTIER,
    Discoverer,
    NightWorker,
    serve_weather,
    write_calendar,
)
from tests.support.office import Office
from tests.support.server import ROOT

NAME = "nexus"
ROUTING = 15.0
"""Milliseconds at the median: the target of docs/benchmarks.md."""
BRIEFING = 1.0
"""Seconds, with every service answering at once."""
MESSAGES = (
    "Find out why the nightly job fails",
    "What is new in computer vision?",
    "Do I need an umbrella on Saturday?",
    "Which team owns the checkout?",
    "Fix the flaky test in ~/src/shop",
    "Introduce pagination to the list of orders",
    "Remind me to call Ana tomorrow at 9",
    "Where are the invoices kept?",
)
"""What people write: six of the eight are beyond the rules, so that the nearest example is looked for."""

FACTS = {
    "The invoices of the shop are kept in the blue cabinet.": "Where are the invoices of the shop kept?",
    "The checkout service belongs to team Harbour.": "Which team does the checkout service belong to?",
    "The database is backed up at three every night.": "When is the database backed up?",
}
"""What memory knows, and questions for it."""


class Ground:
    """Nexus and its colleagues in this process, the memory daemon in one of its own."""

    def __init__(self, office: Office, nexus: Nexus) -> None:
        self.office, self.nexus = office, nexus
        self.memory = Memory(nexus.context.bus)

    async def ask(self, question: str) -> None:
        """A question, from its mail to the answer, which quotes memory."""
        letter = Question(sender=subjects.USER, recipient=subjects.NEXUS, text=question)
        answer = await ask_nexus(self.office.user, letter, 30.0)
        assert answer.citations, answer.text

    async def brief(self) -> None:
        """The morning briefing, from the task to its result."""
        serial = time.monotonic_ns()
        task = Task(
            task_id=f"brief{serial}",
            text="Write the morning briefing",
            assignee=subjects.NEXUS,
            requester=subjects.USER,
            context={"action": "brief_morning"},
        )
        user = self.office.user
        await user.commit([submission_entry(task)])
        while True:
            state = await read_task(user, task)
            if state is not None and state.result is not None:
                assert state.status is TaskStatus.COMPLETED, state.result.error_message
                sections = state.result.metadata["sections"]
                assert not any(each["problem"] for each in sections), sections
                return
            await asyncio.sleep(0.002)


@asynccontextmanager
async def open_ground() -> AsyncIterator[Ground]:
    """A Ground, gone afterwards."""
    with TemporaryDirectory(prefix="mailroom-bench-") as name, ExitStack() as web:
        folder = Path(name)
        weather = web.enter_context(serve_weather())
        office = Office(
            folder,
            MAILROOM_HOME_PLACE="Bern",
            MAILROOM_WEATHER_URL=f"{weather}/forecast",
            MAILROOM_GEOCODING_URL=f"{weather}/search",
            MAILROOM_CALENDAR=write_calendar(folder / "calendar.ics"),
            MAILROOM_LOG_LEVEL="warning",
            PYTHONPATH=str(ROOT),
        )
        async with AsyncExitStack() as ends:
            ends.push_async_callback(office.close)
            await office.open([subjects.MEMORY_DAEMON])
            profile = load_profile(ROOT / "services" / "nexus" / "profile.yaml")
            for agent_class, its in ((NightWorker, CORTEX), (Discoverer, FRONTIER)):
                await _join(office, ends, agent_class, its)
            nexus = await _join(office, ends, Nexus, profile)
            yield Ground(office, nexus)


async def _join(office: Office, ends: AsyncExitStack, agent_class: type[Agent], profile: Profile) -> Any:
    config = settings.load(office.environment)
    config = msgspec.structs.replace(config, nats_url=office.server.url)
    bus = await office.connect(profile.name)
    process = AgentProcess(agent_class(profile, config, bus), config)
    ends.push_async_callback(process.close)
    await process.open()
    return process.agent


async def measure(plan: Plan) -> list[Row]:
    """Routing beside what embedding the message costs by itself, and the briefing."""
    rounds, briefed = plan.choose((50, 20), (1, 1), (3, 2))
    async with open_ground() as ground:
        await ground.nexus.route(MESSAGES[0])
        for fact, question in FACTS.items():
            await ground.memory.add(Node(title=fact))
            await ground.ask(question)
        routed, embedded, asked = [], [], []
        for message, question in zip(MESSAGES * rounds, cycle(FACTS.values()), strict=False):
            routed += await _time(ground.nexus.route, (message,))
            embedded += await _time(ground.memory.embed, (message,))
            asked += await _time(ground.ask, (question,))
        briefings = await _time(lambda _: ground.brief(), ("",) * briefed)
    return [
        compare(
            NAME,
            "route a message, p50",
            median(routed) * 1e3,
            "ms",
            "embedding it, over the bus",
            median(embedded) * 1e3,
            at_most(ROUTING),
        ),
        compare(
            NAME,
            "a question answered from memory, p50",
            median(asked) * 1e3,
            "ms",
            "embedding a message, over the bus",
            median(embedded) * 1e3,
        ),
        compare(NAME, "route a message, p99", _high(routed) * 1e3, "ms"),
        compare(NAME, "morning briefing, p50", median(briefings), "s", target=at_most(BRIEFING)),
        compare(NAME, "morning briefing, slowest", max(briefings), "s"),
    ]


async def _time(work: Callable[[str], Awaitable[object]], texts: tuple[str, ...]) -> list[float]:
    spent = []
    for text in texts:
        begun = time.perf_counter()
        await work(text)
        spent.append(time.perf_counter() - begun)
    return spent


def _high(spent: list[float]) -> float:
    return sorted(spent)[int(0.99 * (len(spent) - 1))]
