"""Which web addresses may be fetched: public ones only, checked before and after the name is resolved."""

import asyncio
import ipaddress
import re
import socket
import unicodedata
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from shared.errors import ActionError
from shared.gate.addresses import is_public, parse_ip
from shared.text.network_errors import format_network_error

PRIVATE_SUFFIXES = frozenset(
    "localhost localdomain local internal intranet private corp home lan test invalid example onion alt arpa "
    "svc cluster consul docker localdomain6".split()
)
"""Last labels of names that exist only within a private network (RFC 6761, RFC 6762, RFC 9476)."""

METADATA = frozenset("metadata.goog metadata.packet.net metadata.platformequinix.com".split())
"""Metadata services of clouds, which hold secrets, if their names do not end in a private suffix."""

OTHER_SERVICES = frozenset(
    map(
        int,
        "1433 1521 1719 1720 1723 2049 2375 2376 2379 2380 3306 3389 3659 4045 4190 4222 5060 5061 5432 5900 "
        "6000 6222 6379 6443 6566 6665 6666 6667 6668 6669 6697 8222 9042 9092 9200 9300 10080 10250 10255 "
        "11211 27017".split(),
    )
)
"""Ports above 1023 of other services: blocked by the Fetch standard, data stores, cluster control."""

MAX_ADDRESSES = 4
"""How many addresses of a name are tried, in turn: two of each family."""


LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
UNSAFE = re.compile(r"[\x00-\x20\x7f\\]|%[01][0-9a-f]|%7f|%(?:25)+0[0ad]", re.IGNORECASE)
"""White space, control characters (also encoded, line ends also twice) and backslashes, on which programs
disagree."""


class WebAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a page: its normalised URL, and its host as plain ASCII."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def netloc(self) -> str:
        """The host as in the URL, with the port if it is not the scheme's default."""
        return urlsplit(self.url).netloc

    @property
    def pair(self) -> str:
        """``host:port``, as in Settings.private_hosts."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(url: str) -> WebAddress:
    """The address ``url`` parsed; raises ActionError unless it is a plain http or https address."""
    if len(url) > 4_000 or UNSAFE.search(url):
        raise refusal(url, "it is too long or holds white space, control characters or backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        raise refusal(url, "it cannot be read as an address") from None
    if parts.scheme.lower() not in ("http", "https"):
        raise refusal(url, "only http and https are fetched")
    if "@" in parts.netloc or not host:
        raise refusal(url, "an address needs a host and no user name")
    scheme = parts.scheme.lower()
    port = (443 if scheme == "https" else 80) if port is None else port
    name = _plain_host(url, host)
    return WebAddress(url=_rebuild(parts, scheme, name, port), scheme=scheme, host=name, port=port)


def require_public(place: WebAddress, allowed: Collection[str]) -> None:
    """Raise ActionError if the name or the port of ``place`` is not public."""
    if place.pair in allowed:
        return
    if (place.port < 1024 and place.port not in (80, 443)) or place.port in OTHER_SERVICES:
        raise refusal(place.url, f"port {place.port} belongs to another service than the web")
    address = parse_ip(place.host)
    if address is not None:
        if not is_public(address):
            raise refusal(place.url, f"{address} is not a public address")
        return
    labels = place.host.split(".")
    if not re.search(r"[a-z]", labels[-1]) or re.fullmatch(r"0x[0-9a-f]*", labels[-1]):
        raise refusal(place.url, f"{place.host} is an address in an unusual form")
    if len(labels) < 2 or labels[-1] in PRIVATE_SUFFIXES or place.host in METADATA:
        raise refusal(place.url, f"{place.host} is a name of an inner network")


async def resolve(place: WebAddress, allowed: Collection[str]) -> tuple[str, ...]:
    """The addresses to connect to, at most MOST_ADDRESSES, best first.

    Raises ActionError unless every address of the name is public. The caller connects to these addresses
    only, so a name that resolves differently a second time (DNS rebinding) gains nothing.
    """
    require_public(place, allowed)
    try:
        found = await look_up_host(place.host, place.port)
    except (OSError, UnicodeError) as error:
        cause = f"{place.host} could not be reached: {format_network_error(error)}"
        raise ActionError(cause, "Check the address and the network") from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).split("%")[0]) for entry in found]
    if place.pair not in allowed:
        for address in addresses:
            if not is_public(address):
                raise refusal(place.url, f"{place.host} resolves to {address}, which is not a public address")
    return tuple(dict.fromkeys(str(address) for address in addresses))[:MAX_ADDRESSES]


async def look_up_host(host: str, port: int) -> Sequence[tuple[Any, ...]]:
    """The addresses of a name, as the system resolves it; raises OSError."""
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def refusal(url: str, reason: str) -> ActionError:
    """The error that says why ``url`` is not fetched."""
    cure = "Give the address of a public page; private_hosts in the settings lists exceptions"
    return ActionError(f"{printable_url(url)} is not fetched: {reason}", cure)


def printable_url(url: str) -> str:
    """``url`` without unprintable characters, at most 200 characters."""
    return "".join(c if c.isprintable() else "?" for c in url[:200])


def _plain_host(url: str, host: str) -> str:
    """The host as resolvers see it: compatibility forms folded, one trailing dot dropped, IDNA encoded."""
    if "%" in host:
        raise refusal(url, "its host is encoded or names a network interface")
    name = unicodedata.normalize("NFKC", host).replace("。", ".").lower().removesuffix(".")
    if ":" in name:
        address = parse_ip(name)
        if address is None:
            raise refusal(url, "it cannot be read as an address")
        return str(address)
    if not name.isascii():
        import idna

        try:
            name = idna.encode(name, uts46=True).decode()
        except idna.IDNAError:
            raise refusal(url, "its host is not a valid name") from None
    if not all(LABEL.fullmatch(label) for label in name.split(".")):
        raise refusal(url, "its host is not a valid name")
    return name


def _rebuild(parts: SplitResult, scheme: str, host: str, port: int) -> str:
    netloc = f"[{host}]" if ":" in host else host
    netloc = netloc if port == (443 if scheme == "https" else 80) else f"{netloc}:{port}"
    return parts._replace(scheme=scheme, netloc=netloc, path=parts.path or "/", fragment="").geturl()
