"""Notes on work that takes long."""

import asyncio

import pytest

from shared.errors import Conflict
from shared.tasks.context import telling


async def test_long_work_is_noted_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.tasks.context.TELL_EVERY", 0.01)
    notes: list[str] = []
    twice = asyncio.Event()

    async def note(text: str) -> None:
        notes.append(text)
        if len(notes) > 1:
            twice.set()

    async with asyncio.timeout(5), telling(note, "the checkers run"):
        await twice.wait()
    told = len(notes)
    assert notes[0] == "the checkers run (0 s)"
    await asyncio.sleep(0.05)
    assert len(notes) == told


async def test_a_note_that_is_refused_disturbs_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.tasks.context.TELL_EVERY", 0.0)

    async def note(text: str) -> None:
        raise Conflict("The claim is lost")

    async with telling(note, "the checkers run"):
        await asyncio.sleep(0.01)
