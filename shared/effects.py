"""What comes before everything that is more than reading and computing: the task at work is claimed.

Whatever leaves a trace, costs money or reaches another machine calls ``begin_effect`` first: writes to the
bus, commands, workspaces, requests to models and to the web. A task that does none of it needs no claim.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

before_effect: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("before_effect", default=None)
"""What is awaited before an effect of what is running; None outside of a task."""


async def begin_effect() -> None:
    """Return once what is running may have effects; a task that another process took over is cancelled."""
    if (require := before_effect.get()) is not None:
        await require()
