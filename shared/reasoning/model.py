"""The mind of one agent: its two brains, its system prompt, and its budgets."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from shared.bus import Bus
from shared.llm import ask_for, make_model, make_small_model
from shared.llm.budget import Budget
from shared.llm.protocol import LanguageModel, Message, Thought, Tool, Usage
from shared.memory import Memory
from shared.reasoning.persona import system_prompt
from shared.reasoning.recall import MemoryRecall
from shared.reasoning.usage import DailyUsage
from shared.settings import Settings
from shared.tasks.context import current_task
from shared.tasks.profile import Profile

T = TypeVar("T")

PROMPT_AGE = 30.0
"""Seconds after which the system prompt is composed anew: memory may have a new briefing."""
CHARACTERS_A_TOKEN = 3
"""Of code and JSON, of which an agent reads more than of English; so what is shown fits rather too early."""
ANSWERING = 4
"""A part of so many of what a model can take is left for its answer."""
LEAST = 4_000
"""Characters of a conversation that are shown however small the model is."""
PATIENCE = 20
"""How many times as long as composing it took a prompt is kept: what is away costs 5 % of the time."""


class ModelSession:
    """How one agent thinks."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus, memory: Memory) -> None:
        self._profile = profile
        self._settings = settings
        self._bus = bus
        self._recollection = MemoryRecall(memory)
        self._prompt = ("", 0.0)
        self._ledger = DailyUsage(bus)
        self._budget = Budget(
            task_tokens=settings.task_tokens, day_tokens=settings.day_tokens, day_cost=settings.day_cost
        )

    def prepare(self) -> None:
        """Make both brains, so that what is configured wrongly is said at the start; raises ConfigError."""
        _ = self.brain, self.cerebellum

    @functools.cached_property
    def brain(self) -> LanguageModel:
        """The model that reasons."""
        return make_model(self._settings, self._profile.name)

    @functools.cached_property
    def cerebellum(self) -> LanguageModel:
        """The model that works out parameters."""
        return make_small_model(self._settings, self._profile.name)

    @property
    def reach(self) -> int:
        """Characters that the brain can be shown at once, by ``brain_context``."""
        tokens = self._settings.brain_context
        return (tokens - tokens // ANSWERING) * CHARACTERS_A_TOKEN

    async def room(self, tools: Sequence[Tool], persona: str = "") -> int:
        """Characters of a conversation that the brain can be shown beside its system prompt and ``tools``."""
        offered = sum(len(tool.description) + len(msgspec.json.encode(tool.schema)) for tool in tools)
        return max(LEAST, self.reach - offered - len(await self.system(persona)))

    async def think(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, persona: str = ""
    ) -> Thought:
        """What the brain says to ``messages``, the system prompt (and ``persona``) put first.

        Raises ModelError: NoModel, ModelUnavailable, or BudgetSpent before anything is asked.
        """
        await self._require_budget()
        prompt = Message(role="system", text=await self.system(persona))
        thought = await self.brain.complete([prompt, *messages], tools=tools)
        await self._count(thought.usage)
        return thought

    async def consider(
        self, messages: Sequence[Message], kind: type[T], check: Callable[[T], str | None] | None = None
    ) -> T:
        """What the brain answers, as a ``kind`` in which ``check`` finds nothing wrong; raises ModelError."""
        await self._require_budget()
        prompt = Message(role="system", text=await self.system())
        answer, _ = await self._ask(self.brain, [prompt, *messages], kind, check)
        return answer

    async def propose(self, messages: Sequence[Message], kind: type[T]) -> tuple[T, Usage]:
        """What the cerebellum answers, as a ``kind``; raises ModelError."""
        await self._require_budget()
        return await self._ask(self.cerebellum, messages, kind, None)

    async def _ask(
        self,
        brain: LanguageModel,
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
        prompt, fresh_until = self._prompt
        if not prompt or time.monotonic() > fresh_until:
            begun, profile = time.monotonic(), self._profile
            soul = profile.prompt or f"You are {profile.name}. {profile.description}"
            prompt = await system_prompt(
                profile.name, self._settings, soul, lambda: self._recollection.brief(profile.name)
            )
            now = time.monotonic()
            self._prompt = (prompt, now + max(PROMPT_AGE, PATIENCE * (now - begun)))
        return f"{prompt}\n\n{persona}" if persona else prompt

    async def recall(self, text: str, limit: int = 5) -> tuple[str, Mapping[str, object]]:
        """What memory holds about ``text``; see MemoryRecall.recall."""
        return await self._recollection.recall(text, limit)

    async def _require_budget(self) -> None:
        job = current_task.get()
        self._budget.check(job.usage if job else Usage(), await self._ledger.today())

    async def _count(self, usage: Usage) -> None:
        if (job := current_task.get()) is not None:
            job.count(usage)
        await self._ledger.add(usage)


class PersonaSession:
    """The mind as one AgentLoop uses it, with a ``persona`` of its own."""

    def __init__(self, mind: ModelSession, persona: str) -> None:
        self._mind = mind
        self._persona = persona

    async def think(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Thought:
        """See ModelSession.think."""
        return await self._mind.think(messages, tools, persona=self._persona)

    async def propose(self, messages: Sequence[Message], kind: type[T]) -> tuple[T, Usage]:
        """See ModelSession.propose."""
        return await self._mind.propose(messages, kind)
