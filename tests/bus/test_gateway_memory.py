"""Memory over HTTP: search, nodes, versions, the graph, briefings; with the real daemon behind it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.contracts import Edge, Node, Relation, Source
from shared.memory import Memory
from tests.support.gateway import RunningGateway

HOSTILE = '<img src=x onerror=alert(1)> & "quotes" \u202e reversed'


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway with the memory daemon, which holds a little."""
    gateway = RunningGateway(tmp_path, MAILROOM_LINKER_INTERVAL="3600")
    try:
        await gateway.open("memory")
        await fill(Memory(gateway.office.user))
        yield gateway
    finally:
        await gateway.close()


async def fill(memory: Memory) -> None:
    await memory.add(
        Node(id="old", kind="decision", title="Deploys happen on Tuesdays at noon", tags=("release",)),
        Node(id="evil", title=HOSTILE, body="<script>alert(2)</script>", source=Source(agent="scout")),
        insist=True,
    )
    await memory.add(
        Node(id="new", kind="decision", title="Deploys happen on Thursdays at noon", tags=("release",)),
        edges=[Edge(from_id="new", to_id="old", relation=Relation.SUPERSEDES)],
        insist=True,
    )


async def test_search_says_why(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        found = (await client.get("/api/v1/memory/search", params={"q": "when do we deploy"})).json()
        first = found["hits"][0]
        assert first["node"]["id"] in ("old", "new")
        assert 0 < first["score"] <= 1
        assert {"vector", "keyword"} <= first["why"].keys()
        only = await client.get(
            "/api/v1/memory/search", params={"q": "deploy", "kinds": ["fact"], "deep": True}
        )
        assert [hit["node"]["id"] for hit in only.json()["hits"]] in ([], ["evil"])
        query = {"q": "deploy", "tags": "release", "at": 1}
        tagged = await client.get("/api/v1/memory/search", params=query)
        assert [hit["node"]["id"] for hit in tagged.json()["hits"]] == ["old"]


async def test_a_node_with_its_edges_and_history(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        page = (await client.get("/api/v1/memory/nodes/old")).json()
        assert page["node"]["title"] == "Deploys happen on Tuesdays at noon"
        assert [node["id"] for node in page["superseded_by"]] == ["new"]
        assert page["supersedes"] == []
        assert [(each["direction"], each["node"]["id"]) for each in page["edges"]] == [("in", "new")]
        assert [(state["change"], state["sender"]) for state in page["history"]["states"]] == [
            ("added", "user")
        ]
        before = (await client.get("/api/v1/memory/nodes/old", params={"at": 1})).json()
        assert before["superseded_by"] == []
        near = (await client.get("/api/v1/memory/nodes/old/neighbours")).json()
        assert [visit["node"]["id"] for visit in near["visits"]] == ["new"]
        evil = (await client.get("/api/v1/memory/nodes/evil")).json()
        assert evil["node"]["title"] == HOSTILE.replace("\u202e", "")


async def test_what_is_not_there_is_said(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        for path in (
            "nodes/nobody",
            "nodes/nobody/neighbours",
            "nodes/%3Cscript%3E",
            "graph?anchor=nobody",
            "brief?agent=x",
        ):
            answer = await client.get(f"/api/v1/memory/{path}")
            assert answer.status_code == 404, path
            assert answer.headers["content-type"] == "application/problem+json"
        for path in (
            "search",
            "search?q=",
            "search?q=x&limit=1000",
            "graph?limit=3000",
            "brief",
            "search?q=a&x=1",
        ):
            assert (await client.get(f"/api/v1/memory/{path}")).status_code == 422, path
        for path in ("graph?", "search?q=x&", "nodes/old?", "brief?agent=engineer&"):
            later = await client.get(f"/api/v1/memory/{path}at=99999")
            assert later.status_code == 404, path
            assert "no graph version" in later.json()["detail"]
    async with gateway.stranger() as stranger:
        assert (await stranger.get("/api/v1/memory/graph")).status_code == 401


async def test_versions_and_the_graph(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        versions = (await client.get("/api/v1/memory/versions", params={"limit": 1})).json()
        (latest,) = versions["versions"]
        assert [node["id"] for node in latest["nodes"]] == ["new"]
        assert (latest["sender"], latest["linked"]) == ("user", 1)
        following = (await client.get("/api/v1/memory/versions", params={"before": versions["next"]})).json()
        assert {node["id"] for node in following["versions"][0]["nodes"]} == {"old", "evil"}
        graph = (await client.get("/api/v1/memory/graph")).json()
        standing = {node["id"]: node["standing"] for node in graph["nodes"]}
        assert standing == {"old": "superseded", "new": "current", "evil": "current"}
        past = (
            await client.get("/api/v1/memory/graph", params={"at": following["versions"][0]["version"]})
        ).json()
        assert {node["id"] for node in past["nodes"]} == {"old", "evil"}
        counts = (await client.get("/api/v1/memory/counts")).json()
        assert (counts["nodes"], counts["edges"]) == (3, 1)


async def test_a_briefing_and_what_changed_in_it(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        briefing = (await client.get("/api/v1/memory/brief", params={"agent": "engineer"})).json()
        sized = {"agent": "engineer", "max_chars": 1_000, "per_section": 1, "include_contradictions": "false"}
        short = (await client.get("/api/v1/memory/brief", params=sized)).json()
        assert len(short["text"]) <= 1_000
        assert all(len(section["nodes"]) <= 1 for section in short["sections"])
        told = (await client.get("/api/v1/memory/prompt", params={"agent": "engineer"})).json()
        assert told["briefing"]["text"].partition("\n## ")[2] in told["prompt"]
        assert "<briefing>" in told["prompt"]
        refused = await client.get("/api/v1/memory/brief", params={**sized, "max_chars": 3})
        assert refused.status_code == 422, refused.text
        assert "Deploys happen on Thursdays" in briefing["text"]
        query = {"agent": "engineer", "from": 1}
        changed = (await client.get("/api/v1/memory/brief/diff", params=query)).json()
        added = [line["text"] for line in changed["lines"] if line["kind"] == "added"]
        assert any("Thursdays" in text for text in added)
        assert (changed["from"], changed["to"]) == (1, briefing["version"])
        same = (await client.get("/api/v1/memory/brief/diff", params={**query, "to": 1})).json()
        assert same["lines"] == []
