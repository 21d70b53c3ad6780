"""The progress of a goal as it goes on, and at the end what it found."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec
from starlette.responses import Response, StreamingResponse

from services.gateway.api.goals import ONE
from services.gateway.api.messages import KEEP_ALIVE
from services.gateway.call import Call, merge
from services.gateway.problems import Problem, status_of, title_of
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope
from shared.contracts import TaskThoughts
from shared.errors import MailroomError
from shared.queries.progress import follow_to_results
from shared.queries.results import expand_goal_id, find_goal
from shared.views.progress import Progress

STREAM = "text/event-stream"


class ProgressQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The number of the goal's submission in OFFICE; 0 if the conductor knows the goal already."""

    submitted: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0


async def follow_progress(call: Call, query: ProgressQuery) -> Response:
    """Follow a goal until it has ended, as server-sent events.

    ``progress`` events have the goal and its tasks now and after every change, ``ended`` the same with what
    the goal found and used. ``thinking`` is what a model writes for one of its tasks, as it does.
    ``problem`` says why it cannot be followed, for instance because the conductor
    refuses the submission; ``alive`` comes if nothing else does.
    """
    bus = call.gateway.bus
    goal_id = await expand_goal_id(bus, call.token("goal_id", "goal"))
    if not query.submitted:
        await find_goal(bus, goal_id)  # one that nobody submitted would be waited for without end
    changes = merge(
        follow_to_results(bus, call.gateway.settings, goal_id, query.submitted),
        call.gateway.thoughts.follow(goal_id),
    )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_frames(changes), media_type=STREAM, headers=headers)


async def _frames(
    changes: AsyncGenerator[Progress | list[TaskThoughts], None],
) -> AsyncGenerator[bytes, None]:
    pending = asyncio.ensure_future(anext(changes))
    try:
        while True:
            done, _ = await asyncio.wait({pending}, timeout=KEEP_ALIVE)
            if not done:
                yield _frame("alive", {})
                continue
            progress = pending.result()
            if isinstance(progress, Progress):
                yield _frame("ended" if progress.results else "progress", progress)
            else:
                yield b"".join(_frame("thinking", each) for each in progress)
            pending = asyncio.ensure_future(anext(changes))
    except StopAsyncIteration:
        return
    except MailroomError as error:
        status = status_of(error)
        yield _frame(
            "problem", Problem(title=title_of(status), status=status, detail=error.cause, cure=error.cure)
        )
    finally:
        pending.cancel()
        await asyncio.gather(pending, return_exceptions=True)
        await changes.aclose()


def _frame(event: str, content: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), msgspec.json.encode(content))


ENDPOINTS = (Endpoint("GET", f"{ONE}/progress", follow_progress, scope=Scope.READ, tag="goals"),)
