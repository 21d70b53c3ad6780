"""One web page: fetched from a public address, its main text and links taken out."""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urljoin

import msgspec

from services.scout.address import Place, parse_place, resolve, shown
from services.scout.wording import clean
from shared.errors import ActionError

if TYPE_CHECKING:
    import httpx2

REDIRECTS = 5
"""How many redirects are followed; browsers allow 20, pages that people name need one or two."""
SIZE = 5_000_000
"""Bytes of a page that are read at most; the text of a long article is a hundredth of it."""
READABLE = (
    "text/html",
    "application/xhtml+xml",
    "text/plain",
    "text/markdown",
    "application/json",
    "text/x-rst",
)
HEADERS = {
    "User-Agent": "mailroom-scout",
    "Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.1",
    # what is not compressed cannot grow beyond the limit while it is unpacked
    "Accept-Encoding": "identity",
}


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What a page says; ``url`` is where redirects led to, ``links`` lead on from it (at most 50)."""

    url: str
    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()


async def fetch_page(url: str, *, timeout: float, allowed: Collection[str] = ()) -> Page:
    """Fetch ``url`` and read it, within ``timeout`` seconds in all and SIZE bytes.

    Every hop is resolved and checked anew, and connected to by the checked address. ``allowed`` are
    the host:port pairs that may be private. Raises ActionError with the reason where there is no page.
    """
    try:
        async with asyncio.timeout(timeout):
            place, kind, body = await _follow(parse_place(url), allowed)
            return await asyncio.to_thread(_read, place.url, kind, body)
    except TimeoutError:
        raise ActionError(f"{shown(url)} did not answer within {timeout:g} s", "Try again later") from None


async def _follow(place: Place, allowed: Collection[str]) -> tuple[Place, str, bytes]:
    for _ in range(REDIRECTS + 1):
        answer = await _ask(place, await resolve(place, allowed))
        if isinstance(answer, tuple):
            return place, *answer
        place = parse_place(urljoin(place.url, answer))
    raise ActionError(f"{place.url} redirects more than {REDIRECTS} times")


async def _ask(place: Place, address: str) -> str | tuple[str, bytes]:
    """Where ``place`` redirects to, or its content type and body."""
    import httpx2

    host = f"[{address}]" if ":" in address else address
    pinned = httpx2.URL(place.url).copy_with(host=host, port=place.port)
    # A client of its own for every hop: a kept connection was verified for another name. No proxy and
    # no netrc from the environment: the address that was checked is the one connected to.
    async with httpx2.AsyncClient(trust_env=False, headers={**HEADERS, "Host": place.netloc}) as client:
        try:
            async with client.stream("GET", pinned, extensions={"sni_hostname": place.host}) as response:
                if response.is_redirect and response.headers.get("location"):
                    return str(response.headers["location"])
                return _kind(place, response), await _body(place, response)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = clean(str(error), 200) or type(error).__name__
            raise ActionError(f"{shown(place.url)} cannot be fetched: {reason}") from None


def _kind(place: Place, response: "httpx2.Response") -> str:
    if response.status_code != 200:
        raise ActionError(
            f"{place.url} answers {response.status_code} {clean(response.reason_phrase, 60)}".rstrip()
        )
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise ActionError(f"{place.url} sends its text compressed, though it was asked not to")
    kind = str(response.headers.get("content-type", "text/html"))
    if kind.partition(";")[0].strip().lower() not in READABLE:
        raise ActionError(f"{place.url} is {clean(kind, 60)}, not a page of text")
    return kind


async def _body(place: Place, response: "httpx2.Response") -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > SIZE:
            raise ActionError(f"{place.url} is larger than {SIZE:,} bytes")
    return bytes(body)


def _read(url: str, kind: str, body: bytes) -> Page:
    if not kind.lower().startswith(("text/html", "application/xhtml")):
        charset = kind.lower().partition("charset=")[2].strip("\"' ;") or "utf-8"
        try:
            text = body.decode(charset, "replace")
        except LookupError:
            text = body.decode("utf-8", "replace")
        return Page(url=url, text=text)
    from trafilatura import extract
    from trafilatura.utils import load_html

    tree = load_html(body)
    if tree is None:
        return Page(url=url)
    title = clean(tree.findtext(".//title") or "", 300)
    links = tuple(_links(url, [str(anchor.get("href")) for anchor in tree.iter("a") if anchor.get("href")]))
    text = extract(body, url=url, include_comments=False) or _visible(tree)
    return Page(url=url, title=title, text=text, links=links)


def _links(url: str, targets: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for target in targets:
        try:
            link = urldefrag(urljoin(url, target.strip()))[0]
        except ValueError:
            continue
        if link.startswith(("http://", "https://")) and link.isprintable() and len(link) <= 1_000:
            found.setdefault(link)
    found.pop(url, None)
    return list(found)[:50]


def _visible(tree: Any) -> str:
    for element in [*tree.iter("script", "style", "noscript", "template", "head")]:
        element.drop_tree()
    return "\n".join(line for row in tree.text_content().splitlines() if (line := " ".join(row.split())))
