"""Work for the night."""

from services.nexus.routing.request import Request
from services.nexus.schedules.words import JOB_MOVE, read_move, read_night_job, read_queue_call
from services.nexus.tools.tool import Answer, Call, Effect, Tool, ToolContext, Words, ask_back, command
from shared import subjects
from shared.contracts.conversation import SLOT
from shared.errors import ActionError
from shared.language.sayings import read_sayings

WAYS = read_sayings(__file__, "night_job")


async def queue(context: ToolContext, request: Request, _: Words) -> Answer | Call:
    """The job, put into cortex's queue, whose answer says when it begins and how to stop it; or another time
    for one that waits.
    """
    now = context.now(request)
    if call := read_queue_call(request.text, now, context.zone):
        return Call(assignee=subjects.CORTEX, action=call[0], params=call[1])
    try:
        if move := read_move(request.text, now, context.zone, request.replaces):
            return Call(assignee=subjects.CORTEX, action="move_job", params=move)
        params = read_night_job(request.text, now, context.zone)
    except ActionError as error:
        return ask_back(str(error), command("night_job", f"tonight {SLOT}"))
    return Call(assignee=subjects.CORTEX, action="queue_job", params=params)


TOOL = Tool(
    name="night_job",
    description="puts work into the queue for the night",
    needs=WAYS["needed"],
    says=JOB_MOVE,
    run=queue,
    effect=Effect.STARTS,
    personal=True,
)
