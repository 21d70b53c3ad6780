"""What happens later: reminders, goals on a schedule, and jobs of the night."""

from services.nexus.conversation.mentions import GONE
from services.nexus.office.query import Kind
from services.nexus.routing.request import Request
from services.nexus.timetable.schedule_words import (
    JOB_MOVE,
    read_move,
    read_night_job,
    read_order,
    read_queue_call,
)
from services.nexus.tools.office import answer_of_office
from services.nexus.tools.tool import Answer, Call, Effect, Run, Tool, ToolContext, Words, ask_back, command
from shared import subjects
from shared.contracts.emails import SLOT
from shared.errors import ActionError
from shared.language.sayings import read_sayings

WAYS = read_sayings(__file__, "later")


def _remind(meaning: str) -> Run:
    """What the service of reminders makes of a message that means to set, change, cancel or list them."""

    async def mind(context: ToolContext, request: Request, _: Words) -> Call:
        return Call(
            assignee=context.agent.profile.name,
            action="mind_reminders",
            params={"text": request.text, "meaning": meaning},
        )

    return mind


async def plan_goal(context: ToolContext, request: Request, _: Words) -> Answer:
    """The goal on its schedule, or what a command does to one; what is not clear is asked back."""
    try:
        outcome = await context.schedules.obey(request)
    except ActionError as error:
        # A command says all at once; what follows it is another message.
        more = "" if read_order(request.text) else command("schedule", f"{request.text} {SLOT}")
        return ask_back(str(error), more)
    if request.replaces and request.replaces not in outcome.output:
        removed = await context.schedules.remove(request.replaces)
        return Answer(text=f"{outcome.output}\n{GONE}{removed.output}")
    return Answer(text=outcome.output, goal_id=str(outcome.data.get("goal_id", "")))


async def queue_job(context: ToolContext, request: Request, _: Words) -> Answer | Call:
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


async def list_later(context: ToolContext, request: Request, _: Words) -> Answer | Call:
    """What comes when and why it waits; how the jobs of the night ended; or what a command does."""
    if call := read_queue_call(request.text, context.now(request), context.zone):
        return Call(assignee=subjects.CORTEX, action=call[0], params=call[1])
    told = await answer_of_office(context, request, Kind.PLANNED)
    if WAYS["ended_jobs"].search(request.text):
        return Call(assignee=subjects.CORTEX, action="queue_status", note=told.text)
    return told


REMINDER_SET = Tool(
    name="reminder_set",
    description="sets reminders, once or repeated",
    needs=WAYS["reminds"],
    run=_remind("set"),
    effect=Effect.WRITES,
)
REMINDER_CHANGE = Tool(
    name="reminder_change",
    description="moves, snoozes and finishes reminders",
    says=WAYS["changes_reminder"],
    run=_remind("change"),
    effect=Effect.WRITES,
)
REMINDER_CANCEL = Tool(
    name="reminder_cancel",
    description="cancels reminders",
    says=WAYS["cancels_reminder"],
    run=_remind("cancel"),
    effect=Effect.WRITES,
)
REMINDER_LIST = Tool(
    name="reminder_list",
    description="lists your reminders",
    run=_remind("list"),
    personal=True,
)
SCHEDULE = Tool(
    name="schedule",
    description="repeats a goal on a schedule",
    needs=WAYS["repeats"],
    run=plan_goal,
    effect=Effect.STARTS,
    personal=True,
)
NIGHT_JOB = Tool(
    name="night_job",
    description="puts work into the queue for the night",
    needs=WAYS["at_night"],
    says=JOB_MOVE,
    run=queue_job,
    effect=Effect.STARTS,
    personal=True,
)
QUEUE = Tool(
    name="queue",
    description="tells what is queued for the night, and what is scheduled",
    run=list_later,
    personal=True,
)
