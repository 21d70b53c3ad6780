"""How long a task waits for memory, and that its prompt does not change afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shared.contracts import Briefing
from shared.errors import BusUnavailable
from shared.reasoning import prompts, recall
from shared.reasoning.prompts import SystemPrompt
from shared.reasoning.recall import MemoryRecall
from shared.settings import Settings
from shared.tasks.context import TaskContext, current_task
from shared.tasks.profiles import Profile
from tests.flow.hands import Journal


class SlowMemory:
    """A memory that takes its time for each answer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0

    async def brief(self, agent: str, max_chars: int = 0) -> Briefing:
        self.asked += 1
        await asyncio.sleep(self.seconds)
        return Briefing(agent=agent, text=f"# Briefing\n## Identity\nAnswer {self.asked}", version=1)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenths of seconds stand for seconds."""
    monkeypatch.setattr(recall, "WAIT", 0.1)
    monkeypatch.setattr(recall, "TASK_WAIT", 0.5)
    monkeypatch.setattr(recall, "PAUSE", 0.2)
    monkeypatch.setattr(prompts, "AGE", 0.0)


@asynccontextmanager
async def task(name: str) -> AsyncIterator[None]:
    token = current_task.set(TaskContext(Journal(name)))  # type: ignore[arg-type]
    try:
        yield
    finally:
        current_task.reset(token)


def prompt_with(memory: Any, folder: Path) -> SystemPrompt:
    profile = Profile(name="engineer", description="Works")
    return SystemPrompt(profile, Settings(state_dir=folder), MemoryRecall(memory))


async def test_a_task_waits_for_a_slow_memory_once(tmp_path: Path) -> None:
    slow = MemoryRecall(SlowMemory(0.3))  # type: ignore[arg-type]
    with pytest.raises(BusUnavailable, match=r"within 0\.1 s"):
        await slow.brief("engineer", Settings(state_dir=tmp_path))
    await asyncio.sleep(0.25)
    async with task("t1"):
        assert (await slow.brief("engineer", Settings(state_dir=tmp_path))).text
        with pytest.raises(BusUnavailable):  # what was left of its patience
            await slow.brief("engineer", Settings(state_dir=tmp_path))


async def test_what_a_task_began_without_does_not_come_later(tmp_path: Path) -> None:
    memory = SlowMemory(0.7)
    prompt = prompt_with(memory, tmp_path)
    async with task("t1"):
        first = await prompt.parts()
        assert "Answer" not in first[1]
        memory.seconds = 0.0
        await asyncio.sleep(0.25)
        assert await prompt.parts() == first

        async def other() -> str:
            async with task("t2"):
                return (await prompt.parts())[1]

        assert "Answer" in await asyncio.create_task(other())
        assert await prompt.parts() == first


async def test_what_a_task_began_with_stays_while_memory_is_slow(tmp_path: Path) -> None:
    memory = SlowMemory(0.0)
    prompt = prompt_with(memory, tmp_path)
    async with task("t1"):
        first = await prompt.parts()
        assert "Answer 1" in first[1]
        memory.seconds = 0.7
        assert await prompt.parts() == first
