"""An agent's system prompt, its SOUL and its briefing, each read again when it may be outdated."""

import asyncio
import time
from collections import deque

from shared.contracts import Briefing, GraphVersion
from shared.errors import MailroomError
from shared.log import logger
from shared.reasoning.persona import compose_prompt, fetch_soul, own_soul
from shared.reasoning.recall import MemoryRecall
from shared.settings import Settings
from shared.tasks.context import current_task
from shared.tasks.profile import Profile

AGE = 30.0
"""Seconds until a part is read again in any case: PromptForge announces nothing, and events can be lost."""
COST_RATIO = 20
"""A SOUL is reused for this multiple of the time it took to read: at most 5 % of the time goes there."""
TASKS = 100
"""Tasks for which it is remembered that the briefing was read."""
UNBRIEFED = frozenset({"turn"})
"""Kinds that no briefing shows: a change of these alone outdates none."""

log = logger(__name__)


class SystemPrompt:
    """Who an agent is, and what it needs to know now.

    The briefing is read again for each task, when memory announces a change that touches it, and after AGE
    seconds. What says the same as before keeps its text, version and all, since providers cache a prompt by
    its beginning.
    """

    def __init__(self, profile: Profile, settings: Settings, recall: MemoryRecall) -> None:
        self._profile = profile
        self._settings = settings
        self._recall = recall
        self._soul, self._soul_until = "", 0.0
        self._briefing: Briefing | None = None
        self._briefing_until = 0.0
        self._changes, self._read = 0, -1
        self._tasks: deque[str] = deque(maxlen=TASKS)

    async def text(self) -> str:
        """The prompt as of now: memory and PromptForge are asked at the same time, for what is outdated."""
        await asyncio.gather(self._read_soul(), self._read_briefing())
        return compose_prompt(self._soul, self._briefing.text if self._briefing else "")

    def apply(self, change: GraphVersion) -> None:
        """Memory announced a change: the briefing is read again if that may touch it."""
        if touches(change, self._profile.name, self._briefing):
            self._changes += 1

    async def _read_soul(self) -> None:
        begun = time.monotonic()
        if self._soul and begun <= self._soul_until:
            return
        soul = await fetch_soul(self._profile.name, self._settings, own_soul(self._profile))
        now = time.monotonic()
        self._soul, self._soul_until = soul.text, now + max(AGE, COST_RATIO * (now - begun))

    async def _read_briefing(self) -> None:
        task = current_task.get()
        task_id = task.task.task_id if task else ""
        known = not task_id or task_id in self._tasks
        if known and self._read == self._changes and time.monotonic() <= self._briefing_until:
            return
        changes = self._changes
        try:
            briefing = await self._recall.brief(self._profile.name, self._settings)
        except MailroomError as error:
            log.warning("no_briefing", agent=self._profile.name, reason=str(error))
            self._briefing = None
        else:
            if self._briefing is None or _content(briefing) != _content(self._briefing):
                self._briefing = briefing
        self._read, self._briefing_until = changes, time.monotonic() + AGE
        if not known:
            self._tasks.append(task_id)


def touches(change: GraphVersion, agent: str, briefing: Briefing | None) -> bool:
    """Whether a change of memory may change what ``agent`` is briefed with.

    It may if it is not known what was changed, if the agent wrote of it, if the briefing shows a node of it,
    or if a kind of it is shown to agents.
    """
    if not (change.kinds or change.agents or change.ids) or agent in change.agents:
        return True
    shown = {node.id for section in briefing.sections for node in section.nodes} if briefing else set()
    return not shown.isdisjoint(change.ids) or not UNBRIEFED.issuperset(change.kinds)


def _content(briefing: Briefing) -> str:
    """Its text without the head, which names its version and time."""
    return briefing.text.partition("\n## ")[2]
