"""The way to the web: addresses that may be fetched, fetching within limits of size and time, services."""

import asyncio
import functools
import ipaddress
import re
import socket
import unicodedata
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit

import msgspec

from shared.effects import begin_effect
from shared.errors import ActionError
from shared.gate.addresses import is_public, parse_ip
from shared.settings import Settings
from shared.text.display import NO_NETWORK, format_network_error
from shared.web.quoting import clean

if TYPE_CHECKING:
    import ssl

    import httpx2


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

MAX_ADDRESSES = 4  # How many addresses of a name are tried, in turn: two of each family


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
        cause = _tell_unreached(place.host, format_network_error(error))
        raise ActionError(cause, "Check the address and the network") from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).split("%")[0]) for entry in found]
    if place.pair not in allowed:
        for address in addresses:
            if not is_public(address):
                raise refusal(place.url, f"{place.host} resolves to {address}, which is not a public address")
    return tuple(dict.fromkeys(str(address) for address in addresses))[:MAX_ADDRESSES]


unreached: ContextVar[Callable[[str], None] | None] = ContextVar("unreached", default=None)
"""Is told of each host to which the network does not lead."""


def _tell_unreached(host: str, reason: str) -> str:
    if tell := unreached.get():
        tell(host)
    return f"{host} could not be reached: {reason}"


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


MAX_REDIRECTS = 5  # How many redirects are followed; browsers allow 20, most pages need one or two
MAX_SIZE = 5_000_000
"""The most bytes that are read, also after decompression; a long article has a hundredth of that."""
CONNECT_TIMEOUT = 5.0  # Seconds to connect to one of several addresses before the next one is tried
HEADERS = {
    "User-Agent": "mailroom",
    # an uncompressed body cannot grow while it is decompressed; some servers compress it anyway
    "Accept-Encoding": "identity",
}
CODINGS = {"": 0, "identity": 0, "gzip": 31, "x-gzip": 31, "deflate": 15}
"""The supported content codings, with zlib's window bits for each."""


class WebResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response; ``url`` is the address after redirects, ``kind`` the content type as it was sent."""

    url: str
    kind: str
    body: bytes


class FetchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted media types, the headers to send, and the most bytes to read."""

    kinds: tuple[str, ...]
    headers: dict[str, str]
    size: int


async def fetch(
    url: str,
    *,
    timeout: float,
    allowed: Collection[str] = (),
    kinds: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
    size: int = MAX_SIZE,
) -> WebResponse:
    """GET ``url`` within ``timeout`` seconds in all and ``size`` bytes; ``kinds`` are accepted media types.

    Every hop is resolved and checked again, and connected to at a checked address; proxies from the
    environment are not used. ``allowed`` are the host:port pairs that may be private. Raises ActionError with
    the reason for anything but a response with status 200.
    """
    wanted = FetchOptions(kinds=tuple(kinds), headers={**HEADERS, **(headers or {})}, size=size)
    place = parse_address(url)
    await begin_effect()
    try:
        async with asyncio.timeout(timeout):
            for _ in range(MAX_REDIRECTS + 1):
                answer = await _ask(place, await resolve(place, allowed), wanted)
                if isinstance(answer, WebResponse):
                    return answer
                place = parse_address(urljoin(place.url, answer))
    except TimeoutError:
        cause = f"{printable_url(url)} did not answer within {timeout:g} s"
        raise ActionError(cause, "Try again later") from None
    raise ActionError(f"{place.url} redirects more than {MAX_REDIRECTS} times")


async def _ask(place: WebAddress, addresses: tuple[str, ...], wanted: FetchOptions) -> str | WebResponse:
    """The target of ``place``'s redirect, or its response, from the first address that connects."""
    import httpx2

    for address in addresses:
        try:
            return await _ask_at(place, address, wanted, last=address == addresses[-1])
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = format_network_error(error)
            if reason == NO_NETWORK:
                raise ActionError(_tell_unreached(place.host, reason)) from None
            if not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
                break
    raise ActionError(f"{printable_url(place.url)} cannot be fetched: {reason}")


async def _ask_at(place: WebAddress, address: str, wanted: FetchOptions, *, last: bool) -> str | WebResponse:
    import httpx2

    host = f"[{address}]" if ":" in address else address
    pinned = httpx2.URL(place.url).copy_with(host=host, port=place.port)
    limit = httpx2.Timeout(None, connect=None if last else CONNECT_TIMEOUT)
    # A client of its own for every hop: a kept connection was verified for another name. No proxy and
    # no netrc from the environment: the address that was checked is the one connected to.
    async with httpx2.AsyncClient(
        trust_env=False, verify=_trust(), timeout=limit, headers={**wanted.headers, "Host": place.netloc}
    ) as client:
        extensions = {"sni_hostname": place.host}
        async with client.stream("GET", pinned, extensions=extensions) as response:
            if response.is_redirect and response.headers.get("location"):
                return str(response.headers["location"])
            kinds = wanted.kinds
            if response.status_code != 200:
                phrase = clean(response.reason_phrase, 60)
                raise ActionError(
                    f"{place.url} answers with HTTP status {response.status_code} {phrase}".rstrip()
                )
            kind = str(response.headers.get("content-type", "text/html"))
            if kinds and kind.partition(";")[0].strip().lower() not in kinds:
                raise ActionError(f"{place.url} is {clean(kind, 60)}, not a page of text")
            return WebResponse(url=place.url, kind=kind, body=await _body(place, response, wanted.size))


@functools.cache
def _trust() -> "ssl.SSLContext":
    """The trusted certificates: read once, since that takes longer than many a request."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


async def _body(place: WebAddress, response: "httpx2.Response", size: int) -> bytes:
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in CODINGS:
        raise ActionError(f"{place.url} sends its text compressed as {clean(coding, 40)}, which is not read")
    unpack = zlib.decompressobj(CODINGS[coding]) if CODINGS[coding] else None
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += unpack.decompress(chunk, size + 1 - len(body)) if unpack else chunk
            if len(body) > size:
                raise ActionError(f"{place.url} is larger than {size:,} bytes")
            if unpack and unpack.eof:  # what follows would be kept, and could go on for ever
                break
    except zlib.error:
        raise ActionError(f"{place.url} sends what cannot be unpacked") from None
    if unpack and not unpack.eof:
        raise ActionError(f"{place.url} ends before its text does")
    return bytes(body)


Shape = TypeVar("Shape")


async def fetch_configured(
    url: str, accept: str, *, timeout: float, private_hosts: Collection[str] = ()
) -> WebResponse:
    """``fetch`` an address from the settings.

    It may be private, since a person chose it; what it redirects to may be private only if it is among
    ``private_hosts``.
    """
    allowed = {parse_address(url).pair, *private_hosts}
    return await fetch(url, timeout=timeout, allowed=allowed, headers={"Accept": accept})


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service: its name in sentences, its address, and the setting of that address."""

    name: str
    url: str
    setting: str
    settings: Settings

    @property
    def place(self) -> str:
        """The name and the host, as in an error; raises ActionError if the address is invalid."""
        return f"{self.name} at {self._address().netloc}"

    def _address(self) -> WebAddress:
        try:
            return parse_address(self.url)
        except ActionError as error:
            cause = f"{self.name} cannot be used: {error.cause}"
            raise ActionError(cause, f"Correct the setting {self.setting}") from None

    async def ask(self, params: Mapping[str, object], *, accept: str = "*/*") -> WebResponse:
        """The response to a query of ``params``; raises ActionError with the reason if there is none."""
        place, joint = self.place, "&" if "?" in self.url else "?"
        url = f"{self.url}{joint}{urlencode({key: str(value) for key, value in params.items()})}"
        try:
            return await fetch_configured(
                url, accept, timeout=self.settings.http_timeout, private_hosts=self.settings.private_hosts
            )
        except ActionError as error:
            # Without the long address of the query.
            if error.cause.startswith(f"{self._address().host} could not be reached"):
                raise ActionError(error.cause, error.cure) from None
            cause = re.sub(re.escape(self._address().url.partition("?")[0]) + r"\S*", "it", error.cause)
            raise ActionError(
                f"{place} cannot be used: {cause}",
                f"Check the network connection and the setting {self.setting}",
            ) from None

    async def ask_json(self, params: Mapping[str, object], shape: type[Shape]) -> Shape:
        """The response decoded as a ``shape``; raises ActionError if it is something else."""
        answer = await self.ask(params, accept="application/json")
        try:
            return msgspec.json.decode(answer.body, type=shape)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ActionError(
                f"{self.place} answered what cannot be read ({clean(str(error))})",
                f"Try again later, or check the setting {self.setting}",
            ) from None
