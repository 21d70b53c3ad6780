"""The model that is set sorts passages whose kind rules leave unclear; without its answer rules decide."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from shared import subjects
from shared.contracts import DailySpending, ListQuery
from shared.memory import Memory
from tests.support.model_formats import Answer
from tests.support.model_server import Request, serve_model
from tests.support.office import Office
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)

CLEAR = "We decided to paint the boat house green."
UNCLEAR = ("Black ink only for Mr Sato.", "The courier dropped the parcel in the snow.")


def answer(*kinds: str) -> Answer:
    texts = [{"number": number, "label": kind} for number, kind in enumerate(kinds, 1)]
    return Answer(text=json.dumps({"texts": texts}))


def read_prompt(request: Request) -> str:
    return str(request.body["messages"][1]["content"])


async def open_office(folder: Path, url: str, **settings: str) -> Office:
    office = Office(
        folder,
        MAILROOM_INGEST_BY_MODEL="true",
        MAILROOM_BRAIN="openai:small",
        MAILROOM_BRAIN_URL=url,
        MAILROOM_BRAIN_KEY="key",
        **settings,
    )
    await office.open(["memory"])
    return office


async def take_in(office: Office, name: str, *passages: str) -> dict[str, str]:
    """The kinds of a note's passages, once they are in memory."""
    folder = office.config.ingest
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n\n".join(passages))

    async def find() -> dict[str, str] | None:
        nodes = (await Memory(office.user).nodes(ListQuery(session=name, limit=100))).nodes
        kinds = {node.body: node.kind for node in nodes}
        return kinds if kinds.keys() >= set(passages) else None

    found: Callable[[], Awaitable[dict[str, str] | None]] = find
    kinds: dict[str, str] = await eventually(found, 30.0)
    return {passage: kinds[passage] for passage in passages}


async def spent(office: Office) -> DailySpending:
    (*_, last) = [data for _, _, data in await office.stored(subjects.record("memory", "spending", "*"))]
    return DailySpending.from_json(last)


async def test_the_model_sorts_what_rules_leave_unclear(tmp_path: Path) -> None:
    answers = [
        answer("preference"),  # one of two
        answer("preference", "gossip"),  # no kind
        answer("preference", "observation"),
        Answer(status=400),
    ]
    with serve_model(*answers) as server:
        office = await open_office(tmp_path, server.url)
        try:
            kinds = await take_in(office, "first.md", CLEAR, *UNCLEAR)
            assert kinds == {CLEAR: "decision", UNCLEAR[0]: "preference", UNCLEAR[1]: "observation"}
            assert len(server.requests) == 3
            assert CLEAR not in read_prompt(server.requests[0])
            assert all(passage in read_prompt(server.requests[0]) for passage in UNCLEAR)
            assert (await spent(office)).calls == 3

            later = "Two signatures for every order above 500 euros."
            assert await take_in(office, "later.md", later) == {later: "pattern"}
            asked = len(server.requests)
            assert asked == 4
            rested = "The left pump sounds rougher than the right one."
            assert await take_in(office, "rested.md", rested) == {rested: "observation"}
            assert len(server.requests) == asked
        finally:
            await office.close()


async def test_a_spent_budget_leaves_the_rules(tmp_path: Path) -> None:
    with serve_model(answer("event", "event")) as server:
        office = await open_office(tmp_path, server.url, MAILROOM_DAY_TOKENS="10")
        try:
            assert await take_in(office, "first.md", *UNCLEAR) == dict.fromkeys(UNCLEAR, "event")
            third = "Two signatures for every order above 500 euros."
            assert await take_in(office, "second.md", third) == {third: "pattern"}
            assert len(server.requests) == 1
        finally:
            await office.close()
