"""What a model writes for a task, told to people who watch a few times a second; nothing stores it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from shared import subjects
from shared.bus import Bus
from shared.contracts import TaskThoughts
from shared.errors import BusError
from shared.tasks.context import current_task, goal_of
from shared.text.display import sendable

INTERVAL = 0.25  # Seconds between two notes: four a second, however fast a model writes
SHOWN = 600  # Characters of the end that a note has


@asynccontextmanager
async def telling(bus: Bus) -> AsyncIterator[Callable[[str | None], None] | None]:
    """A block in which a model is asked for the task at hand; gets what to tell of each piece (or None).

    Whoever comes late sees the end of it with the next note, and a note that is lost harms nothing. An empty
    one comes when the model has ended its message.
    """
    task = current_task.get()
    if task is None:
        yield None
        return
    written: list[str] = []
    changed = asyncio.Event()

    def tell(piece: str | None) -> None:
        if piece is None:
            written.clear()
        else:
            written.append(piece)
        changed.set()

    async def note(text: str) -> None:
        thoughts = TaskThoughts(
            agent=bus.name,
            goal_id=goal_of(task.task),
            task_id=task.task.task_id,
            text=sendable(text[-SHOWN:]),
            written=len(text),
        )
        await bus.publish(subjects.thoughts(bus.name, task.task.task_id), thoughts.to_json())

    async def pass_on() -> None:
        while True:
            await changed.wait()
            changed.clear()
            text = "".join(written)
            written[:] = [text]
            if text.strip():
                await note(text)
            await asyncio.sleep(INTERVAL)

    passing = asyncio.create_task(pass_on())
    try:
        yield tell
    finally:
        passing.cancel()
        await asyncio.wait({passing})
        try:
            if not passing.cancelled():
                passing.result()  # raises what ended it
            if written:
                await note("")
        except (BusError, ValueError):
            pass  # nobody is told, and nothing depends on that
