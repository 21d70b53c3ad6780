"""News from RSS and Atom feeds: read together, newest first; a broken one does not stop the others."""

import asyncio
import calendar
import io
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from shared.errors import ActionError
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action
from shared.text.display import count
from shared.web.fetching import fetch_configured
from shared.web.quoting import clean

ACCEPT = "application/rss+xml, application/atom+xml, application/xml;q=0.9"

TITLE = 300
SUMMARY = 500  # The longest title and summary of an item, in characters

TRACKING = re.compile(r"utm_\w+|fbclid|gclid|mc_[ce]id")


class NewsSkill(Skill):
    """Reads the news."""

    @register_action(
        "Read the latest news from the configured feeds", {"max_articles": "How many items at most"}
    )
    async def read_news(self, max_articles: int = 5) -> Outcome:
        """Items in data key ``news_items``, broken feeds in ``problems``; fails if all are broken."""
        settings = self.context.settings
        await self.context.progress(f"reads {len(settings.feeds)} feeds")
        news = await read_news(
            settings.feeds, max_articles, timeout=settings.http_timeout, private_hosts=settings.private_hosts
        )
        if not news.items and news.problems:
            raise ActionError("; ".join(news.problems), "Check the network connection and the setting feeds")
        return report_news(news.items, news.problems)


class News(msgspec.Struct, frozen=True, kw_only=True):
    """Items (title, link, published, source, summary), newest first, and a sentence for each broken feed."""

    items: tuple[dict[str, Any], ...] = ()
    problems: tuple[str, ...] = ()


def report_news(items: Sequence[dict[str, Any]], problems: Sequence[str], none: str = "") -> Outcome:
    """The items as a list with their addresses as evidence; ``none`` is what is said if there are none."""
    lines = [f"- {item.get('told') or item['title']} ({item['source']}) {item['link']}" for item in items]
    head = f"{count(len(items), 'news item')}:" if items else none or "The feeds hold no news."
    broken = [f"Not looked up: {problem}" for problem in problems]
    return Outcome(
        output="\n".join([head, *lines, *broken]),
        data={"news_items": list(items), "problems": list(problems)},
        evidence_refs=tuple(item["link"] for item in items),
    )


async def read_news(
    feeds: Sequence[str], max_items: int, *, timeout: float, private_hosts: Collection[str] = ()
) -> News:
    """The newest ``max_items`` items of ``feeds`` without duplicates; each feed has ``timeout`` seconds."""
    answers = await asyncio.gather(*(_read_feed(url, timeout, private_hosts) for url in feeds))
    items = [item for found, _ in answers for item in found]
    newest = sorted(items, key=lambda item: str(item["published"]), reverse=True)
    problems = tuple(problem for _, problem in answers if problem)
    return News(items=tuple(drop_duplicates(newest))[: max(0, max_items)], problems=problems)


async def _read_feed(
    url: str, timeout: float, private_hosts: Collection[str]
) -> tuple[list[dict[str, Any]], str]:
    try:
        answer = await fetch_configured(url, ACCEPT, timeout=timeout, private_hosts=private_hosts)
        return await asyncio.to_thread(parse_feed, answer.body, answer.url, answer.kind)
    except ActionError as error:
        if "could not be reached" in error.cause:
            return [], error.cause
        cause = error.cause if url in error.cause else f"{url}: {error.cause}"
        return [], cause if cause.startswith("The feed") else f"The feed {cause}"


def parse_feed(body: bytes, url: str, media_type: str = "") -> tuple[list[dict[str, Any]], str]:
    """The items in ``body``, and what is wrong with it: of a damaged feed the items before the damage.

    Raises ActionError if it is not a feed, or one that is damaged before its first item.
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
    source = clean(strip_markup(feed.feed.get("title", "")), TITLE) or urlsplit(url).netloc
    items = [item for entry in feed.entries if (item := _item(entry, source))]
    problem = (
        f"The feed {url} is damaged ({feed.bozo_exception}); {len(items)} items could be read"
        if broken
        else ""
    )
    return items, problem


def _item(entry: Any, source: str) -> dict[str, Any] | None:
    title, link = clean(strip_markup(entry.get("title", "")), TITLE), entry.get("link", "")
    if not title or not re.match(r"https?://[^\s/\[\]]", link) or not link.isprintable():
        return None
    return {
        "title": title,
        "link": link,
        "published": _moment(entry.get("published_parsed") or entry.get("updated_parsed")),
        "source": source,
        "summary": clean(strip_markup(entry.get("summary", "")), SUMMARY),
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
