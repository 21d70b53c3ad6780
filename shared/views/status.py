"""How the office is: its processes, what waits for a person, and the status of everything."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from shared.contracts import ApprovalRequest, DailySpending, DeadLetter, Email, Goal, OfficeState, Presence
from shared.text.times import format_span

State = Literal["running", "starting", "unresponsive", "stopped"]
_DOES = {
    "running": "runs",
    "starting": "is starting",
    "unresponsive": "does not respond",
    "stopped": "is stopped by a signal",
}


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process of ``agent``, and for how many ``seconds`` it has been in its state; 0 if that is not known.

    It is starting until it is ready, unresponsive if its event loop is blocked, and stopped by a signal.
    ``pid`` counts on ``host``; empty: this machine.
    """

    agent: str
    pid: int
    state: State
    seconds: float
    host: str = ""

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        does = f"{self.agent} (process {self.pid}{where}) {_DOES[self.state]}"
        return f"{does} for {format_span(self.seconds)}" if self.seconds else does


class DeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters of an agent wait, and the last of them; ``number`` is that one's."""

    agent: str
    count: int
    number: int
    last: DeadLetter


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for a person, the latest last; what was put aside in the inbox does not.

    ``asking`` are goals that ask their person something before they go on.

    ``bounded`` is whether an agent left so much that its older requests and letters were not looked at.
    """

    approvals: Sequence[ApprovalRequest] = ()
    questions: Sequence[Email] = ()
    dead_letters: Sequence[DeadLetters] = ()
    asking: Sequence[Goal] = ()
    failed_goals: Sequence[Goal] = ()
    bounded: bool = False

    @property
    def count(self) -> int:
        """How many things wait."""
        others = len(self.approvals) + len(self.questions) + len(self.asking) + len(self.failed_goals)
        return others + sum(each.count for each in self.dead_letters)


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's processes, and its mailbox: ``pending`` messages wait, ``in_hand`` are being handled."""

    agent: str
    processes: tuple[Presence, ...]
    pending: int = 0
    in_hand: int = 0


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One of the servers that keep the log: which of its streams it ``leads``, and how it follows the others.

    ``lag`` is how many messages it lacks, ``silent`` the seconds since the one that leads heard of it;
    ``current`` is false if it lacks some, or cannot be reached.
    """

    server: str
    leads: tuple[str, ...] = ()
    lag: int = 0
    silent: float = 0.0
    current: bool = True

    def __str__(self) -> str:
        if not self.current:
            lacks = f" and lacks {self.lag:,} messages" if self.lag else ""
            return f"{self.server} does not follow (heard {format_span(self.silent)} ago){lacks}"
        return f"{self.server} leads {' and '.join(self.leads)}" if self.leads else f"{self.server} follows"


class PersonStanding(msgspec.Struct, frozen=True, kw_only=True):
    """What the goals of a person used today (UTC), how many are open and were submitted; and the limits of
    these (0: none). ``cost`` in US dollars.
    """

    person: str
    tokens: int = 0
    cost: float = 0.0
    open_goals: int = 0
    goals: int = 0
    day_tokens: int = 0
    day_cost: float = 0.0
    most_open: int = 0
    day_goals: int = 0

    def __str__(self) -> str:
        parts = [f"{self.open_goals} of {self.most_open} goals open"] if self.most_open else []
        parts += [f"{self.goals} of {self.day_goals} goals today"] if self.day_goals else []
        parts += [f"{self.tokens:,} of {self.day_tokens:,} tokens today"] if self.day_tokens else []
        parts += [f"${self.cost:.2f} of ${self.day_cost:.2f} today"] if self.day_cost else []
        return ", ".join(parts) or "no limits"

    @property
    def refusal(self) -> str:
        """Why no further goal of the person may begin, with what is left; empty if one may."""
        if self.most_open and self.open_goals >= self.most_open:
            cure = "wait until one ends, or end one with 'mailroom cancel'"
        elif self.day_goals and self.goals >= self.day_goals:
            cure = "tomorrow (UTC) there are as many again"
        elif (self.day_tokens and self.tokens >= self.day_tokens) or (
            self.day_cost and self.cost >= self.day_cost
        ):
            cure = "tomorrow (UTC) there is as much again"
        else:
            return ""
        return f"{self.person} has reached a limit: {self}; {cure}"


class SystemStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of everything; ``stored`` and ``free`` (on the state directory's disk) are bytes.

    ``spent`` is what models used today (UTC) by agent, ``left`` what is left of budgets, ``night`` how the
    night stands, ``people`` what those who have limits used. ``waiting`` is what waits for a person, as the
    page of the inbox has it.
    ``servers`` are those that keep the log, none if it is one alone.
    ``kept_out`` are folders of ``agents_dir`` whose agent is not started, and why. ``troubled`` are processes
    that do not run as they should. ``problems`` are what is wrong with this machine's disk or with the
    server; with ``unread``, the reason, what only the server knows has its default.
    """

    state_dir: str
    free: int
    problems: tuple[str, ...] = ()
    unread: str = ""
    troubled: tuple[Process, ...] = ()
    url: str = ""
    server_version: str = ""
    servers: tuple[Replica, ...] = ()
    state: OfficeState | None = None
    active: dict[str, OfficeState] = {}
    agents: tuple[AgentStatus, ...] = ()
    memory_writes_pending: int = 0
    dead_letters: dict[str, int] = {}
    stored: int = 0
    spent: dict[str, DailySpending] = {}
    left: str = ""
    night: str = ""
    people: tuple[PersonStanding, ...] = ()
    waiting: Waiting = Waiting()
    kept_out: dict[str, str] = {}
