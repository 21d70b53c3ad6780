"""Goals, agents, papers and news as lists show them."""

import msgspec

from shared.contracts import Goal, Presence


class Processes(msgspec.Struct, frozen=True, kw_only=True):
    """What each process says of itself; of one agent ``most`` are read at most."""

    processes: list[Presence]
    most: int


class Controlled(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for an agent from now on."""

    agent: str
    do: str
    paused: bool
    by: str
    at: str


class LatestGoals(msgspec.Struct, frozen=True, kw_only=True):
    """Goals, the one that was submitted last at the end, and how many ``others`` there are."""

    goals: list[Goal]
    others: int


class ToldItem(msgspec.Struct, frozen=True, kw_only=True):
    """A paper or an item of news that was told."""

    id: str
    title: str
    text: str = ""
    link: str = ""
    told_at: str = ""


class NewsList(msgspec.Struct, frozen=True, kw_only=True):
    """Items, the latest first."""

    news: list[ToldItem]
