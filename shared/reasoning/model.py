"""How one agent asks its models: within its budgets; the tokens and cost of today are counted."""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import TypeVar, Unpack

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import GraphVersion, SpanKind
from shared.contracts.base import generate_iso_timestamp
from shared.effects import begin_effect
from shared.llm import ask_for, make_model, make_small_model
from shared.llm.config import (
    LEAST_CONTEXT,
    ROLES,
    Role,
    configured_fallbacks,
    configured_model,
    configured_models,
    settings_of,
)
from shared.llm.leaving import describe_models
from shared.llm.protocol import (
    AskOptions,
    LanguageModel,
    Message,
    Pieces,
    StreamOptions,
    Thought,
    Tool,
    Usage,
)
from shared.llm.sent import sent_for, tell_models
from shared.log import logger
from shared.memory import Memory
from shared.reasoning.prompts import SystemPrompt
from shared.reasoning.recall import KNOWN, MemoryRecall
from shared.reasoning.spending import Budget, DailyUsage, Spending
from shared.reasoning.thoughts import telling
from shared.reasoning.turns import OfficeLedger
from shared.settings import Settings
from shared.spans import OpenSpan, span
from shared.tasks.context import current_task, goal_of
from shared.tasks.profiles import Profile
from shared.text.display import quote

T = TypeVar("T")

LEARNING = 300.0  # Seconds after which a server that did not tell its model's context is asked again
MIN_CONVERSATION = 4_000  # Characters of a conversation that are sent, however small the model's context is


log = logger(__name__)


def _cache_key() -> str:
    task = current_task.get()
    return task.talk if task else ""


def _tell_about_task() -> None:
    """Have what is sent to a model recorded as the current task's, if there is one."""
    if task := current_task.get():
        sent_for.set((goal_of(task.task), task.task.task_id))


answered_by: ContextVar[str] = ContextVar("answered_by", default="")
"""The model that gave the latest answer in the present context: of a chain not always the first."""


def _record(call: OpenSpan, thought: Thought) -> None:
    call.name = thought.by or call.name
    answered_by.set(call.name)
    call.output = thought.text or ", ".join(tool.name for tool in thought.tool_calls)
    call.input_tokens = thought.usage.input_tokens
    call.output_tokens = thought.usage.output_tokens
    call.cached_tokens = thought.usage.cached_tokens
    call.cost = thought.usage.cost
    call.instead_of = thought.instead_of
    if task := current_task.get():
        # What comes of the task may tell what the model was shown.
        task.facts["kinds"] = sorted({*task.facts.get("kinds", ()), *thought.shown})
        if thought.instead_of:
            since = {"instead_of": thought.instead_of, "since": generate_iso_timestamp()}
            task.facts.setdefault("fallbacks", {}).setdefault(thought.by, since)


class RecordedModel:
    """A model whose calls are recorded as spans of the task being worked on, within the budgets."""

    def __init__(self, model: LanguageModel, spending: Spending) -> None:
        self._model = model
        self._spending = spending
        self.name = model.name
        self.available = model.available

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
        """As LanguageModel.complete."""
        asked = messages[-1].text if messages else ""
        options.setdefault("cache_key", _cache_key())
        _tell_about_task()
        await begin_effect()
        part = self._spending.reserving(messages, options.get("tools", ()), options.get("max_tokens", 0))
        async with part as count:
            with span(SpanKind.MODEL, self.name, asked) as call:
                thought = await self._model.complete(messages, **options)
                _record(call, thought)
            count(thought.usage)
        return thought

    async def stream(self, messages: Sequence[Message], **options: Unpack[StreamOptions]) -> Pieces:
        """As LanguageModel.stream."""
        asked = messages[-1].text if messages else ""
        options.setdefault("cache_key", _cache_key())
        _tell_about_task()
        await begin_effect()
        async with self._spending.reserving(messages, (), options.get("max_tokens", 0)) as count:
            with span(SpanKind.MODEL, self.name, asked) as call:
                async with aclosing(self._model.stream(messages, **options)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Thought):
                            _record(call, piece)
                            count(piece.usage)
                        yield piece


class ModelSession:
    """The models of one agent."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus, memory: Memory) -> None:
        settings = settings_of(settings, profile.name)
        self._profile = profile
        self._settings = settings
        self._bus = bus
        self._recall = MemoryRecall(memory)
        self._prompt = SystemPrompt(profile, settings, self._recall)
        self._of_roles: dict[Role, LanguageModel] = {}
        self._ledger = OfficeLedger(bus)
        self._learn_after = 0.0
        self.usage = DailyUsage(bus)
        self._budget = Budget(
            task_tokens=settings.task_tokens, day_tokens=settings.day_tokens, day_cost=settings.day_cost
        )

    @functools.cached_property
    def _spending(self) -> Spending:
        prices = [each.price for each in configured_models(self._settings)]
        return Spending(self._budget, self.usage, prices, answer=self._settings.brain_answer)

    def prepare(self) -> None:
        """Construct all models, so that a wrong configuration fails at the start; raises ConfigError.

        Which models they are, and what may go to them, is written down for people.
        """
        _ = self.model, self.small_model, [self._model_for(role) for role in ROLES]
        tell_models(self._settings.sent, describe_models(self._settings, self._profile.name))

    @functools.cached_property
    def model(self) -> LanguageModel:
        """The model that reasons; its ``available`` is False if none is configured."""
        return make_model(self._settings, self._profile.name, ledger=self._ledger)

    def _model_for(self, role: Role | None) -> LanguageModel:
        """The model of a ``role``, which is ``model`` if none is set for it."""
        if role is None or not getattr(self._settings, ROLES[role]):
            return self.model
        if role not in self._of_roles:
            self._of_roles[role] = make_model(self._settings, self._profile.name, role, self._ledger)
        return self._of_roles[role]

    @functools.cached_property
    def small_model(self) -> LanguageModel:
        """The model that works out the parameters of actions."""
        return make_small_model(self._settings, self._profile.name, self._ledger)

    @property
    def context_characters(self) -> int:
        """Characters that fit the model's context, by the setting ``brain_context``, else by its server."""
        return self._settings.brain_characters

    async def learn_context(self) -> None:
        """Ask the model's server how much it can read, if that is not set and not known yet.

        Of the models of a chain the smallest context counts. It is asked again before later requests.
        """
        if self._settings.brain_context or time.monotonic() < self._learn_after:
            return
        self._learn_after = time.monotonic() + LEARNING
        from shared.llm.probing import describe_model

        chosen = [configured_model(self._settings), *configured_fallbacks(self._settings)]
        found = await asyncio.gather(*(describe_model(each) for each in chosen if each))
        if context := min((each.context for each in found if each.context), default=0):
            log.info("model_context", tokens=context)
            fitting = max(LEAST_CONTEXT, context)
            self._settings = msgspec.structs.replace(self._settings, brain_context=fitting)
            self._prompt.fit(self._settings)

    async def conversation_limit(self, tools: Sequence[Tool], persona: str = "") -> int:
        """Characters of a conversation that fit beside the system prompt and ``tools``."""
        offered = sum(len(tool.description) + len(msgspec.json.encode(tool.schema)) for tool in tools)
        prompt = sum(len(message.text) for message in await self._system(persona))
        return max(MIN_CONVERSATION, self.context_characters - offered - prompt)

    async def ask_model(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        *,
        persona: str = "",
        role: Role | None = None,
    ) -> Thought:
        """The model's answer to ``messages``, preceded by the system prompt (and ``persona``).

        The model of a ``role`` is asked, if one is set. Within a task people who watch are told what it
        writes. Raises ModelError: NoModel, ModelUnavailable, or BudgetSpent before the model is asked.
        """
        prompt = await self._system(persona)
        model = self._recorded(self._model_for(role))
        async with telling(self._bus) as tell:
            return await model.complete([*prompt, *messages], tools=tools, on_piece=tell)

    def acting(self, role: Role | None) -> "ModelSession | ModelInRole":
        """The models of an agent loop: the session's own, or that of a ``role`` in their place."""
        return ModelInRole(self, role) if role else self

    async def stream_model(
        self,
        messages: Sequence[Message],
        on_piece: Callable[[str], Awaitable[None]],
        tools: Sequence[Tool] = (),
        *,
        persona: str = "",
    ) -> Thought:
        """As ``ask_model``; ``on_piece`` gets the pieces of its text as they are written."""
        prompt = await self._system(persona)
        thought = Thought(text="")
        async with aclosing(self._recorded(self.model).stream([*prompt, *messages], tools=tools)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Thought):
                    thought = piece
                else:
                    await on_piece(piece)
        return thought

    async def ask_model_for(
        self,
        messages: Sequence[Message],
        kind: type[T],
        check: Callable[[T], str | None] | None = None,
        *,
        rules: str = "",
        role: Role | None = None,
        tries: int = 3,
    ) -> T:
        """The model's answer as a ``kind`` that passes ``check``, which returns what is wrong or None.

        ``rules`` are in the system prompt, before all that changes from one question to the next; the model
        of a ``role`` is asked, if one is set. Raises ModelError as ``ask_model`` does, and if no answer of so
        many ``tries`` passes.
        """
        prompt = await self._system(rules)
        asked = self._recorded(self._model_for(role))
        answer, _ = await ask_for(asked, [*prompt, *messages], kind, check=check, tries=tries)
        return answer

    async def ask_small_model_for(
        self, messages: Sequence[Message], kind: type[T], check: Callable[[T], str | None] | None = None
    ) -> tuple[T, Usage]:
        """The small model's answer as a ``kind`` that passes ``check``, and its usage; raises ModelError."""
        return await ask_for(self._recorded(self.small_model), messages, kind, check=check)

    def _recorded(self, model: LanguageModel) -> RecordedModel:
        return RecordedModel(model, self._spending)

    async def _system(self, rules: str = "") -> list[Message]:
        """The system prompt: the agent's SOUL and ``rules``, then the day and its briefing."""
        await self.learn_context()
        return [Message(role="system", text=part) for part in await self._prompt.parts(rules) if part]

    async def follow_memory(self) -> None:
        """Have the prompt follow what memory announces, until the connection ends."""

        async def apply(_: str, data: bytes, __: Mapping[str, str]) -> None:
            try:
                self._prompt.apply(GraphVersion.from_json(data))
            except ValueError as error:
                log.warning("graph_version_unread", reason=str(error))

        await self._bus.subscribe(subjects.GRAPH_VERSION, apply)

    async def recall(self, text: str, limit: int = 5) -> tuple[str, Mapping[str, object]]:
        """What memory holds about ``text`` and the briefing does not show, for a prompt, and its scores.

        See MemoryRecall.recall.
        """
        await self._prompt.parts()  # the briefing of the task at hand, which the loop reads in any case
        return await self._recall.recall(text, limit, self._prompt.shown)

    async def quote_known(self, text: str) -> str:
        """What memory holds about ``text`` as a quotation for a prompt; empty if it holds nothing."""
        known, _ = await self.recall(text)
        return quote(KNOWN, known, "memory") if known else ""


class ModelInRole:
    """The models of a session for an agent loop, that of a ``role`` in the place of the first."""

    def __init__(self, session: ModelSession, role: Role) -> None:
        self._session = session
        self._role: Role = role

    async def ask_model(self, messages: Sequence[Message], tools: Sequence[Tool], *, persona: str) -> Thought:
        """As ModelSession.ask_model."""
        return await self._session.ask_model(messages, tools, persona=persona, role=self._role)

    async def ask_small_model_for(self, messages: Sequence[Message], kind: type[T]) -> tuple[T, Usage]:
        """As ModelSession.ask_small_model_for."""
        return await self._session.ask_small_model_for(messages, kind)
