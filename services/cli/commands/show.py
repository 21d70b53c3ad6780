"""``mailroom show``: the whole tree of a goal or a task."""

import asyncio
from typing import TYPE_CHECKING, Union

import click
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from services.cli.commands.options import json_option
from services.cli.connection import connect
from services.cli.output.console import SIGNS, STYLES, clean, open_console, print_json
from services.cli.output.times import format_clock, format_date, format_span, seconds_between

if TYPE_CHECKING:
    from services.cli.output.summaries import Sentence
    from services.cli.queries.timeline import GoalStory, Moment, TaskStory


@click.command()
@click.argument("name", metavar="ID")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show all that was done for a goal or a task.

    Who sent what to whom for ID, when, and how long it took.
    """
    story = asyncio.run(_tell(name))
    if as_json:
        print_json(story)
        return
    from services.cli.queries.timeline import GoalStory

    console = open_console()
    if isinstance(story, GoalStory):
        _print_goal(story, console)
    else:
        _print_task(story, console)


async def _tell(name: str) -> Union["GoalStory", "TaskStory"]:
    from services.cli.queries.timeline import tell

    async with connect() as bus:
        return await tell(bus, name)


def _print_goal(story: "GoalStory", console: Console) -> None:
    goal = story.goal
    status = str(goal.status)
    console.print(
        Text.assemble((goal.goal_id, "bold"), "  ", (f"{SIGNS[status]} {status}", STYLES[status])),
        soft_wrap=True,
    )
    console.print(clean(goal.text))
    facts = {
        "from": f"{goal.requester}, {format_date(goal.submitted_at)}, {goal.priority}",
        "took": format_span(story.took) + ("" if goal.ended_at else " so far"),
        "playbook": goal.playbook,
        "reviews": str(goal.reviews or ""),
        "reason": goal.reason,
        "report": goal.report_path,
    }
    _print_facts(facts, console)
    _print_tree(story.tasks, story.moments, goal.submitted_at, console)


def _print_task(story: "TaskStory", console: Console) -> None:
    task = story.task
    console.print(Text(task.task_id, style="bold"), soft_wrap=True)
    console.print(clean(task.text))
    _print_facts({"goal": task.goal_id, "priority": str(task.priority), "deadline": task.deadline}, console)
    _print_tree([story], [], story.moments[0].time if story.moments else task.created_at, console)


def _print_facts(facts: dict[str, str], console: Console) -> None:
    for name, fact in facts.items():
        if fact:
            console.print(Text.assemble((f"{name:<9}", "dim"), clean(fact)), soft_wrap=True)
    console.print()


def _print_tree(tasks: list["TaskStory"], moments: list["Moment"], begin: str, console: Console) -> None:
    """One tree: each task with its messages, and what belongs to no task between them, in order of time."""
    tree = Tree(f"{format_clock(begin)}, then seconds since", guide_style="dim", style="dim")
    rows: list[TaskStory | Moment] = [*tasks, *moments]
    for row in sorted(rows, key=_position):
        _add(tree, row, begin)
    width = console.width if console.is_terminal else 200
    console.print(tree, width=width, no_wrap=True, overflow="ellipsis", crop=console.is_terminal)


def _position(row: Union["TaskStory", "Moment"]) -> int:
    from services.cli.queries.timeline import Moment

    if isinstance(row, Moment):
        return row.seq
    return row.moments[0].seq if row.moments else 0


def _add(tree: Tree, row: Union["TaskStory", "Moment"], begin: str) -> None:
    from services.cli.queries.timeline import Moment

    if isinstance(row, Moment):
        tree.add(_moment_line(row, begin))
        return
    branch = tree.add(_task_line(row), style="")
    inside: list[TaskStory | Moment] = [*_without_echoes(row.moments), *row.parts]
    for part in sorted(inside, key=_position):
        _add(branch, part, begin)


def _without_echoes(moments: list["Moment"]) -> list["Moment"]:
    """The messages but for records that say no more than the task or the result stored with them."""
    given = [moment.said.text for moment in moments if moment.said.kind == "task"]
    ended = {moment.said.status for moment in moments if moment.said.kind == "result"}

    def is_echo(said: "Sentence") -> bool:
        handed_out = said.text.removeprefix("pending: ")
        return said.kind == "state" and (
            said.status in ended or any(text.startswith(handed_out) for text in given)
        )

    return [moment for moment in moments if not is_echo(moment.said)]


def _task_line(story: "TaskStory") -> Text:
    status = str(story.status)
    name = story.task.task_id.removeprefix(f"{story.task.goal_id}-")
    spans = [f"waited {format_span(story.waited)}"] if story.waited is not None else []
    spans += [f"worked {format_span(story.worked)}"] if story.worked is not None else []
    spans += [f"{story.attempts} attempts"] if story.attempts > 1 else []
    return Text.assemble(
        (f"{SIGNS[status]} {name}", STYLES[status]),
        f"  {story.task.requester} → {story.task.assignee}  ",
        (", ".join(spans), "dim"),
    )


def _moment_line(moment: "Moment", begin: str) -> Text:
    said = moment.said
    return Text.assemble(
        (f"+{max(seconds_between(begin, moment.time), 0):.3f} ", "dim"),
        (f"{clean(said.who)} ", "bold"),
        f"{said.kind} ",
        (said.text, STYLES.get(said.status, "")),
    )
