"""The full texts of papers: their PDFs, fetched by the rules of the web and taken apart in the jail."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.documents import extract_text
from shared.web.fetching import fetch_configured
from shared.web.quoting import clean

MAX_TEXT = 12_000  # Characters of a paper that are kept: its beginning, and its end, where it concludes
SECONDS = 60.0  # Seconds for fetching one and taking it apart


async def read_full_texts(
    papers: Sequence[Mapping[str, Any]], most: int, settings: Settings
) -> tuple[dict[str, str], list[str]]:
    """The texts of the first ``most`` papers by their arXiv ids, and a sentence for each that was not read.

    They come from the host of the setting arxiv_url, or from arXiv's own if that is arXiv.
    """
    chosen = list(papers)[:most]
    answers = await asyncio.gather(*(_read(paper, settings) for paper in chosen))
    found = {str(paper["arxiv_id"]): text for paper, (text, _) in zip(chosen, answers, strict=True) if text}
    return found, list(dict.fromkeys(problem for _, problem in answers if problem))


async def _read(paper: Mapping[str, Any], settings: Settings) -> tuple[str, str]:
    url = pdf_address(paper, settings.arxiv_url)
    try:
        async with asyncio.timeout(SECONDS):
            answer = await fetch_configured(
                url, "application/pdf", timeout=settings.http_timeout, private_hosts=settings.private_hosts
            )
            extract = await extract_text(answer.body, "pdf", url)
    except ActionError as error:
        return "", f"The text of arXiv:{paper['arxiv_id']} was not read: {clean(error.cause, 200)}"
    except TimeoutError:
        return "", f"The text of arXiv:{paper['arxiv_id']} was not read within {SECONDS:g} s"
    return cut_text(extract.text), ""


def pdf_address(paper: Mapping[str, Any], arxiv_url: str) -> str:
    """Where a paper's PDF is: with arXiv, or at the mirror that is set."""
    place = urlsplit(arxiv_url)
    if (place.hostname or "").endswith("arxiv.org"):
        return str(paper["pdf_url"])
    return f"{place.scheme}://{place.netloc}/pdf/{paper['arxiv_id']}"


def cut_text(text: str) -> str:
    """The beginning of a text and its end, on one line."""
    whole = clean(text, 10 * MAX_TEXT)
    if len(whole) <= MAX_TEXT:
        return whole
    return f"{whole[: 2 * MAX_TEXT // 3]} ... {whole[-MAX_TEXT // 3 :]}"
