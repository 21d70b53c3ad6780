"""A cancellation that is not lost."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def keeping_cancellation() -> Iterator[None]:
    """Raise CancelledError at the end of the block if the task was cancelled within and that was lost.

    ``asyncio.wait_for`` of Python 3.11, which nats-py uses, returns a result that comes in the same turn of
    the event loop as the cancellation, and forgets the cancellation: who cancelled the task waits for ever.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError
