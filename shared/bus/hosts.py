"""The hosts that joined an office: what the office keeps of them, and what a host keeps of itself.

A host is one more user in the accounts of its roles, with a key of its own that never left it, and an account
without rights but those to ask the office (docs/hosts.md).
"""

import functools
import secrets
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from shared.errors import StartError
from shared.files import hold_lock_within, write_atomically

HOSTS = "hosts.json"  # The file beside the office's seeds with the hosts that joined or may join
MEMBERSHIP = "host.json"  # The file beside a host's seeds with what the office told it
HOST_KEY = "@host"  # The name of the key by which a host asks the office; no agent's
LOCK_WAIT = 5.0
T = TypeVar("T")


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A host that joined: the public key by which it asks the office, and one for each of its roles."""

    key: str
    roles: dict[str, str]
    joined_at: str


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """What a token allows: to join once as a host with some of ``roles``, until a second since 1970.

    ``key`` is the public key of the token, ``used_by`` that of the host that joined with it.
    """

    key: str
    roles: tuple[str, ...]
    until: float
    used_by: str = ""


class Hosts(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts of an office, and the invitations that count, by the names of hosts.

    ``probe`` is the seed of a user without rights, another one after each change: a server that lets it in
    knows this list.
    """

    joined: dict[str, Host] = {}
    invited: dict[str, Invitation] = {}
    probe: str = ""

    def keys_of(self, agent: str) -> dict[str, str]:
        """The public keys with which hosts connect as ``agent``, by host."""
        return {name: host.roles[agent] for name, host in self.joined.items() if agent in host.roles}


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """What a host that joined knows: its name, the servers, and what its processes share with the office's.

    ``ids`` is by agent the secret of ``Bus.derive_id``, ``authority`` the certificate of servers that speak
    TLS, ``settings`` are those that are the office's.
    """

    host: str
    servers: str
    roles: tuple[str, ...]
    ids: dict[str, str]
    authority: str = ""
    settings: dict[str, Any] = {}

    def encryption(self) -> dict[str, ssl.SSLContext]:
        """The option of a connection that has it encrypted; none without a certificate."""
        return {"tls": encryption(self.authority)} if self.authority else {}


@functools.cache
def encryption(authority: str) -> ssl.SSLContext:
    """TLS to servers that show this certificate, whatever their address: nobody else has its key."""
    context = ssl.create_default_context(cadata=authority)
    context.check_hostname = False
    return context


def read_hosts(keys: Path) -> Hosts:
    """The hosts of the office whose seeds are in ``keys``; raises StartError if the file cannot be read."""
    return _read(keys / HOSTS, Hosts) or Hosts()


def read_membership(keys: Path) -> Membership | None:
    """What the host whose seeds are in ``keys`` was told; None if it joined no office. Raises StartError."""
    return _read(keys / MEMBERSHIP, Membership)


def write_membership(keys: Path, member: Membership) -> None:
    """Keep it, readable by nobody else."""
    write_atomically(keys / MEMBERSHIP, msgspec.json.encode(member), mode=0o600)


@contextmanager
def changing_hosts(keys: Path) -> Iterator[Hosts]:
    """The hosts, to be changed in place: no other process changes them meanwhile."""
    with hold_lock_within(keys / f".{HOSTS}.lock", LOCK_WAIT):
        hosts = read_hosts(keys)
        before = msgspec.json.encode(hosts)
        yield hosts
        if msgspec.json.encode(hosts) != before:
            hosts = msgspec.structs.replace(hosts, probe=make_seed())
            write_atomically(keys / HOSTS, msgspec.json.encode(hosts), mode=0o600)


def make_seed() -> str:
    """The seed of a new NKey of a user."""
    import nkeys

    seed: bytes = nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER)
    return seed.decode()


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise StartError(f"{path} cannot be read: {error}", "Restore it, or remove it") from None
