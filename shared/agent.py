"""What every agent is: a profile, a mailbox, actions, and handlers for what arrives."""

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from shared import subjects
from shared.actions import Outcome, collect_actions, perform
from shared.approval import Approvals
from shared.brain.protocol import Brain, Message
from shared.bus import Bus, Entry
from shared.colleagues import Colleagues, YellowPages, offered
from shared.contracts import (
    AgentReport,
    CancelGoal,
    Email,
    Envelope,
    GoalDue,
    Question,
    ReminderDue,
    Task,
    TaskResult,
    generate_task_id,
)
from shared.correspondence import Threads, history_of, is_letter
from shared.delegation import Delegation
from shared.errors import ActionError, ConfigError, Reject
from shared.exchange import Exchange
from shared.framing import conclude, decline, frame_task
from shared.job import Job, current_job
from shared.judging import judge
from shared.log import logger
from shared.memory import Memory
from shared.micro.bounds import Caps
from shared.micro.micro_agent import Conclusion, MicroAgent
from shared.micro.toolbox import FINISH, REST, Toolbox, bind
from shared.mind import Mind, Personality
from shared.profile import Profile
from shared.settings import Settings
from shared.train import ThoughtJournal

if TYPE_CHECKING:
    from shared.sandbox.policy import Ruling

RESERVED = frozenset({FINISH, REST, *offered(0)})
"""Names that no agent's own action may have."""

T = TypeVar("T")
Replies = Sequence[Envelope | Entry]


class BaseAgent:
    """An agent: override the ``on_...`` methods it needs, mark what it can do with @register_action.

    What a handler returns is committed together, and the message is acknowledged after that. A
    handler raises Reject for what can never be handled; anything else it raises is tried again.
    """

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        self.profile = profile
        self.settings = settings
        self.bus = bus
        self.memory = Memory(bus)
        self.actions = collect_actions(self)
        if taken := sorted(RESERVED & self.actions.keys()):
            raise ConfigError(
                f"The skills of {profile.name!r} have an action named {taken[0]}, which means something else "
                "to every agent that thinks",
                "Give it another name",
            )
        self.log = logger(profile.name)
        self.mind = Mind(profile, settings, bus, self.memory)
        self._background: set[asyncio.Task[Any]] = set()
        self._delegation = Delegation(bus)
        self._exchange = Exchange(bus)
        self._threads = Threads(bus, self._exchange)
        self._approvals = Approvals(bus, settings.approval_timeout)
        self._pages = YellowPages(bus)
        self._colleagues = bind(Colleagues(profile.name, self, self._pages))

    # --- what a subclass overrides ---------------------------------------------------------------

    async def on_start(self) -> None:
        """Called once, connected, before any message is handled."""

    async def on_stop(self) -> None:
        """Called once, after the last message was handled."""

    async def on_task(self, task: Task) -> Outcome:
        """Do a task: the action its context names, as it stands; else what its words ask, by thinking."""
        name = task.context.get("action")
        if not name and self.brain.available:
            return await self._work_out(task)
        if not name:
            raise ActionError(
                f"{self.profile.name} cannot work out what to do from words without a model",
                f"Name one of its actions in the task's context: {', '.join(self.actions) or 'it has none'}",
            )
        action = self.actions.get(str(name))
        if action is None:
            near = difflib.get_close_matches(str(name)[:60], self.actions, n=1)
            meant = f"Did you mean {near[0]!r}? " if near else ""
            raise ActionError(
                f"{self.profile.name} has no action {str(name)[:60]!r}",
                f"{meant}Its actions are {', '.join(self.actions) or 'none'}",
            )
        params = task.context.get("params", {})
        if not isinstance(params, Mapping):
            raise ActionError(f"{name}: params must be an object, not {type(params).__name__}")
        return await perform(self, action, params)

    async def on_email(self, email: Email) -> Replies:
        """Answer a letter, in its thread, by thinking about it.

        Without a model it is answered with what there is instead. What an agent answers to a letter that
        nothing waits for is only filed, or two might write to each other for ever.
        """
        if email.in_reply_to and email.sender != subjects.USER:
            return ()
        if self.brain.available:
            return await self._threads.open_letter(email)
        return [decline(email, self.profile.name, tuple(self.actions))]

    async def on_question(self, question: Question) -> Replies:
        """Answer a question."""
        raise Reject(f"{self.profile.name} does not answer questions; ask {subjects.NEXUS}")

    async def on_result(self, result: TaskResult) -> Replies:
        """Take the result of a task this agent handed out, when nothing here waits for it."""
        return ()

    async def on_cancel(self, request: CancelGoal) -> Replies:
        """End a goal."""
        raise Reject(f"{self.profile.name} runs no goals; write to {subjects.CONDUCTOR}")

    async def on_report(self, report: AgentReport) -> Replies:
        """Take what another agent reports; by default it is read and filed: it stays on the audit trail."""
        return ()

    async def on_due(self, due: GoalDue | ReminderDue) -> Replies:
        """A timer this agent set went off."""
        return ()

    async def on_submission(self, data: bytes, seq: int, stored_at: int) -> Replies:
        """Take what was published on tasks.submit; only the conductor gets these."""
        raise Reject(f"{self.profile.name} takes no submissions")

    def endpoints(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What it answers by request and reply, as ``<name>.<endpoint>``; asked for after ``on_start``."""
        return {}

    def signed_endpoints(self) -> Mapping[str, Callable[[bytes, str], Awaitable[bytes]]]:
        """What it does on behalf of whoever asks for ``<name>.<endpoint>``; that one's name comes along."""
        return {}

    # --- what a subclass uses --------------------------------------------------------------------

    @property
    def job(self) -> Job:
        """The task being worked on; raises RuntimeError outside of one."""
        job = current_job.get()
        if job is None:
            raise RuntimeError("No task is being worked on here")
        return job

    async def progress(self, text: str) -> None:
        """A note for whoever watches the task; outside of a task it goes to the log."""
        job = current_job.get()
        if job is None:
            self.log.info("progress", note=text)
        else:
            await job.progress(text)

    def effect(self, what: str, *, repeatable: bool = False) -> AbstractAsyncContextManager[None]:
        """Journal something with an effect outside the office around doing it; see Claim.effect."""
        if current_job.get() is None:
            raise ActionError("This has an effect outside the office, so it is only done within a task")
        return self.job.effect(what, repeatable=repeatable)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background until the agent stops; what it raises is logged."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._on_background_end)

    async def submit(
        self, text: str, context: Mapping[str, Any] | None = None, *, requester: str = "user"
    ) -> str:
        """Submit a goal on somebody's behalf; returns its id."""
        goal_id = generate_task_id("goal")
        body = {"text": text, "goal_id": goal_id, "requester": requester, "context": dict(context or {})}
        await self.bus.store(subjects.SUBMIT, msgspec.json.encode(body), headers={"Nats-Msg-Id": goal_id})
        return goal_id

    async def delegate(
        self,
        assignee: str,
        text: str,
        action: str = "",
        params: Mapping[str, Any] | None = None,
        *,
        key: str = "",
    ) -> TaskResult:
        """Hand a task to another agent and wait for its result.

        The mailbox goes on meanwhile. A second attempt at the same job finds the tasks the first one
        handed out instead of handing them out again: by ``key``, else by their order, so what is
        delegated side by side needs a key. Raises ActionError for what is no task.
        """
        job = self.job
        named = job.own_key(key) if key else job.next_key()
        context: dict[str, Any] = {"hops": job.hops + 1}
        if action:
            context |= {"action": action, "params": dict(params or {})}
        return await self._delegation.hand_out(job, assignee, text, context, named)

    async def write_letter(self, recipient: str, subject: str, body: str, *, key: str = "") -> Email:
        """Write to an agent or to ``user`` and wait for the answer to this very letter.

        As with ``delegate`` the mailbox goes on, and another attempt at the job finds the letter again.
        """
        return await self._exchange.write(self.job, recipient, subject, body, self.job.next_key(key or "l"))

    async def ask_approval(self, what: str, *, rule: str = "", why: str = "") -> None:
        """Wait for a person's approval of ``what``; raises NotApproved where it is refused or expires."""
        await self._approvals.ask(self.job, what, rule, why)

    async def judge(self, command: str, workspace: str = "") -> "Ruling":
        """What the policy says of a shell command; anything but ``allow`` goes on record."""
        return await judge(self.bus, command, workspace)

    # --- thinking --------------------------------------------------------------------------------

    @property
    def brain(self) -> Brain:
        """The model that reasons; its ``available`` is False where none is configured."""
        return self.mind.brain

    @property
    def cerebellum(self) -> Brain:
        """The model that works out parameters."""
        return self.mind.cerebellum

    async def consider(
        self, messages: Sequence[Message], kind: type[T], check: Callable[[T], str | None] | None = None
    ) -> T:
        """What the brain answers, as a ``kind`` in which ``check`` finds nothing wrong; raises BrainError."""
        return await self.mind.consider(messages, kind, check)

    async def think(
        self,
        task: str,
        *,
        actions: Collection[str] | None = None,
        result_params: Mapping[str, str] | None = None,
        history: Sequence[Message] = (),
        persona: str = "",
        key: str = "",
        max_steps: int = 0,
        may_rest: bool = False,
        alone: bool = False,
    ) -> Conclusion:
        """Work on ``task`` as a MicroAgent: think, act, until it is finished.

        It may call ``actions`` (default: all of the agent's) and, unless ``alone``, its colleagues.
        Within a job its thoughts are stored: another attempt goes on where this one stopped. Raises
        ActionError with the reason where a cap is hit, the brain fails, or nothing helps.
        """
        job = current_job.get()
        # Named before anything is waited for: what is thought side by side begins in the same order again.
        journal = ThoughtJournal(self.bus, job, job.next_key(key or "t")) if job else None
        others = offered(job.hops) if job and not alone else ()
        bound = bind(self) | {name: self._colleagues[name] for name in others}
        if others and (present := await self._pages.text(self.profile.name)):
            persona = f"{persona}\n\n# Your colleagues\n\n{present}".strip()
        micro = MicroAgent(
            Personality(self.mind, persona),
            Toolbox(
                {name: found for name, found in bound.items() if actions is None or name in actions},
                result_params=result_params,
                may_rest=may_rest,
            ),
            Caps(steps=max_steps or self.settings.max_steps, tokens=self.settings.task_tokens),
            journal,
        )
        return await micro.run(task, history)

    async def _work_out(self, task: Task) -> Outcome:
        """Do a task that names no action, by thinking."""
        known, facts = await self.mind.recall(task.text)
        if facts:
            self.job.facts["context"] = facts
        conclusion = await self.think(
            frame_task(task, known),
            history=[_message(said) for said in history_of(task.context)],
            may_rest=is_letter(task),
        )
        return conclude(conclusion)

    # --- what the desk calls ---------------------------------------------------------------------

    def take_delegated(self, result: TaskResult) -> bool:
        """Give ``result`` to the handler that waits for it, if one does here."""
        return self._delegation.take(result)

    async def receive_letter(self, email: Email) -> Replies:
        """A letter: the answer somebody here waits for, else ``on_email``."""
        answer = await self._exchange.take_answer(email)
        return await self.on_email(email) if answer is None else answer

    async def receive_result(self, result: TaskResult) -> Replies:
        """A result: what a letter led to, else ``on_result``."""
        closed = await self._threads.take_result(result)
        return await self.on_result(result) if closed is None else closed

    async def stop_background(self) -> None:
        """Cancel what ``spawn`` started and wait for its end."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def _on_background_end(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.log.error("background_failed", exc_info=error)


def _message(said: Mapping[str, Any]) -> Message:
    role: Literal["user", "assistant"] = "assistant" if said.get("role") == "assistant" else "user"
    return Message(role=role, text=str(said.get("text", "")))
