"""How one agent asks its models: within its budgets; the tokens and cost of today are counted."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TypeVar, Unpack

import msgspec

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import DailySpending, GraphVersion, SpanKind, generate_id, generate_iso_timestamp
from shared.contracts.base import amended
from shared.effects import begin_effect
from shared.errors import BudgetSpent, BusUnavailable, Conflict
from shared.llm import ask_for, make_model, make_small_model
from shared.llm.config import ROLES, Role, settings_of
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
from shared.log import logger
from shared.memory import Memory
from shared.reasoning.prompts import SystemPrompt
from shared.reasoning.recall import KNOWN, MemoryRecall
from shared.reasoning.turns import OfficeLedger
from shared.settings import Settings
from shared.spans import OpenSpan, span
from shared.tasks.context import current_task
from shared.tasks.profiles import Profile
from shared.text.display import quote


class DailyUsage:
    """An agent's model usage of the current day (UTC), all its processes together, as a record of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known = (DailySpending(day="never"), 0)
        self._deferred: list[Usage] = []
        self._lock = asyncio.Lock()

    async def today(self) -> DailySpending:
        """The usage of today so far; while the server is away, as far as this process knows it."""
        day = _today()
        try:
            known = (await self._read(day))[0]
        except BusUnavailable:
            known = self._known[0] if self._known[0].day == day else DailySpending(day=day)
        return _plus(known, self._deferred)

    async def add(self, usage: Usage) -> None:
        """Add ``usage`` to the record, on top of what other processes have added meanwhile.

        Within ``deferring`` it is stored later; ``today`` has it at once.
        """
        if usage == Usage():
            return
        self._deferred.append(usage)
        if not _is_deferring.get():
            await self._flush()

    @asynccontextmanager
    async def deferring(self) -> AsyncIterator[None]:
        """A block in which usage is added by ``store_with``; what is left is stored at its end."""
        token = _is_deferring.set(True)
        try:
            yield
        finally:
            _is_deferring.reset(token)
            await self._flush()

    async def store_with(self, commit: Callable[[Sequence[Entry]], Awaitable[Sequence[int]]]) -> None:
        """Have ``commit`` store its own entries, and with them what was deferred.

        It gets the entry to add, or none, and returns the sequences, that of the entry last. If another
        process has added usage meanwhile, it is called again without: what was deferred then waits.
        """
        if self._lock.locked() or not self._deferred:
            await commit(())
            return
        async with self._lock:
            if not await self._store(commit):
                await commit(())

    async def _flush(self) -> None:
        async with self._lock:
            while self._deferred:
                await self._store(self._bus.commit)

    async def _store(self, commit: Callable[[Sequence[Entry]], Awaitable[Sequence[int]]]) -> bool:
        """Have what was deferred stored; False if another process has added usage meanwhile."""
        if self._known[0].day != _today():
            self._known = await self._read(_today())
        taken, (spent, after) = len(self._deferred), self._known
        added = amended(
            _plus(spent, self._deferred),
            id=generate_id(),
            created_at=generate_iso_timestamp(),
            sender=self._bus.name,
        )
        try:
            *_, seq = await commit([seal(self._subject(spent.day), added, expect=after)])
        except Conflict:
            self._known = await self._read(added.day)
            return False
        self._known = added, seq
        del self._deferred[:taken]
        return True

    async def _read(self, day: str) -> tuple[DailySpending, int]:
        record = await read_record(self._bus, self._subject(day), DailySpending)
        return (record.value, record.seq) if record else (DailySpending(day=day), 0)

    def _subject(self, day: str) -> str:
        return subjects.record(self._bus.name, "spending", day)


_is_deferring: ContextVar[bool] = ContextVar("is_deferring", default=False)


def _plus(spent: DailySpending, usages: Sequence[Usage]) -> DailySpending:
    return msgspec.structs.replace(
        spent,
        input_tokens=spent.input_tokens + sum(usage.input_tokens for usage in usages),
        output_tokens=spent.output_tokens + sum(usage.output_tokens for usage in usages),
        cost=spent.cost + sum(usage.cost for usage in usages),
        calls=spent.calls + sum(usage.calls for usage in usages),
    )


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an agent; 0 is no limit. Cost is in US dollars, a day is one of UTC."""

    task_tokens: int = 0
    day_tokens: int = 0
    day_cost: float = 0.0

    def check(self, task: Usage, day: DailySpending) -> None:
        """Raise BudgetSpent, which names the budget and the cure, if nothing is left.

        Call it before each model call: the call that crosses a limit is the last one.
        """
        if self.task_tokens and task.tokens >= self.task_tokens:
            raise BudgetSpent(
                f"The task has used {task.tokens:,} tokens of the {self.task_tokens:,} it may use",
                "Ask for less at once, or raise MAILROOM_TASK_TOKENS",
            )
        today = day.input_tokens + day.output_tokens
        if self.day_tokens and today >= self.day_tokens:
            raise BudgetSpent(
                f"The agent has used {today:,} tokens on {day.day} of the {self.day_tokens:,} of a day",
                "Try again tomorrow (UTC), or raise MAILROOM_DAY_TOKENS",
            )
        if self.day_cost and day.cost >= self.day_cost:
            raise BudgetSpent(
                f"The agent has spent ${day.cost:.2f} on {day.day} of the ${self.day_cost:.2f} of a day",
                "Try again tomorrow (UTC), or raise MAILROOM_DAY_COST",
            )


T = TypeVar("T")

MIN_CONVERSATION = 4_000  # Characters of a conversation that are sent, however small the model's context is


log = logger(__name__)


def _task_id() -> str:
    task = current_task.get()
    return task.task.task_id if task else ""


answered_by: ContextVar[str] = ContextVar("answered_by", default="")
"""The model that gave the latest answer in the present context: of a chain not always the first."""


def _record(call: OpenSpan, thought: Thought) -> None:
    call.name = thought.by or call.name
    answered_by.set(call.name)
    call.output = thought.text or ", ".join(tool.name for tool in thought.tool_calls)
    call.input_tokens = thought.usage.input_tokens
    call.output_tokens = thought.usage.output_tokens
    call.cost = thought.usage.cost


class RecordedModel:
    """A model whose calls are recorded as spans of the task being worked on."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.name = model.name
        self.available = model.available

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
        """As LanguageModel.complete."""
        asked = messages[-1].text if messages else ""
        options.setdefault("cache_key", _task_id())
        await begin_effect()
        with span(SpanKind.MODEL, self.name, asked) as call:
            thought = await self._model.complete(messages, **options)
            _record(call, thought)
        return thought

    async def stream(self, messages: Sequence[Message], **options: Unpack[StreamOptions]) -> Pieces:
        """As LanguageModel.stream."""
        asked = messages[-1].text if messages else ""
        options.setdefault("cache_key", _task_id())
        await begin_effect()
        with span(SpanKind.MODEL, self.name, asked) as call:
            async with aclosing(self._model.stream(messages, **options)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Thought):
                        _record(call, piece)
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
        self.usage = DailyUsage(bus)
        self._budget = Budget(
            task_tokens=settings.task_tokens, day_tokens=settings.day_tokens, day_cost=settings.day_cost
        )

    def prepare(self) -> None:
        """Construct all models, so that a wrong configuration fails at the start; raises ConfigError."""
        _ = self.model, self.small_model, [self._model_for(role) for role in ROLES]

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
        """Characters that fit the model's context, by the setting ``brain_context``."""
        return self._settings.brain_characters

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

        The model of a ``role`` is asked, if one is set. Raises ModelError: NoModel, ModelUnavailable, or
        BudgetSpent before the model is asked.
        """
        await self._require_budget()
        prompt = await self._system(persona)
        thought = await RecordedModel(self._model_for(role)).complete([*prompt, *messages], tools=tools)
        await self._count(thought.usage)
        return thought

    def acting(self, role: Role | None) -> "ModelSession | ModelInRole":
        """The models of an agent loop: the session's own, or that of a ``role`` in their place."""
        return ModelInRole(self, role) if role else self

    async def stream_model(
        self, messages: Sequence[Message], on_piece: Callable[[str], Awaitable[None]]
    ) -> Thought:
        """The model's answer, whose pieces ``on_piece`` gets as they are written; raises as ``ask_model``."""
        await self._require_budget()
        prompt = await self._system()
        thought = Thought(text="")
        async with aclosing(RecordedModel(self.model).stream([*prompt, *messages])) as pieces:
            async for piece in pieces:
                if isinstance(piece, Thought):
                    thought = piece
                else:
                    await on_piece(piece)
        await self._count(thought.usage)
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
        await self._require_budget()
        prompt = await self._system(rules)
        answer, _ = await self._ask(self._model_for(role), [*prompt, *messages], kind, check, tries)
        return answer

    async def ask_small_model_for(
        self, messages: Sequence[Message], kind: type[T], check: Callable[[T], str | None] | None = None
    ) -> tuple[T, Usage]:
        """The small model's answer as a ``kind`` that passes ``check``, and its usage; raises ModelError."""
        await self._require_budget()
        return await self._ask(self.small_model, messages, kind, check)

    async def _ask(
        self,
        model: LanguageModel,
        messages: Sequence[Message],
        kind: type[T],
        check: Callable[[T], str | None] | None,
        tries: int = 3,
    ) -> tuple[T, Usage]:
        spent: list[Usage] = []
        try:
            asked = RecordedModel(model)
            return await ask_for(asked, messages, kind, check=check, tries=tries, spent=spent.append)
        finally:
            await self._count(functools.reduce(Usage.plus, spent, Usage()))

    async def _system(self, rules: str = "") -> list[Message]:
        """The system prompt: the agent's SOUL and ``rules``, then the day and its briefing."""
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
        """What memory holds about ``text``, for a prompt, and its scores; see MemoryRecall.recall."""
        return await self._recall.recall(text, limit, self._prompt.shown)

    async def quote_known(self, text: str) -> str:
        """What memory holds about ``text`` as a quotation for a prompt; empty if it holds nothing."""
        known, _ = await self.recall(text)
        return quote(KNOWN, known) if known else ""

    async def _require_budget(self) -> None:
        task = current_task.get()
        self._budget.check(task.usage if task else Usage(), await self.usage.today())

    async def _count(self, usage: Usage) -> None:
        if (task := current_task.get()) is not None:
            task.count_usage(usage)
        await self.usage.add(usage)


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
