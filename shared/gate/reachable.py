"""What a command may connect to: granted hosts and ports, resolved once, public addresses alone."""

import asyncio
import re
import socket

from shared.gate import Session
from shared.gate.addresses import is_public, parse_ip

DEFAULT_PORTS = (80, 443)  # The ports of a granted host that names none
MAX_ADDRESSES = 4  # How many addresses of a name are tried, in turn
NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?")
BAD_GATEWAY, FORBIDDEN, MALFORMED = 502, 403, 400


class Refused(Exception):
    """A request that the gate does not carry out: the HTTP status of the answer, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


def parse_authority(authority: str, default_port: int = 0) -> tuple[str, int]:
    """The host, in lower case and without the brackets of IPv6, and the port; raises Refused."""
    matched = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@/\s]+)(?::([0-9]{1,5}))?", authority)
    if matched is None:
        raise Refused(MALFORMED, "the address is malformed")
    host = matched[1].strip("[]").lower().removesuffix(".")
    port = int(matched[2] or default_port)
    address = parse_ip(host)
    if not 0 < port < 65_536 or (address is None and not NAME.fullmatch(host)):
        raise Refused(MALFORMED, "the address is malformed")
    return (str(address) if address else host), port


def split_port(host: str) -> tuple[str, int]:
    """A host as in Reach.hosts, normalised, and its port, 0 if it names none."""
    matched = re.fullmatch(r"(\[.*\]|[^:]*):([0-9]+)", host)
    name, number = matched.groups() if matched else (host, "0")
    return name.strip("[]").lower().removesuffix("."), int(number)


def matches(pattern: str, host: str, port: int) -> bool:
    """Whether ``pattern``, as in Reach.hosts, means this host and port."""
    name, number = split_port(pattern)
    if port not in ((number,) if number else DEFAULT_PORTS):
        return False
    if name.startswith("*."):
        return parse_ip(host) is None and host.endswith(name[1:])
    return host == name


def require_granted(session: Session, host: str, port: int) -> None:
    """Raise Refused unless ``session`` may reach the host."""
    if not any(matches(pattern, host, port) for pattern in session.hosts):
        raise Refused(FORBIDDEN, f"{host}:{port} is not among the hosts this command may reach")


async def resolve(session: Session, host: str, port: int, *, is_needed: bool = True) -> list[str]:
    """The addresses to connect to; raises Refused unless all addresses of the name are public.

    Only these are connected to, so a name that resolves differently a second time gains nothing. A name that
    cannot be resolved is its own address unless that ``is_needed``.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        if not is_needed:
            return [host]
        raise Refused(BAD_GATEWAY, f"{host} cannot be resolved") from None
    addresses = list(dict.fromkeys(str(entry[4][0]).split("%")[0] for entry in found))
    if not any(matches(pattern, host, port) for pattern in session.private):
        for address in addresses:
            known = parse_ip(address)
            if known is None or not is_public(known):
                raise Refused(FORBIDDEN, f"{host} resolves to {address}, which is not a public address")
    return addresses[:MAX_ADDRESSES]
