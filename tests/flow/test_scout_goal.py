"""A question researched on recorded pages, by real processes and without a model: from goal to answer."""

import json
from pathlib import Path

from shared.contracts import TaskStatus
from tests.flow.test_scout_research import KETTLE, SOUP
from tests.support.http import Site
from tests.support.office import Office


async def test_a_goal_to_search_the_web_ends_in_quotations_with_their_sources(
    tmp_path: Path, site: Site
) -> None:
    results = [{"url": site.url(path), "title": path, "content": "x"} for path in ("/kettle", "/soup")]
    query = "/search?q=the+temperature+at+which+water+boils&format=json"
    site.pages[query] = (200, {}, json.dumps({"results": results}).encode())
    for path, text in (("/kettle", KETTLE), ("/soup", SOUP)):
        site.pages[path] = (200, {"Content-Type": "text/html"}, text.encode())
    office = Office(tmp_path, MAILROOM_PRIVATE_HOSTS=site.pair, MAILROOM_SEARCH_URL=site.url(""))
    try:
        await office.open(["conductor", "memory", "scout", "critic"])
        await office.submit(
            {"goal_id": "g1", "text": "Search the web for the temperature at which water boils"}
        )
        goal = await office.finished("g1")
        assert goal.status is TaskStatus.COMPLETED, goal
        (brief,) = office.config.outputs.glob("g1/research-*.md")
        quoted = [line for line in brief.read_text().splitlines() if line.startswith("> ")]
        assert quoted[0].startswith("> Water boils at one hundred degrees Celsius")
        assert f"[1] Of kettles, <{site.url('/kettle')}>" in brief.read_text()
    finally:
        await office.close()
