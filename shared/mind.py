"""The mind of one agent: its two brains, its system prompt, its budgets, and its trains of thought."""

import asyncio
import functools
import operator
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from shared import subjects
from shared.brain import ask_for, make_brain, make_cerebellum
from shared.brain.budget import Budget
from shared.brain.protocol import Brain, Message, Thought, Tool, Usage
from shared.bus import Bus
from shared.bus.entry import Entry, seal
from shared.contracts import Spending, Thinking, generate_id, generate_iso_timestamp
from shared.errors import Conflict, MailroomError
from shared.job import Job, current_job
from shared.log import logger
from shared.memory import Memory
from shared.micro.ports import Page
from shared.profile import Profile
from shared.settings import Settings
from shared.soul import system_prompt

T = TypeVar("T")

PROMPT_AGE = 30.0
"""Seconds after which the system prompt is composed anew: memory may have a new briefing."""

log = logger(__name__)


class Mind:
    """How one agent thinks."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus, memory: Memory) -> None:
        self._profile = profile
        self._settings = settings
        self._bus = bus
        self._memory = memory
        self._prompt = ("", 0.0)
        self._ledger = Ledger(bus)
        self._budget = Budget(
            task_tokens=settings.task_tokens, day_tokens=settings.day_tokens, day_cost=settings.day_cost
        )

    @functools.cached_property
    def brain(self) -> Brain:
        """The model that reasons."""
        return make_brain(self._settings, self._profile.name)

    @functools.cached_property
    def cerebellum(self) -> Brain:
        """The model that works out parameters."""
        return make_cerebellum(self._settings, self._profile.name)

    async def think(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, persona: str = ""
    ) -> Thought:
        """What the brain says to ``messages``, the system prompt (and ``persona``) put first.

        Raises BrainError: NoBrain, BrainUnavailable, or BudgetSpent before anything is asked.
        """
        await self._require_budget()
        offered = tools if self.brain.native_tools else ()
        prompt = await self.system(persona)
        if tools and not offered:
            prompt = f"{prompt}\n\n{_describe(tools)}"
        thought = await self.brain.complete([Message(role="system", text=prompt), *messages], tools=offered)
        await self._count(thought.usage)
        return thought

    async def consider(
        self, messages: Sequence[Message], kind: type[T], check: Callable[[T], str | None] | None = None
    ) -> T:
        """What the brain answers, as a ``kind`` in which ``check`` finds nothing wrong; raises BrainError."""
        await self._require_budget()
        prompt = Message(role="system", text=await self.system())
        answer, _ = await self._ask(self.brain, [prompt, *messages], kind, check)
        return answer

    async def propose(self, messages: Sequence[Message], kind: type[T]) -> tuple[T, Usage]:
        """What the cerebellum answers, as a ``kind``; raises BrainError."""
        await self._require_budget()
        return await self._ask(self.cerebellum, messages, kind, None)

    async def _ask(
        self,
        brain: Brain,
        messages: Sequence[Message],
        kind: type[T],
        check: Callable[[T], str | None] | None,
    ) -> tuple[T, Usage]:
        spent: list[Usage] = []
        try:
            return await ask_for(brain, messages, kind, check=check, spent=spent.append)
        finally:
            await self._count(functools.reduce(Usage.plus, spent, Usage()))

    async def system(self, persona: str = "") -> str:
        """The system prompt: who the agent is, its SOUL and briefing, and ``persona``."""
        prompt, made_at = self._prompt
        if not prompt or time.monotonic() - made_at > PROMPT_AGE:
            profile = self._profile
            soul = profile.prompt or f"You are {profile.name}. {profile.description}"
            prompt = await system_prompt(profile.name, self._settings, soul, self._brief)
            self._prompt = (prompt, time.monotonic())
        return f"{prompt}\n\n{persona}" if persona else prompt

    async def _brief(self) -> str:
        return (await self._memory.brief(self._profile.name, compact=True)).text

    async def _require_budget(self) -> None:
        job = current_job.get()
        self._budget.check(job.usage if job else Usage(), await self._ledger.today())

    async def _count(self, usage: Usage) -> None:
        if (job := current_job.get()) is not None:
            job.usage = job.usage.plus(usage)
            job.facts["usage"] = msgspec.to_builtins(job.usage)
        await self._ledger.add(usage)


class Personality:
    """The mind as one MicroAgent uses it, with a ``persona`` of its own."""

    def __init__(self, mind: Mind, persona: str) -> None:
        self._mind = mind
        self._persona = persona

    async def think(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Thought:
        """See Mind.think."""
        return await self._mind.think(messages, tools, persona=self._persona)

    async def propose(self, messages: Sequence[Message], kind: type[T]) -> tuple[T, Usage]:
        """See Mind.propose."""
        return await self._mind.propose(messages, kind)


class Ledger:
    """What an agent's thinking took today (UTC), all its processes together, as a record of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known = (Spending(day="never"), 0)
        self._lock = asyncio.Lock()

    async def today(self) -> Spending:
        """The spending of this day, as far as this process has seen it."""
        day = f"{datetime.now(UTC):%Y-%m-%d}"
        if self._known[0].day != day:
            self._known = await self._read(day)
        return self._known[0]

    async def add(self, usage: Usage) -> None:
        """Count ``usage``; where another process counted meanwhile, on top of that."""
        async with self._lock:
            await self.today()
            while True:
                spent, seq = self._known
                counted = msgspec.structs.replace(
                    spent,
                    id=generate_id(),
                    created_at=generate_iso_timestamp(),
                    sender=self._bus.name,
                    input_tokens=spent.input_tokens + usage.input_tokens,
                    output_tokens=spent.output_tokens + usage.output_tokens,
                    cost=spent.cost + usage.cost,
                    calls=spent.calls + usage.calls,
                )
                try:
                    (seq,) = await self._bus.commit([seal(self._subject(spent.day), counted, expect=seq)])
                except Conflict:
                    self._known = await self._read(spent.day)
                    continue
                self._known = (counted, seq)
                return

    async def _read(self, day: str) -> tuple[Spending, int]:
        stored = await self._bus.last(subjects.OFFICE, self._subject(day))
        return (Spending.from_json(stored.data), stored.seq) if stored else (Spending(day=day), 0)

    def _subject(self, day: str) -> str:
        return subjects.record(self._bus.name, "spending", day)


class ThoughtJournal:
    """The train of thought of one task, page by page, so that another attempt goes on with it."""

    def __init__(self, bus: Bus, job: Job, key: str) -> None:
        self._bus = bus
        self._job = job
        self._key = key
        self._pages = 0

    async def write(
        self,
        note: str,
        messages: Sequence[Message],
        steps: int,
        usage: Usage,
        evidence_refs: tuple[str, ...],
        output_paths: tuple[str, ...],
    ) -> None:
        """Store the next page together with a note of progress; raises Conflict where the claim is lost."""
        page = Thinking(
            sender=self._bus.name,
            goal_id=self._job.task.goal_id,
            task_id=self._job.task.task_id,
            steps=steps,
            messages=tuple(msgspec.to_builtins(message) for message in messages),
            usage=msgspec.to_builtins(usage),
            evidence_refs=evidence_refs,
            output_paths=output_paths,
        )
        await self._job.progress(note, [self._entry(page)])
        self._pages += 1

    def _entry(self, page: Thinking) -> Entry:
        return seal(self._subject(self._pages), page, expect=0)

    async def read(self) -> AsyncIterator[Page]:
        """The pages that earlier attempts stored."""
        while self._job.attempt > 1:
            stored = await self._bus.last(subjects.OFFICE, self._subject(self._pages))
            if stored is None:
                return
            self._pages += 1
            page = Thinking.from_json(stored.data)
            yield Page(
                messages=tuple(msgspec.convert(message, Message) for message in page.messages),
                steps=page.steps,
                usage=msgspec.convert(page.usage, Usage),
                evidence_refs=page.evidence_refs,
                output_paths=page.output_paths,
            )

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Name what an action hands out after the step; see Job.scope."""
        with self._job.scope(f"{self._key}-{name}"):
            yield

    def _subject(self, page: int) -> str:
        task = self._bus.derive_id("thinking", self._job.task.task_id, self._job.task.id, self._key)
        return subjects.record(self._bus.name, "thinking", f"{task}-{page}")


async def recall(memory: Memory, text: str, limit: int = 5) -> tuple[str, Mapping[str, object]]:
    """What memory holds about ``text``, as a prompt quotes it, and how well it fits.

    The second part has the best and all cosine scores under ``best`` and ``scores``; nothing found, or a
    memory that does not answer, is an empty text.
    """
    try:
        hits = await memory.search(text[:2_000], limit=limit)
        texts = [f"{hit.node.title}\n{hit.node.body}"[:2_000] for hit in hits]
        asked, *found = await memory.embed(text[:2_000], *texts) if hits else [[]]
    except MailroomError as error:
        log.warning("nothing_recalled", reason=str(error))
        return "", {}
    scores = [round(sum(map(operator.mul, asked, vector)), 4) for vector in found]
    lines = [f"- [{hit.node.id}] {hit.node.title}: {hit.node.body[:300]}" for hit in hits]
    return "\n".join(lines), {"scores": scores, "best": max(scores)} if scores else {}


def _describe(tools: Sequence[Tool]) -> str:
    """The actions for a model that takes no tools: it says in words which one it calls."""
    lines = [
        f"- {tool.name}: {tool.description}. Parameters: "
        f"{msgspec.json.encode(tool.schema.get('properties', {})).decode()}"
        for tool in tools
    ]
    return "\n".join(
        [
            "# Your actions",
            "To act, end your answer with one line: Action: NAME {parameters as JSON}. One action an answer.",
            *lines,
        ]
    )
