"""Fetching over http and https: from public addresses only, within limits of size, time and redirects."""

import asyncio
import functools
import zlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from shared.effects import begin_effect
from shared.errors import ActionError
from shared.text.network_errors import NO_NETWORK, format_network_error
from shared.web.address import (
    WebAddress,
    parse_address,
    printable_url,
    resolve,
)
from shared.web.quoting import clean

if TYPE_CHECKING:
    import ssl

    import httpx2

MAX_REDIRECTS = 5
"""How many redirects are followed; browsers allow 20, most pages need one or two."""
MAX_SIZE = 5_000_000
"""The most bytes that are read, also after decompression; a long article has a hundredth of that."""
CONNECT_TIMEOUT = 5.0
"""Seconds to connect to one of several addresses before the next one is tried."""
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
                raise ActionError(f"{place.host} could not be reached: {reason}") from None
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
            kind = _kind(place, response, wanted.kinds)
            return WebResponse(url=place.url, kind=kind, body=await _body(place, response, wanted.size))


@functools.cache
def _trust() -> "ssl.SSLContext":
    """The trusted certificates: read once, since that takes longer than many a request."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


def _kind(place: WebAddress, response: "httpx2.Response", kinds: Collection[str]) -> str:
    if response.status_code != 200:
        phrase = clean(response.reason_phrase, 60)
        raise ActionError(f"{place.url} answers with HTTP status {response.status_code} {phrase}".rstrip())
    kind = str(response.headers.get("content-type", "text/html"))
    if kinds and kind.partition(";")[0].strip().lower() not in kinds:
        raise ActionError(f"{place.url} is {clean(kind, 60)}, not a page of text")
    return kind


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
