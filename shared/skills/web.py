"""Web pages: fetched from public addresses, quoted as material."""

import asyncio
from collections.abc import Collection

from shared.actions import Outcome, register_action
from shared.errors import ActionError
from shared.skills.documents import extract_text
from shared.skills.host import Host
from shared.web.address import parse_place, shown
from shared.web.fetching import fetch
from shared.web.page import ACCEPT, READABLE, Page, read_page
from shared.web.quoting import quote

PDF = "application/pdf"
SIZE = 20_000_000
"""Bytes of a page that are read at most: a paper with its figures; of a page of text a fraction is used."""


class WebSkillMixin:
    """Fetches and reads web pages."""

    @register_action(
        "Fetch one public web page, or a PDF on the web, and read its text",
        {"url": "Its http or https address"},
    )
    async def fetch_page(self: Host, url: str) -> Outcome:
        """The page's main text, quoted, in the output; address, title and links in data key ``page``."""
        await self.progress(f"fetches {shown(url)}")
        page = await fetch_page(url, timeout=self.settings.http_timeout, allowed=self.settings.private_hosts)
        text = f"{page.title}\n\n{page.text}" if page.title else page.text
        data = {"url": page.url, "title": page.title, "links": list(page.links)}
        # where a redirect led, and the address that was asked for: both name this page
        refs = tuple(dict.fromkeys((page.url, parse_place(url).url)))
        return Outcome(output=quote(page.url, text), data={"page": data}, evidence_refs=refs)


async def fetch_page(url: str, *, timeout: float, allowed: Collection[str] = ()) -> Page:
    """Fetch ``url`` and read it, the fetching within ``timeout`` seconds; the limits are those of ``fetch``.

    ``allowed`` are the host:port pairs that may be private. A PDF is taken apart in the jail. Raises
    ActionError with the reason where there is no page.
    """
    answer = await fetch(
        url, timeout=timeout, allowed=allowed, kinds=(*READABLE, PDF), headers=ACCEPT, size=SIZE
    )
    if answer.kind.partition(";")[0].strip().lower() == PDF:
        document = await extract_text(answer.body, "pdf", answer.url)
        return Page(url=answer.url, text=document.text)
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.to_thread(read_page, answer.url, answer.kind, answer.body)
    except TimeoutError:
        raise ActionError(f"{shown(url)} cannot be read within {timeout:g} s") from None
