"""Goals, their tasks and failures: what the agents did and do."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.office import format_goal
from services.nexus.tools.tool import Answer, Tool, Words
from shared.contracts import Goal, ResultOutcome, TaskStatus
from shared.text.phrases import count
from shared.text.words import find_stems, find_terms

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
do you get anywhere with the leaflet
is someone already looking at the slow page
how's it going with the translation
what is the status of my goal?
any failed goals?
which goals failed?
did anything fail today?
what's running at the moment?
what is the team working on
how far along is the checkup?
is the goal from this morning done?
did the job I gave you finish?
what did you do today?
what have the agents done since yesterday?
show me the last goals
list my goals
which tasks are still open for the engineer?
how many goals finished this week?
why did the last goal fail?
what went wrong with the test run?
status
status update please
hows it going with the thing I asked for
progress on goal_12ab34?
is anything still running?
has the engineer finished?
is cortex busy?
what is scout up to
who is at work right now
is everything ok in the office?
what happened to my request from an hour ago
did the tests I asked you to run pass?
have the tests been run?
is the report finished yet
when will the goal be done?
what are you working on?
show failures
anything stuck?
which agents are online?
how many tasks failed last night
what was the result of the last goal?
did the scan of the shop repo find something
give me an overview of open work
are we done with the upgrade goal
where does my goal stand
is it done yet?
how did the last run go?
how's the catalogue thing going
how is the migration coming along
is anyone working on the login crash
did the nightly build go through
how long did last night's reindex take
how many goals did you finish in february
what did cortex do all night
did the engineer manage to fix it?
has scout found anything yet
is the research brief ready
what are the agents up to
what's the engineer working on
did the upload job work
what came out of the security scan?
are the tests of the shop still running
how many tasks are running at the moment
which goal took longest yesterday
what happened with goal 4f2a
was the report delivered?
the thing I asked for this morning, is it finished
show me everything that went wrong this week
what did you finish while I was at lunch
any errors in the last run?
did critic approve the patch
is the photo conversion through?
how many percent of the import are done
when did the last checkup run
did anything crash overnight
what's taking so long
are you still on it?
anything new on my request?
did you do what I asked
who did the work on the parser?
have you finished the transcription
what are you doing
what became of the scan I asked for
did anything go wrong with the export
how's it going with the paper for Ito
is the website check done
how far is cortex
did the team finish the summary
show me running work
have you started yet?
when did the last goal end
which of my requests are finished
what did the critic say about the patch
why is it not finished
was the chart made
is there a result
how many goals failed this month
how's everything going with the agents
what did you lot get done yesterday
did the import of the seed catalogue work out?
show me the open goals
Any failures since this morning?
how far along is the translation of the manual
whats running rn
Is somebody already working on the poster thing I asked for on Monday
list what was finished this week please
is it done yet, the renaming of all the sample files
Have the tests been run on the payment branch?
progress?
I would like to know which tasks are still not complete
who picked up the goal about the newsletter layout
what's holding up the migration
Did the agents manage to fix that crash in the ticket shop or are they still at it
give me a rundown of all the tasks under the grant report goal
how many goals failed last week
what happened to the job of sorting the parish photos, i never heard back
which agent did the transcription of the interview
tell me how goal 41 is doing
are we nearly there with the bass tabs?
what have you been doing all day
The inventory count that I kicked off at lunch, has that come through?
how long has the benchmark been running now
was the invoice script actually tested or just written
could you explain why the greenhouse logger task took six tries
status of the things i started please
"""

GOAL = re.compile(r"\bgoal_[A-Za-z0-9_]{6,}\b")
MOST = 8
"""The most goals of an answer."""
_COMMON = frozenset("goal task run status agent job office test fail work".split())


async def tell(desk: "Desk", request: Request, _: Words) -> Answer:
    """The goals that the message asks about: failed, running, named ones, else the last."""
    goals = (await desk.office.goals())[::-1]
    asked = GOAL.findall(request.text)
    if new := [each for each in asked if not any(goal.goal_id == each for goal in goals)]:
        return Answer(
            text=f"{new[0]} is with the conductor, which has not begun it yet.", citations=(new[0],)
        )
    if not goals:
        return Answer(text="There are no goals yet. Say what is to be done, and I start one.")
    head, chosen = _choose(goals, request.text)
    lines = [f"- {format_goal(goal)}" for goal in chosen[:MOST]]
    more = [f"... and {len(chosen) - MOST} more: mailroom status"] if len(chosen) > MOST else []
    return Answer(
        text="\n".join([head, *lines, *more]), citations=tuple(goal.goal_id for goal in chosen[:MOST])
    )


def _choose(goals: list[Goal], text: str) -> tuple[str, list[Goal]]:
    lower = text.lower()
    running = [goal for goal in goals if not goal.status.final]
    failed = [
        goal
        for goal in goals
        if goal.status in (TaskStatus.FAILED, TaskStatus.TIMEOUT)
        or (goal.outcome is ResultOutcome.FAILED and goal.status is not TaskStatus.CANCELLED)
    ]
    terms = find_terms(text).keys() - _COMMON
    named = [goal for goal in goals if goal.goal_id in text or terms & find_stems(goal.text)]
    if chosen := [goal for goal in goals if goal.goal_id in text]:
        return "About that:", chosen
    if "fail" in lower or "went wrong" in lower or "stuck" in lower:
        return (
            (f"{len(failed)} of {len(goals)} goals failed:", failed)
            if failed
            else ("No goal has failed.", [])
        )
    if named and len(named) < len(goals):
        return "About that:", named
    if running:
        verb = "is" if len(running) == 1 else "are"
        return f"{count(len(running), 'goal')} {verb} at work:", running
    return "Nothing is at work. The last goals:", goals


TOOL = Tool(
    name="goals",
    description="tells how goals and tasks stand, what failed, and what the agents do",
    examples=EXAMPLES,
    run=tell,
)
