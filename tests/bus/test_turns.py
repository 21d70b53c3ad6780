"""Turns at a model server, taken by processes of their own over a real nats-server."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import settings, subjects
from shared.bus import Bus
from shared.llm import Message, make_model
from shared.llm.clients import require_sdk
from shared.reasoning.turns import OfficeLedger
from tests.support.asking_in_turns import Asking
from tests.support.model_formats import Answer, Request
from tests.support.model_server import ModelServer, serve_model
from tests.support.rate_limits import TokenBucket
from tests.support.server import Server

NINE = ("conductor", "engineer", "scout", "critic", "nexus", "cortex", "frontier", "memory", "helper")
ASK = [Message(role="user", text="x" * 1_200)]


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path, NINE)
    try:
        await server.start()
        yield server
    finally:
        await server.close()


def variables(model: ModelServer, **more: str) -> dict[str, str]:
    return {
        "MAILROOM_BRAIN": "openai:small",
        "MAILROOM_BRAIN_URL": model.url,
        "MAILROOM_BRAIN_TIMEOUT": "20",
        **more,
    }


async def start(office: Server, model: ModelServer, name: str, times: int, **more: str) -> Asking:
    """A process of the agent ``name`` that asks the model ``times`` times once it is told to."""
    seed = str(office.config.keys / f"{name}.nk")
    asking = Asking({**office.environment, **variables(model, **more)}, name, office.url, seed, times)
    assert await asyncio.to_thread(asking.hear) == "ready"
    return asking


async def go(*processes: Asking) -> None:
    """Have processes that are ready begin."""
    for process in processes:
        process.begin()


async def waited(process: Asking) -> float:
    return float(await asyncio.to_thread(process.hear))


@pytest.mark.parametrize("tells", [True, False])
async def test_nine_processes_share_what_a_provider_allows(office: Server, tells: bool) -> None:
    bucket = TokenBucket(2_000, 4.0, tells=tells)
    with serve_model(by=bucket.answer) as model:
        many = {"MAILROOM_BRAIN_CONCURRENCY": "16"}
        processes = await asyncio.gather(*(start(office, model, name, 2, **many) for name in NINE))
        await go(*processes)
        waits = await asyncio.gather(*map(waited, processes))
    assert bucket.answered == 18
    # Without the ledger it refuses 36. Where the bus is slow to answer, a request goes out unannounced.
    assert bucket.refused <= (3 if tells else 14)
    assert max(waits) > 0.5


async def test_no_more_requests_are_open_at_a_server_of_one_s_own_than_it_is_set_to(office: Server) -> None:
    held, most = set[int](), [0]

    def answer(request: Request) -> Answer:
        now = time.monotonic()
        held.difference_update({end for end in held if end < now * 1_000})
        held.add(int((now + 0.3) * 1_000))
        most[0] = max(most[0], len(held))
        return Answer(text="Yes.", hang=0.3)

    with serve_model(by=answer) as model:
        processes = await asyncio.gather(*(start(office, model, name, 2) for name in NINE[:4]))
        await go(*processes)
        await asyncio.gather(*map(waited, processes))
    assert most[0] == 2


async def test_the_turn_of_a_killed_process_runs_out(office: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.llm.turns.HELD", 6.0)
    require_sdk("openai")
    bus = await office.connect("critic")
    with serve_model(Answer(hang=60), Answer(text="Yes.")) as model:
        only = variables(model, MAILROOM_BRAIN_CONCURRENCY="1")
        mine = make_model(settings.load({**office.environment, **only}), ledger=OfficeLedger(bus))
        holder = await start(office, model, "engineer", 1, MAILROOM_BRAIN_CONCURRENCY="1")
        await go(holder)
        while not model.requests:
            await asyncio.sleep(0.05)
        holder.kill()
        asking = asyncio.create_task(mine.complete(ASK))
        thought = await asyncio.wait_for(asking, 20)
    assert thought.text == "Yes."
    assert 1 < thought.usage.waited < 15


async def test_a_model_answers_while_the_bus_is_away_and_what_others_wrote_harms_nobody(
    office: Server,
) -> None:
    bus = await office.connect("critic")
    other = await office.connect("scout")
    with serve_model("Yes.") as model:
        mine = make_model(settings.load({**office.environment, **variables(model)}), ledger=OfficeLedger(bus))
        ledger = mine._model._turns._server  # type: ignore[attr-defined]
        for number, garbage in enumerate((b"", b"{", b'{"model": 5}', b"\xff")):
            await other.store(subjects.turn(ledger, "scout", str(number)), garbage)
        assert (await mine.complete(ASK)).text == "Yes."
        await _refused(other, subjects.turn(ledger, "critic", "1"))
        office.kill()
        began = time.monotonic()
        assert (await mine.complete(ASK)).text == "Yes."
        assert time.monotonic() - began < 8


async def _refused(bus: Bus, subject: str) -> None:
    with pytest.raises(Exception, match=r"No answer|refused|permission"):
        await bus.store(subject, b"{}", timeout=0.5)
