"""What happens later: reminders, goals on a schedule, and jobs of the night."""

import re
from typing import TYPE_CHECKING

from services.nexus.conversation.mentions import GONE
from services.nexus.routing.request import Request
from services.nexus.schedules.words import JOB_MOVE, read_move, read_night_job, read_order, read_queue_call
from services.nexus.tools.tool import Answer, Call, Effect, Run, Tool, Words, ask_back, command
from shared import subjects
from shared.contracts.conversation import SLOT
from shared.errors import ActionError

if TYPE_CHECKING:
    from services.nexus.desk import Desk


def _remind(meaning: str) -> Run:
    """What the service of reminders makes of a message that means to set, change, cancel or list them."""

    async def mind(desk: "Desk", request: Request, _: Words) -> Call:
        return Call(
            assignee=desk.context.profile.name,
            action="mind_reminders",
            params={"text": request.text, "meaning": meaning},
        )

    return mind


async def plan_goal(desk: "Desk", request: Request, _: Words) -> Answer:
    """The goal on its schedule, or what a command does to one; what is not clear is asked back."""
    try:
        outcome = await desk.schedules.obey(request)
    except ActionError as error:
        # A command says all at once; what follows it is another message.
        more = "" if read_order(request.text) else command("schedule", f"{request.text} {SLOT}")
        return ask_back(str(error), more)
    if request.replaces and request.replaces not in outcome.output:
        removed = await desk.schedules.remove(request.replaces)
        return Answer(text=f"{outcome.output}\n{GONE}{removed.output}")
    return Answer(text=outcome.output, goal_id=str(outcome.data.get("goal_id", "")))


async def queue_job(desk: "Desk", request: Request, _: Words) -> Answer | Call:
    """The job, put into cortex's queue, whose answer says when it begins and how to stop it; or another time
    for one that waits.
    """
    now = desk.now(request)
    if call := read_queue_call(request.text, now, desk.zone):
        return Call(assignee=subjects.CORTEX, action=call[0], params=call[1])
    try:
        if move := read_move(request.text, now, desk.zone, request.replaces):
            return Call(assignee=subjects.CORTEX, action="move_job", params=move)
        params = read_night_job(request.text, now, desk.zone)
    except ActionError as error:
        return ask_back(str(error), command("night_job", f"tonight {SLOT}"))
    return Call(assignee=subjects.CORTEX, action="queue_job", params=params)


async def list_later(desk: "Desk", request: Request, _: Words) -> Call:
    """What is on a schedule; what waits in the queue and why, runs and failed; or what a command does."""
    if call := read_queue_call(request.text, desk.now(request), desk.zone):
        return Call(assignee=subjects.CORTEX, action=call[0], params=call[1])
    planned = await desk.schedules.list_schedules()
    return Call(assignee=subjects.CORTEX, action="queue_status", note=planned.output)


_PLEASE = r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
_CANCELS = re.compile(
    _PLEASE + r"(?:cancel|delete|remove|drop|stop|kill|unset|clear|turn\s+off|get\s+rid\s+of|scrap)\b[^.?!]*"
    r"\b(?:reminders?|alarms?|timers?)\b"
)
_CHANGES = re.compile(
    _PLEASE + r"(?:(?:move|shift|push|postpone|delay|reschedule|change|rename|reword|switch|snooze|put\s+off"
    r"|set\s+back)\b[^.?!]*"
    r"\b(?:reminders?|alarms?|timers?)\b|remind\s+(?:me|us)\s+(?:a\s+bit\s+|again\s+)?later\b)"
)
"""How messages begin that are certainly for these tools."""
_SET = re.compile(
    r"(?is)^(?!.*\bremind(?:ing)?\s+(?:me|us)[\s,:]+(?:again\s+)?(?:what|who|whom|whose|where|why|how|which|whether)\b"
    r"(?!.*\b(?:at|tomorrow|tonight|every|in\s+\d+)\b))"
)
"""No question for memory: "remind me what the paint was called"."""
_REPEATED = re.compile(
    r"(?i)\b(?:(?:every|evry|each)\s+(?:\w+\s+){0,2}?(?:day|night|morning|evening|afternoon|week\w*|month|year|hour"
    r"|minute|quarter|noon|midnight|(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun|\d+)s?"
    r"|(?<!the\s)(?<!last\s)(?:daily|nightly|(?:bi-?)?weekly|fortnightly|monthly|quarterly|hourly|yearly|annually)"
    r"|cron\w*|regular\w*|repeat\w*|from now on"
    r"|automat\w*|(?:once|twice|\w+ times) (?:an?|per|each|every)|(?:mon|tues|wednes|thurs|fri|satur|sun)days"
    r"|(?:\d+(?:st|nd|rd|th)|first|last)(?:\s+\w+){0,2}\s+of\s+(?:the|each|every)\s+(?:month|quarter|year)"
    r"|(?:mon|tues?|wed|thurs?|fri|sat|sun)\w*\s*(?:\+|&|and)\s*(?:mon|tues?|wed|thurs?|fri|sat|sun)\w*"
    r"|on the \d+\w* and (?:the )?\d+\w*|schedules?d?|weekdays|mornings|evenings|nights)\b"
)
"""Words of repetition."""
_LATER = re.compile(
    r"(?i)\b(?:tonight|to\s?nite|over\s?ni(?:ght|te)|night|(?:small|wee|quiet) hours"
    r"|breakfast|dawn|asleep|sleep\w*|bed|(?:after|out of) (?:work|hours)|evening"
    r"|morning|later|no rush|queue\w*|"
    r"(?:gone|go|went) home|nobody|everyone|quiet|midnight|off\s?peak|when (?:i|we)['’]?(?:m| am|re| are)? "
    r"(?:off|away|out|done)"
    r"|off\s?line|shut|closed|closing|cheap\w*|idle|while (?:i|we)['’]?(?:m| am|re| are)? (?:off|away|out))\b"
)
"""Words of the night, or of later."""

TOOLS = (
    Tool(
        name="reminder_set",
        description="sets reminders, once or repeated",
        needs=_SET,
        run=_remind("set"),
        effect=Effect.WRITES,
    ),
    Tool(
        name="reminder_change",
        description="moves, snoozes and finishes reminders",
        says=_CHANGES,
        run=_remind("change"),
        effect=Effect.WRITES,
    ),
    Tool(
        name="reminder_cancel",
        description="cancels reminders",
        says=_CANCELS,
        run=_remind("cancel"),
        effect=Effect.WRITES,
    ),
    Tool(
        name="reminder_list",
        description="lists your reminders",
        run=_remind("list"),
        personal=True,
    ),
    Tool(
        name="schedule",
        description="repeats a goal on a schedule",
        needs=_REPEATED,
        run=plan_goal,
        effect=Effect.STARTS,
        personal=True,
    ),
    Tool(
        name="night_job",
        description="puts work into the queue for the night",
        needs=_LATER,
        says=JOB_MOVE,
        run=queue_job,
        effect=Effect.STARTS,
        personal=True,
    ),
    Tool(
        name="queue",
        description="tells what is queued for the night, and what is scheduled",
        run=list_later,
        personal=True,
    ),
)
