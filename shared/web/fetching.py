"""Fetching over http and https: from public addresses only, within limits of size, time and redirects."""

import asyncio
import functools
import zlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from shared.errors import ActionError
from shared.web.address import Place, parse_place, resolve, shown
from shared.web.quoting import clean

if TYPE_CHECKING:
    import ssl

    import httpx2

REDIRECTS = 5
"""How many redirects are followed; browsers allow 20, pages that people name need one or two."""
SIZE = 5_000_000
"""Bytes that are read at most, unpacked ones too; the text of a long article is a hundredth of it."""
CONNECT = 5.0
"""Seconds one address of several has to take a connection before the next one is tried."""
HEADERS = {
    "User-Agent": "mailroom",
    # what is not compressed cannot grow while it is unpacked; some servers compress all the same
    "Accept-Encoding": "identity",
}
PACKED = {"": 0, "identity": 0, "gzip": 31, "x-gzip": 31, "deflate": 15}
"""The codings that are understood, with the window bits zlib has for them."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back; ``url`` is where redirects led to, ``kind`` its content type as it was sent."""

    url: str
    kind: str
    body: bytes


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, and how much of it is taken: the media types, the headers sent, the bytes."""

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
    size: int = SIZE,
) -> Answer:
    """GET ``url`` within ``timeout`` seconds in all and ``size`` bytes; ``kinds`` are the media types taken.

    Every hop is resolved and checked anew, and connected to by a checked address; proxies of the environment
    are not asked. ``allowed`` are the host:port pairs that may be private. Raises ActionError with the
    reason for whatever is not an answer of status 200.
    """
    try:
        async with asyncio.timeout(timeout):
            wanted = Wanted(kinds=tuple(kinds), headers={**HEADERS, **(headers or {})}, size=size)
            return await _follow(parse_place(url), allowed, wanted)
    except TimeoutError:
        raise ActionError(f"{shown(url)} did not answer within {timeout:g} s", "Try again later") from None


async def _follow(place: Place, allowed: Collection[str], wanted: Wanted) -> Answer:
    for _ in range(REDIRECTS + 1):
        answer = await _ask(place, await resolve(place, allowed), wanted)
        if isinstance(answer, Answer):
            return answer
        place = parse_place(urljoin(place.url, answer))
    raise ActionError(f"{place.url} redirects more than {REDIRECTS} times")


async def _ask(place: Place, addresses: tuple[str, ...], wanted: Wanted) -> str | Answer:
    """Where ``place`` redirects to, or its answer, from the first address that takes a connection."""
    import httpx2

    for address in addresses:
        try:
            return await _ask_at(place, address, wanted, last=address == addresses[-1])
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            reason = _reason(error)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = _reason(error)
            break
    raise ActionError(f"{shown(place.url)} cannot be fetched: {reason}")


async def _ask_at(place: Place, address: str, wanted: Wanted, *, last: bool) -> str | Answer:
    import httpx2

    host = f"[{address}]" if ":" in address else address
    pinned = httpx2.URL(place.url).copy_with(host=host, port=place.port)
    limit = httpx2.Timeout(None, connect=None if last else CONNECT)
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
            return Answer(url=place.url, kind=kind, body=await _body(place, response, wanted.size))


@functools.cache
def _trust() -> "ssl.SSLContext":
    """The certificates that are trusted: read once, since it takes longer than many a fetch."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


def _kind(place: Place, response: "httpx2.Response", kinds: Collection[str]) -> str:
    if response.status_code != 200:
        told = clean(response.reason_phrase, 60)
        raise ActionError(f"{place.url} answers with HTTP status {response.status_code} {told}".rstrip())
    kind = str(response.headers.get("content-type", "text/html"))
    if kinds and kind.partition(";")[0].strip().lower() not in kinds:
        raise ActionError(f"{place.url} is {clean(kind, 60)}, not a page of text")
    return kind


async def _body(place: Place, response: "httpx2.Response", size: int) -> bytes:
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in PACKED:
        raise ActionError(f"{place.url} sends its text compressed as {clean(coding, 40)}, which is not read")
    unpack = zlib.decompressobj(PACKED[coding]) if PACKED[coding] else None
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


def _reason(error: Exception) -> str:
    return clean(str(error), 200) or type(error).__name__
