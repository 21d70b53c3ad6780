"""Stop a goal, a job or a schedule."""

import re
from typing import TYPE_CHECKING

import msgspec

from services.nexus.routing.request import Request
from services.nexus.tools.office import format_goal
from services.nexus.tools.tool import Answer, Call, Effect, Tool, Words, ask_back, command
from shared import subjects
from shared.bus.entry import seal
from shared.contracts import CancelGoal, Choice, Goal
from shared.text.shorten import flatten
from shared.text.words import find_stems, find_terms

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
skip tonight's export, the disk is full
leave the nightly scan out today
the weekly report isn't needed any more, get rid of it
we don't need the hourly check any longer
no run tonight please
call off what is planned for the night
the friday job can go
quit doing the daily download
stop it
cancel the goal
stop the running goal
abort the test run
cancel that goal please
kill the job
stop what you're doing
cancel the nightly tests
delete the schedule for the linter
remove the job from the queue
don't do the overnight job any more
stop goal_12ab34
call off the research
abort
take the scan off tonight's list
turn off the weekly report
stop the engineer
never mind the checkup, cancel it
please end the run of the benchmark
pull the job I queued earlier
I changed my mind, stop the migration goal
cancel everything that is running
no more nightly builds please
halt the refactoring
discontinue the daily scan
scrap the task for cortex
unschedule the friday report
kill the goal about scraping
cancel the job for tonight
stop the import
please stop the engineer's current task
end that goal
pull the plug on the simulation
stop everything
call off tonight's run
turn off the weekly scan
delete the Friday schedule
take the rendering out of the queue
drop the backup job
cancel what I just asked for
abort mission
wait, stop that
forget the checkup, cancel it
stop the schedule for the tide gauge
discard the goal from this morning
I don't need the report any more, cancel the goal
quit the research on pianos
halt, wrong folder
remove the nightly backup from the plan
cancel that, I'll do it myself
forget about the render tonight, cancel it
don't run the tide job any more
no need for the weekly list any longer, stop it
end the recurring scan
stop checking the tender page
don't do the thing tonight after all
please stop that now
stop the one about the website
that job can be deleted
stop
cancel the goal about the flyer
kill the simulation it's eating all the memory
abort the running job please
Don't run the link check any more on Mondays, drop that schedule
take the photo resizing out of tonight's queue
I changed my mind about the translation, call it off
end the nightly backup schedule
halt the agents now
please to stop the task with the invoices, it was the wrong folder
pause that weekly report until further notice
cancel job 7
no wait stop the import!!
remove the recurring stock report
whatever is running on ~/atlas at the moment, stop it
we no longer need the market research, you can cancel it
scrap the midnight run
Quit working on the seating plan
stop goal 18, somebody else did it already
turn off the hourly check
could you call the agents off the newsletter
delete the schedule for the sensor plots
tonight's training can be dropped, I found a pretrained one
cut it off, the render that's been going since noon
abandon the attempt to port the drum machine
discontinue the monthly compile of hours please
break off what youre doing
the overnight thing, don't do it after all
stand down on the press release, goal is cancelled
"""

MOST_ASKED = 5
"""The most choices of what is to be stopped."""
_PLANNED = ("tool:schedule", "tool:queue")
_ONCE = re.compile(r"(?i)\b(?:skip|leave\s+out|today|tonight|tomorrow|this\s+(?:week|month|time|once))\b")
_REPEATS = re.compile(
    r"(?i)\b(?:night|dai|week|month|hour|year)ly\b|\b(?:every|each|recurring|regular|(?:un)?schedules?d?)\b"
)
_SCHEDULE = re.compile(r"\bs[0-9a-f]{7}\b")
_GOAL = re.compile(r"goal_[A-Za-z0-9_]{6,}")
_JOB = re.compile(r"\bjob-\d{8}-\d{3}\b")


async def stop(desk: "Desk", request: Request, _: Words) -> Answer | Call:
    """What is named, or the only goal at work, is ended; several are choices."""
    if job := _JOB.search(request.text):
        return Call(assignee=subjects.CORTEX, action="cancel_job", params={"job_id": job[0]})
    if schedule := _SCHEDULE.search(request.text):
        return Answer(text=(await desk.schedules.book.remove(schedule[0])).output)
    goals = await desk.office.goals()
    if ended := next((goal for goal in goals if goal.status.final and goal.goal_id in request.text), None):
        return Answer(text=f"It has ended already; nothing was stopped: {format_goal(ended)}")
    if (asked := _GOAL.fullmatch(request.text.strip())) and not any(
        each.goal_id == asked[0] for each in goals
    ):
        return ask_back("The conductor has not accepted that goal yet. Say it again in a moment.")
    running = [goal for goal in goals if not goal.status.final]
    if named := next((goal for goal in running if goal.goal_id in request.text), None):
        return _cancel(desk, request, named)
    return await _stop_named(desk, request, running)


class Going(msgspec.Struct, frozen=True, kw_only=True):
    """What can be stopped: a goal or a schedule, its id, its words, and how it is shown."""

    ref: str
    words: str
    shown: str
    goal: Goal | None = None


async def _stop_named(desk: "Desk", request: Request, running: list[Goal]) -> Answer:
    """The goal or schedule that has most of the words that the message says, if it is one; else asks."""
    goals = [Going(ref=each.goal_id, words=each.text, shown=format_goal(each), goal=each) for each in running]
    schedules = await _list_schedules(desk)
    if _REPEATS.search(request.text) and schedules:
        goals = []  # "the nightly backup" is the schedule, and not the run that it began
    said = find_said(request.text)
    most = 0
    if not said:
        planned = request.before_route in _PLANNED or names_else(request.text)
        going = schedules if planned and schedules else goals or schedules
        sure = len(going) == 1 and planned is (going[0].goal is None)
    else:
        shares = {each.ref: len(said & find_stems(each.words)) for each in (*goals, *schedules)}
        most = max(shares.values(), default=0)
        going = [each for each in (*goals, *schedules) if shares[each.ref] == most]
        sure = len(going) == 1 and 2 * most >= len(said)
    if not going:
        return ask_back(
            "No goal is at work, and none is on a schedule. Jobs of the night: 'what is in the queue?'"
        )
    if not sure:
        return _ask_which(going, found=not said or bool(most))
    if goal := going[0].goal:
        return _cancel(desk, request, goal)
    if _ONCE.search(request.text):
        return _ask_how_long(going[0])
    return Answer(text=(await desk.schedules.book.remove(going[0].ref)).output)


async def _list_schedules(desk: "Desk") -> list[Going]:
    known = (await desk.schedules.book.list()).data["schedules"]
    return [
        Going(
            ref=each["schedule_id"],
            words=f"{each['text']} {each['words']}",
            shown=f"{each['every']}: {each['text']}",
        )
        for each in known
    ]


def _ask_which(going: list[Going], *, found: bool) -> Answer:
    choices = [
        Choice(label=flatten(each.shown, 200), text=command("stop", each.ref)) for each in going[:MOST_ASKED]
    ]
    several = len(going) > 1
    head = "Which one? Answer with its number." if several else "Is it this one? Answer yes or no."
    head = head if found else f"Nothing that I can stop has these words. {head}"
    return ask_back(head, choices=choices)


def _ask_how_long(schedule: Going) -> Answer:
    """A schedule cannot leave out a single run: it is paused until it is resumed, or removed."""
    choices = (
        Choice(label="pause it until I resume it", text=command("schedule", f"pause {schedule.ref}")),
        Choice(label="remove it", text=command("stop", schedule.ref)),
    )
    head = f"I cannot leave out a single run of {flatten(schedule.shown, 200)}. What shall I do?"
    return ask_back(head, choices=choices)


def names_else(text: str) -> bool:
    """Whether a message says what is to be ended, or a single run of it: "skip tonight"."""
    return bool(find_said(text) or _ONCE.search(text))


def find_said(text: str) -> frozenset[str]:
    """The stems that say what is to be ended, beside that something is: those of "skip tonight's export"."""
    return frozenset(find_terms(_NEEDED.sub(" ", text)).keys() - _GENERAL)


def _cancel(desk: "Desk", request: Request, goal: Goal) -> Answer:
    bus = desk.context.bus
    order = CancelGoal(
        id=bus.derive_id("cancel", request.letter_id, goal.goal_id),
        sender=desk.context.profile.name,
        recipient=subjects.CONDUCTOR,
        cause=request.letter_id,
        goal_id=goal.goal_id,
        reason="a person asked for it at the desk",
    )
    if not goal.context.get("letter_id"):
        return ask_back(f"I did not start it, so stop it yourself: mailroom cancel {goal.goal_id}")
    entry = seal(subjects.mail(subjects.CONDUCTOR, bus.name), order)
    return Answer(
        text=f"I asked the conductor to stop it: {format_goal(goal)}", goal_id=goal.goal_id, entries=(entry,)
    )


_NEEDED = re.compile(
    r"(?i)\b(?:stop\w*|cancel\w*|abort\w*|kill\w*|end|halt|pause|delete|remove|call (?:it |that )?off"
    r"|don['’]?t|no more|never\s?mind|"
    r"take|turn off|switch off|off|drop|scrap|pull|unschedule|discontinue|quit|enough|undo|not|no longer"
    r"|skip|bin|shut|leave|no (?:jobs?|goals?|runs?)|needn['’]?t|\w+n['’]t)\b"
)
"""Words that end something."""
_GENERAL = find_terms(
    "goal goals job jobs task tasks work works working run runs running thing things everything "
    "anything agent agents team please now right moment immediately again started start begun doing do "
    "did wait hold break change changed mind rather better not after all sorry actually current "
    "currently whatever last latest one ones go going want wanted need needed let lets just already "
    "asap quickly tonight today tomorrow night nightly day daily week weekly month monthly hour hourly every "
    "schedule scheduled queue recurring regular"
).keys()
"""Words that do not tell one goal from another."""
TOOL = Tool(
    name="stop",
    description="stops a goal or a job",
    examples=EXAMPLES,
    needs=_NEEDED,
    run=stop,
    effect=Effect.WRITES,
)
