"""``mailroom show``: everything about a goal or a task, as a tree."""

from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from services.cli import api
from services.cli.commands.completion import GoalName
from services.cli.commands.options import (
    fail_on_option,
    format_examples,
    json_option,
    report_options,
    write_reports,
)
from services.cli.output.activity import print_activity
from services.cli.output.console import (
    format_status,
    open_console,
    print_block,
    print_json,
    print_wrapped,
    status_style,
)
from services.cli.output.outcomes import exit_code, format_cost, format_headline
from services.cli.output.sent import print_sent
from shared.llm.sent import Sent
from shared.tasks.evidence import format_verdict, verdict_of
from shared.text.display import clean, count
from shared.text.times import format_clock, format_date, format_span, seconds_between
from shared.views.timeline import (
    Activity,
    Course,
    GoalResults,
    GoalTimeline,
    TaskTimeline,
    TimelineEntry,
    format_sender,
)

Row = TaskTimeline | TimelineEntry


@click.command(
    epilog=format_examples("mailroom show", "mailroom show last --thoughts", "mailroom show last --sent")
)
@click.argument("name", metavar="[ID]", type=GoalName(), default="last")
@fail_on_option
@report_options
@click.option("--thoughts", is_flag=True, help="Show what happened inside: thoughts, calls, memories, cost.")
@click.option("--sent", is_flag=True, help="Show what was sent to models, where to, and its text.")
@json_option
def show(
    name: str,
    fail_on: str | None,
    junit: Path | None,
    sarif: Path | None,
    thoughts: bool,
    sent: bool,
    as_json: bool,
) -> None:
    """Show everything about a goal or a task.

    ID is by default the latest goal. Prints a tree of its tasks and messages, with senders, recipients,
    times and durations. With --fail-on the exit code is that of 'mailroom checkup'.

    With --thoughts it prints instead what was done inside each task: every attempt, thought, model call
    (tokens, cost, seconds), action with its parameters and output, command, what memory brought, waiting,
    and the result.

    With --sent it prints each request to a model: who sent it where, the kinds of text in it, what was
    withheld and masked, its tokens, and the text that the request before did not have.
    """
    if sent:
        print_sent(api.get(f"/sent/{api.segment(name)}", Sent), open_console(), as_json=as_json)
        return
    if thoughts:
        activity = api.get(f"/activity/{api.segment(name)}", Activity)
        print_activity(activity, open_console(), as_json=as_json)
        return
    course = api.get(f"/courses/{api.segment(name)}", Course)
    results, archived = course.results, course.archived
    write_reports(results, junit, sarif)
    console = open_console()
    if as_json:
        more: dict[str, object] = {"spent": results.spent} if results.spent else {}
        more |= {"archived": archived} if archived else {}
        print_json(msgspec.to_builtins(course.goal or course.task) | msgspec.to_builtins(more))
    elif course.goal:
        _print_goal(course.goal, results, console)
    elif course.task:
        timeline = course.task
        task = timeline.task
        console.print(Text(task.task_id, style="bold"), soft_wrap=True)
        console.print(clean(task.text))
        _print_facts(
            {"goal": task.goal_id, "priority": str(task.priority), "deadline": task.deadline}, console
        )
        _print_tree([timeline], timeline.entries[0].time if timeline.entries else task.created_at, console)
    for part in archived:
        click.echo(f"{'Shown' if part.is_here else 'Not shown'}: {clean(str(part))}", err=True)
    if fail_on and course.goal:
        raise SystemExit(exit_code(course.goal.goal, results, fail_on))


def _print_goal(timeline: GoalTimeline, results: GoalResults, console: Console) -> None:
    goal = timeline.goal
    head = Text.assemble((goal.goal_id, "bold"), "  ", format_headline(goal, results))
    print_wrapped(head, console)
    print_block(clean(goal.text), console)
    requester = format_sender(goal.requester, goal.person)
    facts = {
        "from": f"{requester}, {format_date(goal.submitted_at)}, {goal.priority}",
        "took": format_span(timeline.took) + ("" if goal.ended_at else " so far"),
        "used": format_cost(results) if results.spent and results.spent.tokens else "",
        "playbook": goal.playbook,
        "reviews": str(goal.reviews or ""),
        "reason": goal.reason,
        "review": format_verdict(verdict) if (verdict := verdict_of(goal)) else "",
        "report": goal.report_path,
        "patch": f"mailroom diff {goal.goal_id}" if results.patches else "",
    }
    _print_facts(facts, console)
    _print_tree([*timeline.tasks, *timeline.entries], goal.submitted_at, console)


def _print_facts(facts: dict[str, str], console: Console) -> None:
    for name, fact in facts.items():
        if fact:
            print_wrapped(Text.assemble((f"{name:<9}", "dim"), clean(fact)), console, hang=9)
    console.print()


def _print_tree(rows: list[Row], begin: str, console: Console) -> None:
    """Print tasks with their messages and other messages as one tree, in order."""
    tree = Tree(f"{format_clock(begin)}, then seconds since", guide_style="dim", style="dim")
    for row in sorted(rows, key=_sequence):
        _add(tree, row, begin)
    width = console.width if console.is_terminal else 200
    console.print(tree, width=width, no_wrap=True, overflow="ellipsis", crop=console.is_terminal)


def _sequence(row: Row) -> int:
    if isinstance(row, TimelineEntry):
        return row.seq
    return row.entries[0].seq if row.entries else 0


def _add(tree: Tree, row: Row, begin: str) -> None:
    if isinstance(row, TimelineEntry):
        tree.add(_format_entry(row, begin))
        return
    branch = tree.add(_format_task(row), style="")
    inside: list[Row] = [*row.entries, *row.subtasks]
    for part in sorted(inside, key=_sequence):
        _add(branch, part, begin)


def _format_task(timeline: TaskTimeline) -> Text:
    name = timeline.task.task_id.removeprefix(f"{timeline.task.goal_id}-")
    spans = [f"waited {format_span(timeline.waited)}"] if timeline.waited is not None else []
    spans += [f"worked {format_span(timeline.worked)}"] if timeline.worked is not None else []
    spans += [count(timeline.attempts, "attempt")] if timeline.attempts > 1 else []
    return Text.assemble(
        format_status(str(timeline.status), name),
        f"  {timeline.task.requester} → {timeline.task.assignee}  ",
        (", ".join(spans), "dim"),
    )


def _format_entry(entry: TimelineEntry, begin: str) -> Text:
    summary = entry.summary
    return Text.assemble(
        (f"+{max(seconds_between(begin, entry.time), 0):.3f} ", "dim"),
        (f"{clean(summary.parties)} ", "bold"),
        f"{summary.kind} ",
        (summary.text, status_style(summary.status)),
    )
