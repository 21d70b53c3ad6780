"""The model that is set answers what the linker cannot decide; what is then still open is left to people."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from shared.contracts import Edge, EdgesQuery, Node, Relation
from shared.memory import Memory
from tests.support.model_formats import Answer
from tests.support.model_server import ModelServer, Request, serve_model
from tests.support.office import Office
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(90)

PAIRS = {
    "replaced": ("Parcels leave from dock four", "Ines drives the white van"),
    "both": ("The choir sings in Latin", "Our kettle holds two litres"),
    "unsure": ("Nadia keeps the spare keys", "The roof was painted in spring"),
}
FORGED = ("The safe is opened by two people", "Pickles go with cheese")
"""Statements by what the model says of them, old and new; they are so unlike that no rule joins them."""


def judge(request: Request) -> Answer:
    """What the model answers, by the pairs that it is asked about."""
    lines = request.body["messages"][1]["content"].splitlines()
    asked = [line for line in lines if line[:1].isdigit()]
    labels = [
        next(label for label, (old, new) in PAIRS.items() if f"{old} NEW: " in line and line.endswith(new))
        for line in asked
    ]
    texts = [{"number": number, "label": label} for number, label in enumerate(labels, 1)]
    return Answer(text=json.dumps({"texts": texts}))


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serve_model(by=judge) as server:
        yield server


@pytest.fixture
async def office(tmp_path: Path, model: ModelServer) -> AsyncIterator[Office]:
    office = Office(
        tmp_path,
        MAILROOM_LINKER_BY_MODEL="true",
        MAILROOM_LINKER_INTERVAL="1",
        MAILROOM_BRAIN="openai:small",
        MAILROOM_BRAIN_URL=model.url,
        MAILROOM_BRAIN_KEY="key",
    )
    try:
        await office.open(["memory"])
        yield office
    finally:
        await office.close()


async def ask(memory: Memory, label: str, pair: tuple[str, str] | None = None) -> None:
    """Put a pair into memory, with the linker's question about it."""
    old, new = pair or PAIRS[label]
    await memory.add(
        Node(id=f"{label}-old", kind="fact", title=old, created_at="2026-01-05T10:00:00+00:00"),
        Node(id=f"{label}-new", kind="fact", title=new, created_at="2026-03-05T10:00:00+00:00"),
        insist=True,
    )
    question = {"by": "contradiction", "rule": "undecided", "score": 0.6}
    await memory.link(
        Edge(
            from_id=f"{label}-new",
            to_id=f"{label}-old",
            relation=Relation.CONTRADICTS,
            weight=0.6,
            provenance=question,
        )
    )


async def edges(memory: Memory) -> dict[str, Edge]:
    """What memory says of each pair: that one side takes the place of the other, or contradicts it."""
    page = await memory.edges(EdgesQuery(relations=(Relation.SUPERSEDES, Relation.CONTRADICTS)))
    return {edge.from_id.partition("-")[0]: edge for edge in page.edges}


async def test_open_questions_are_answered(office: Office, model: ModelServer) -> None:
    memory = Memory(office.user)
    engineer = await office.connect("engineer")
    await ask(Memory(engineer), "forged", FORGED)
    for label in PAIRS:
        await ask(memory, label)

    async def settled() -> bool:
        left = await edges(memory)
        return "both" not in left and "judged" in left["unsure"].provenance

    await eventually(settled, 30.0)
    left = await edges(memory)
    assert left["replaced"].relation is Relation.SUPERSEDES
    assert left["replaced"].provenance["rule"] == "model"
    assert left["unsure"].relation is Relation.CONTRADICTS
    assert left["unsure"].provenance["rule"] == "undecided"
    nodes = {node.id: node for node in await memory.get("replaced-old", "replaced-new", "both-old")}
    assert nodes["replaced-old"].valid_to == nodes["replaced-new"].created_at
    assert not nodes["both-old"].valid_to
    hits = await memory.search("From which dock do parcels leave?")
    assert "replaced-old" not in {hit.node.id for hit in hits}

    # A question comes up no second time, but new ones do.
    asked = len(model.requests)
    await ask(memory, "both")
    await eventually(lambda: len(model.requests) > asked, 20.0)
    assert PAIRS["unsure"][0] not in str(model.requests[-1].body)
    assert all(FORGED[0] not in str(request.body) for request in model.requests)
    assert left["forged"].relation is Relation.CONTRADICTS
    health = await memory.health()
    assert health["linker"]["judged"] >= 3


async def test_without_an_answer_people_are_asked(office: Office, model: ModelServer) -> None:
    model.answers = [Answer(status=400)]
    memory = Memory(office.user)
    await ask(memory, "replaced")
    await eventually(lambda: bool(model.requests), 20.0)
    await memory.linker_trigger()
    assert (await edges(memory))["replaced"].relation is Relation.CONTRADICTS
    (old,) = await memory.get("replaced-old")
    assert not old.valid_to
    assert len(model.requests) == 1
