"""What a command may reach beyond its jail."""

import re

import msgspec

from shared.errors import ActionError

HOST = re.compile(
    r"(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?(:[0-9]{1,5})?|\[[0-9a-f:.]+\](:[0-9]{1,5})?",
    re.IGNORECASE,
)
LOOPBACK = re.compile(r"localhost\b|127\.|\[::1\]")


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that a command may connect to, through the gate; none by default.

    A host is ``example.org``, ``*.example.org`` for all below it, or an IP address (IPv6 in brackets), each
    with ``:port`` or else for ports 80 and 443. Those that ``allow_private`` repeats may have private
    addresses. ``max_bytes`` are those of all connections together, in both directions.

    Raises ActionError if a host is malformed.
    """

    hosts: tuple[str, ...] = ()
    allow_private: tuple[str, ...] = ()
    max_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        for host in (*self.hosts, *self.allow_private):
            if not HOST.fullmatch(host):
                raise ActionError(
                    f"{host[:100]!r} is not a host", "Give a name, as in example.org or *.example.org:8443"
                )

    @property
    def has_loopback(self) -> bool:
        """Whether a host of it is this machine itself, as a registry that runs here."""
        return any(map(LOOPBACK.match, self.hosts))

    def join(self, other: "Reach") -> "Reach":
        """What either may reach."""
        return Reach(
            hosts=tuple(dict.fromkeys((*self.hosts, *other.hosts))),
            allow_private=tuple(dict.fromkeys((*self.allow_private, *other.allow_private))),
            max_bytes=max(self.max_bytes, other.max_bytes),
        )
