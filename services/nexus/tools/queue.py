"""The overnight queue and what is planned."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.schedules.words import read_queue_call
from services.nexus.tools.tool import Call, Tool, Words
from shared import subjects

if TYPE_CHECKING:
    from services.nexus.desk import Desk


async def tell(desk: "Desk", request: Request, _: Words) -> Call:
    """What is on a schedule; what waits in the queue and why, runs and failed; or what a command does."""
    if call := read_queue_call(request.text, desk.now(request), desk.zone):
        return Call(assignee=subjects.CORTEX, action=call[0], params=call[1])
    planned = await desk.schedules.book.list()
    return Call(assignee=subjects.CORTEX, action="queue_status", note=planned.output)


TOOL = Tool(
    name="queue",
    description="tells what is queued for the night, and what is scheduled",
    run=tell,
    personal=True,
)
