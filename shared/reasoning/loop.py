"""The agent loop: ask the model, call actions, feed results back, until it finishes or hits a limit."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

import msgspec

from shared.contracts import ResultOutcome, SpanKind
from shared.errors import (
    ActionError,
    BudgetSpent,
    BusError,
    Conflict,
    ModelError,
    ModelUnavailable,
    NoModel,
    Reject,
    TooLong,
)
from shared.llm.leaving import TASK, UNKNOWN
from shared.llm.protocol import Message, Thought, Tool, Usage
from shared.log import logger
from shared.reasoning.conversation import SUMMARY, TOLD, Call, Conversation
from shared.reasoning.tools import (
    FINISH,
    REST,
    Caps,
    Limits,
    Proposal,
    Toolbox,
    detect_action,
    fill_arguments,
    inline_arguments,
    is_answer,
)
from shared.spans import referring_to, span
from shared.tasks.actions import Outcome, kinds_of
from shared.text.display import excerpt, flatten, quote, sendable

T = TypeVar("T")


class LoopModels(Protocol):
    """The two models of an agent; the system prompt is added and budgets are enforced."""

    async def ask_model(self, messages: Sequence[Message], tools: Sequence[Tool], *, persona: str) -> Thought:
        """The model's next message, with ``persona`` in its system prompt; raises ModelError."""

    async def ask_small_model_for(self, messages: Sequence[Message], kind: type[T]) -> tuple[T, Usage]:
        """The small model's answer as a ``kind``, and its usage; raises ModelError."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The messages since the previous checkpoint; the other fields are totals of the whole loop.

    The first one has the ``task`` and the ``persona`` that the loop began with, so that another attempt asks
    in the same words. ``summary`` stands for the first ``summed`` messages.
    """

    messages: tuple[Message, ...]
    steps: int
    usage: Usage
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    task: str = ""
    persona: str = ""
    summary: str = ""
    summed: int = 0


class CheckpointStore(Protocol):
    """Where an agent loop keeps its checkpoints, so that another attempt can resume."""

    @property
    def loop(self) -> str:
        """The id of the loop, which spans refer to."""

    async def write(self, note: str, checkpoint: Checkpoint) -> None:
        """Store a checkpoint with a progress ``note``; raises Conflict if another attempt took over."""

    def read(self) -> AsyncIterator[Checkpoint]:
        """The checkpoints of earlier attempts."""

    def step(self, name: str) -> AbstractContextManager[None]:
        """A scope in which ids derive from the step's name, so that they are the same in every attempt."""


MAX_OUTPUT = 20_000
"""Characters of an action's result that are fed back; the whole of it is in the files it names."""
MAX_SAID = 240  # Characters of what the model said in a turn that its progress note tells
MAX_READ = 50_000  # Characters of a model message without tool calls that are searched for an action
SAVING = 5.0  # Seconds the last checkpoint has to be stored if the loop is cancelled

NUDGE = (
    "No action was called. Call one of your actions, or finish_task with the result if everything is done."
)
CUT_OFF = "its message was cut off at the limit of its length (setting brain_answer)"
TOO_EARLY = (
    "It was not accepted, since {names} in the same turn did not go well. Read the result; then go on, or "
    "call {end} alone."
)

ENDED = {ResultOutcome.FAILED: ("It failed.",), ResultOutcome.FINDINGS: ("It has findings.",)}

log = logger(__name__)


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an agent loop.

    ``rested``: it ended its turn without finishing; ``doubts`` are effects that may or may not have happened.
    """

    result: str
    steps: int
    usage: Usage
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    rested: bool = False


class AgentLoop:
    """One run of a model with actions on a task, with a history and limits of its own.

    An instance is for one run, whose state it keeps; runs may be nested. Before each step it asks for new
    ``instructions`` of the person who asked for the work, and passes them on to the model.
    """

    def __init__(
        self,
        models: LoopModels,
        toolbox: Toolbox,
        caps: Caps | None = None,
        checkpoints: CheckpointStore | None = None,
        persona: str = "",
        instructions: Callable[[], Awaitable[Sequence[str]]] | None = None,
    ) -> None:
        self._models = models
        self._instructions = instructions
        self._toolbox = toolbox
        self._caps = caps or Caps()
        self._limits = Limits(self._caps)
        self._checkpoints = checkpoints
        self._persona = persona
        self._conversation = Conversation("")
        self._steps = 0
        self._said = ""
        self._usage = Usage()
        self._evidence: dict[str, None] = {}
        self._paths: dict[str, None] = {}
        self._doubts: list[str] = []
        self._saving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._saving.set_result(None)

    async def run(self, task: str, history: Sequence[Message] = (), *, goes_on: bool = False) -> Conclusion:
        """Work on ``task``; raises ActionError with the reason if a limit is hit or the model fails.

        If it ``goes_on`` with an earlier conversation, ``history`` is that.
        If an earlier attempt stored checkpoints, the loop resumes from the last one: a call that was under
        way is made again, and the task's journal of effects keeps those from happening twice.
        """
        self._conversation = Conversation(task, history, self._caps.window, goes_on=goes_on)
        try:
            end = await self._work()
        except BaseException:
            # Not cancelled: whether the checkpoint was stored must be known before the task is finished.
            await asyncio.wait({self._saving}, timeout=SAVING)
            if self._saving.done():
                self._saving.exception()
            raise
        await self._saving
        await self._write("ends")  # so that a later task can go on from there
        return end

    @property
    def so_far(self) -> Conclusion:
        """Everything done until now, without a result."""
        return Conclusion(result="", **self._totals())

    def _totals(self) -> dict[str, Any]:
        return {
            "steps": self._steps,
            "usage": self._usage,
            "evidence_refs": tuple(self._evidence),
            "output_paths": tuple(self._paths),
            "doubts": tuple(self._doubts),
        }

    async def _work(self) -> Conclusion:
        pending = await self._resume()
        while True:
            calls = await self._ask() if pending is None else pending
            # What ends the loop comes last: the others were called too.
            for call in sorted(calls, key=lambda each: self._toolbox.is_end(each.name)):
                if (end := await self._run_call(call)) is not None:
                    return end
            if self._toolbox.concluded():
                return self.so_far
            # The results are stored while the model is asked again. A call that was refused waited for
            # nothing, and two checkpoints at once would get the same number.
            await self._saving
            self._saving = asyncio.ensure_future(self._write("thinks"))
            pending = None

    # --- ask the model ---------------------------------------------------------------------------

    async def _ask(self) -> list[Call]:
        self._limits.require_step(self._steps, self._usage.tokens)
        for text in await self._instructions() if self._instructions else ():
            note = f"{TOLD}\n{text}"
            if all(message.text != note for message in self._conversation.messages):  # by an earlier attempt
                self._conversation.add_note(note)
        if self._conversation.is_full:
            await self._summarise()
        try:
            thought = await self._think()
        except TooLong:  # less fits than its server or a setting said
            self._conversation.narrow()
            if self._conversation.is_full:
                await self._summarise()
            thought = await self._think()
        self._steps += 1
        self._said = flatten(thought.text, MAX_SAID)
        calls = self._conversation.add_thought(thought)
        if thought.stop == "length" and not calls:
            self._limits.count_fruitless(CUT_OFF)
            return []
        return calls or await self._detect(self._conversation.answer)

    async def _think(self, *more: Message) -> Thought:
        messages = [*self._conversation.shortened(), *more]
        with self._referring():
            thought = await self._models.ask_model(messages, self._toolbox.offers(), persona=self._persona)
        self._usage = self._usage.plus(thought.usage)
        return thought

    async def _summarise(self) -> None:
        """Have the model summarise what is too long, asked so that its cache holds all but the question.

        The summary is stored with the next checkpoint, before anything relies on it. If the model gives none,
        the oldest messages are shortened.
        """
        text = ""
        try:
            thought = await self._think(Message(role="user", text=SUMMARY))
            text = "" if thought.stop == "length" else thought.text
        except ModelError as error:
            log.warning("not_summarised", reason=str(error))
        self._conversation.summarise(text)

    # --- an action named in plain text -----------------------------------------------------------

    async def _detect(self, text: str) -> list[Call]:
        """The call that a message in plain text asks for; empty if a note about what is missing was added.

        One that asks for none is the answer, unless it only announces what is to come.
        """
        if form := self._toolbox.find_form(text):
            return [Call(FINISH, form)]
        name = detect_action(text[:MAX_READ], self._toolbox.names)
        if not name and is_answer(text):
            return [Call(FINISH, msgspec.json.encode({"result": text[:MAX_READ]}).decode())]
        if not name:
            self._conversation.add_note(NUDGE)
            self._limits.count_fruitless("it called no action")
            return []
        try:
            return [Call(name, await self._fill_arguments(name, text))]
        except (NoModel, ModelUnavailable, BudgetSpent):
            raise
        except ActionError as error:
            self._conversation.add_note(f"{name} was not run. {error}")
            self._limits.count_fruitless(str(error))
            return []

    async def _fill_arguments(self, name: str, text: str) -> str:
        action = self._toolbox.action(name)
        written = inline_arguments(text, name)
        if written or not action.param_infos:
            try:
                self._toolbox.check(name, written)
                return written
            except ActionError:
                if not action.param_infos:
                    return ""
        params = await fill_arguments(
            action,
            text,
            self._propose,
            self._clarify,
            lambda raw: self._toolbox.check(name, raw),
            self._shown,
        )
        return msgspec.json.encode(params).decode()

    @property
    def _shown(self) -> tuple[str, ...]:
        """The kinds of text that the model had been shown when it wrote its last message."""
        return self._conversation.messages[-1].kinds or (UNKNOWN,)

    async def _propose(self, messages: Sequence[Message]) -> Proposal:
        proposal, usage = await self._models.ask_small_model_for(messages, Proposal)
        self._usage = self._usage.plus(usage)
        return proposal

    async def _clarify(self, question: str) -> str:
        asked = Message(role="user", text=question, kinds=self._shown)
        messages = [*self._conversation.shortened(), asked]
        thought = await self._models.ask_model(messages, (), persona=self._persona)
        self._usage = self._usage.plus(thought.usage)
        return excerpt(thought.text, MAX_OUTPUT)

    # --- run an action ---------------------------------------------------------------------------

    async def _run_call(self, call: Call) -> Conclusion | None:
        try:
            params = self._toolbox.check(call.name, call.arguments)
        except ActionError as error:
            self._conversation.add_result(call, f"It was not run. {error}", (TASK,))
            self._limits.count_fruitless(str(error))
            return None
        if self._toolbox.is_end(call.name):
            if names := self._conversation.list_unsettled():
                early = TOO_EARLY.format(names=", ".join(names), end=call.name)
                self._conversation.add_result(call, early, (TASK,))
                return None
            return msgspec.structs.replace(
                self.so_far, result=self._toolbox.conclude(params), rested=call.name == REST
            )
        notice = self._limits.count_call(call)
        await self._saving
        await self._write(call.name)
        with self._referring():
            result, kinds = await self._act(call, params)
        self._conversation.add_result(call, result + notice, kinds)
        return None

    def _referring(self) -> AbstractContextManager[None]:
        """A block whose spans refer to the next message of the conversation."""
        loop = self._checkpoints.loop if self._checkpoints else ""
        return referring_to(f"{loop}:{self._conversation.position}" if loop else "")

    async def _act(self, call: Call, params: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        """The result of an action as the model gets it, and its kinds; a failure is a result too."""
        name, kinds = call.name, kinds_of(call.name, Outcome(output="")) or (UNKNOWN,)
        try:
            step = (
                self._checkpoints.step(str(self._conversation.written))
                if self._checkpoints
                else nullcontext()
            )
            with span(SpanKind.ACTION, call.name, call.arguments) as recorded, step:
                outcome = await self._toolbox.perform(call.name, params)
                recorded.output = outcome.output
        except Reject as doubt:
            self._doubts.append(sendable(str(doubt)))
            return f"It was not done again. {doubt}", kinds
        except Conflict:
            raise
        except (ActionError, BusError) as error:
            return f"It failed. {error}", kinds
        except Exception as error:
            log.exception("action_broke", action=name)
            return f"It failed unexpectedly: {type(error).__name__}", (TASK,)
        self._evidence |= dict.fromkeys(map(sendable, outcome.evidence_refs))
        self._paths |= dict.fromkeys(map(sendable, outcome.output_paths))
        kinds = kinds_of(name, outcome) or (UNKNOWN,)
        text = quote(f"What {name} returned", excerpt(outcome.output, MAX_OUTPUT), " ".join(kinds))
        # What it wrote itself, or reads in the output, is not named to it again.
        seen = f"{call.arguments}\n{text}"
        sources = [each for each in outcome.evidence_refs if _PLACE.sub("", each) not in seen]
        files = [each for each in outcome.output_paths if each not in sources and each not in seen]
        named = (("Sources", sources), ("Files", files))
        below = [f"{title}: {_list(names)}" for title, names in named if names]
        return "\n".join([*ENDED.get(outcome.outcome, ()), text, *below]), kinds

    # --- checkpoints -----------------------------------------------------------------------------

    async def _write(self, doing: str) -> None:
        """Store the messages since the last checkpoint."""
        talk = self._conversation
        new = talk.take_unwritten() if self._checkpoints else ()
        if self._checkpoints is None or not new:
            return
        is_first = len(new) == talk.position
        checkpoint = Checkpoint(
            messages=new,
            task=talk.task if is_first else "",
            persona=self._persona if is_first else "",
            summary=talk.summary,
            summed=talk.summed,
            **self._totals(),
        )
        said = f": {self._said}" if self._said else ""
        await self._checkpoints.write(f"step {self._steps}: {doing}{said}", checkpoint)

    async def _resume(self) -> list[Call] | None:
        """Restore an earlier attempt's checkpoints; returns the calls without a result, None if none."""
        if self._checkpoints is None:
            return None
        async for checkpoint in self._checkpoints.read():
            self._conversation.restore(checkpoint.messages, checkpoint.task)
            if checkpoint.task:
                self._persona = checkpoint.persona
            self._conversation.summary, self._conversation.summed = checkpoint.summary, checkpoint.summed
            self._steps, self._usage = checkpoint.steps, checkpoint.usage
            self._evidence |= dict.fromkeys(checkpoint.evidence_refs)
            self._paths |= dict.fromkeys(checkpoint.output_paths)
            self._doubts = list(checkpoint.doubts)
        last = self._conversation.messages[-1]
        if last.role == "assistant" and not last.tool_calls:
            return await self._detect(self._conversation.answer)
        return self._conversation.unanswered()


_PLACE = re.compile(r":\d+(?:-\d+)?$")  # The line in a file


def _list(names: Sequence[str]) -> str:
    return ", ".join(excerpt(name, 200) for name in names[:50])
