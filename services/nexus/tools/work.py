"""Work of the office: goals are started and stopped, and requests of agents are approved or refused."""

import asyncio
import re
import shlex

import msgspec

from services.nexus.routing.request import Request
from services.nexus.tools.office import format_goal
from services.nexus.tools.tool import Answer, Call, Effect, Tool, ToolContext, Words, ask_back, command
from shared import subjects
from shared.bus.entry import seal
from shared.contracts import CancelGoal, Choice, Goal
from shared.contracts.emails import MAX_CHOICES, SLOT
from shared.language.sayings import read_sayings
from shared.text.display import flatten, quote_exactly, shorten_id
from shared.text.prose import find_stems, find_terms
from shared.timetable import KEPT, read_timetable

WAYS = read_sayings(__file__, "work")

SHOWN_ID = 8  # The characters at the end of a goal's id that commands are shown with


async def start_goal(context: ToolContext, request: Request, _: Words) -> Answer:
    """The goal that was started; asks what is to be done if the message does not say it."""
    if len(request.text.split()) < 2:
        what = "What is to be done, and where? For example: run the tests of ~/src/shop"
        return ask_back(what, f"{request.text} {SLOT}")
    entry, goal_id = context.make_goal(request)
    short = goal_id[-SHOWN_ID:]
    return Answer(
        text=f"That is work for the office, so I started goal {goal_id}: {flatten(request.text, 200)}\n"
        f"Its report comes by mail. To follow it: mailroom show {short}. To stop it: mailroom cancel {short}",
        goal_id=goal_id,
        entries=(entry,),
    )


WORK = Tool(
    name="work",
    description="starts work by the team: tests, fixes, check-ups, research, writing; you get a report",
    run=start_goal,
    effect=Effect.STARTS,
    route="conductor",
)


ACCEPTED = 15  # How often, each fifth of a second, is looked if the conductor has accepted a goal
MOST_ASKED = 5  # The most choices of what is to be stopped
_PLANNED = ("tool:schedule", "tool:queue")
_SCHEDULE = re.compile(r"\bs[0-9a-f]{7}\b")
_GOAL = re.compile(r"goal_[A-Za-z0-9_]{6,}")
_JOB = re.compile(r"\bjob-\d{8}-\d{3}\b")


async def stop(context: ToolContext, request: Request, _: Words) -> Answer | Call:
    """What is named, or the only goal at work, is ended; several are choices."""
    if job := _JOB.search(request.text):
        return Call(assignee=subjects.CORTEX, action="cancel_job", params={"job_id": job[0]})
    if schedule := _SCHEDULE.search(request.text):
        return Answer(text=(await context.schedules.remove(schedule[0])).output)
    goals = await list_goals(context, request)
    if ended := next((goal for goal in goals if goal.status.final and goal.goal_id in request.text), None):
        return Answer(text=f"It has ended already; nothing was stopped: {format_goal(ended)}")
    if (asked := _GOAL.fullmatch(request.text.strip())) and not any(
        each.goal_id == asked[0] for each in goals
    ):
        return ask_back("The conductor has not accepted that goal yet. Say it again in a moment.")
    running = [goal for goal in goals if not goal.status.final]
    if named := next((goal for goal in running if goal.goal_id in request.text), None):
        return _cancel_goal(context, request, named)
    return await _stop_named(context, request, running)


async def list_goals(context: ToolContext, request: Request) -> list[Goal]:
    """The goals; the conductor has some time to accept the one that is named."""
    named = _GOAL.search(request.text)
    goals = await context.office.goals()
    for _ in range(ACCEPTED):
        if not named or any(each.goal_id == named[0] for each in goals):
            break
        await asyncio.sleep(0.2)
        goals = await context.office.goals()
    return goals


class Going(msgspec.Struct, frozen=True, kw_only=True):
    """What can be stopped: a goal or a schedule, its id, its words, and how it is shown."""

    ref: str
    words: str
    shown: str
    goal: Goal | None = None


async def _stop_named(context: ToolContext, request: Request, running: list[Goal]) -> Answer | Call:
    """The goal, schedule or job that has most of the words that the message says, if it is one; else asks."""
    goals = [Going(ref=each.goal_id, words=each.text, shown=format_goal(each), goal=each) for each in running]
    schedules = [*await _list_schedules(context), *await _list_jobs(context)]
    if WAYS["repeats"].search(request.text) and schedules:
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
        return ask_back("No goal is at work, none is on a schedule, and no job waits for the night.")
    if not sure:
        return _ask_which(going, found=not said or bool(most))
    if _JOB.fullmatch(going[0].ref):
        return Call(assignee=subjects.CORTEX, action="cancel_job", params={"job_id": going[0].ref})
    if goal := going[0].goal:
        return _cancel_goal(context, request, goal)
    if WAYS["once"].search(request.text):
        # A schedule cannot leave out a single run: it is paused until it is resumed, or removed
        schedule = going[0]
        choices = (
            Choice(label="pause it until I resume it", text=command("schedule", f"pause {schedule.ref}")),
            Choice(label="remove it", text=command("stop", schedule.ref)),
        )
        head = f"I cannot leave out a single run of {flatten(schedule.shown, 200)}. What shall I do?"
        return ask_back(head, choices=choices)
    return Answer(text=(await context.schedules.remove(going[0].ref)).output)


async def _list_schedules(context: ToolContext) -> list[Going]:
    known = (await context.schedules.list_schedules()).data["schedules"]
    return [
        Going(
            ref=each["due_id"],
            words=f"{each['text']} {each['words']}",
            shown=f"{each['every']}: {each['text']}",
        )
        for each in known
    ]


async def _list_jobs(context: ToolContext) -> list[Going]:
    """The jobs of the night that wait or run."""
    known = await read_timetable(context.agent.bus, subjects.CORTEX)
    jobs = [each for each in known.items if each.status in KEPT]
    return [Going(ref=each.due_id, words=each.text, shown=f"at night: {each.text}") for each in jobs]


def _ask_which(going: list[Going], *, found: bool) -> Answer:
    choices = [
        Choice(label=flatten(each.shown, 200), text=command("stop", each.ref)) for each in going[:MOST_ASKED]
    ]
    several = len(going) > 1
    head = "Which one? Answer with its number." if several else "Is it this one? Answer yes or no."
    head = head if found else f"Nothing that I can stop has these words. {head}"
    return ask_back(head, choices=choices)


def names_else(text: str) -> bool:
    """Whether a message says what is to be ended, or a single run of it: "skip tonight"."""
    return bool(find_said(text) or WAYS["once"].search(text))


def find_said(text: str) -> frozenset[str]:
    """The stems that say what is to be ended, beside that something is: those of "skip tonight's export"."""
    return frozenset(find_terms(WAYS["stop_needs"].sub(" ", text)).keys() - _GENERAL)


def _cancel_goal(context: ToolContext, request: Request, goal: Goal) -> Answer:
    bus = context.agent.bus
    order = CancelGoal(
        id=bus.derive_id("cancel", request.key, goal.goal_id),
        sender=context.agent.profile.name,
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


_GENERAL = find_terms(
    "goal goals job jobs task tasks work works working run runs running thing things everything "
    "anything agent agents team please now right moment immediately again started start begun doing do "
    "did wait hold break change changed mind rather better not after all sorry actually current "
    "currently whatever last latest one ones go going want wanted need needed let lets just already "
    "asap quickly tonight today tomorrow night nightly day daily week weekly month monthly hour hourly every "
    "schedule scheduled queue recurring regular"
).keys()
"""Words that do not tell one goal from another."""
STOP = Tool(
    name="stop",
    description="stops a goal or a job",
    needs=WAYS["stop_needs"],
    run=stop,
    effect=Effect.WRITES,
)


UNANSWERED = (
    "Only a person can answer an approval, on the page of the inbox or with the command; "
    "nothing is answered yet:"
)
SHOWN_REQUEST = 1_000  # The most characters of what is asked; a cut says where the whole is
DONE = {"grant": "granted", "refuse": "refused"}
_REFUSES = ("refuse", "reject", "deny", "decline", "no", "not", "don't", "dont", "disallow", "turn")


async def answer_approval(context: ToolContext, request: Request, _: Words) -> Answer:
    """The command that answers the request: the broker takes answers from people, not from agents."""
    if answers := WAYS["answers"].fullmatch(request.text.strip()):
        return await _answer_question(context, answers["goal"] or "", answers["say"])
    waiting = await context.office.approvals(await context.office.goals())
    if not waiting:
        return ask_back("Nothing waits for your approval.")
    verb = (
        "refuse"
        if any(word in _REFUSES for word in request.text.lower().replace(",", " ").split())
        else "grant"
    )
    chosen = [each for each in waiting if each.approval_id[:12] in request.text] or waiting
    if len(chosen) > 1 and not WAYS["all_requests"].search(request.text):
        choices = [
            Choice(
                label=f"{each.sender}: {flatten(each.what, 150)}",
                text=command("approve", f"{verb} approval {each.approval_id[:12]}"),
            )
            for each in chosen[:MAX_CHOICES]
        ]
        return ask_back(f"Which one shall be {DONE[verb]}? Answer with its number.", choices=choices)
    whole = "shown by 'mailroom approvals list' and in the inbox"
    lines = [
        f"- {each.sender}:\n{quote_exactly(each.what, SHOWN_REQUEST, whole)}\n"
        f"  mailroom approvals {verb} {each.approval_id[:12]}"
        for each in chosen
    ]
    return Answer(text="\n".join([UNANSWERED, *lines]))


async def _answer_question(context: ToolContext, goal_id: str, say: str) -> Answer:
    """The command that answers what a goal asks, or a letter: the only one, or that of ``goal_id``."""
    waiting, words = await context.office.waiting(await context.office.goals()), shlex.quote(say)
    asked = [
        (each.text, each.question, f"mailroom resume {each.goal_id} --say {words}")
        for each in waiting.asking
        if goal_id in ("", each.goal_id)
    ]
    if not goal_id:
        asked += [
            (each.sender, each.subject or each.body, f"mailroom mail reply {shorten_id(each.id)} {words}")
            for each in waiting.questions
        ]
    if not asked:
        return ask_back("No question waits for your answer.")
    head = UNSENT if len(asked) == 1 else "Several questions wait; which one is it? Nothing is sent yet:"
    lines = [f"- {flatten(who, 80)} asks: {flatten(what, 300)}\n  {order}" for who, what, order in asked]
    return Answer(text="\n".join([head, *lines]))


UNSENT = "Only a person can answer a question, in the inbox or with the command; nothing is sent yet:"
APPROVE = Tool(
    name="approve",
    description="leads you to approve or refuse what agents ask for",
    says=WAYS["approve_says"],
    needs=WAYS["approve_needs"],
    run=answer_approval,
    effect=Effect.WRITES,
)
