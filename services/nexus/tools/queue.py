"""The overnight queue and what is planned."""

from services.nexus.routing.request import Request
from services.nexus.schedules.words import read_queue_call
from services.nexus.tools.tool import Call, Tool, ToolContext, Words
from shared import subjects


async def tell(context: ToolContext, request: Request, _: Words) -> Call:
    """What is on a schedule; what waits in the queue and why, runs and failed; or what a command does."""
    if call := read_queue_call(request.text, context.now(request), context.zone):
        return Call(assignee=subjects.CORTEX, action=call[0], params=call[1])
    planned = await context.schedules.book.list()
    return Call(assignee=subjects.CORTEX, action="queue_status", note=planned.output)


TOOL = Tool(
    name="queue",
    description="tells what is queued for the night, and what is scheduled",
    run=tell,
    personal=True,
)
