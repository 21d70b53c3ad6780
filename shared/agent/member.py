"""What every agent can do: work on a job, reach people and colleagues, think."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from shared.bus import Bus
from shared.contracts import Email, TaskResult
from shared.errors import ActionError, ConfigError
from shared.llm.protocol import LanguageModel, Message
from shared.log import logger
from shared.memory import Memory
from shared.messaging.approvals import Approvals
from shared.messaging.colleagues import Directory, PeerActions, offered
from shared.messaging.delegation import Delegation
from shared.messaging.requests import RequestReply
from shared.messaging.threads import Threads
from shared.reasoning.checkpoint import Checkpoints
from shared.reasoning.limits import Caps
from shared.reasoning.loop import AgentLoop, Conclusion
from shared.reasoning.model import ModelSession, PersonaSession
from shared.reasoning.tools import FINISH, REST, Toolbox, bind
from shared.settings import Settings
from shared.tasks.actions import collect_actions
from shared.tasks.context import TaskContext, current_task
from shared.tasks.judging import judge
from shared.tasks.profile import Profile

if TYPE_CHECKING:
    from shared.sandbox.policy import Ruling

RESERVED = frozenset({FINISH, REST, *offered(0)})
"""Names that no agent's own action may have."""

T = TypeVar("T")


class Member:
    """A member of the office: what its actions and handlers use. See Agent for what arrives."""

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
        self.mind = ModelSession(profile, settings, bus, self.memory)
        self._background: set[asyncio.Task[Any]] = set()
        self._delegation = Delegation(bus)
        self._exchange = RequestReply(bus)
        self._threads = Threads(bus, self._exchange)
        self._approvals = Approvals(bus, settings.approval_timeout)
        self._pages = Directory(bus)
        self._colleagues = bind(PeerActions(profile.name, self, self._pages))

    # --- its job, people and colleagues ---------------------------------------------------------

    @property
    def job(self) -> TaskContext:
        """The task being worked on; raises RuntimeError outside of one."""
        job = current_task.get()
        if job is None:
            raise RuntimeError("No task is being worked on here")
        return job

    async def progress(self, text: str) -> None:
        """A note for whoever watches the task; outside of a task it goes to the log."""
        job = current_task.get()
        if job is None:
            self.log.info("progress", note=text)
        else:
            await job.progress(text)

    def effect(self, what: str, *, repeatable: bool = False) -> AbstractAsyncContextManager[None]:
        """Journal something with an effect outside the office around doing it; see Claim.effect."""
        if current_task.get() is None:
            raise ActionError("This has an effect outside the office, so it is only done within a task")
        return self.job.effect(what, repeatable=repeatable)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background until the agent stops; what it raises is logged."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._on_background_end)

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
    def brain(self) -> LanguageModel:
        """The model that reasons; its ``available`` is False where none is configured."""
        return self.mind.brain

    @property
    def cerebellum(self) -> LanguageModel:
        """The model that works out parameters."""
        return self.mind.cerebellum

    async def consider(
        self, messages: Sequence[Message], kind: type[T], check: Callable[[T], str | None] | None = None
    ) -> T:
        """What the brain answers, as a ``kind`` in which ``check`` finds nothing wrong; raises ModelError."""
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
        """Work on ``task`` as a AgentLoop: think, act, until it is finished.

        It may call ``actions`` (default: all of the agent's) and, unless ``alone``, its colleagues.
        Within a job its thoughts are stored: another attempt goes on where this one stopped. Raises
        ActionError with the reason where a cap is hit, the brain fails, or nothing helps.
        """
        job = current_task.get()
        # Named before anything is waited for: what is thought side by side begins in the same order again.
        journal = Checkpoints(self.bus, job, job.next_key(key or "t")) if job else None
        others = offered(job.hops) if job and not alone else ()
        bound = bind(self) | {name: self._colleagues[name] for name in others}
        if others and (present := await self._pages.text(self.profile.name)):
            persona = f"{persona}\n\n# Your colleagues\n\n{present}".strip()
        toolbox = Toolbox(
            {name: found for name, found in bound.items() if actions is None or name in actions},
            result_params=result_params,
            may_rest=may_rest,
        )
        caps = Caps(
            steps=max_steps or self.settings.max_steps,
            tokens=self.settings.task_tokens,
            window=await self.mind.room(toolbox.offers(), persona),
        )
        micro = AgentLoop(PersonaSession(self.mind, persona), toolbox, caps, journal)
        try:
            return await micro.run(task, history)
        except BaseException:
            if job is not None:
                left = micro.so_far
                job.leave(left.steps, left.evidence_refs, left.output_paths)
            raise

    async def stop_background(self) -> None:
        """Cancel what ``spawn`` started and wait for its end."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def _on_background_end(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.log.error("background_failed", exc_info=error)
