"""Where the graph of memory is drawn: the same graph looks the same, and what was seen stays there."""

import json
import math
from typing import Any

import pytest_asyncio
from playwright.async_api import Page

from tests.browser.pages import Desk

Places = dict[str, tuple[float, float]]

PLACE = """async ({ layouts }) => {
  const { makePlan, place } = await import("/web/app/views/graph_places.js");
  const plan = makePlan();
  const found = [];
  for (const layout of layouts) {
    const begun = performance.now();
    const placed = await new Promise((done) => place(layout, plan, done));
    const nodes = placed.nodes.map((node) => [node.id, node.x, node.y]);
    found.push({ nodes, took: performance.now() - begun, settled: plan.settled.size });
  }
  return found;
}"""


def chain(count: int, *new: str) -> dict[str, Any]:
    """Nodes of which each has an edge to the next; each ``new`` one has one to the tenth."""
    ids = [*(f"n{number:03}" for number in range(count)), *new]
    edges = [{"start": n, "end": n + 1, "weight": 1} for n in range(count - 1)]
    edges += [{"start": ids.index(each), "end": 10, "weight": 1} for each in new]
    return {"nodes": [{"id": each} for each in ids], "edges": edges}


@pytest_asyncio.fixture(loop_scope="session")
async def page(desk: Desk) -> Page:
    return await desk.open("/figures")


async def place(page: Page, *layouts: dict[str, Any]) -> list[Places]:
    found = await page.evaluate(PLACE, {"layouts": layouts})
    return [{node: (x, y) for node, x, y in each["nodes"]} for each in found]


def mean_distance(places: Places, apart: int) -> float:
    ordered = [place for _, place in sorted(places.items())]
    pairs = list(zip(ordered, ordered[apart:], strict=False))
    return sum(math.dist(*pair) for pair in pairs) / len(pairs)


async def test_the_same_nodes_give_the_same_picture(page: Page) -> None:
    (first,), (again,) = await place(page, chain(30)), await place(page, chain(30))
    assert json.dumps(first) == json.dumps(again)
    assert all(-1 <= number <= 1 for each in first.values() for number in each)
    assert max(abs(number) for each in first.values() for number in each) == 1
    assert len(set(first.values())) == 30


async def test_what_is_joined_lies_nearer_than_what_is_not(page: Page) -> None:
    (found,) = await place(page, chain(40))
    assert mean_distance(found, 1) < 0.5 * mean_distance(found, 20)


async def test_what_was_seen_stays_when_a_little_is_new(page: Page) -> None:
    before, after = await place(page, chain(40), chain(40, "new"))
    assert {node: after[node] for node in before} == before
    assert math.dist(after["new"], after["n010"]) < 0.6


async def test_the_past_is_drawn_where_the_present_is(page: Page) -> None:
    present, past = await place(page, chain(40), chain(25))
    assert past.items() <= present.items()


async def test_a_quarter_new_is_laid_out_together(page: Page) -> None:
    found = await page.evaluate(PLACE, {"layouts": [chain(40), chain(60)]})
    assert [each["settled"] for each in found] == [40, 60]


async def test_an_empty_memory_is_an_empty_picture(page: Page) -> None:
    assert await place(page, {"nodes": [], "edges": []}) == [{}]


async def test_a_thousand_nodes_are_placed_in_time_and_apart(page: Page) -> None:
    layout = {
        "nodes": [{"id": f"n{number}"} for number in range(1_000)],
        "edges": [{"start": n, "end": n // 2, "weight": 1} for n in range(1, 1_000)],
    }
    (found,) = await page.evaluate(PLACE, {"layouts": [layout]})
    assert found["took"] < 10_000  # 0.4 s on a machine with nothing else to do
    places = {(round(x, 3), round(y, 3)) for _, x, y in found["nodes"]}
    assert len(places) > 950
