"""Sections of a briefing from memory and from the office, in lines with their sources."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo

from services.nexus.answers.weighing import is_noted
from services.nexus.briefings.lines import Line, Section, Source, line
from shared.clock import parse_timestamp
from shared.contracts import (
    AgentReport,
    DailySpending,
    Due,
    DueStatus,
    EdgesQuery,
    Goal,
    ListQuery,
    Node,
    Relation,
    ResultOutcome,
    TaskResult,
    TaskStatus,
)
from shared.language.times.days import NamedDay, read_named_days
from shared.memory import Memory
from shared.text.display import count
from shared.timetable import WAITING
from shared.views.status import Waiting
from shared.web.quoting import clean

MAX_CONTRADICTIONS = 10  # The most contradictions that a briefing lists
MAX_LEARNED = 10  # The most memories of a day that an evening tells
MAX_NODES = 5_000  # The most nodes of memory that are looked through for deadlines
LEARNED_KINDS = ("decision", "preference", "fact", "pattern", "goal")
"""What an evening tells of memory: what people and agents found out, and no log of events."""


async def read_current_nodes(memory: Memory) -> list[Node]:
    """The nodes that hold now, as far as MAX_NODES; raises BusError."""
    query = EdgesQuery(relations=(Relation.SUPERSEDES,))
    over = {edge.to_id async for edge in memory.iterate_edges(query)}
    found = []
    async for node in memory.iterate_nodes(ListQuery(limit=1_000)):
        if node.id not in over:
            found.append(node)
        if len(found) >= MAX_NODES:
            break
    return found


async def learned_since(memory: Memory, since: datetime) -> Section:
    """What was remembered after ``since``, the most important first; raises BusError."""
    query = ListQuery(kinds=LEARNED_KINDS, since=since.isoformat(), limit=1_000)
    nodes = [node async for node in memory.iterate_nodes(query)]
    shown = [each for each in nodes if "discovery" not in each.tags and not is_noted(each)]
    ordered = sorted(shown, key=lambda each: (-each.importance, each.created_at))
    lines = tuple(line(each.title, Source(kind="memory", id=each.id)) for each in ordered[:MAX_LEARNED])
    more = f"{len(ordered) - MAX_LEARNED} more: mailroom memory list" if len(ordered) > MAX_LEARNED else ""
    return Section(lines=lines, problem=more)


async def find_contradictions(memory: Memory) -> Section:
    """The pairs of memories that contradict each other and both hold; raises BusError."""
    page = await memory.edges(EdgesQuery(relations=(Relation.CONTRADICTS,), limit=100))
    pairs = list(dict.fromkeys(tuple(sorted((edge.from_id, edge.to_id))) for edge in page.edges))
    nodes = {node.id: node for node in await memory.get(*{each for pair in pairs for each in pair})}
    live = [pair for pair in pairs if all(each in nodes and not nodes[each].retired_version for each in pair)]
    lines = tuple(
        line(
            f"{nodes[one].title} - but: {nodes[other].title}",
            Source(kind="memory", id=one),
            Source(kind="memory", id=other),
        )
        for one, other in live[:MAX_CONTRADICTIONS]
    )
    more = f"{len(live) - MAX_CONTRADICTIONS} more." if len(live) > MAX_CONTRADICTIONS else ""
    return Section(lines=lines, problem=more)


AHEAD = 7  # Days ahead that a deadline is told
_STATED = re.compile(
    r"(?i)\b(?:deadline|due|no later than|at the latest|has to be \w+ by|must be \w+ by|expires?|submit\w*"
    r"|deliver\w*|hand(?:ed)? in|ships?|freeze|launch\w*|release\w*|renew\w*)\b"
)
"""Words of a sentence that states a deadline, beside its date."""


def find_deadlines(nodes: Iterable[Node], today: date, ahead: int = AHEAD) -> list[tuple[date, Line]]:
    """The deadlines from ``today`` to so many days ahead, the next first, each with its memory node."""
    found = []
    for node in nodes:
        if node.valid_to or node.retired_version or "discovery" in node.tags:
            continue
        for sentence in re.split(r"(?<=[.!?])\s+|\n", f"{node.title}\n{node.body[:2_000]}"):
            when = stated_date(sentence, _day_of(node, today))
            if when is not None and today <= when <= today + timedelta(days=ahead):
                source = Source(kind="memory", id=node.id)
                told = line(f"{say_day(when, today)}: {sentence}", source, score=-float((when - today).days))
                found.append((when, told))
                break
    return sorted(found, key=lambda each: each[0])


def stated_date(sentence: str, said_on: date) -> date | None:
    """The day that a sentence of ``said_on`` names, of several the one nearest to the words of a deadline;
    None if it states no deadline, or names no day that exists. Without a year it is the next such day.
    """
    stated = [each.span() for each in _STATED.finditer(sentence)]

    def distance(named: NamedDay) -> int:
        return min(max(named.start - end, begin - named.end, 0) for begin, end in stated)

    named = read_named_days(sentence, said_on) if stated else []
    return min(named, key=distance).day if named else None


def say_day(when: date, today: date) -> str:
    """``today``, ``tomorrow``, or the day."""
    days = (when - today).days
    named = {0: "Today", 1: "Tomorrow"}
    return named.get(days, f"{when:%A} {when.day} {when:%B}")


def _day_of(node: Node, today: date) -> date:
    try:
        return parse_timestamp(node.valid_from or node.created_at).date()
    except ValueError:
        return today


PART = 120  # The most characters of a goal's text, or of a reason, within a line


def waiting_lines(waiting: Waiting) -> list[Line]:
    """Approvals, then questions, then dead letters; the oldest of each first. Failed goals are told apart."""
    lines = [
        line(
            f"{each.sender} asks whether it may: {clean(each.what, PART)}"
            + (f" ({clean(each.why, PART)})" if each.why else ""),
            Source(kind="approval", id=each.approval_id[:12]),
            short=f"{each.sender} asks for your approval: {clean(each.what, PART)}",
        )
        for each in waiting.approvals
    ]
    lines += [
        line(
            f"{each.sender} asks: {clean(each.subject or each.body, PART)}",
            Source(kind="mail", id=each.id[:12]),
        )
        for each in waiting.questions
    ]
    lines += [
        line(
            f"About {clean(each.text, PART)}: {clean(each.question, PART)}",
            Source(kind="goal", id=each.goal_id),
        )
        for each in waiting.asking
    ]
    lines += [
        line(
            f"{count(each.count, 'dead letter')} of {each.agent}: {clean(each.last.reason, PART)}",
            Source(kind="dead", id=str(each.number)),
            short=f"{count(each.count, 'dead letter')} of {each.agent}",
        )
        for each in waiting.dead_letters
    ]
    return lines


def failed_lines(goals: Iterable[Goal], since: datetime) -> list[Line]:
    """The goals that failed or could not be checked after ``since``, the latest first."""
    return [
        line(
            f"{clean(goal.text, PART)}: {clean(goal.reason or goal.answer or goal.standing, PART)}",
            Source(kind="goal", id=goal.goal_id),
        )
        for goal in ended_since(goals, since)
        if goal.undone
    ]


def done_lines(goals: Iterable[Goal], since: datetime, lead: str = "") -> list[Line]:
    """The goals that were done after ``since``, the latest first, each after ``lead``."""
    return [
        line(
            f"{lead}{clean(goal.text, PART)}{_say_outcome(goal)}",
            Source(kind="goal", id=goal.goal_id),
            short=f"{lead}{clean(goal.text, PART)}",
        )
        for goal in ended_since(goals, since)
        if goal.status is TaskStatus.COMPLETED and not goal.undone
    ]


def job_lines(reports: Iterable[AgentReport]) -> list[Line]:
    """The overnight jobs that ended, those that failed or were not checked first."""

    def is_done(report: AgentReport) -> bool:
        head = report.summary.partition(":")[0]
        return " failed" not in head and " not checked" not in head

    return [
        line(
            each.summary,
            Source(kind="task", id=str(each.metadata.get("task_id") or each.report_id)),
            *(Source(kind="file", id=path) for path in each.output_paths[-1:]),
        )
        for each in sorted(reports, key=is_done)
    ]


def queue_lines(queue: TaskResult) -> list[Line]:
    """What is left of the night by cortex's status of its queue: jobs that run, wait (why), were refused."""
    jobs = [each for each in queue.metadata.get("jobs") or () if isinstance(each, dict)]
    lines = []
    for job in jobs:
        name, state = str(job.get("id", ""))[:128], job.get("state", "")
        why = f" ({clean(str(job['reason']), PART)})" if job.get("reason") else ""
        task = clean(str(job.get("task", "")), PART)
        said = f"Job {name} {'runs' if state == 'running' else 'waits'}: {task}{why}"
        lines.append(line(said, Source(kind="job", id=name)))
    refused = [str(each) for each in queue.metadata.get("failed") or ()]
    return lines + [line(f"A job was refused: {each}", Source(kind="job", id="")) for each in refused]


def ended_since(goals: Iterable[Goal], since: datetime) -> list[Goal]:
    """The goals that ended after ``since``, the latest first."""
    ended = [goal for goal in goals if goal.ended_at and parse_timestamp(goal.ended_at) > since]
    return sorted(ended, key=lambda goal: goal.ended_at, reverse=True)


def _say_outcome(goal: Goal) -> str:
    answer = clean(goal.answer, PART)
    if answer:
        return f": {answer}"
    return "" if goal.outcome in (ResultOutcome.NONE, ResultOutcome.DONE) else f" ({goal.outcome.words})"


def due_reminders(
    reminders: Iterable[Due], until: datetime, zone: tzinfo | None, *, fired: bool = True
) -> list[Line]:
    """The reminders due before ``until``, and with ``fired`` those that went off and are not done.

    What is due before the last day has its weekday: a reminder of tonight, told with those of tomorrow.
    """
    lines = []
    for each in sorted(reminders, key=lambda one: one.at):
        due = parse_timestamp(each.at)
        went_off = each.status is DueStatus.FIRED
        waits = each.status in WAITING
        if (went_off and fired) or (waits and due < until):
            local = due.astimezone(zone)
            early = waits and local.date() < (until - timedelta(seconds=1)).astimezone(zone).date()
            clock = f"{local:%A %H:%M}" if early else f"{local:%H:%M}"
            said = f"{each.text}: went off at {clock}, not done" if went_off else f"{clock} {each.text}"
            lines.append(line(said, Source(kind="reminder", id=each.due_id)))
    return lines


def missed_reminders(reminders: Iterable[Due], zone: tzinfo | None) -> list[Line]:
    """The reminders that went off and are not done."""
    return due_reminders(
        (each for each in reminders if each.status is DueStatus.FIRED),
        datetime.max.replace(tzinfo=UTC),
        zone,
    )


def spent_lines(spent: Sequence[DailySpending]) -> list[Line]:
    """What all agents used of their models, then each; nothing if they used nothing."""
    used = [each for each in spent if each.input_tokens + each.output_tokens]
    if not used:
        return []
    tokens = sum(each.input_tokens + each.output_tokens for each in used)
    total = f"{tokens:,} tokens{_say_cost(sum(each.cost for each in used))} in all"
    lines = [line(total, Source(kind="spending", id=used[0].day))]
    if len(used) == 1:
        lines = []
    return lines + [
        line(
            f"{each.sender}: {each.input_tokens + each.output_tokens:,} tokens{_say_cost(each.cost)} "
            f"in {count(each.calls, 'call')}",
            Source(kind="spending", id=each.day),
        )
        for each in used
    ]


def _say_cost(cost: float) -> str:
    return f", {cost:.2f} USD" if cost else ""
