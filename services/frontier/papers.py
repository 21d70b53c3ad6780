"""Papers from arXiv, found through its query interface; what cannot be read is said, never invented."""

import functools
import io
import re
import threading
from typing import Any
from urllib.parse import urlsplit

from shared.errors import ActionError

PAUSE = 3.0
"""Seconds between two requests, as arXiv's terms of use ask."""

MOST = 100
"""The most papers one search may ask for."""

ARXIV_ID = re.compile(r"\d{4}\.\d{4,5}(v\d+)?|[a-z-]+(\.[A-Z]{2})?/\d{7}(v\d+)?")
"""An identifier of arXiv, in its present form or the one used before March 2007."""

FIELDED = re.compile(r"\b(?:ti|au|abs|co|jr|cat|rn|id|all):\S")
TERM = re.compile(r'"([^"]+)"|(\w[\w-]*)')
EMPTY_WORDS = frozenset(
    "a an and are at by for from how in into is of on or over the to under via with".split()
)


def find_papers(
    topic: str, max_results: int, *, base_url: str, timeout: float, delay: float = PAUSE, retries: int = 2
) -> list[dict[str, Any]]:
    """The papers on ``topic`` that arXiv holds the most relevant, best first; blocks.

    ``base_url`` is a query interface of arXiv, ``timeout`` the seconds it may be silent, ``delay`` the
    seconds between requests of this process, ``retries`` how often a failed one is repeated. Each paper
    has title, authors, abstract, arxiv_id, published, pdf_url and categories. Raises ActionError where
    the topic holds no word, arXiv is out of reach, or what it answers is not a whole arXiv feed.
    """
    if not 1 <= max_results <= MOST:
        raise ActionError(f"max_results is {max_results}", f"Ask for 1 to {MOST} papers")
    return _connect(base_url, timeout, delay, retries).find(build_query(topic), max_results)


def build_query(topic: str) -> str:
    """``topic`` as arXiv's query language: each of its words and quoted phrases anywhere in the paper.

    A topic that uses the language itself (``ti:memory AND cat:cs.AI``) is left as it is.
    Raises ActionError where there is no word to search for.
    """
    if FIELDED.search(topic):
        return topic.strip()
    terms = [phrase or word for phrase, word in TERM.findall(topic)]
    wanted = [term for term in terms if term.lower() not in EMPTY_WORDS]
    if not wanted:
        raise ActionError(f"The topic {topic[:60]!r} holds no word to search for", "Name a subject")
    return " AND ".join(f'all:"{term}"' if re.search(r"[\s-]", term) else f"all:{term}" for term in wanted)


def abstract_url(paper: dict[str, Any]) -> str:
    """Where the paper's abstract can be read."""
    return f"https://arxiv.org/abs/{paper['arxiv_id']}"


@functools.cache
def _connect(base_url: str, timeout: float, delay: float, retries: int) -> "_Arxiv":
    return _Arxiv(base_url, timeout, delay, retries)


class _Arxiv:
    """A query interface of arXiv, asked one thing at a time: its terms of use allow no more."""

    def __init__(self, base_url: str, timeout: float, delay: float, retries: int) -> None:
        import arxiv

        self.base_url, self.timeout = base_url, timeout
        self._turn = threading.Lock()
        self._client = arxiv.Client(delay_seconds=delay, num_retries=retries)
        joint = "&" if "?" in base_url else "?"
        self._client.query_url_format = base_url.replace("{", "{{").replace("}", "}}") + joint + "{}"
        session = self._client._session  # The package offers no other door to a timeout.
        setattr(session, "request", functools.partial(session.request, timeout=timeout))  # noqa: B010
        session.hooks["response"].append(self._require_feed)

    @property
    def name(self) -> str:
        return f"arXiv at {urlsplit(self.base_url).netloc}"

    def find(self, query: str, max_results: int) -> list[dict[str, Any]]:
        import arxiv
        import requests

        search = arxiv.Search(query=query, max_results=max_results)
        try:
            with self._turn:
                self._client.page_size = max_results
                results = list(self._client.results(search))
        except arxiv.HTTPError as error:
            raise ActionError(
                f"{self.name} answered with HTTP status {error.status}", "Try again later"
            ) from None
        except requests.exceptions.Timeout:
            raise ActionError(
                f"{self.name} gave no answer within {self.timeout:g} s", "Try again later"
            ) from None
        except requests.exceptions.RequestException as error:
            cure = "Check the network connection and the setting arxiv_url"
            raise ActionError(f"{self.name} cannot be reached ({_cause(error)})", cure) from None
        except (arxiv.ArxivError, ValueError) as error:
            raise ActionError(
                f"{self.name} answered what cannot be read ({error})", "Try again later"
            ) from None
        papers = [paper for result in results if (paper := _paper(result))]
        return list({paper["arxiv_id"]: paper for paper in papers}.values())

    def _require_feed(self, response: Any, *_: Any, **__: Any) -> None:
        """Refuse what the package would take for an empty page: a login page, half a feed, an error entry."""
        import feedparser

        if response.status_code != 200:
            return
        feed = feedparser.parse(io.BytesIO(response.content))
        if feed.bozo or feed.get("version") != "atom10":
            cure = "Try again later, or check the setting arxiv_url"
            raise ActionError(f"{self.name} answered with something other than a whole Atom feed", cure)
        for entry in feed.entries:
            if "/api/errors" in entry.get("id", ""):
                raise ActionError(f"{self.name} refused the query: {entry.get('summary', 'no reason given')}")


def _paper(result: Any) -> dict[str, Any] | None:
    arxiv_id = result.get_short_id()
    if not ARXIV_ID.fullmatch(arxiv_id):
        return None
    pdf_url = result.pdf_url or ""
    return {
        "title": " ".join(result.title.split()),
        "authors": [" ".join(author.name.split()) for author in result.authors],
        "abstract": " ".join(result.summary.split()),
        "arxiv_id": arxiv_id,
        "published": result.published.isoformat(),
        "pdf_url": pdf_url
        if pdf_url.startswith(("http://", "https://"))
        else f"https://arxiv.org/pdf/{arxiv_id}",
        "categories": list(result.categories),
    }


def _cause(error: Exception) -> str:
    text = str(error)
    for sign, cause in (
        ("refused", "connection refused"),
        ("resolve", "its name cannot be resolved"),
        ("unreachable", "network unreachable"),
        ("SSL", "no secure connection"),
    ):
        if sign in text:
            return cause
    return type(error).__name__
