"""What an agent's handlers, actions and skills use: bus, memory, models, mail, approvals, current task."""

import asyncio
import difflib
import importlib
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from shared import subjects
from shared.agent.travelling import Travelling
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import CommandConnected, CommandJudged, CommandVerdict, Connection, Task
from shared.errors import ActionError, BusError, ConfigError
from shared.gate.addresses import DEFAULT_PORTS, matches, split_port
from shared.gate.registries import PUBLIC, Registry, open_reach
from shared.llm.config import Role, settings_of
from shared.llm.protocol import Message
from shared.log import logger
from shared.mcp.tools import ServerTools
from shared.memory import Memory
from shared.messaging.approval_requests import Approvals
from shared.messaging.correspondence import RequestReply, Threads
from shared.messaging.delegation import Delegation, Directory, PeerActions, offered_actions
from shared.reasoning.checkpoint import Checkpoints, Talk
from shared.reasoning.loop import AgentLoop, Conclusion
from shared.reasoning.model import ModelSession
from shared.reasoning.tools import FINISH, REST, Caps, Toolbox
from shared.settings import Settings
from shared.tasks.actions import Action, ActionRegistry, Bound
from shared.tasks.context import TaskContext, current_task, require_current_task
from shared.tasks.profiles import Profile
from shared.tasks.said import NewInstructions

if TYPE_CHECKING:
    from shared.policy import Ruling

RESERVED = frozenset({FINISH, REST, *offered_actions(0)})  # Names that no agent's own action may have
MAX_RECORDED_COMMAND = 8_000  # The most characters of a command that are recorded with its verdict

CANCEL_AGAIN = 0.5  # Seconds until background work that goes on in spite of it is cancelled again


class AgentContext:
    """Everything one agent works with, as separate parts; skills and helper functions receive it too."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        self.profile = profile
        self.settings = settings
        self.bus = bus
        self.log = logger(profile.name)
        self.memory = Memory(bus)
        self.actions = ActionRegistry(profile.name, RESERVED)
        self.travelling = Travelling(settings, bus)
        self.models = ModelSession(profile, settings, bus, self.memory)
        self.directory = Directory(bus)
        self.delegation = Delegation(bus)
        self.requests = RequestReply(bus)
        self.threads = Threads(bus, self.requests)
        self.approvals = Approvals(bus, settings.approval_timeout)
        self.tools = ServerTools(
            profile,
            settings,
            self.actions,
            approvals=self.approvals,
            requests=self.requests,
            models=self.models,
        )
        self._peers = ActionRegistry(profile.name)
        self._peers.register(PeerActions(profile.name, self.delegation, self.requests, self.directory))
        self._background: set[asyncio.Task[Any]] = set()

    def require_tools(self) -> None:
        """Raise ConfigError if the profile's ``tools`` name what is no action, with the nearest one."""
        known = [*self.actions, *self._peers]
        for name in self.profile.tools:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                cure = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}"
                raise ConfigError(
                    f"The profile of {self.profile.name!r} has no action {name!r} among its tools", cure
                )

    # --- the current task ------------------------------------------------------------------------

    @property
    def current_task(self) -> TaskContext:
        """The attempt at the task being worked on; raises RuntimeError outside of one."""
        return require_current_task()

    @property
    def task(self) -> Task:
        """The task being worked on, as it was submitted; raises RuntimeError outside of one."""
        return self.current_task.task

    async def progress(self, text: str) -> None:
        """Add a progress note to the task's record; outside of a task it goes to the log."""
        task = current_task.get()
        if task is None:
            self.log.info("progress", note=text)
        else:
            await task.progress(text)

    def effect(
        self, what: str, *, repeatable: bool = False, confined: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Record a side effect outside Mailroom before it happens and after; see Claim.effect.

        Raises ActionError outside of a task, and Reject if an earlier attempt was interrupted during the
        same effect, unless it is ``repeatable``.
        """
        if current_task.get() is None:
            raise ActionError("This has an effect outside the office, so it is only done within a task")
        return self.current_task.effect(what, repeatable=repeatable, confined=confined)

    async def judge_command(self, command: str, workspace: str = "") -> "Ruling":
        """The policy's verdict on a shell command; any verdict but ``allow`` is published as an event.

        Reach that the settings, the profile or a person's earlier grant allow is not asked about.
        """
        from shared import policy

        ruling = await asyncio.to_thread(policy.judge, command, workspace=workspace)
        if ruling.reach:
            granted = covering(ruling.reach, await self.granted_reach())
            ruling = await asyncio.to_thread(policy.judge, command, workspace=workspace, granted=granted)
        return await self._record(ruling)

    def allowed_reach(self) -> tuple[str, ...]:
        """The reach that the settings and the profile allow every command: see Settings.reach."""
        return reach_entries((*self.settings.reach, *self.profile.options.get("reach", ())))

    async def granted_reach(self) -> frozenset[str]:
        """The reach of commands of the current task: what is allowed beforehand, and what people granted."""
        return frozenset(self.allowed_reach()) | await self.approvals.granted_reach()

    async def open_reach(self, ruling: "Ruling", opened: Collection[str] = ()) -> Registry | None:
        """What a command gets that the policy ruled on; ``opened`` is what a person granted for it alone.

        None if it needs no network. Raises ActionError if the person's settings name a malformed host.
        """
        reach = ruling.reach
        if not reach:
            return None
        granted = frozenset(opened) | await self.granted_reach()
        trusted = [entry.removeprefix("host:") for entry in self.allowed_reach() if entry not in PUBLIC]
        return await asyncio.to_thread(open_reach, select_reach(reach, granted), trusted=trusted)

    async def record_connections(self, argv: Sequence[str], connections: Sequence[Connection]) -> None:
        """Publish the connections of a command as an event."""
        task = current_task.get()
        connected = CommandConnected(
            sender=self.bus.name,
            goal_id=task.task.goal_id if task else "",
            task_id=task.task.task_id if task else "",
            command=shlex.join(argv)[:MAX_RECORDED_COMMAND],
            connections=tuple(connections),
        )
        try:
            await self.bus.commit([seal(subjects.event(self.bus.name, "command_connected"), connected)])
        except BusError as error:
            self.log.warning("connections_not_recorded", reason=str(error))

    async def judge_read(self, path: str, *, deep: bool = False, workspace: str = "") -> "Ruling":
        """The policy's verdict on reading a file, or with ``deep`` on copying a folder; as judge_command."""
        from shared import policy

        ruling = await asyncio.to_thread(policy.judge_read, path, deep=deep, workspace=workspace)
        return await self._record(ruling)

    async def _record(self, ruling: "Ruling") -> "Ruling":
        if ruling.verdict is not CommandVerdict.ALLOW:
            task = current_task.get()
            judged = CommandJudged(
                sender=self.bus.name,
                goal_id=task.task.goal_id if task else "",
                task_id=task.task.task_id if task else "",
                command=ruling.command[:MAX_RECORDED_COMMAND],
                verdict=ruling.verdict,
                rule=ruling.rule,
                why=ruling.why,
                reach=ruling.reach,
            )
            await self.bus.commit([seal(subjects.event(self.bus.name, "command_judged"), judged)])
        return ruling

    # --- the agent loop --------------------------------------------------------------------------

    async def run_loop(
        self,
        task: str,
        *,
        actions: Collection[str] | None = None,
        offered: Mapping[str, Bound] | None = None,
        form: Action | None = None,
        role: Role | None = None,
        history: Sequence[Message] = (),
        talk: Talk | None = None,
        persona: str = "",
        key: str = "",
        max_steps: int = 0,
        may_rest: bool = False,
        alone: bool = False,
    ) -> Conclusion:
        """Run an agent loop on ``task``: ask the model, call actions, until it is finished.

        The model may call ``actions`` (default: all of the agent's), or what is ``offered`` in their place,
        and, unless ``alone``, the actions that reach other agents. With a ``form`` for ``finish_task``, the
        conclusion's result is that form filled in, as JSON; one that is wrong is asked for again once. The
        model of a ``role`` is asked, if one is set. Within a task the loop stores checkpoints: another
        attempt resumes from the last one. Raises ActionError with the reason if a limit is hit, the model
        fails, or it makes no progress. A ``talk`` is gone on with in the words that it began with.
        """
        current = current_task.get()
        # Named before anything is awaited, so that concurrent loops get the same names in every attempt.
        name = current.next_key(key or "t") if current else ""
        checkpoints = Checkpoints(self.bus, current, name, self.models.usage) if current else None
        own_tools = (*self.profile.tools, *self.tools.names, READ_SKILL)
        chosen = own_tools if actions is None and self.profile.tools else None
        reaching = offered_actions(current.hops) if current and not alone else ()
        others = [name for name in reaching if chosen is None or name in chosen]
        if others and (present := await self.directory.text(self.profile.name)):
            persona = f"{persona}\n\n# Your colleagues\n\n{present}".strip()
        if current and talk:  # a provider's cache has it by its beginning
            persona, history, current.talk = talk.persona, talk.messages, talk.key
        own = self.actions.select(actions if chosen is None else chosen) if offered is None else offered
        toolbox = Toolbox({**own, **self._peers.select(others)}, may_rest=may_rest, form=form)
        caps = Caps(
            steps=max_steps or self.settings.max_steps,
            tokens=self.settings.task_tokens,
            fruitless=2 if form else Caps().fruitless,
            window=await self.models.conversation_limit(toolbox.offers(), persona),
        )
        told = NewInstructions(self.bus, current).read if current and current.task.goal_id else None
        loop = AgentLoop(self.models.acting(role), toolbox, caps, checkpoints, persona, told)
        try:
            async with self.models.usage.deferring():
                return await loop.run(task, history, goes_on=talk is not None)
        except BaseException:
            if current is not None:
                partial = loop.so_far
                current.record_partial(partial.steps, partial.evidence_refs, partial.output_paths)
            raise

    # --- background work -------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` in the background until the agent stops; exceptions are logged."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._on_background_end)

    async def stop_background(self) -> None:
        """Cancel what ``spawn`` started and wait for its end."""
        while left := set(self._background):
            for task in left:
                task.cancel()
            # asyncio.wait_for loses a cancellation that comes together with its result.
            await asyncio.wait(left, timeout=CANCEL_AGAIN)

    def _on_background_end(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.log.error("background_failed", exc_info=error)


# --- entries of reach -------------------------------------------------------------------------------

HOST = "host:"
NETWORK = "network"  # The entry of a command whose hosts are not known beforehand


def reach_entries(words: Iterable[str]) -> tuple[str, ...]:
    """Words of the settings, registries and hosts, as entries."""
    entries = (word if word in PUBLIC or word.startswith(HOST) else HOST + word for word in words)
    return tuple(dict.fromkeys(entries))


def covering(needed: Iterable[str], granted: Collection[str]) -> tuple[str, ...]:
    """What of ``needed`` the policy may count as granted.

    A grant for unknown hosts opens those that the person named: it covers no other host that a command names.
    """
    wanted = list(needed)
    covered = [entry for entry in wanted if is_granted(entry, granted)]
    unnamed = any(entry.startswith(HOST) and entry not in covered for entry in wanted)
    return tuple(entry for entry in covered if entry != NETWORK or not unnamed)


def select_reach(needed: Collection[str], granted: Collection[str]) -> tuple[str, ...]:
    """What of ``granted`` a command gets that needs ``needed``: that alone, or every granted host."""
    hosts = [entry for entry in granted if NETWORK in needed and entry.startswith(HOST)]
    return tuple(sorted({*(entry for entry in needed if is_granted(entry, granted)), *hosts}))


def is_granted(entry: str, granted: Collection[str]) -> bool:
    """Whether ``entry`` is among ``granted``; a host also if a pattern there means it, with its ports."""
    if entry in granted or not entry.startswith(HOST):
        return entry in granted
    name, port = split_port(entry.removeprefix(HOST))
    patterns = [each.removeprefix(HOST) for each in granted if each.startswith(HOST)]
    ports = (port,) if port else DEFAULT_PORTS
    return all(any(matches(pattern, name, each) for pattern in patterns) for each in ports)


# --- the skills of an agent, from Mailroom or from the agent's own folder ----------------------------
CURE = "Correct 'skills' in its profile.yaml"
SKILL_FILES, READ_SKILL = "shared.skills.skill_files.SkillFiles", "read_skill"
"""The skill that every agent has if there is a folder of skills, and its action."""
ENTRY_POINTS = "mailroom.skills"  # The group under which installed packages name skills
OWN = "mailroom_own_agent"
"""The package of the modules in the agent's own folder: none of them hides a module of another package."""


def offer_modules(folder: Path) -> None:
    """Have ``load_skills`` look for modules in ``folder`` first, for this process."""
    package = ModuleType(OWN)
    package.__path__ = [str(folder)]
    sys.modules[OWN] = package


def load_skills(context: AgentContext) -> list[object]:
    """The skills that the agent's profile or settings name, and that of the folder of skills.

    One is named by its class, or by the entry point of an installed package. Raises ConfigError for one that
    does not exist, is listed twice, or cannot be constructed from a context.
    """
    profile, settings = context.profile, context.settings
    more = settings_of(settings, profile.name).skills
    if twice := [path for path, times in Counter([*profile.skills, *more]).items() if times > 1]:
        raise ConfigError(f"The profile of {profile.name!r} lists the skill {twice[0]!r} twice", CURE)
    if settings.skills_dir and not settings.skills_dir.is_dir():
        raise ConfigError(f"skills_dir is {settings.skills_dir}, which is no folder", "Correct or remove it")
    of_files = [SKILL_FILES] if settings.skills_dir else []
    return [_make(path, context) for path in (*profile.skills, *more, *of_files)]


def _make(path: str, context: AgentContext) -> object:
    try:
        return _skill_class(path, context.profile)(context)
    except TypeError as error:
        raise ConfigError(
            f"The profile of {context.profile.name!r} names {path!r}, which is no skill: {error}", CURE
        ) from None


def _skill_class(path: str, profile: Profile) -> type:
    module_name, _, class_name = path.rpartition(".")
    try:
        if module_name:
            skill = getattr(importlib.import_module(_place(module_name)), class_name)
        else:
            from importlib import metadata  # it imports email

            named = list(metadata.entry_points(group=ENTRY_POINTS, name=path))
            if not named:
                raise ImportError(f"no installed package has the entry point {path!r} of {ENTRY_POINTS}")
            skill = named[0].load()
    except SyntaxError as error:
        raise ConfigError(f"The skill {path!r} of {profile.name!r} is not valid Python: {error}") from None
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"The profile of {profile.name!r} names the skill {path!r}, which does not exist: {error}",
            f"{CURE}; the skills that come with Mailroom are in shared/skills",
        ) from None
    if not isinstance(skill, type):
        raise ConfigError(f"The profile of {profile.name!r} names {path!r} as a skill, which is not a class")
    return skill


def _place(module: str) -> str:
    """The full name of ``module``, which is in the agent's folder, or else importable as it is named."""
    first = module.partition(".")[0]
    own = OWN in sys.modules and first not in {"", "shared"} and find_spec(f"{OWN}.{first}") is not None
    return f"{OWN}.{module}" if own else module
