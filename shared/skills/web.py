"""Web pages: fetched from public addresses, quoted as material."""

import asyncio
import re
from collections.abc import Collection

import msgspec

from shared.errors import ActionError
from shared.sandbox import check_jail
from shared.skills.documents import Extract, extract_in_jail, extract_text
from shared.skills.extraction import take_html
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action
from shared.web.address import parse_address, printable_url
from shared.web.fetching import WebResponse, fetch
from shared.web.page import ACCEPT, READABLE, Page, decode_text, follow_links, is_html, recode_html
from shared.web.quoting import clean, quote

PDF = "application/pdf"
SIZE = 20_000_000
"""Bytes of a page that are read at most: a paper with its figures; of a page of text a fraction is used."""

HARMLESS, HARMLESS_TAGS, LONG_TAG = 1_000_000, 30_000, re.compile(rb"<[^>]{20000}")
"""Bytes, tags and a tag of a page that is read without the jail: what takes a moment, whatever is in it."""


class WebSkill(Skill):
    """Fetches and reads web pages."""

    @register_action(
        "Fetch one public web page, or a PDF on the web, and read its text",
        {"url": "Its http or https address"},
    )
    async def fetch_page(self, url: str) -> Outcome:
        """The page's main text, quoted, in the output; address, title and links in data key ``page``."""
        await self.context.progress(f"fetches {printable_url(url)}")
        page = await fetch_page(
            url, timeout=self.context.settings.http_timeout, allowed=self.context.settings.private_hosts
        )
        text = f"{page.title}\n\n{page.text}" if page.title else page.text
        data = {"url": page.url, "title": page.title, "links": list(page.links)}
        # where a redirect led, and the address that was asked for: both name this page
        refs = tuple(dict.fromkeys((page.url, parse_address(url).url)))
        return Outcome(output=quote(page.url, text), data={"page": data}, evidence_refs=refs)


async def fetch_page(url: str, *, timeout: float, allowed: Collection[str] = ()) -> Page:
    """Fetch ``url`` within ``timeout`` seconds and read it within as many; the limits are those of ``fetch``.

    ``allowed`` are the host:port pairs that may be private. HTML and PDF are taken apart in the jail; if
    it does not work, only HTML that is small. Raises ActionError with the reason if there is no page.
    """
    answer = await fetch(
        url, timeout=timeout, allowed=allowed, kinds=(*READABLE, PDF), headers=ACCEPT, size=SIZE
    )
    if is_html(answer.kind):
        extract = await _read_html(answer, timeout)
        links = follow_links(answer.url, extract.links)
        return Page(url=answer.url, title=clean(extract.title, 300), text=extract.text, links=links)
    if answer.kind.partition(";")[0].strip().lower() == PDF:
        return Page(url=answer.url, text=(await extract_text(answer.body, "pdf", answer.url)).text)
    return Page(url=answer.url, text=decode_text(answer.kind, answer.body))


async def _read_html(answer: WebResponse, timeout: float) -> Extract:
    body = recode_html(answer.kind, answer.body)
    if not await check_jail():
        return await extract_in_jail(body, "html", answer.url, timeout)
    if len(body) > HARMLESS or body.count(b"<") > HARMLESS_TAGS or LONG_TAG.search(body):
        raise ActionError(
            f"{answer.url} could keep its reader busy, and there is no jail to read it in",
            "'mailroom doctor' says why the jail does not work here",
        )
    return msgspec.convert(await asyncio.to_thread(take_html, body), Extract)
