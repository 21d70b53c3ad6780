"""Stop a goal, a job or a schedule."""

import asyncio
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

ACCEPTED = 15
"""How often, each fifth of a second, is looked if the conductor has accepted a goal."""
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
        return Answer(text=(await desk.schedules.remove(schedule[0])).output)
    goals = await list_goals(desk, request)
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


async def list_goals(desk: "Desk", request: Request) -> list[Goal]:
    """The goals; the conductor has some time to accept the one that is named."""
    named = _GOAL.search(request.text)
    goals = await desk.office.goals()
    for _ in range(ACCEPTED):
        if not named or any(each.goal_id == named[0] for each in goals):
            break
        await asyncio.sleep(0.2)
        goals = await desk.office.goals()
    return goals


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
    return Answer(text=(await desk.schedules.remove(going[0].ref)).output)


async def _list_schedules(desk: "Desk") -> list[Going]:
    known = (await desk.schedules.list_schedules()).data["schedules"]
    return [
        Going(
            ref=each["due_id"],
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
    needs=_NEEDED,
    run=stop,
    effect=Effect.WRITES,
)
