"""The office as it stands: goals, what waits, projects, spending, the briefing, and what the desk can do."""

import re
from collections.abc import Sequence
from datetime import UTC, timedelta

from services.nexus.answers.memory_answer import node_statement
from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Call, Tool, ToolContext, Words, read_examples
from shared.contracts import DailySpending, Goal, Hit
from shared.errors import BusError
from shared.language.sayings import read_sayings
from shared.text.display import count, flatten
from shared.text.prose import find_stems, find_terms

WAYS = read_sayings(__file__, "office")


def format_goal(goal: Goal) -> str:
    """A goal in a line: its state, what it is, its answer or why it failed, its id."""
    result = flatten(goal.reason or goal.answer, 160)
    because = f" - {result}" if result else ""
    return f"{goal.standing}: {flatten(goal.text, 160)}{because} ({goal.goal_id})"


GOAL_ID = re.compile(r"\bgoal_[A-Za-z0-9_]{6,}\b")
MOST_GOALS = 8  # The most goals of an answer
_COMMON_WORDS = frozenset("goal task run status agent job office test fail work".split())


async def tell_goals(context: ToolContext, request: Request, _: Words) -> Answer:
    """The goals that the message asks about: failed, running, named ones, else the last."""
    goals = (await context.office.goals())[::-1]
    asked = GOAL_ID.findall(request.text)
    if new := [each for each in asked if not any(goal.goal_id == each for goal in goals)]:
        return Answer(
            text=f"The conductor has no goal {new[0]}; if it was submitted just now, it begins in a moment "
            f"(mailroom show {new[0]})."
        )
    if not goals:
        return Answer(text="There are no goals yet. Say what is to be done, and I start one.")
    head, chosen = _choose_goals(goals, request.text)
    lines = [f"- {format_goal(goal)}" for goal in chosen[:MOST_GOALS]]
    more = [f"... and {len(chosen) - MOST_GOALS} more: mailroom status"] if len(chosen) > MOST_GOALS else []
    return Answer(
        text="\n".join([head, *lines, *more]), citations=tuple(goal.goal_id for goal in chosen[:MOST_GOALS])
    )


def _choose_goals(goals: list[Goal], text: str) -> tuple[str, list[Goal]]:
    lower = text.lower()
    running = [goal for goal in goals if not goal.status.final]
    failed = [goal for goal in goals if goal.failed]
    terms = find_terms(text).keys() - _COMMON_WORDS
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


GOALS = Tool(
    name="goals",
    description="tells how goals and tasks stand, what failed, and what the agents do",
    run=tell_goals,
    personal=True,
)


async def tell_waiting(context: ToolContext, request: Request, _: Words) -> Answer:
    """All that waits, as the page of the inbox has it."""
    waiting = await context.office.waiting(await context.office.goals())
    lines = [
        *(
            f"- {each.sender} asks to be allowed: {flatten(each.what, 200)} "
            f"(mailroom approvals grant {each.approval_id[:12]}, or refuse)"
            for each in waiting.approvals
        ),
        *(
            f"- {each.sender} asks: {flatten(each.subject or each.body, 200)} (mailroom mail show {each.id})"
            for each in waiting.questions
        ),
        *(
            f"- {count(each.count, 'dead letter')} of {each.agent}, the last: "
            f"{flatten(each.last.reason, 160)} (mailroom dead show {each.number})"
            for each in waiting.dead_letters
        ),
        *(
            f"- Failed: {flatten(each.text, 120)} - {flatten(each.reason or each.answer, 160)} "
            f"(mailroom show {each.goal_id}, or retry)"
            for each in waiting.failed_goals
        ),
    ]
    head = f"{count(waiting.count, 'thing')} {'waits' if waiting.count == 1 else 'wait'} for you:"
    return Answer(text="\n".join([head, *lines] if lines else ["Nothing waits for you."]))


WAITING = Tool(
    name="waiting",
    description="tells what waits for you: approvals, questions, messages that could not be handled",
    run=tell_waiting,
    personal=True,
)


KINDS = ("goal", "event", "decision", "fact", "observation")
_OPEN_WORDS = frozenset(
    find_stems(
        "todo open task milestone deadline due assigned action item next step missing blocked plan owner "
        "must should"
    )
)
MOST_POINTS = 6  # The most memories and the most goals of an answer


async def tell_project(context: ToolContext, request: Request, _: Words) -> Answer:
    """What memory holds of open points about it, with the sources, and the goals at work."""
    hits = await _find_points(context, request.text)
    about = find_terms(request.text).keys() - _OPEN_WORDS
    kept = [hit for hit in hits if about & find_stems(node_statement(hit.node))] or hits
    goals = [goal for goal in await context.office.goals() if not goal.status.final]
    lines = [
        f"- {flatten(node_statement(hit.node), 240)} ({hit.node.created_at[:10]})"
        for hit in kept[:MOST_POINTS]
    ]
    work = [f"- {format_goal(goal)}" for goal in goals[:MOST_POINTS]]
    return Answer(
        text="\n".join(
            [
                *(
                    ["Open points in memory:", *lines]
                    if lines
                    else ["Memory names no open points about that."]
                ),
                *(["At work:", *work] if work else ["No goal is at work."]),
            ]
        ),
        citations=tuple(hit.node.id for hit in kept[:MOST_POINTS]),
    )


async def _find_points(context: ToolContext, text: str) -> list[Hit]:
    """Tasks first, then what else names something open; best first."""
    try:
        tasks = await context.agent.memory.search(text, kinds=("task",), limit=30)
        rest = await context.agent.memory.search(
            f"open points, tasks, milestones: {text}", kinds=KINDS, limit=30
        )
    except BusError:
        return []
    words = {hit.node.id: find_stems(f"{node_statement(hit.node)} {' '.join(hit.node.tags)}") for hit in rest}
    return [*tasks, *(hit for hit in rest if _OPEN_WORDS & words[hit.node.id])]


PROJECT = Tool(
    name="project",
    description="tells milestones, open points, and who does what",
    run=tell_project,
    personal=True,
)


DAYS = 7  # How many days are told


async def tell_spending(context: ToolContext, request: Request, _: Words) -> Answer:
    """The tokens and dollars of today, by agent, and of the last days; and what a day's budget is."""
    today, settings = context.now(request).astimezone(UTC).date(), context.agent.settings
    days = [today - timedelta(days=back) for back in range(DAYS)]
    spent = {day: await context.office.spending(day.isoformat()) for day in days}
    lines = [f"- {each.sender} today: {_sum_spending([each])}" for each in spent[today]]
    every = [each for found in spent.values() for each in found]
    if not every:
        return Answer(text=f"Nothing was spent in the last {DAYS} days: no model was asked.")
    if settings.day_tokens or settings.day_cost:
        lines.append(
            f"An agent may use {settings.day_tokens:,} tokens and ${settings.day_cost:.2f} a day (0: no "
            f"limit)."
        )
    head = f"Today: {_sum_spending(spent[today])}. In the last {DAYS} days: {_sum_spending(every)}."
    return Answer(text="\n".join([head, *lines]))


def _sum_spending(spent: Sequence[DailySpending]) -> str:
    tokens = sum(each.input_tokens + each.output_tokens for each in spent)
    cost = sum(each.cost for each in spent)
    return f"{tokens:,} tokens, {f'${cost:.2f}' if cost or not tokens else '– (no price is known)'}"


SPENDING = Tool(
    name="spending",
    description="tells the tokens and the cost of the models, and the budget",
    run=tell_spending,
    personal=True,
)


async def brief(context: ToolContext, request: Request, _: Words) -> Call:
    """The evening's after 16:00 or if it is named, else the morning's."""
    evening = "evening" in request.text.lower() or context.now(request).hour >= 16
    kind = "evening" if evening and "morning" not in request.text.lower() else "morning"
    again = re.search(r"(?i)\b(?:again|anew|update|refresh|new since)\b", request.text) is not None
    params = {"kind": kind, "again": again}
    return Call(assignee=context.agent.profile.name, action="tell_briefing", params=params)


BRIEF = Tool(
    name="brief",
    description="briefs you: what waits, what failed, what is due, what the night brought",
    run=brief,
    personal=True,
)


GROUPS = {
    "Memory": (
        "memory remember correct forget",
        "'who has the key?', 'remember that the fee is 9 euros', 'forget that'",
    ),
    "Reminders": (
        "reminder_set reminder_list reminder_change reminder_cancel",
        "'remind me at 9 to call Ana', 'at 10 instead', 'list my reminders'",
    ),
    "Calendar": (
        "calendar calendar_add",
        "'what is on my calendar on Friday?', 'add lunch on Friday at 12:30'",
    ),
    "Work now": ("work goals stop", "'run the tests of ~/src/shop', 'is it done?', 'stop it'"),
    "Tonight": ("night_job queue", "'tonight at 23:30 check the links of ~/site', 'what is queued?'"),
    "Schedules": ("schedule", "'every weekday at 7 run the tests of .', 'list my schedules'"),
    "For you": ("waiting approve brief project", "'what waits for me?', 'brief me', 'what is still open?'"),
    "Mail": ("mail send_mail", "'any mail from the bank?', 'write to ana@example.org: I am late'"),
    "Look up": ("web papers news weather", "'search the web for ...', 'papers on ...', 'weather in Bern'"),
    "And": (
        "clock arithmetic spending capabilities",
        "'what is 12% of 340?', 'days until 30 June', 'what was spent?'",
    ),
}
"""The tools in groups, each with what one may say."""
TEAM = (
    "Work is tests, check-ups and security scans of a repository, and research on the",
    "web and in papers; with a model also patches, documents, and what you describe.",
)
"""What the team works on."""


async def explain_capabilities(context: ToolContext, request: Request, _: Words) -> Answer:
    """One screen: what may be said, by groups of tools, and the team's work; examples of topics it names."""
    if topics := _find_topics(request.text):
        return Answer(text="\n".join(line for name in topics for line in _explain(name)))
    groups = [f"- {name}: {said}" for name, (_, said) in GROUPS.items()]
    head = "This is Nexus, the front context. Write what you want in plain English:"
    return Answer(text="\n".join([head, *groups, "", *TEAM]))


def _find_topics(text: str) -> list[str]:
    """The groups whose name, or whose tools' names, ``text`` has a word of."""
    said = find_terms(text).keys() - _NO_TOPICS
    return [
        name for name, (tools, _) in GROUPS.items() if said & find_stems(f"{name} {tools}".replace("_", " "))
    ]


_NO_TOPICS = find_stems("for you now and up look work send set add list change what can do tonight")
MOST_EXAMPLES = 2  # The most examples of a tool of a topic


def _explain(name: str) -> list[str]:
    """What one may say of a topic: in short, and examples of each of its tools."""
    tools, said = GROUPS[name]
    examples = [each for tool in tools.split() for each in read_examples(tool)[:MOST_EXAMPLES]]
    return [f"{name}: say {said}.", "More examples:", *(f"- {each}" for each in examples)]


CAPABILITIES = Tool(
    name="capabilities",
    description="says what it can do, with examples",
    says=WAYS["asks_example"],
    run=explain_capabilities,
)
