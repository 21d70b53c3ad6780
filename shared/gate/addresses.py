"""Which addresses a command may connect to: public ones alone, of hosts and ports that were granted."""

import asyncio
import ipaddress
import re
import socket

from shared.gate import Session

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

REFUSED = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # Azure's platform channel: a public number, reachable only from inside
            "192.0.0.0/24",  # RFC 6890: IETF protocol assignments
            "192.88.99.0/24",  # RFC 7526: relays of 6to4
            "2001::/23",  # RFC 2928: protocol assignments, Teredo among them, which carries an IPv4 address
            "2002::/16",  # RFC 3056: 6to4, which carries an IPv4 address
            "3fff::/20",  # RFC 9637: documentation
        ),
    )
)
"""Networks refused beside those that IANA's registries list as not global."""

UNICAST = ipaddress.ip_network("2000::/3")
"""RFC 4291: all of IPv6 that is routed between networks; what maps or translates IPv4 lies outside."""

ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214: the middle of interface identifiers that carry an IPv4 address


def parse_ip(host: str) -> Address | None:
    """``host`` as an IP address, None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if any(address.version == network.version and address in network for network in REFUSED):
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return True
    return address in UNICAST and (int(address) >> 32) & 0xFFFFFFFF not in ISATAP


# --- what a command may connect to: granted hosts and ports, resolved once ---------------------------
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
