"""How soon an office is back after its supervisor was killed, phase by phase."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from services.cli.supervisor.programs import free_port
from shared import subjects
from shared.bus import Bus
from shared.contracts import StateChanged
from shared.errors import BusError
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.up import UpCommand
from tests.support.waiting import eventually, wait_for

PATIENCE = 120.0
IN_HAND, SECONDS = 4, 1.0
"""Goals whose tasks the agent works on when the supervisor is killed, and the seconds that each takes."""


class Back(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the next ``mailroom up`` on, until each of these.

    The processes that the killed supervisor left have ended; the server listens; the streams, the last agent,
    and memory are ready; a goal submitted meanwhile has ended; and so have those in hand at the kill.
    """

    old_ended: float
    server: float
    streams: float
    agents: float
    memory: float
    goal: float
    in_hand: float


async def measure_back(busy: int = 0) -> Back:
    """Kill ``mailroom up`` while tasks are in hand and ``busy`` other processes use the processor."""
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        state = Path(folder) / "state"
        more = {**install_slow_agent(Path(folder)), "MAILROOM_NATS_PORT": str(free_port())}
        first = office = UpCommand(state, **more)
        try:
            url = (await asyncio.to_thread(first.record))["url"]
            user = await Bus.connect(subjects.USER, url, state / "keys" / f"{subjects.USER}.nk")
            for number in range(IN_HAND):
                await _submit(user, f"before{number}", SECONDS)
            await asyncio.sleep(SECONDS / 2)
            with _burners(busy):
                first.up.kill()
                begun = time.monotonic()
                office = UpCommand(state, **more)
                back = await _follow(office, user, begun)
            await user.close()
            return back
        finally:
            office.close()
            first.close()


async def _follow(office: UpCommand, user: Bus, begun: float) -> Back:
    holder = office.state_dir / "run" / "office.lock"
    locked = asyncio.to_thread(wait_for, lambda: holder.read_text().strip() == str(office.up.pid))

    async def after(condition: Coroutine[Any, Any, object]) -> float:
        await condition
        return time.monotonic() - begun

    async def submitted() -> None:
        await eventually(lambda: office.when("nats", "ready"), PATIENCE)
        await _submit(user, "after", 0.0)
        await _ended(user, "after")

    async def done() -> None:
        await asyncio.gather(*(_ended(user, f"before{number}") for number in range(IN_HAND)))

    old_ended, goal, in_hand = await asyncio.gather(after(locked), after(submitted()), after(done()))
    await asyncio.to_thread(office.record)
    ready = {
        event["name"]: at
        for event, at in zip(office.events, office.times, strict=False)
        if event.get("text", "").startswith("ready after")
    }
    return Back(
        old_ended=round(old_ended, 2),
        server=round(ready.pop("nats"), 2),
        streams=round(office.when("office", "streams ready"), 2),
        memory=round(ready.pop("memory"), 2),
        agents=round(max(ready.values()), 2),
        goal=round(goal, 2),
        in_hand=round(in_hand, 2),
    )


async def _submit(user: Bus, goal_id: str, seconds: float) -> None:
    payload = msgspec.json.encode(slow_goal(goal_id, seconds))
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await user.store(subjects.SUBMIT, payload, headers={"Nats-Msg-Id": goal_id})
            except BusError:  # the server is away, or has no streams yet
                await asyncio.sleep(0.1)
            else:
                return


async def _ended(user: Bus, goal_id: str) -> None:
    async def has_ended() -> bool:
        try:
            stored = await user.last(subjects.OFFICE, subjects.goal(goal_id))
        except BusError:
            return False
        goal = StateChanged.from_json(stored.data).goal if stored else None
        return goal is not None and goal.status.final

    await eventually(has_ended, PATIENCE)


@contextmanager
def _burners(count: int) -> Iterator[None]:
    """Processes that use all the processor time they get."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
