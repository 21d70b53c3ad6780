"""What a skill needs of the agent it is composed with."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from shared.bus import Bus, Entry
from shared.contracts import Task
from shared.memory import Memory
from shared.settings import Settings
from shared.tasks.profile import Profile

if TYPE_CHECKING:
    from shared.sandbox.policy import Ruling


class Work(Protocol):
    """The task an agent works on, as far as skills look at it."""

    @property
    def task(self) -> Task:
        """The task."""

    @property
    def attempt(self) -> int:
        """Which attempt at it this is, from 1."""

    async def progress(self, text: str, others: Sequence[Entry] = ()) -> None:
        """A note for whoever watches, stored in the task's record; ``others`` in the same commit."""


class Host(Protocol):
    """An agent, as the skills it has see it: the type of ``self`` in the methods of a mixin.

    Only a mixin's actions are methods; what they share is functions that take the host.
    """

    profile: Profile
    settings: Settings
    bus: Bus
    memory: Memory
    log: Any

    @property
    def job(self) -> Work:
        """The task being worked on; raises RuntimeError outside of one."""

    async def progress(self, text: str) -> None:
        """A note for whoever watches the task."""

    def effect(self, what: str, *, repeatable: bool = False) -> AbstractAsyncContextManager[None]:
        """Journal something with an effect outside the office around doing it.

        Raises Reject where an earlier attempt began the same and was interrupted, unless ``repeatable``.
        """

    async def judge(self, command: str, workspace: str = "") -> "Ruling":
        """What the policy says of a command; anything but allow is also told to the office."""

    async def ask_approval(self, what: str, *, rule: str = "", why: str = "") -> None:
        """Wait for a person to allow ``what``; raises NotApproved where one refuses, or none answers in time.

        A grant holds for the same ``what`` in the same goal, and a restart finds the same question again.
        """
