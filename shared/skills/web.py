"""Web pages: fetched from public addresses, quoted as material."""

import asyncio
import codecs
import re
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import urldefrag, urljoin

import msgspec

from shared import subjects
from shared.contracts import Task
from shared.errors import ActionError
from shared.sandbox import check_jail
from shared.skills.documents import Extract, extract_in_jail, extract_text
from shared.skills.extraction import extract_html
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action
from shared.tasks.context import current_task
from shared.tasks.said import is_address_named, strings_in
from shared.web.fetching import WebResponse, fetch, parse_address, printable_url
from shared.web.quoting import clean, quote

PDF = "application/pdf"
SIZE = 20_000_000
"""Bytes of a page that are read at most: a paper with its figures; of a page of text a fraction is used."""

HARMLESS, HARMLESS_TAGS, LONG_TAG = 1_000_000, 30_000, re.compile(rb"<[^>]{20000}")
"""Bytes, tags and a tag of a page that is read without the jail: what takes a moment, whatever is in it."""


READABLE = (
    "text/html text/plain text/markdown text/x-rst text/csv text/xml "
    "application/xhtml+xml application/json application/xml application/yaml"
).split()
"""Media types that are read as pages; all but HTML are taken as plain text."""
NO_PAGE = ("idna", "punycode")  # Codecs for host names, which are far too slow for a page
ACCEPT = {"Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.1"}


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a page; ``url`` is its address after redirects, ``links`` are at most 50."""

    url: str
    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()


class WebSkill(Skill):
    """Fetches and reads web pages."""

    @register_action(
        "Fetch one public web page, or a PDF on the web, and read its text",
        {"url": "Its http or https address"},
    )
    async def fetch_page(self, url: str) -> Outcome:
        """The page's main text, quoted, in the output; address, title and links in data key ``page``."""
        self._require_named(url)
        await self.context.progress(f"fetches {printable_url(url)}")
        page = await fetch_page(
            url, timeout=self.context.settings.http_timeout, allowed=self.context.settings.private_hosts
        )
        if not page.text.strip():
            raise ActionError(f"{printable_url(page.url)} has no text to read", "Look at it in a browser")
        text = f"{page.title}\n\n{page.text}" if page.title else page.text
        data = {"url": page.url, "title": page.title, "links": list(page.links)}
        # where a redirect led, and the address that was asked for: both name this page
        refs = tuple(dict.fromkeys((page.url, parse_address(url).url)))
        note_found((page.url, *page.links))
        return Outcome(output=quote(page.url, text), data={"page": data}, evidence_refs=refs)

    def _require_named(self, url: str) -> None:
        """Raise ActionError if a model made up the address, which could send what it read elsewhere."""
        current = current_task.get()
        if current is None or is_address_named(url, current.task):
            return
        if urldefrag(url)[0] not in {*current.found, *_found_before(current.task)}:
            raise ActionError(
                f"{printable_url(url)} is not fetched: no person named it, and it was not found in this task",
                "Name it, or its host, in the request; or search for it first",
            )


def note_found(addresses: Iterable[str]) -> None:
    """Note the addresses that a search or a page showed in the current task, which may be fetched in it."""
    if (current := current_task.get()) is not None:
        current.found.update(urldefrag(address)[0] for address in addresses)


def _found_before(task: Task) -> set[str]:
    """The addresses that earlier tasks of the same agent found, whose results the conductor hands on."""
    inputs = task.context.get("inputs") if task.requester == subjects.CONDUCTOR else None
    results = inputs.values() if isinstance(inputs, Mapping) else ()
    own = [each for each in results if isinstance(each, Mapping) and each.get("agent") == task.assignee]
    return {text for each in own for text in strings_in([each.get("evidence_refs"), each.get("metadata")])}


async def fetch_page(url: str, *, timeout: float, allowed: Collection[str] = ()) -> Page:
    """Fetch ``url`` within ``timeout`` seconds and read it within as many; the limits are those of ``fetch``.

    ``allowed`` are the host:port pairs that may be private. HTML and PDF are taken apart in the jail; if
    it does not work, only HTML that is small. Raises ActionError with the reason if there is no page.
    """
    answer = await fetch(
        url, timeout=timeout, allowed=allowed, kinds=(*READABLE, PDF), headers=ACCEPT, size=SIZE
    )
    if answer.kind.lower().startswith(("text/html", "application/xhtml")):
        extract = await _read_html(answer, timeout)
        # The targets of links on the page at url as absolute web addresses: at most 50, each once
        found: dict[str, None] = {}
        for target in extract.links:
            try:
                link = urldefrag(urljoin(answer.url, target.strip()))[0]
            except ValueError:
                continue
            if link.startswith(("http://", "https://")) and link.isprintable() and len(link) <= 1_000:
                found.setdefault(link)
        found.pop(answer.url, None)
        links = tuple(found)[:50]
        return Page(url=answer.url, title=clean(extract.title, 300), text=extract.text, links=links)
    if answer.kind.partition(";")[0].strip().lower() == PDF:
        return Page(url=answer.url, text=(await extract_text(answer.body, "pdf", answer.url)).text)
    return Page(url=answer.url, text=_decode_text(answer.kind, answer.body))


async def _read_html(answer: WebResponse, timeout: float) -> Extract:
    body = _recode_html(answer.kind, answer.body)
    if not await check_jail():
        return await extract_in_jail(body, "html", answer.url, timeout)
    if len(body) > HARMLESS or body.count(b"<") > HARMLESS_TAGS or LONG_TAG.search(body):
        raise ActionError(
            f"{answer.url} could keep its reader busy, and there is no jail to read it in",
            "'mailroom doctor' says why the jail does not work here",
        )
    return msgspec.convert(await asyncio.to_thread(extract_html, body), Extract)


def _recode_html(kind: str, body: bytes) -> bytes:
    """``body`` in UTF-8 if its content type names a valid character set, else as it is.

    The content type takes precedence over the page's own declaration.
    """
    charset = _charset(kind)
    try:
        return body.decode(charset).encode() if charset else body
    except (LookupError, UnicodeError):
        return body


def _decode_text(kind: str, body: bytes) -> str:
    """``body`` decoded by its content type, else as UTF-8; invalid bytes are replaced."""
    try:
        return body.decode(_charset(kind) or "utf-8", "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")


def _charset(kind: str) -> str:
    """Python's name of the character set of a content type; empty if it has no valid one."""
    named = kind.lower().partition("charset=")[2].partition(";")[0].strip("\"' ")
    try:
        charset = codecs.lookup(named).name
    except LookupError:
        return ""
    return "" if charset in NO_PAGE else charset
