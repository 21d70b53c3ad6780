"""Who speaks, as the broker says, and what may be done at that word.

An agent acts with rights of its own when another writes to it. What is a person's - reminders, mail, the
calendar, schedules, the queue of the night, what the office did for them - is told, changed and used at a
person's word alone, whatever a message says of its sender.
"""

from contextvars import ContextVar

import msgspec

from shared import subjects
from shared.contracts import Task

WITNESSES = frozenset((subjects.CONDUCTOR, subjects.NEXUS, subjects.CORTEX))
"""The agents whose word counts for what people said: goals, mail to the front desk and overnight jobs come
to them."""
ASK_YOURSELF = "Have a person ask at the front desk"


class Speaker(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is ``user`` or an agent; ``is_own``: an agent works on its own account, at nobody's word."""

    name: str
    is_own: bool = False

    @classmethod
    def of(cls, task: Task) -> "Speaker":
        """Who is behind a task: its requester, or whom a witness or the assignee itself wants it for."""
        own = task.requester == task.assignee
        name = (task.asker if own or task.requester in WITNESSES else "") or task.requester
        return cls(name=name, is_own=own and name == task.assignee)

    @property
    def is_person(self) -> bool:
        """Whether it is one of the people."""
        return self.name == subjects.USER

    def may(self, *, personal: bool, writes: bool = False) -> bool:
        """Whether it may have that done which is ``personal`` or ``writes`` in a person's name."""
        return self.is_person or self.is_own or not (personal or writes)

    def refuse(self, what: str) -> str:
        """Why ``what`` is not done for an agent."""
        return f"{what} is for people alone, and {self.name} is an agent: nothing was read or changed for it"


current_speaker: ContextVar[Speaker | None] = ContextVar("current_speaker", default=None)
"""Who is behind the task that is worked on."""
