"""The agents at work."""

import msgspec

from shared.contracts import Presence


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
