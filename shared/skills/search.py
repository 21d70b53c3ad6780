"""Searching the web: with a SearXNG server if one is configured, else with ddgs."""

import asyncio
import math
from typing import Any

import msgspec

from shared.effects import begin_effect
from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.skill import Skill
from shared.skills.web import note_found
from shared.tasks.actions import Outcome, register_action
from shared.text.display import format_network_error
from shared.web.fetching import Service
from shared.web.quoting import clean, quote

MOST = 30  # The most results one search gives


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A page found by a search: its address, its title and an excerpt."""

    url: str
    title: str
    excerpt: str = ""


class _Hit(msgspec.Struct):
    url: str
    title: str | None = ""
    content: str | None = ""


class _Hits(msgspec.Struct):
    results: list[_Hit]


class SearchSkill(Skill):
    """Searches the web."""

    @register_action(
        "Search the web; the results are addresses to fetch, not yet something to cite",
        {"query": "What to look for, in a few words", "max_results": "How many results at most, 1 to 30"},
    )
    async def search_web(self, query: str, max_results: int = 8) -> Outcome:
        """The results, quoted, in the output and in data key ``results``; none is an answer, not an error."""
        await self.context.progress(f"searches the web for {clean(query, 100)!r}")
        results = await search(query, max_results, self.context.settings)
        note_found(result.url for result in results)
        entries = [f"{result.title}\n{result.url}\n{result.excerpt}\n" for result in results]
        output = (
            quote(f"a search for {query!r}", "\n".join(entries))
            if entries
            else f"The search gave no results for {query!r}."
        )
        return Outcome(output=output, data={"results": [msgspec.to_builtins(result) for result in results]})


async def search(query: str, max_results: int, settings: Settings) -> list[SearchResult]:
    """The pages found for ``query``, best first, each once; ActionError if no search engine answers."""
    if not query.strip():
        raise ActionError("There is nothing to search for", "Give a few words")
    if not 1 <= max_results <= MOST:
        raise ActionError(f"max_results is {max_results}", f"Ask for 1 to {MOST} results")
    ask = _ask_searxng if settings.search_url else _ask_ddgs
    found: dict[str, SearchResult] = {}
    for url, title, excerpt in await ask(query.strip()[:400], max_results, settings):
        if url.startswith(("http://", "https://")) and url.isprintable() and len(url) <= 1_000:
            found.setdefault(url, SearchResult(url=url, title=clean(title, 200), excerpt=clean(excerpt)))
    return list(found.values())[:max_results]


async def _ask_searxng(query: str, _: int, settings: Settings) -> list[tuple[str, str, str]]:
    base = settings.search_url.rstrip("/")
    service = Service(
        name="The search service",
        url=base if base.endswith("/search") else f"{base}/search",
        setting="search_url (a SearXNG server has to allow the format json)",
        settings=settings,
    )
    answer = await service.ask_json({"q": query, "format": "json"}, _Hits)
    return [(hit.url, hit.title or "", hit.content or "") for hit in answer.results]


async def _ask_ddgs(query: str, max_results: int, settings: Settings) -> list[tuple[str, str, str]]:
    await begin_effect()
    try:
        async with asyncio.timeout(settings.http_timeout):
            hits = await asyncio.to_thread(_search_ddgs, query, max_results, settings.http_timeout)
    except TimeoutError:
        raise _unreachable(f"no answer within {settings.http_timeout:g} s") from None
    return [(str(hit.get("href", "")), str(hit.get("title", "")), str(hit.get("body", ""))) for hit in hits]


def _search_ddgs(query: str, max_results: int, timeout: float) -> list[dict[str, Any]]:
    from ddgs import DDGS
    from ddgs.exceptions import DDGSException

    try:
        return DDGS(timeout=max(1, math.ceil(timeout))).text(query, max_results=max_results)
    except DDGSException as error:
        if "No results found" in str(error):
            return []
        raise _unreachable(format_network_error(error)) from None


def _unreachable(cause: str) -> ActionError:
    return ActionError(
        f"The search engines cannot be reached ({cause})",
        "Check the network connection, or name a SearXNG server in the setting search_url",
    )
