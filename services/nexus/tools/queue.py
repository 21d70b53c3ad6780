"""The overnight queue and what is planned."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.schedules.words import read_queue_call
from services.nexus.tools.tool import Call, Tool, Words
from shared import subjects

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
what is in the overnight queue?
show the queue
is anything queued?
which jobs run tonight?
what will you do overnight
list the scheduled jobs
which schedules are set up?
what is scheduled?
how does the overnight queue stand?
how many jobs are waiting?
is the nightly backup still scheduled
when does the next job start?
what runs every night?
which goals repeat
did you queue the thing for tonight?
what's on the list for the night
show me all recurring goals
what jobs are lined up
is the linter scheduled for tonight already?
what's coming up in the night window
how full is the queue
are there failed jobs in the queue?
which job is running now in the queue
when's the weekly check next due
show planned runs
do we have anything set to run on weekends?
in which order do the jobs run tonight?
what happens tonight
is anything running tonight
put the backup first in the queue
what's queued up
are the two reports in the night queue
what jobs are there for the weekend
list my schedules
show me what repeats
when do the nightly tests run?
when's the next scheduled run
is there still room in the night window
how long will the night's work take
did the job make it into the queue
what do you have planned for the night
anything scheduled for Sunday?
which regular jobs do we have
what's first tonight
how many schedules are active
is the weekly report still on
at what time does the backup job start
tonight's programme?
what's left in the queue
is the backup in tonight's plan
what did I schedule
tell me the schedule of the recurring jobs
will the render run tonight?
what's running overnight
how long is the queue
can I see tonight's jobs
which one goes first
are there jobs that failed in the queue last night
when is the energy report made
show me the overnight queue
which jobs run on a schedule
is anything lined up for the weekend
what have i got scheduled
list the night jobs
Will something be running while I'm asleep?
when does the backup run next
what recurring goals are there
queue?
how long is the queue at the moment
Did I already put the score conversion in for tonight or not
what's on the night list please
which of the schedules are switched on
at what time is the weekly stock check set to start
are there still jobs pending for tonight
anything repeating every day that i forgot about
show all schedules
Please show what is foreseen for this night
whats next up in the queue
how many jobs are queued
does the Monday report thing still exist as a schedule
what will the agents be doing at 3am
tell me what's coming up in the way of automatic runs
is the link check planned daily or weekly
what's in the pipeline for after hours
I'd like to see everything that's going to run without me
Which overnight jobs were put in by Marek
is there room for another job tonight or is it full
next scheduled run?
"""


async def tell(desk: "Desk", request: Request, _: Words) -> Call:
    """What is on a schedule; what waits in the queue and why, runs and failed; or what a command does."""
    if call := read_queue_call(request.text, desk.now(request), desk.zone):
        return Call(assignee=subjects.CORTEX, action=call[0], params=call[1])
    planned = await desk.schedules.book.list()
    return Call(assignee=subjects.CORTEX, action="queue_status", note=planned.output)


TOOL = Tool(
    name="queue",
    description="tells what is queued for the night, and what is scheduled",
    examples=EXAMPLES,
    run=tell,
)
