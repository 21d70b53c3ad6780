"""Scout: reads repositories, documents and web pages."""

import asyncio
from pathlib import Path

from services.scout.page import fetch_page
from services.scout.quoting import quote
from services.scout.reading import open_document
from services.scout.repository import describe, read_repository, sources
from shared.actions import Outcome, register_action
from shared.agent import BaseAgent
from shared.process import run


class Scout(BaseAgent):
    """Reads repositories, documents and web pages; every statement names its source."""

    @register_action(
        "Read a repository's documents and structure: what it is, how it is built, what is left open",
        {"repo": "Absolute path of the repository"},
    )
    async def read_repository(self, repo: str) -> Outcome:
        """The RepositoryReading in data key ``reading``; nothing in the repository is run or changed."""
        reading = await asyncio.to_thread(read_repository, Path(repo))
        return Outcome(
            output=describe(reading), data={"reading": reading.to_dict()}, evidence_refs=sources(reading)
        )

    @register_action(
        "Read a document: Markdown, reStructuredText or plain text", {"path": "Absolute path of the document"}
    )
    async def read_document(self, path: str) -> Outcome:
        """The text, quoted, in the output; the outline in data key ``outline``."""
        document = await asyncio.to_thread(open_document, Path(path))
        headings = [
            {"title": section.title, "line": section.line} for section in document.sections if section.title
        ]
        return Outcome(
            output=quote(path, document.text),
            data={"outline": headings, "lines": document.lines},
            evidence_refs=(f"{path}:1",),
        )

    @register_action("Read one public web page", {"url": "Its http or https address"})
    async def read_page(self, url: str) -> Outcome:
        """The page's main text, quoted, in the output; address, title and links in data key ``page``."""
        page = await fetch_page(url, timeout=self.settings.http_timeout, allowed=self.settings.private_hosts)
        text = f"{page.title}\n\n{page.text}" if page.title else page.text
        data = {"url": page.url, "title": page.title, "links": list(page.links)}
        return Outcome(output=quote(page.url, text), data={"page": data}, evidence_refs=(page.url,))


if __name__ == "__main__":
    run(Scout, __file__)
