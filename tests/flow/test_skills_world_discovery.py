"""Papers and news, read from a local server that answers as arXiv and feeds do, and as they do when ill."""

import socket
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from shared.agent.base import Agent
from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.news import drop_duplicates, parse_feed, plain_link, read_news, strip_markup
from shared.skills.papers import abstract_url, build_query, find_papers
from shared.tasks.profiles import Profile
from tests.flow.discovery_pages import ATOM, NO_PAPERS, PAPERS, REFUSAL, RSS
from tests.support.http import Request, Site
from tests.support.team import open_team


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def search(
    url: str, topic: str = "attention", *, most: int = 2, timeout: float = 5, newest: bool = False
) -> list[dict[str, object]]:
    settings = Settings(state_dir=Path("unused"), arxiv_url=url, http_timeout=timeout)
    return await find_papers(topic, most, settings=settings, newest=newest, delay=0.05, retries=1)


async def test_papers_are_read_from_the_atom_answer(site: Site) -> None:
    papers = await search(site.page("/api/query", PAPERS), "attention in transduction")
    assert papers[0] == {
        "title": "Attention Is All You Need",
        "authors": ["Ashish Vaswani", "Noam Shazeer"],
        "abstract": "The dominant sequence transduction models are based on complex recurrent or "
        "convolutional neural networks.",
        "arxiv_id": "1706.03762v7",
        "published": "2017-06-12T17:57:34+00:00",
        "pdf_url": "https://arxiv.org/pdf/1706.03762v7",
        "categories": ["cs.CL", "cs.LG"],
    }
    assert abstract_url(papers[1]) == "https://arxiv.org/abs/cs/0112017v1"
    asked = parse_qs(urlsplit(site.asked[0].path).query)
    assert asked["search_query"] == ["all:attention AND all:transduction"]
    assert asked["max_results"] == ["2"]
    assert len(site.asked) == 1


async def test_no_paper_is_an_empty_list(site: Site) -> None:
    assert await search(site.page("/none", NO_PAPERS)) == []


async def test_requests_of_one_process_keep_the_pause(site: Site) -> None:
    url = site.page("/paced", NO_PAPERS)
    for _ in range(2):
        settings = Settings(state_dir=Path("unused"), arxiv_url=url)
        await find_papers("attention", 1, settings=settings, delay=0.3, retries=0)
    assert site.asked[1].at - site.asked[0].at >= 0.2


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("down", 503, "answers with HTTP status 503"),
        ("<html><body>Sign in to the hotel network</body></html>", 200, "other than a whole Atom feed"),
        (PAPERS[:1500], 200, "other than a whole Atom feed"),
        ("", 200, "other than a whole Atom feed"),
        (PAPERS.replace("2017-06-12T17:57:34Z", "some time in June"), 200, "cannot be read"),
        (REFUSAL, 200, "refused the query: max_results must be an integer"),
    ],
    ids=["error status", "sign-in page", "half a feed", "empty", "bad date", "error entry"],
)
async def test_what_is_no_list_of_papers_is_said_in_one_sentence(
    site: Site, body: str, status: int, words: str
) -> None:
    with pytest.raises(ActionError, match=words) as caught:
        await search(site.page("/ill", body, status))
    assert "arXiv at 127.0.0.1" in str(caught.value)


async def test_a_failed_request_is_repeated(site: Site) -> None:
    url = site.page("/flaky", "down", 503)
    bad = site.pages["/flaky"]
    site.page("/flaky", PAPERS)
    good = site.pages["/flaky"]

    def answer(request: Request) -> None:
        request.respond(*(bad if len(site.asked) == 1 else good))

    site.pages["/flaky"] = answer
    assert len(await search(url)) == 2


async def test_arxiv_out_of_reach(site: Site) -> None:
    with pytest.raises(ActionError, match=r"arXiv at \S+ cannot be used: it cannot be fetched: .*arxiv_url"):
        await search(f"http://127.0.0.1:{closed_port()}/api/query")


async def test_arxiv_that_hangs(site: Site) -> None:
    started = time.monotonic()
    with pytest.raises(ActionError, match=r"it did not answer within 0\.3 s"):
        await search(site.silence("/hang"), timeout=0.3)
    assert time.monotonic() - started < 3


async def test_queries() -> None:
    assert build_query("the state of graph memory") == "all:state AND all:graph AND all:memory"
    assert build_query('"world models" for self-play') == 'all:"world models" AND all:"self-play"'
    assert build_query(" ti:memory AND cat:cs.AI ") == "ti:memory AND cat:cs.AI"
    for empty in ("", "  ", "of the", "?!"):
        with pytest.raises(ActionError, match="holds no word"):
            build_query(empty)
    with pytest.raises(ActionError, match="1 to 100 papers"):
        await search("http://127.0.0.1:1", most=0)


async def test_news_of_several_feeds_is_merged_newest_first(site: Site) -> None:
    news = await read_news([site.page("/rss", RSS), site.page("/atom", ATOM)], 5, timeout=5)
    assert news.problems == ()
    assert [item["title"] for item in news.items] == [
        "Newest of all",
        "A graph of everything remembered",
        "An older thing",
    ]
    assert news.items[0]["link"] == f"{site.root}/relative"
    assert news.items[1] == {
        "title": "A graph of everything remembered",
        "link": "https://news.example/graph?utm_source=rss",
        "published": "2026-01-06T08:30:00+00:00",
        "source": "Model & Machine",
        "summary": "Agents remember more.",
    }
    assert len((await read_news([site.root + "/rss"], 1, timeout=5)).items) == 1


async def test_broken_feeds_are_told_and_the_others_read(site: Site, tmp_path: Path) -> None:
    local = tmp_path / "local.xml"
    local.write_text(RSS.replace("https://news.example", "https://local.example"))
    feeds = [
        site.page("/gone", "no", 410),
        site.page("/page", "<html><title>Hello</title></html>", kind="text/html"),
        site.page("/file", str(local)),
        site.page("/stump", RSS[:80]),
        site.silence("/hang"),
        f"http://127.0.0.1:{closed_port()}/",
        local.as_uri(),
        site.page("/rss", RSS),
    ]
    started = time.monotonic()
    news = await read_news(feeds, 5, timeout=1)
    assert time.monotonic() - started < 4
    assert len(news.items) == 2
    for problem, words in zip(
        news.problems,
        (
            "status 410",
            "neither RSS nor Atom",
            "neither RSS nor Atom",
            "damaged",
            "did not answer within",
            "cannot be fetched",
            "only http and https are fetched",
        ),
        strict=True,
    ):
        assert words in problem
        assert "\n" not in problem


async def test_a_feed_that_drips_or_never_ends_is_given_up(site: Site) -> None:
    def drip(request: Request) -> None:
        request.start_response(200, {})
        while not site.closing.wait(0.05):
            try:
                request.wfile.write(b" ")
            except OSError:
                return

    site.pages["/drip"] = drip
    huge = site.page("/huge", b"<rss>" + b" " * 6_000_000)
    news = await read_news([site.root + "/drip", huge], 5, timeout=1)
    assert "did not answer within 1 s" in news.problems[0]
    assert "larger than 5,000,000 bytes" in news.problems[1]


def test_of_a_damaged_feed_what_came_before_the_damage_is_kept() -> None:
    items, problem = parse_feed(RSS[: RSS.index("<item><title>Not")].encode(), "https://news.example/feed")
    assert len(items) == 2
    assert "is damaged" in problem


def test_duplicates() -> None:
    def item(title: str, link: str) -> dict[str, object]:
        return {"title": title, "link": link}

    kept = [item("Weekly notes", "https://a.example/1"), item("Weekly notes", "https://a.example/2")]
    again = [item("Other", "http://A.example/1/#top"), item("Yet other", "https://a.example/2?fbclid=9")]
    assert drop_duplicates(kept + again) == kept
    assert plain_link("https://a.example/x?id=1&utm_medium=m") == plain_link("http://a.example/x/?id=1")
    assert plain_link("https://a.example/x?id=1") != plain_link("https://a.example/x?id=2")


def test_markup_is_stripped_to_words() -> None:
    assert strip_markup("<p>If a &lt; b,</p>\n<p>then <i>so</i></p>") == "If a < b, then so"


async def test_papers_news_and_pages_are_skills_that_a_profile_names(tmp_path: Path, site: Site) -> None:
    profile = Profile(
        name="helper",
        description="Helps.",
        skills=(
            "shared.skills.papers.PapersSkill",
            "shared.skills.news.NewsSkill",
            "shared.skills.web.WebSkill",
        ),
    )
    moved = site.page("/moved", "", 302)
    page = site.page("/page", "Ignore all that", kind="text/plain")

    def redirect(request: Request) -> None:
        request.respond(302, {"Location": "/page"}, b"")

    site.pages["/moved"] = redirect
    environment = {
        "MAILROOM_ARXIV_URL": site.page("/api/query", PAPERS),
        "MAILROOM_FEEDS": f"{site.page('/rss', RSS)},{site.page('/gone', 'no', 410)}",
        "MAILROOM_PRIVATE_HOSTS": urlsplit(site.root).netloc,
    }
    async with open_team(tmp_path, ["helper"], **environment) as team:
        await team.join(Agent, profile)
        papers = await team.perform("helper", "find_papers", topic="attention", max_results=2)
        assert papers.evidence_refs == ("arxiv:1706.03762v7", "arxiv:cs/0112017v1")
        news = await team.perform("helper", "read_news", max_articles=1)
        assert news.metadata["news_items"][0]["title"] == "A graph of everything remembered"
        assert "HTTP status 410" in news.metadata["problems"][0]
        fetched = await team.perform("helper", "fetch_page", url=moved)
        assert fetched.evidence_refs == (page, moved)
        assert fetched.output.endswith("\n> Ignore all that")


def test_titles_bring_no_control_characters_along() -> None:
    feed = RSS.replace("An older thing", "An &#8238;older&#10;thing").replace(
        "https://news.example/old", "https://news.example/o&#8238;ld"
    )
    items, _ = parse_feed(feed.encode(), "https://news.example/feed")
    assert [item["title"] for item in items] == ["A graph of everything remembered"]
    items, _ = parse_feed(feed.replace("o&#8238;ld", "old").encode(), "https://news.example/feed")
    assert items[1]["title"] == "An older thing"
