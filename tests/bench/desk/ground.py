"""The office in which the messages are asked: nexus and memory as they are, and colleagues who say yes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from services.nexus.__main__ import Nexus
from shared import settings, subjects
from shared.agent.base import Agent
from shared.agent.process import AgentProcess
from shared.bus.entry import seal
from shared.contracts import (
    DailySpending,
    Node,
    Question,
    Response,
    ResultOutcome,
    generate_iso_timestamp,
)
from shared.memory import Memory
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile, load_profile
from tests.bench.desk.messages import Line, Talk
from tests.bench.desk.slots import judge
from tests.support.asking import ask_nexus
from tests.support.office import Office
from tests.support.server import ROOT

NOW = "2026-03-18T13:05:00+00:00"
"""When every message is written: Wednesday 14:05 in Berlin."""
PATIENCE = 60.0
FACTS = (
    "Deploys happen on Tuesdays at noon.",
    "The key of the practice room hangs beside the kitchen door.",
    "Petra is responsible for the billing service.",
    "The lease of the hall ends in June.",
    "The restore test is on the first Friday of each quarter.",
    "Open point: the catering of the open day is not booked, Lea takes care of it.",
)


class Colleague(Agent):
    """Stands in for the agents to whom the desk passes things on; does nothing, and says that it did."""

    @register_action("Find papers", {"topic": "What about"})
    async def find_papers(self, topic: str) -> Outcome:
        return Outcome(output=f"3 papers about {topic}")

    @register_action("Read the news", {"again": "Also old ones", "about": "A topic"})
    async def monitor_ai_news(self, again: bool = False, about: str = "") -> Outcome:
        return Outcome(output="No news")

    @register_action("Read a page", {"url": "Its address"})
    async def fetch_page(self, url: str) -> Outcome:
        return Outcome(output=f"The page {url}")

    @register_action("Research", {"question": "The question"})
    async def research(self, question: str) -> Outcome:
        return Outcome(output=f"About {question}")

    @register_action("Say how the queue stands")
    async def queue_status(self) -> Outcome:
        return Outcome(output="Nothing waits.")

    @register_action("Queue a job", {"task": "What", "run_at": "When"})
    async def queue_job(self, task: str, run_at: str = "") -> Outcome:
        return Outcome(output=f"Queued: {task}")

    @register_action("Cancel a job", {"job_id": "Its id"})
    async def cancel_job(self, job_id: str) -> Outcome:
        return Outcome(output=f"Cancelled {job_id}")


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A line, the tool that answered it, the effects that it had, and the answer."""

    talk: Talk
    line: Line
    tool: str
    effects: tuple[str, ...]
    answer: str
    asked: str = ""
    """The whole messages that the answer asks to complete or to choose from."""

    @property
    def is_right(self) -> bool:
        """Whether the tool that answered is one of the right readings, and it tells what it has to."""
        return self.tool in self.line.meanings and self.line.is_told(f"{self.answer}\n{self.asked}")

    @property
    def is_wrong(self) -> bool:
        """Whether it had an effect that it must not have."""
        return self.line.is_wrong(self.effects)

    @property
    def slots(self) -> dict[str, bool]:
        """What the message names and the answer can tell, and whether it does; nothing of a wrong tool's."""
        told = f"{self.answer}\n{self.asked}"
        return dict(judge(self.tool, self.line.slots, told)) if self.is_right else {}


async def hold(office: Office, talk: Talk, now: str = NOW) -> list[Said]:
    """Say the lines of a conversation one after the other."""
    said = []
    for line in talk.lines:
        question = Question(
            sender=subjects.USER,
            recipient=subjects.NEXUS,
            text=line.say,
            user_session_id=f"bench-{talk.id}",
            created_at=now or generate_iso_timestamp(),
        )
        answer = await ask_nexus(office.user, question, PATIENCE)
        tool = find_tool(answer)
        said.append(
            Said(
                talk=talk,
                line=line,
                tool=tool,
                effects=find_effects(tool, answer),
                answer=answer.text,
                asked=find_asked(answer),
            )
        )
    return said


def find_asked(answer: Response) -> str:
    """The whole messages for which an answer asks."""
    if answer.asks is None:
        return ""
    return "\n".join([answer.asks.template, *(choice.text for choice in answer.asks.choices)])


def find_tool(answer: Response) -> str:
    """The tool that answered."""
    names = {"nexus": "memory", "conductor": "work"}
    return names.get(answer.route_used, answer.route_used.removeprefix("tool:"))


def find_effects(tool: str, answer: Response) -> tuple[str, ...]:
    """What was done: a goal with an id, or what a tool that writes says it did."""
    if answer.goal_id and tool == "work":
        return ("goal",)
    if answer.outcome is not ResultOutcome.DONE:
        return ()
    done = {
        "reminder_set": "reminder",
        "reminder_change": "reminder",
        "reminder_cancel": "reminder",
        "remember": "memory_write",
        "night_job": "job",
        "schedule": "job",
        "send_mail": "mail_sent",
        "calendar_add": "event",
    }
    if tool == "correct" and answer.citations:
        return ("memory_write",)
    return (done[tool],) if tool in done else ()


@asynccontextmanager
async def open_office(
    facts: Sequence[str] = FACTS,
    *,
    with_desk: bool = True,
    colleagues: Sequence[str] = ("frontier", "scout", "cortex"),
    events: str = "",
    **environment: str,
) -> AsyncIterator[Office]:
    """The office, with some facts, spending and a calendar of ``events``; gone afterwards."""
    with TemporaryDirectory(prefix="mailroom-bench-") as name:
        folder = Path(name)
        calendar = folder / "calendar.ics"
        calendar.write_text(f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n{events}END:VCALENDAR\r\n")
        office = Office(
            folder,
            MAILROOM_HOME_PLACE="Bern",
            MAILROOM_WEATHER_URL="http://127.0.0.1:9/forecast",
            MAILROOM_GEOCODING_URL="http://127.0.0.1:9/search",
            MAILROOM_CALENDAR=str(calendar),
            MAILROOM_LOG_LEVEL="error",
            MAILROOM_LINKER_INTERVAL="1000000",
            PYTHONPATH=str(ROOT),
            **{"MAILROOM_TIME_ZONE": "Europe/Berlin", **environment},
        )
        async with AsyncExitStack() as ends:
            ends.push_async_callback(office.close)
            await office.open([subjects.MEMORY_DAEMON])
            await _plant(office, facts)
            for agent in colleagues:
                await join(office, ends, Colleague, Profile(name=agent, description="Says yes."))
            if with_desk:
                await join(office, ends, Nexus, nexus_profile())
            yield office


def nexus_profile() -> Profile:
    """Nexus as it is, without briefings."""
    profile = load_profile(ROOT / "services" / "nexus" / "profile.yaml")
    quick = {"section_timeout": 2, "papers_timeout": 2, "morning": "", "evening": ""}
    return msgspec.structs.replace(profile, options={**profile.options, **quick})


async def _plant(office: Office, facts: Sequence[str]) -> None:
    await Memory(office.user).add(*(Node(title=fact) for fact in facts), insist=True)
    scout = await office.connect("scout")
    spent = DailySpending(day="2026-03-18", sender="scout", input_tokens=12_000, output_tokens=900, cost=0.11)
    await scout.commit([seal(subjects.record("scout", "spending", "2026-03-18"), spent)])


async def join(
    office: Office, ends: AsyncExitStack, agent_class: type[Agent], profile: Profile
) -> AgentProcess:
    """An agent at work in this process, until the office ends."""
    config = settings.load(office.environment)
    config = msgspec.structs.replace(config, nats_url=office.server.url)
    process = AgentProcess(agent_class(profile, config, await office.connect(profile.name)), config)
    ends.push_async_callback(process.close)
    await process.open()
    return process


async def hold_all(office: Office, talks: list[Talk], at_once: int = 6, now: str = NOW) -> list[Said]:
    """Every conversation, some side by side."""
    gate = asyncio.Semaphore(at_once)

    async def guarded(talk: Talk) -> list[Said]:
        async with gate:
            return await hold(office, talk, now)

    return [said for found in await asyncio.gather(*map(guarded, talks)) for said in found]
