"""Forked processes that ask a model, each as an agent of its own."""

import asyncio
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from shared import settings
from shared.bus import Bus
from shared.llm import Message, make_model
from shared.llm.clients import require_sdk
from shared.reasoning.turns import OfficeLedger
from tests.support.forking import FORKS


class Asking:
    """A process that says "ready", asks ``times`` times once it is told to, and says how long it waited."""

    def __init__(self, environment: Mapping[str, str], name: str, url: str, seed: str, times: int) -> None:
        self._here, there = FORKS.Pipe()
        arguments = (dict(environment), name, url, seed, times, there)
        self._process = FORKS.Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        there.close()

    def hear(self) -> object:
        """What it says next; raises EOFError if it has ended."""
        return self._here.recv()

    def begin(self) -> None:
        """Have it ask."""
        self._here.send("go")

    def kill(self) -> None:
        """Kill it, and wait for its end."""
        self._process.kill()
        self._process.join()


def _run(environment: dict[str, str], name: str, url: str, seed: str, times: int, there: Connection) -> None:
    os.environ.clear()
    os.environ.update(environment)
    asyncio.run(_ask(name, url, seed, times, there))


async def _ask(name: str, url: str, seed: str, times: int, there: Connection) -> None:
    bus = await Bus.connect(name, url, Path(seed))
    model = make_model(settings.load(), name, ledger=OfficeLedger(bus))
    require_sdk("openai")
    there.send("ready")
    await asyncio.to_thread(there.recv)
    waited = 0.0
    for _ in range(times):
        thought = await model.complete([Message(role="user", text="x" * 1_200)], max_tokens=1)
        waited += thought.usage.waited
    await bus.close()
    there.send(waited)
