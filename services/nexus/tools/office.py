"""The office as it stands: goals, what waits, projects, spending, the briefing, and what the desk can do."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from services.nexus.answers.memory_answer import node_statement
from services.nexus.office.query import SHOW_WAYS, Kind, OfficeQuery
from services.nexus.office.telling import MOST_SHOWN, find_by_meaning, match, select, tell, tell_rows
from services.nexus.office.things import Thing, view_dead, view_request
from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Call, Run, Tool, ToolContext, Words, read_examples
from shared import subjects
from shared.contracts import DailySpending, Goal, Hit
from shared.errors import BusError
from shared.language.sayings import read_sayings
from shared.mcp.config import read_servers
from shared.mcp.pins import read_pin
from shared.queries.spending import format_left, format_night, read_night_state
from shared.text.display import count, flatten, shorten_id
from shared.text.prose import find_stems, find_terms

WAYS = read_sayings(__file__, "office")


def format_goal(goal: Goal) -> str:
    """A goal in a line: its state, what it is, its answer or why it failed, its id."""
    result = flatten(goal.reason or goal.answer, 160)
    because = f" - {result}" if result else ""
    return f"{goal.standing}: {flatten(goal.text, 160)}{because} ({goal.goal_id})"


GOAL_ID = re.compile(r"\bgoal_[A-Za-z0-9_]{6,}\b")


async def answer_of_office(context: ToolContext, request: Request, hint: Kind) -> Answer:
    """The answer to what a message asks of the office: one query over all its things (docs/nexus.md).

    ``hint`` is the kind of things if no word of it names one.
    """
    now, text = context.now(request), request.text
    query, things = await context.read_query(request), await context.list_things(request)
    dated = query.period or query.states
    if dated and not SHOW_WAYS["about"].search(text) and not match(things, query.terms).things:
        query = msgspec.structs.replace(query, terms={})  # "a quick picture": words that no thing has
    kind = hint if query.kind is None or (query.is_vague and hint is not Kind.GOAL) else query.kind
    named = [each for each in things if each.ref in GOAL_ID.findall(text)]
    if new := [each for each in GOAL_ID.findall(text) if not any(thing.ref == each for thing in named)]:
        return Answer(
            text=f"The conductor has no goal {new[0]}; if it was submitted just now, it begins in a moment "
            f"(mailroom show {new[0]})."
        )
    if named:
        return _answer(tell(query, Kind.GOAL, named, now), named)
    if shown := tell_rows(query, things):
        return _answer(*shown)
    if kind is Kind.SPENDING:
        return await tell_spending(context, query, now)
    if kind is Kind.WAITING and not (query.terms or query.agents):
        return await tell_waiting(context, request, Words())
    is_bare = not (
        query.terms
        or query.agents
        or query.period
        or query.shows
        or query.states - {"running", "stuck", "up"}
    )
    if is_bare and (kind is Kind.OVERVIEW or (kind is Kind.GOAL and query.kind is None)):
        return await _tell_overview(context, request, things)
    kind = Kind.GOAL if kind is Kind.OVERVIEW else kind
    found = match(select(query, things, now, text, kind), query.terms)
    if query.terms and (query.kind is None or (found.missing and kind is not Kind.LETTER)):
        every = [each for other in (kind, *_SEARCHED) for each in select(query, things, now, text, other)]
        wide = match(list({each.ref: each for each in every}.values()), query.terms)
        if query.kind is None or len(wide.missing) < len(found.missing):
            found = wide
        kind = found.things[0].kind if found.things else kind
    chosen = found.things
    if not chosen and query.terms:
        chosen = await find_by_meaning(context.agent.memory, text, select(query, things, now, text, kind))
    told = tell(query, kind, chosen, now)
    if kind is Kind.PLANNED:
        told = await _add_night(context, query, told, things, now)
    return _answer(told, chosen)


_SEARCHED = (Kind.GOAL, Kind.LETTER, Kind.PLANNED, Kind.DEAD, Kind.APPROVAL)
"""Where what is named is looked for, if it is not among what was asked for."""


def _answer(text: str, things: Sequence[Thing]) -> Answer:
    return Answer(text=text, citations=tuple(each.ref for each in things[:MOST_SHOWN]))


async def _add_night(
    context: ToolContext, query: OfficeQuery, told: str, things: Sequence[Thing], now: datetime
) -> str:
    """``told`` with what ran in the time that is asked about, and how the night stands and why."""
    lines = [told]
    if period := query.period:
        ran = [
            each
            for each in things
            if each.kind is Kind.GOAL
            and period.since <= each.at < period.until
            and "running" not in each.states
        ]
        came = [
            each
            for each in things
            if each.kind is Kind.LETTER
            and each.who == {subjects.CORTEX}
            and period.since <= each.at < period.until
        ]
        head = "In that time these ended:" if ran or came else "In that time no goal and no job ended."
        lines = [head, *(f"- {each.line}" for each in (*ran, *came)), told]
    state = await read_night_state(context.agent.bus)
    night = format_night(context.agent.settings, state, now)
    return "\n".join([*lines, f"The night: {night}."])


async def _tell_overview(context: ToolContext, request: Request, things: Sequence[Thing]) -> Answer:
    """What is at work, which agents are not, what waits, and what ended last."""
    goals = [each for each in things if each.kind is Kind.GOAL]
    running = [each for each in goals if "running" in each.states]
    down = [each.ref for each in things if each.kind is Kind.AGENT and "down" in each.states]
    waiting = (await tell_waiting(context, request, Words())).text
    over = (each for each in goals if each not in running and each.ref not in waiting)  # told once
    ended = sorted(over, key=lambda each: each.at, reverse=True)
    verb = "is" if len(running) == 1 else "are"
    lines = [
        f"{count(len(running), 'goal')} {verb} at work:" if running else "Nothing is at work.",
        *(f"- {each.line}" for each in running[:MOST_SHOWN]),
        *(
            [f"... and {len(running) - MOST_SHOWN} more: mailroom status"]
            if len(running) > MOST_SHOWN
            else []
        ),
        f"Not at work: {', '.join(down)}. See 'mailroom status'." if down else "All agents are up.",
        waiting,
        *(["The last goals:", *(f"- {each.line}" for each in ended[:MOST_ENDED])] if ended else []),
        *([] if goals else ["There are no goals yet. Say what is to be done, and I start one."]),
    ]
    return _answer("\n".join(lines), [*running, *ended[:MOST_ENDED]])


MOST_ENDED = 3  # The goals that ended last of an overview


def of_office(hint: Kind) -> Run:
    """What a tool runs that tells of the office."""

    async def run(context: ToolContext, request: Request, _: Words) -> Answer:
        return await answer_of_office(context, request, hint)

    return run


GOALS = Tool(
    name="goals",
    description="tells how goals and tasks stand, what failed, and what the agents do",
    run=of_office(Kind.GOAL),
    personal=True,
)


async def tell_waiting(context: ToolContext, request: Request, _: Words) -> Answer:
    """All that waits, as the page of the inbox has it."""
    waiting = await context.office.waiting(await context.office.goals())
    lines = [
        *(f"- {view_request(each).line}" for each in waiting.approvals),
        *(
            f"- {each.sender} asks: {flatten(each.subject or each.body, 200)} "
            f"(mailroom mail show {shorten_id(each.id)})"
            for each in waiting.questions
        ),
        *(
            f"- About {flatten(each.text, 80)!r}: {flatten(each.question, 200)} "
            f"(mailroom resume {each.goal_id} --say '...')"
            for each in waiting.asking
        ),
        *(f"- {view_dead(each, context.now(request)).line}" for each in waiting.dead_letters),
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
    run=of_office(Kind.WAITING),
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


DAYS = 7  # How many days are told if none are named
MOST_DAYS = 62  # The most days that are told


async def tell_spending(context: ToolContext, query: OfficeQuery, now: datetime) -> Answer:
    """The tokens and dollars of the days that are asked about, by agent, and what is left today."""
    today, settings, period = now.astimezone(UTC).date(), context.agent.settings, query.period
    first = period.since.date() if period else today - timedelta(days=DAYS - 1)
    last = min(today, (period.until - timedelta(seconds=1)).date()) if period else today
    days = [last - timedelta(days=back) for back in range(min(MOST_DAYS, max(1, (last - first).days + 1)))]
    spent = {day: await context.office.spending(day.isoformat()) for day in {*days, today}}
    if query.agents:
        spent = {day: [each for each in found if each.sender in query.agents] for day, found in spent.items()}
    whole = [each for day in days for each in spent[day]]
    if not period:
        span = f"in the last {DAYS} days"
    elif days == [today]:
        span = "today"
    else:
        span = f"on {last:%-d %B}" if len(days) == 1 else f"from {days[-1]:%-d %B} to {last:%-d %B}"
    by = {each.sender: [one for one in whole if one.sender == each.sender] for each in whole}
    left = format_left(settings, {each.sender: each for each in spent[today]})
    limit = (
        f"An agent may use {settings.day_tokens:,} tokens and ${settings.day_cost:.2f} a day (0: no limit)"
    )
    lines = [
        f"Today: {_sum_spending(spent[today])}." if today in days[:-1] else "",
        f"{span[:1].upper()}{span[1:]}: {_sum_spending(whole)}."
        if whole
        else f"Nothing was spent {span}: no model was asked.",
        *(f"- {agent}: {_sum_spending(found)}" for agent, found in sorted(by.items())),
        f"{limit}; {left}." if left else f"There is no budget for a day ({limit}).",
    ]
    return Answer(text="\n".join(filter(None, lines)))


def _sum_spending(spent: Sequence[DailySpending]) -> str:
    tokens = sum(each.input_tokens + each.output_tokens for each in spent)
    cost = sum(each.cost for each in spent)
    return f"{tokens:,} tokens, {f'${cost:.2f}' if cost or not tokens else '– (no price is known)'}"


SPENDING = Tool(
    name="spending",
    description="tells the tokens and the cost of the models, and the budget",
    run=of_office(Kind.SPENDING),
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
    """One screen: what may be said, by groups of tools, the team's work, and the MCP servers that people
    approved tools of; examples of topics it names.
    """
    if topics := _find_topics(request.text):
        return Answer(text="\n".join(line for name in topics for line in _explain(name)))
    groups = [f"- {name}: {said}" for name, (_, said) in GROUPS.items()]
    head = "This is Nexus, the front desk. Write what you want in plain English:"
    settings = context.agent.settings
    pins = [pin for name in read_servers(settings) if (pin := read_pin(settings, name))]
    named = ", ".join(f"{pin.server} ({count(len(pin.tools), 'tool')})" for pin in pins)
    servers = [f"- Servers: say what a tool of these MCP servers does: {named}"] if pins else []
    return Answer(text="\n".join([head, *groups, *servers, "", *TEAM]))


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
