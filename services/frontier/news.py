"""News from RSS and Atom feeds: read together, newest first; a broken one does not stop the others."""

import asyncio
import calendar
import io
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from shared.errors import ActionError

LARGEST = 5_000_000
"""The most bytes of a feed that are read."""

SUMMARY = 500
"""The longest summary of an item, in characters."""

TRACKING = re.compile(r"utm_\w+|fbclid|gclid|mc_[ce]id")


class News(msgspec.Struct, frozen=True, kw_only=True):
    """Items (title, link, published, source, summary), newest first, and a sentence for each broken feed."""

    items: tuple[dict[str, Any], ...] = ()
    problems: tuple[str, ...] = ()


async def read_news(feeds: Sequence[str], max_items: int, *, timeout: float) -> News:
    """The newest ``max_items`` items of ``feeds`` without duplicates; each feed has ``timeout`` seconds."""
    import httpx2

    headers = {
        "User-Agent": "mailroom",
        "Accept": "application/rss+xml, application/atom+xml, application/xml;q=0.9",
    }
    async with httpx2.AsyncClient(follow_redirects=True, max_redirects=5, headers=headers) as client:
        answers = await asyncio.gather(*(_read_feed(client, url, timeout) for url in feeds))
    items = [item for found, _ in answers for item in found]
    newest = sorted(items, key=lambda item: str(item["published"]), reverse=True)
    problems = tuple(problem for _, problem in answers if problem)
    return News(items=tuple(drop_duplicates(newest))[:max_items], problems=problems)


async def _read_feed(client: Any, url: str, timeout: float) -> tuple[list[dict[str, Any]], str]:
    try:
        body, media_type, final_url = await _fetch(client, url, timeout)
        return await asyncio.to_thread(parse_feed, body, final_url, media_type)
    except ActionError as error:
        return [], str(error)


async def _fetch(client: Any, url: str, timeout: float) -> tuple[bytes, str, str]:
    import httpx2

    try:
        async with asyncio.timeout(timeout), client.stream("GET", url, timeout=None) as response:
            if response.status_code != 200:
                raise ActionError(f"The feed {url} answered with HTTP status {response.status_code}")
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > LARGEST:
                    raise ActionError(f"The feed {url} is longer than {LARGEST:,} bytes")
            return bytes(body), response.headers.get("content-type", ""), str(response.url)
    except TimeoutError:
        raise ActionError(f"The feed {url} gave no answer within {timeout:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ActionError(
            f"The feed {url} cannot be reached ({str(error) or type(error).__name__})"
        ) from None


def parse_feed(body: bytes, url: str, media_type: str = "") -> tuple[list[dict[str, Any]], str]:
    """The items in ``body``, and what is wrong with it: of a damaged feed the items before the damage.

    Raises ActionError where it is not a feed, or one that is damaged before its first item.
    """
    import feedparser

    headers = {"content-location": url} | ({"content-type": media_type} if media_type else {})
    # A file object, since feedparser takes bare bytes for the name of a file to open.
    feed = feedparser.parse(io.BytesIO(body), response_headers=headers)
    harmless = (feedparser.CharacterEncodingOverride, feedparser.NonXMLContentType)
    broken = feed.bozo and not isinstance(feed.get("bozo_exception"), harmless)
    if not feed.get("version"):
        raise ActionError(f"The feed {url} is neither RSS nor Atom")
    if broken and not feed.entries:
        raise ActionError(f"The feed {url} is damaged ({feed.bozo_exception})")
    source = strip_markup(feed.feed.get("title", "")) or urlsplit(url).netloc
    items = [item for entry in feed.entries if (item := _item(entry, source))]
    problem = (
        f"The feed {url} is damaged ({feed.bozo_exception}); {len(items)} items could be read"
        if broken
        else ""
    )
    return items, problem


def _item(entry: Any, source: str) -> dict[str, Any] | None:
    title, link = strip_markup(entry.get("title", "")), entry.get("link", "")
    if not title or not re.match(r"https?://[^\s/\[\]]", link):
        return None
    summary = strip_markup(entry.get("summary", ""))
    return {
        "title": title,
        "link": link,
        "published": _moment(entry.get("published_parsed") or entry.get("updated_parsed")),
        "source": source,
        "summary": summary if len(summary) <= SUMMARY else summary[: SUMMARY - 1].rsplit(" ", 1)[0] + "…",
    }


def _moment(parsed: Any) -> str:
    try:
        return datetime.fromtimestamp(calendar.timegm(parsed), UTC).isoformat() if parsed else ""
    except (ValueError, OverflowError, OSError):
        return ""


def drop_duplicates(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items without those whose link, or title of four words and more, came before.

    Tracking marks, case and punctuation aside. Shorter titles ("Weekly notes") come back too often to tell.
    """
    seen: set[str] = set()
    kept = []
    for item in items:
        words = re.findall(r"\w+", item["title"].lower())
        marks = {plain_link(item["link"]), *([" ".join(words)] if len(words) >= 4 else [])}
        if not marks & seen:
            kept.append(item)
        seen |= marks
    return kept


def plain_link(link: str) -> str:
    """``link`` without scheme, tracking parameters, fragment and closing slash, its host in lower case."""
    parts = urlsplit(link)
    query = urlencode(
        [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if not TRACKING.fullmatch(pair[0])]
    )
    return urlunsplit(("", parts.netloc.lower(), parts.path.rstrip("/"), query, ""))


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def strip_markup(text: str) -> str:
    """The words of an HTML fragment, single-spaced."""
    reader = _Text()
    reader.feed(text)
    reader.close()
    return " ".join(" ".join(reader.parts).split())
