"""The sources: arXiv with the texts of papers, and feeds; what is about one thing is joined."""

import asyncio
import contextlib
import hashlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from shared.errors import ActionError, ConfigError, ModelError
from shared.files import write_atomically
from shared.llm.protocol import Message
from shared.reasoning.model import ModelSession
from shared.settings import Settings
from shared.skills.documents import extract_text
from shared.skills.news import drop_duplicates, read_news
from shared.skills.papers import MOST, PAUSE, RETRIES, build_query, find_papers
from shared.text.display import format_list
from shared.text.prose import find_terms, is_supported, split_sentences
from shared.web.fetching import fetch_configured
from shared.web.quoting import clean, quote

CANDIDATES = 5
"""How many times more papers are requested than reported: most of the newest were reported before."""
FEED_ITEMS = 100  # Items read from a feed; those reported before are then left out
NEVER = float("inf")
MAX_CACHED = 500  # How many answers are cached; the oldest are removed


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``interests`` are what the daily discovery looks for, with the number of papers for each and of news.

    ``remembered_interests`` is how many more are taken from memory, ``full_texts`` of how many papers a
    research brief reads the whole text. ``cache_hours`` is how long a source's
    answer is used again (0: never). ``arxiv_delay`` is the seconds between requests to arXiv,
    ``arxiv_retries`` how often one is repeated.
    """

    interests: tuple[str, ...] = ()
    remembered_interests: Annotated[int, msgspec.Meta(ge=0, le=50)] = 5
    papers_per_interest: Annotated[int, msgspec.Meta(ge=1, le=30)] = 3
    news_items: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5
    full_texts: Annotated[int, msgspec.Meta(ge=0, le=20)] = 3
    cache_hours: Annotated[float, msgspec.Meta(ge=0, le=1_000)] = 6.0
    arxiv_delay: Annotated[float, msgspec.Meta(ge=0, le=600)] = PAUSE
    arxiv_retries: Annotated[int, msgspec.Meta(ge=0, le=10)] = RETRIES


WAY = "could not be reached"
NOT_LOOKED_UP = ". Not looked up: "
_UNREACHABLE = re.compile(rf"(?P<host>\S+) {WAY}: (?P<why>.*?)(?:{re.escape(NOT_LOOKED_UP)}.*)?$", re.DOTALL)


def parse_options(values: dict[str, Any]) -> Options:
    """The options in ``values``; raises ConfigError naming the one that is wrong."""
    try:
        return msgspec.convert(values, Options)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The options of the frontier profile are wrong: {error}") from None


class SourceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Items of sources; ``problems`` say which did not answer, ``at`` is when the oldest was read."""

    items: list[dict[str, Any]] = []
    problems: list[str] = []
    at: float = NEVER


def join_problems(problems: Sequence[str]) -> str:
    """Why no source answered, in a sentence: hosts that fail for one reason are named together, each once.

    What was not looked up because of it is left out: that is all.
    """
    hosts: dict[str, list[str]] = {}
    others: list[str] = []
    for problem in problems:
        if found := _UNREACHABLE.match(problem):
            hosts.setdefault(found["why"], []).append(found["host"])
        else:
            others.append(problem)
    joined = [f"{format_list(list(dict.fromkeys(named)))} {WAY}: {why}" for why, named in hosts.items()]
    return "; ".join([*joined, *dict.fromkeys(others)])


class AnswerCache:
    """Answers by key in ``folder``, for ``seconds`` (0: no cache). A damaged file counts as missing."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds

    def get(self, *key: str) -> SourceAnswer | None:
        """The answer stored under ``key``, unless it is too old; blocks."""
        try:
            cached = msgspec.json.decode(self._path(key).read_bytes(), type=SourceAnswer)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None
        age = time.time() - cached.at
        return cached if 0 <= age < self._seconds else None

    def put(self, items: list[dict[str, Any]], *key: str) -> SourceAnswer:
        """Store ``items``; blocks. If the disk is full they are only fetched again."""
        answer = SourceAnswer(at=time.time(), items=items)
        if self._seconds:
            with contextlib.suppress(OSError):
                write_atomically(self._path(key), msgspec.json.encode(answer))
                files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
                for old in files[:-MAX_CACHED]:
                    old.unlink(missing_ok=True)
        return answer

    def _path(self, key: tuple[str, ...]) -> Path:
        digest = hashlib.sha256("\0".join(key).encode("utf-8", "replace")).hexdigest()
        return self._folder / f"{digest[:32]}.json"


class Sources:
    """arXiv and the feeds of the settings, behind a cache of some hours."""

    def __init__(self, settings: Settings, options: Options) -> None:
        self._settings = settings
        self._options = options
        self._cache = AnswerCache(settings.state_dir / "cache" / "frontier", options.cache_hours * 3_600)

    async def papers(self, topic: str, count: int, *, newest: bool = False) -> SourceAnswer:
        """The ``count`` most relevant (or newest) papers on ``topic``; raises ActionError as find_papers."""
        key = ("papers", self._settings.arxiv_url, build_query(topic), str(count), str(newest))
        if cached := await asyncio.to_thread(self._cache.get, *key):
            return cached
        found = await find_papers(
            topic,
            count,
            settings=self._settings,
            newest=newest,
            delay=self._options.arxiv_delay,
            retries=self._options.arxiv_retries,
        )
        return await asyncio.to_thread(self._cache.put, found, *key)

    async def papers_by_topic(self, topics: Sequence[str]) -> tuple[dict[str, SourceAnswer], list[str]]:
        """New papers by topic; after the first failure the other topics are not tried."""
        count = min(MOST, CANDIDATES * self._options.papers_per_interest)
        found: dict[str, SourceAnswer] = {}
        for position, topic in enumerate(topics):
            try:
                found[topic] = await self.papers(topic, count, newest=True)
            except ActionError as error:
                return found, [f"{error.cause}{NOT_LOOKED_UP}{', '.join(topics[position:])}"]
        return found, []

    async def news(self) -> SourceAnswer:
        """The newest items of all feeds, without duplicates; a broken one does not stop the others."""
        answers = await asyncio.gather(*map(self._feed, self._settings.feeds))
        items = [item for answer in answers for item in answer.items]
        newest = sorted(items, key=lambda item: str(item["published"]), reverse=True)
        return SourceAnswer(
            items=drop_duplicates(newest),
            problems=[problem for answer in answers for problem in answer.problems],
            at=min((answer.at for answer in answers), default=NEVER),
        )

    async def _feed(self, url: str) -> SourceAnswer:
        if cached := await asyncio.to_thread(self._cache.get, "feed", url):
            return cached
        settings = self._settings
        news = await read_news(
            [url], FEED_ITEMS, timeout=settings.http_timeout, private_hosts=settings.private_hosts
        )
        if news.problems:
            return SourceAnswer(items=list(news.items), problems=list(news.problems), at=time.time())
        return await asyncio.to_thread(self._cache.put, list(news.items), "feed", url)


# --- stories ----------------------------------------------------------------------------------------

SAME_WORDS = 0.6  # The least share of the shorter title's words that two titles of one story have in common
LEAST_WORDS = 3  # The least words that they have in common
MAX_TOLD = 400  # The most characters that a story is told in
MAX_SOURCES = 5  # The most further sources that a story names

Item = dict[str, Any]


def group_stories(items: Iterable[Item]) -> list[Item]:
    """The items, of each story the first alone; ``members`` has the others, ``also`` their addresses.

    Several of one host stay together, but only those of other hosts are named as further sources.
    """
    stories: list[tuple[frozenset[str], Item]] = []
    for item in items:
        words = frozenset(find_terms(item["title"]))
        common = ((len(words & known), min(len(words), len(known)), story) for known, story in stories)
        same = next(
            (
                story
                for number, least, story in common
                if number >= LEAST_WORDS and number >= SAME_WORDS * least
            ),
            None,
        )
        if same is None:
            stories.append((words, {**item, "also": [], "also_from": [], "members": []}))
            continue
        same["members"].append(item)
        hosts = {host_of(same["link"]), *map(host_of, same["also"])}
        if host_of(item["link"]) not in hosts and len(same["also"]) < MAX_SOURCES:
            same["also"].append(item["link"])
            same["also_from"].append(item["source"])
    return [story for _, story in stories]


def host_of(link: str) -> str:
    """The host of an address, without its ``www``; empty if it has none."""
    return (urlsplit(link).hostname or "").removeprefix("www.")


class StoryTold(msgspec.Struct, kw_only=True):
    """A story by its number, in at most two sentences."""

    number: int
    sentences: str


class StoriesTold(msgspec.Struct, kw_only=True):
    """What a model says of stories."""

    stories: list[StoryTold]


async def tell_stories(models: ModelSession, stories: Sequence[Item]) -> tuple[list[Item], list[str]]:
    """The stories with ``told``: two sentences of a model that the sources support, else title and summary.

    The second is a sentence if the model failed.
    """
    plain = {number: {**story, "told": tell_plainly(story)} for number, story in enumerate(stories, start=1)}
    if not stories or not models.model.available:
        return list(plain.values()), []
    listed = [f"{number}. {clean(_known(story), 1_200)}\n" for number, story in plain.items()]
    asked = (
        "Tell each of these stories in at most two short sentences, by its number. Say only what its text "
        "says.\n\n"
    )
    message = Message(role="user", text=asked + quote("the stories", "\n".join(listed), "web"))
    try:
        answer = await models.ask_model_for([message], StoriesTold)
    except ModelError as error:
        return list(plain.values()), [f"The model did not tell the news: {error}"]
    for each in answer.stories:
        if (story := plain.get(each.number)) is not None:
            told = split_sentences(clean(each.sentences, MAX_TOLD))[:2]
            kept = [sentence for sentence in told if is_supported(sentence, _known(story))]
            story["told"] = " ".join(kept) or story["told"]
    return list(plain.values()), []


def tell_plainly(story: Mapping[str, Any]) -> str:
    """The title, and the first sentence of the summary if it says more."""
    title = str(story["title"]).rstrip(".")
    first = next(iter(split_sentences(str(story.get("summary") or ""))), "")
    says_more = find_terms(first).keys() - find_terms(title).keys()
    return clean(f"{title}: {first}" if says_more else title, MAX_TOLD)


def _known(story: Mapping[str, Any]) -> str:
    texts = [story, *story.get("members", ())]
    return " ".join(f"{each['title']}. {each.get('summary') or ''}" for each in texts)


# --- the full texts of papers: their PDFs, taken apart in the jail ----------------------------------

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
