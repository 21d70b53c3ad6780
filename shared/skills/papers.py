"""Papers from arXiv, found through its query interface; an answer that cannot be read is an error."""

import asyncio
import calendar
import io
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action
from shared.text.display import count
from shared.web.fetching import Service
from shared.web.quoting import clean

PAUSE = 3.0  # Seconds between two requests, as arXiv's terms of use ask

RETRIES = 2  # How often a request that failed is repeated

MOST = 100  # The most papers one search may ask for

ARXIV_ID = re.compile(r"\d{4}\.\d{4,5}(v\d+)?|[a-z-]+(\.[A-Z]{2})?/\d{7}(v\d+)?")
"""An identifier of arXiv, in its present form or the one used before March 2007."""

FIELDED = re.compile(r"\b(?:ti|au|abs|co|jr|cat|rn|id|all):\S")
TERM = re.compile(r'"([^"]+)"|(\w[\w-]*)')
EMPTY_WORDS = frozenset(
    "a an and are at by for from how in into is of on or over the to under via with".split()
)


_turns: dict[str, float] = {}
"""When the next request to an interface may begin, on the monotonic clock: shared by all of this process."""


class PapersSkill(Skill):
    """Finds papers on arXiv."""

    @register_action(
        "Find the most relevant papers on arXiv",
        {
            "topic": "What the papers are about, in a few words",
            "max_results": "How many papers at most, 1 to 100",
        },
    )
    async def find_papers(self, topic: str, max_results: int = 3) -> Outcome:
        """The papers in data key ``papers``, arXiv ids as evidence; none found is an answer, not an error."""
        await self.context.progress(f"asks arXiv for papers on {clean(topic, 100)!r}")
        return report_papers(topic, await find_papers(topic, max_results, settings=self.context.settings))


def report_papers(topic: str, papers: Sequence[dict[str, Any]]) -> Outcome:
    """The papers as a list, with their arXiv ids as evidence; of each only the abstract was read."""
    lines = [
        f"- {paper['title']} ({', '.join(paper['authors'][:3])}) {abstract_url(paper)}" for paper in papers
    ]
    head = f"{count(len(papers), 'paper')} on {topic!r}:" if papers else f"arXiv has no paper on {topic!r}."
    return Outcome(
        output="\n".join([head, *lines]),
        data={"papers": list(papers), "depth": "abstract"},
        evidence_refs=cite_papers(papers),
    )


def cite_papers(papers: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The papers as evidence."""
    return tuple(f"arxiv:{paper['arxiv_id']}" for paper in papers)


async def find_papers(
    topic: str,
    max_results: int,
    *,
    settings: Settings,
    newest: bool = False,
    delay: float = PAUSE,
    retries: int = RETRIES,
) -> list[dict[str, Any]]:
    """The papers on ``topic`` that arXiv holds the most relevant, best first; or the ``newest`` ones.

    ``delay`` is the seconds between the beginnings of two requests of this process, ``retries`` how often a
    failed one is repeated. Each paper has title, authors, abstract, arxiv_id, published, pdf_url and
    categories. Raises ActionError if the topic holds no word, arXiv is out of reach, or what it answers
    is not a whole arXiv feed.
    """
    if not 1 <= max_results <= MOST:
        raise ActionError(f"max_results is {max_results}", f"Ask for 1 to {MOST} papers")
    service = Service(name="arXiv", url=settings.arxiv_url, setting="arxiv_url", settings=settings)
    params: dict[str, object] = {
        "search_query": build_query(topic),
        "start": 0,
        "max_results": max_results,
        "sortBy": "submittedDate" if newest else "relevance",
        "sortOrder": "descending",
    }
    body = await _ask(service, params, delay, retries)
    return await asyncio.to_thread(parse_papers, body, service.place)


def build_query(topic: str) -> str:
    """``topic`` as arXiv's query language: each of its words and quoted phrases anywhere in the paper.

    A topic that uses the language itself (``ti:memory AND cat:cs.AI``) is left as it is.
    Raises ActionError if there is no word to search for.
    """
    if FIELDED.search(topic):
        return topic.strip()
    terms = [phrase or word for phrase, word in TERM.findall(topic)]
    wanted = [term for term in terms if term.lower() not in EMPTY_WORDS]
    if not wanted:
        raise ActionError(f"The topic {topic[:60]!r} holds no word to search for", "Name a subject")
    return " AND ".join(f'all:"{term}"' if re.search(r"[\s-]", term) else f"all:{term}" for term in wanted)


def abstract_url(paper: Mapping[str, Any]) -> str:
    """The address of the paper's abstract."""
    return f"https://arxiv.org/abs/{paper['arxiv_id']}"


async def _ask(service: Service, params: dict[str, object], delay: float, retries: int) -> bytes:
    while True:
        now = time.monotonic()
        turn = max(now, _turns.get(service.url, 0.0))
        _turns[service.url] = turn + delay
        await asyncio.sleep(turn - now)
        try:
            return (await service.ask(params, accept="application/atom+xml")).body
        except ActionError:
            if not retries:
                raise
            retries -= 1


def parse_papers(body: bytes, name: str) -> list[dict[str, Any]]:
    """The papers in an Atom feed of arXiv, each once; ``name`` is who sent it.

    Raises ActionError for what would pass for an empty feed: a login page, half a feed, an error entry.
    """
    import feedparser

    # A file object, since feedparser takes bare bytes for the name of a file to open.
    feed = feedparser.parse(io.BytesIO(body), response_headers={"content-type": "application/atom+xml"})
    if feed.bozo or feed.get("version") != "atom10":
        cure = "Try again later, or check the setting arxiv_url"
        raise ActionError(f"{name} answered with something other than a whole Atom feed", cure)
    for entry in feed.entries:
        if "/api/errors" in entry.get("id", ""):
            raise ActionError(f"{name} refused the query: {clean(entry.get('summary', 'no reason given'))}")
    papers = [paper for entry in feed.entries if (paper := _paper(entry, name))]
    return list({paper["arxiv_id"]: paper for paper in papers}.values())


def _paper(entry: Any, name: str) -> dict[str, Any] | None:
    arxiv_id = entry.get("id", "").partition("/abs/")[2]
    if not ARXIV_ID.fullmatch(arxiv_id) or not entry.get("title"):
        return None
    if not entry.get("published_parsed"):
        raise ActionError(f"{name} answered what cannot be read: {arxiv_id} has no date", "Try again later")
    links = {link.get("title"): link.get("href", "") for link in entry.get("links", ())}
    pdf_url = links.get("pdf", "")
    return {
        "title": clean(entry.title, 300),
        "authors": [clean(author.get("name", ""), 100) for author in entry.get("authors", ())],
        "abstract": clean(entry.get("summary", ""), 10_000),
        "arxiv_id": arxiv_id,
        "published": datetime.fromtimestamp(calendar.timegm(entry.published_parsed), UTC).isoformat(),
        "pdf_url": pdf_url
        if pdf_url.startswith(("http://", "https://")) and pdf_url.isprintable()
        else f"https://arxiv.org/pdf/{arxiv_id}",
        "categories": [clean(tag.get("term", ""), 40) for tag in entry.get("tags", ())],
    }
