"""A goal on the console: its progress, live on a terminal and as lines elsewhere, and its outcome."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from services.cli.output.console import format_end, print_block, print_wrapped, shorten
from services.cli.output.outcomes import format_cost, format_headline
from shared.contracts import Goal, GoalTask, ResultOutcome, TaskStatus, generate_iso_timestamp
from shared.text.display import clean, clean_block, count
from shared.text.times import format_clock, format_span, seconds_between
from shared.views.progress import WAITING_NOTE, Progress
from shared.views.timeline import GoalResults

ANSWER_WITHIN = 10  # The answer begins within these first lines of a report, if it is repeated there
MIN_LINES = 20  # Lines of a report that are printed at least


def print_outcome(goal: Goal, console: Console, results: GoalResults | None = None) -> None:
    """Print outcome, reason, answer, and the path and the first screen of the report."""
    print_wrapped(format_headline(goal, results), console)
    if results and results.spent and results.spent.tokens:
        console.print(format_cost(results), style="dim", soft_wrap=True)
    if goal.reason and not _is_in_answer(goal.reason, goal.answer):
        print_block(f"Reason: {clean(goal.reason)}", console)
    if goal.answer:
        print_block(f"\n{clean_block(goal.answer).strip()}", console)
    if goal.report_path:
        console.print(f"\nReport: {clean(goal.report_path)}", soft_wrap=True)
        _print_first_screen(goal, console)
    if goal.tasks and goal.status in (TaskStatus.FAILED, TaskStatus.TIMEOUT):
        console.print(f"\nDo it again: mailroom retry {goal.goal_id}", soft_wrap=True)
    if results and results.patches:
        console.print(f"\nThe patch:   mailroom diff {goal.goal_id}", soft_wrap=True)
        console.print(f"To apply it: mailroom apply {goal.goal_id}", soft_wrap=True)


def _is_in_answer(reason: str, answer: str) -> bool:
    """Whether the answer begins with the reason, with or without "TASK: "; either may be cut short."""
    start, whole, bare = (
        clean(text).replace("`", "").rstrip("…") for text in (answer, reason, reason.partition(": ")[2])
    )
    return any(
        text and start and (start.startswith(text) or text.startswith(start)) for text in (whole, bare)
    )


def _print_first_screen(goal: Goal, console: Console) -> None:
    lines = _skip_answer(read_lines(goal.report_path), goal.answer)
    limit = max(MIN_LINES, console.height - 8) if console.is_terminal else MIN_LINES
    if not lines:
        return
    console.print()
    print_block("\n".join(map(_unescape, lines[:limit])), console)
    if len(lines) > limit:
        console.print(f"... {count(len(lines) - limit, 'more line')}", style="dim")


def _skip_answer(lines: list[str], answer: str) -> list[str]:
    """The lines of a report without those of the answer, if it begins with them."""
    answer_text = _plain_text(answer)
    first = _plain_text(answer.strip().partition("\n")[0])
    start = first.rstrip("…")

    def begins(line: str) -> bool:
        # A long answer is cut in the goal's record.
        return line == first or (start != first and line.startswith(start))

    plain = [_plain_text(line) for line in lines]
    begin = next((at for at, line in enumerate(plain[:ANSWER_WITHIN]) if first and begins(line)), 0)
    while begin < len(lines) and (plain[begin] in answer_text or (first and begins(plain[begin]))):
        begin += 1
    return lines[begin:]


def _plain_text(text: str) -> str:
    return clean(re.sub(r"[*`\\]", "", text))


def _unescape(line: str) -> str:
    """A line of Markdown without backslash escapes; code is unchanged."""
    return re.sub(r"(`[^`]*`)|\\([!-/:-@\[-`{-~])", lambda found: found[1] or found[2], line)


def read_lines(path: str) -> list[str]:
    """The printable lines of a report; none if it is on another machine."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return clean_block(file.read(1_000_000)).splitlines()
    except OSError:
        return []


UNCLEAN = (ResultOutcome.FINDINGS, ResultOutcome.NOT_CHECKED)
"""What a completed task may come to that is not just done."""
THOUGHT = 44  # Characters of what a model is writing that a line has: its end
NOTICE_AFTER = 3.0  # Seconds after which a hint says that the conductor has not accepted the goal
APPROVALS_COMMAND = "mailroom approvals list"
NOT_ACCEPTED = "The conductor has not accepted it yet; 'mailroom status' shows whether it runs"


async def show_progress(goals: Mapping[str, AsyncIterator[Progress]], console: Console) -> list[Progress]:
    """Print every change of goals, each under its name, until all have ended; returns their last states."""
    if console.is_terminal:
        return await _show_live(goals, console)
    return await asyncio.gather(*(_show_lines(each, console, name) for name, each in goals.items()))


# --- on a terminal -------------------------------------------------------------------------------


async def _show_live(goals: Mapping[str, AsyncIterator[Progress]], console: Console) -> list[Progress]:
    begun = time.monotonic()
    latest = dict.fromkeys(goals, Progress())

    def render() -> RenderableType:
        waited = time.monotonic() - begun
        shown = [
            part
            for name, progress in latest.items()
            for part in ([Text(name, style="bold")] if name else []) + [_format_live(progress, waited)]
        ]
        return Group(*shown)

    async def follow(name: str, changes: AsyncIterator[Progress]) -> None:
        async for progress in changes:
            latest[name] = progress

    with Live(get_renderable=render, console=console, refresh_per_second=5, vertical_overflow="visible"):
        await asyncio.gather(*(follow(name, changes) for name, changes in goals.items()))
    return list(latest.values())


def _format_live(progress: Progress, waited: float) -> RenderableType:
    goal = progress.goal
    if goal is None:
        text = "waiting for the conductor" if waited < NOTICE_AFTER else NOT_ACCEPTED
        return Text(f"{format_span(waited)}  {text}", style="dim")
    took = format_span(seconds_between(goal.submitted_at, goal.ended_at))
    ended = sum(task.status.final for task in goal.tasks)
    counts = f"{ended} of {len(goal.tasks)} tasks ended, " if goal.tasks else ""
    # The outcome is printed below.
    head = [] if goal.status.final else [Text(f"{_format_headline(progress)}, {counts}{took}")]
    width = max((len(shorten(task.name, 20)) for task in progress.tasks), default=0)
    wide = max((len(shorten(task.assignee, 10)) for task in progress.tasks), default=0)
    return Group(*head, *(_format_row(progress, task, width, wide) for task in progress.tasks))


def _format_row(progress: Progress, task: GoalTask, width: int, wide: int) -> Text:
    note = clean(progress.note(task))
    if thinks := "" if task.status.final else clean(progress.thoughts.get(task.task_id, "")):
        note = f"thinks: …{thinks[-THOUGHT:]}"
    return Text.assemble(
        "  ",
        format_end(_status(progress, task), task.outcome, f"{shorten(task.name, 20):<{width}}"),
        f"  {shorten(task.assignee, 10):<{wide}} {_format_duration(progress, task):>6}  ",
        (note, "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _format_headline(progress: Progress) -> str:
    goal = progress.goal
    assert goal is not None
    if any(progress.note(task).startswith(WAITING_NOTE) for task in goal.tasks):
        return f"waits for you: {APPROVALS_COMMAND}"
    if not goal.tasks or goal.thinking == "repair":
        return "replanning" if goal.plans else "planning"
    if goal.thinking:
        return "writing the answer"
    if goal.status is TaskStatus.REVIEW:
        return f"review {goal.reviews}" if goal.reviews > 1 else "under review"
    return "working"


def _status(progress: Progress, task: GoalTask) -> str:
    """The status of a task; one that is issued and not claimed yet counts as pending."""
    state = progress.states.get(task.task_id)
    if task.status is TaskStatus.IN_PROGRESS and (state is None or state.attempt == 0):
        return str(TaskStatus.PENDING)
    return str(task.status)


def _format_duration(progress: Progress, task: GoalTask) -> str:
    state = progress.states.get(task.task_id)
    started = task.started_at or (state.submitted_at if state else "")
    return format_span(seconds_between(started, task.ended_at)) if started and task.issued else ""


# --- elsewhere -----------------------------------------------------------------------------------


async def _show_lines(changes: AsyncIterator[Progress], console: Console, name: str = "") -> Progress:
    lead = f"{name}: " if name else ""
    printed: dict[str, str] = {}
    progress = Progress()
    async for progress in changes:
        goal = progress.goal
        if goal is None:
            continue
        review = progress.tasks[len(goal.tasks) :]
        lines = {task.task_id: _format_line(progress, task) for task in goal.tasks}
        if not goal.status.final:
            lines[""] = _format_headline(progress)
        lines |= {task.task_id: _format_line(progress, task) for task in review}
        for key, line in lines.items():
            if printed.get(key) != line:
                printed[key] = line
                _print_line(console, f"{lead}{line}")
    return progress


def _format_line(progress: Progress, task: GoalTask) -> str:
    status = _status(progress, task)
    unclean = task.status is TaskStatus.COMPLETED and task.outcome in UNCLEAN
    note = clean(progress.note(task))
    name = f"{task.name} ({task.assignee})"
    if note and status == TaskStatus.IN_PROGRESS:
        return f"{name}: {note}"
    line = f"{name} {task.outcome.replace('_', ' ') if unclean else status}"
    if task.status.final and task.issued:
        line += f" in {_format_duration(progress, task)}"
    return f"{line}: {note}" if note else line


def _print_line(console: Console, line: str) -> None:
    console.print(f"{format_clock(generate_iso_timestamp())} {line}", soft_wrap=True)
