"""Showing people how a goal gets on: live on a terminal, as plain lines elsewhere."""

import re
import time
from collections.abc import AsyncIterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from services.cli.output.console import SIGNS, STYLES, clean, clean_block, print_block, shorten
from services.cli.output.times import format_clock, format_span, seconds_between
from services.cli.queries.progress import Progress
from shared.contracts import Goal, GoalTask, TaskStatus, generate_iso_timestamp

ANSWER_WITHIN = 10
"""Lines at the top of a report among which its answer begins."""
MIN_LINES = 20
"""Lines of a report that are shown where the screen is smaller, or none."""


def print_outcome(goal: Goal, console: Console) -> None:
    """Say how a goal ended: its state, the answer or the reason, where the report lies, its first screen."""
    status = str(goal.status)
    took = format_span(seconds_between(goal.submitted_at, goal.ended_at))
    console.print(Text.assemble((f"{SIGNS[status]} {status}", STYLES[status]), f" in {took}"))
    if goal.reason and not _is_told(goal.reason, goal.answer):
        print_block(f"Reason: {clean(goal.reason)}", console)
    if goal.answer:
        print_block(f"\n{clean_block(goal.answer).strip()}", console)
    if goal.report_path:
        console.print(f"\nReport: {clean(goal.report_path)}", soft_wrap=True)
        _print_first_screen(goal, console)


def _is_told(reason: str, answer: str) -> bool:
    """Whether the answer begins with the reason, which may name the task first; either may be cut short."""
    told, whole, bare = (
        clean(text).replace("`", "").rstrip("…") for text in (answer, reason, reason.partition(": ")[2])
    )
    return any(text and told and (told.startswith(text) or text.startswith(told)) for text in (whole, bare))


def _print_first_screen(goal: Goal, console: Console) -> None:
    lines = _untold(read_lines(goal.report_path), goal.answer)
    room = max(MIN_LINES, console.height - 8) if console.is_terminal else MIN_LINES
    if not lines:
        return
    console.print()
    for line in lines[:room]:
        print_block(_unescaped(line), console, hang=2 if line.startswith("- ") else 0)
    if len(lines) > room:
        console.print(f"... {len(lines) - room} more line{'s' * (len(lines) > room + 1)}", style="dim")


def _untold(lines: list[str], answer: str) -> list[str]:
    """The lines of a report after those of the answer, where it begins with them; else all."""
    told = _bare(answer)
    first = _bare(answer.strip().partition("\n")[0])
    begin = next((at for at, line in enumerate(lines[:ANSWER_WITHIN]) if first and _bare(line) == first), 0)
    while begin < len(lines) and _bare(lines[begin]) in told:
        begin += 1
    return lines[begin:]


def _bare(text: str) -> str:
    return clean(re.sub(r"[*`\\]", "", text))


def _unescaped(line: str) -> str:
    """A line of Markdown without its backslashes, but for those in code."""
    return re.sub(r"(`[^`]*`)|\\([!-/:-@\[-`{-~])", lambda found: found[1] or found[2], line)


def read_lines(path: str) -> list[str]:
    """The lines of a report, printable; none where it lies on another machine."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return clean_block(file.read(1_000_000)).splitlines()
    except OSError:
        return []


PATIENCE = 3.0
"""Seconds after which a goal that nobody takes up is remarked upon."""
WAITS = "waits for approval"
"""How the note of a task begins that a person has to allow something."""
ANSWER = "mailroom approvals list"
NOT_TAKEN_UP = "The conductor has not taken it up yet; 'mailroom status' shows whether it runs"


async def watch(changes: AsyncIterator[Progress], console: Console) -> Goal | None:
    """Show every change on ``console`` until there is none left; the goal as it stands then."""
    show = _show_live if console.is_terminal else _show_lines
    return await show(changes, console)


# --- on a terminal -------------------------------------------------------------------------------


async def _show_live(changes: AsyncIterator[Progress], console: Console) -> Goal | None:

    begun = time.monotonic()
    progress = Progress()

    def render() -> RenderableType:
        return _lines_of(progress, time.monotonic() - begun)

    with Live(get_renderable=render, console=console, refresh_per_second=5, vertical_overflow="visible"):
        async for progress in changes:  # noqa: B007
            pass
    return progress.goal


def _lines_of(progress: Progress, waited: float) -> RenderableType:
    goal = progress.goal
    if goal is None:
        text = "waiting for the conductor" if waited < PATIENCE else NOT_TAKEN_UP
        return Text(f"{format_span(waited)}  {text}", style="dim")
    took = format_span(seconds_between(goal.submitted_at, goal.ended_at))
    ended = sum(task.status.final for task in goal.tasks)
    count = f"{ended} of {len(goal.tasks)} tasks ended, " if goal.tasks else ""
    # How it ended is said below.
    head = [] if goal.status.final else [Text(f"{_headline(progress)}, {count}{took}")]
    width = max((len(shorten(task.name, 20)) for task in progress.tasks), default=0)
    return Group(*head, *(_row(progress, task, width) for task in progress.tasks))


def _row(progress: Progress, task: GoalTask, width: int) -> Text:
    status = _status(progress, task)
    return Text.assemble(
        (f"  {SIGNS[status]} {shorten(task.name, 20):<{width}}", STYLES[status]),
        f"  {shorten(task.assignee, 10):<10} {_took(progress, task):>7}  ",
        (clean(progress.note(task)), "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _headline(progress: Progress) -> str:
    goal = progress.goal
    assert goal is not None
    if any(progress.note(task).startswith(WAITS) for task in goal.tasks):
        return f"waits for you: {ANSWER}"
    if not goal.tasks or goal.thinking == "repair":
        return "planning anew" if goal.plans else "planning"
    if goal.thinking:
        return "writing the answer"
    if goal.status is TaskStatus.REVIEW:
        return f"review {goal.reviews}" if goal.reviews > 1 else "under review"
    return "working"


def _status(progress: Progress, task: GoalTask) -> str:
    """A task that is handed out and not claimed yet is still pending for those who watch."""
    record = progress.records.get(task.task_id)
    if task.status is TaskStatus.IN_PROGRESS and (record is None or record.attempt == 0):
        return str(TaskStatus.PENDING)
    return str(task.status)


def _took(progress: Progress, task: GoalTask) -> str:
    record = progress.records.get(task.task_id)
    started = task.started_at or (record.created_at if record else "")
    return format_span(seconds_between(started, task.ended_at)) if started and task.issued else ""


# --- elsewhere -----------------------------------------------------------------------------------


async def _show_lines(changes: AsyncIterator[Progress], console: Console) -> Goal | None:
    said: dict[str, str] = {}
    goal: Goal | None = None
    async for progress in changes:
        goal = progress.goal
        if goal is None:
            continue
        for task in progress.tasks:
            line = _line_of(progress, task)
            if said.get(task.task_id) != line:
                said[task.task_id] = line
                _say(console, line)
        headline = _headline(progress)
        if not goal.status.final and said.get("") != headline:
            said[""] = headline
            _say(console, headline)
    return goal


def _line_of(progress: Progress, task: GoalTask) -> str:
    line = f"{task.name} ({task.assignee}) {_status(progress, task)}"
    if task.status.final and task.issued:
        line += f" in {_took(progress, task)}"
    note = clean(progress.note(task))
    return f"{line}: {note}" if note else line


def _say(console: Console, line: str) -> None:
    console.print(f"{format_clock(generate_iso_timestamp())} {line}", soft_wrap=True)
