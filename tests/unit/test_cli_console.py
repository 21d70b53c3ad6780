"""What the command line puts on a screen."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from services.cli.commands import agents, approvals, kpi, status
from services.cli.commands.goal_view import _format_live, print_outcome, show_progress
from services.cli.commands.mail import _print_list
from services.cli.output.console import print_block, shorten, wrap
from services.cli.supervisor.logs import LogLine, print_log_line
from shared import subjects
from shared.bus.records import TaskState
from shared.contracts import (
    ApprovalRequest,
    Goal,
    GoalTask,
    NotChecked,
    OfficeState,
    Presence,
    ResultOutcome,
    TaskResult,
    TaskStatus,
    generate_iso_timestamp,
)
from shared.operations.approvals import view_request
from shared.queries.progress import describe_task
from shared.text.display import clean, clean_block
from shared.views.listed import Mail
from shared.views.metrics import Metrics, PolicyMetrics, Velocity
from shared.views.progress import Progress, TaskProgress
from shared.views.timeline import Fallback, GoalResults, Spent


def screen_of(width: int = 80) -> tuple[Console, io.StringIO]:
    """A terminal without colours, and what is on it."""
    shown = io.StringIO()
    return Console(file=shown, force_terminal=True, color_system=None, width=width), shown


def test_text_is_shown_without_what_steers_a_terminal() -> None:
    assert clean("a\tb\r\nc\x1b[2J\u2028d") == "a b c[2J d"
    assert clean_block("one\r\n\x07two\n\tthree") == "one\ntwo\n    three"


def test_lines_are_broken_between_words_and_paths_stay_whole() -> None:
    path = "/a/long-path/" + "b" * 30
    assert wrap("- one two\n  three four", 8) == "- one\n  two\n  three\nfour"
    assert wrap(f"ok   the model is in {path}, all right\n\n- two", 20, hang=5) == (
        f"ok   the model is in\n     {path},\n     all right\n\n- two"
    )


@pytest.mark.parametrize(
    ("reason", "answer", "told"),
    [
        ("page: no field `repo`. Name it", "no field repo. Name it", True),
        ("page: it cannot be reached for", "it cannot be reached for now. Try…", True),
        ("it rained", "it rained", True),
        ("it rained", "All is well.", False),
        ("it rained", "", False),
    ],
)
def test_a_reason_is_told_once(reason: str, answer: str, told: bool) -> None:
    goal = Goal(
        goal_id="g1",
        text="Go",
        requester="user",
        reason=reason,
        answer=answer,
        submitted_at="2026-01-02T03:04:05Z",
    )
    console = Console(file=io.StringIO(), width=80)
    print_outcome(goal, console)
    assert isinstance(console.file, io.StringIO)
    assert ("Reason: " not in console.file.getvalue()) is told


def test_shortened_text_says_so() -> None:
    assert shorten("short", 10) == "short"
    assert shorten("0123456789abc", 10) == "012345678…"


def test_on_a_terminal_lines_break_between_words_and_a_path_stays_whole() -> None:
    path = f"/tmp/{'x' * 90}/node_modules"
    request = ApprovalRequest(
        sender="engineer",
        recipient="user",
        approval_id="0" * 32,
        task_id="t1",
        what="run it",
        rule="destroy.workspace",
        why=f"{path} holds work of the workspace.",
        expires_at="2100-01-01T00:00:00+00:00",
    )
    presence = Presence(
        sender="scout",
        recipient="user",
        agent="scout",
        instance="1",
        version="1",
        actions={"read": "word " * 40},
    )
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system=None, width=80)
    approvals.print_approval(view_request(request, None, "waiting"), console)
    agents._print_agent([presence], console, in_full=True, most=9)
    lines = screen.getvalue().splitlines()
    assert any(path in line for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


# --- a goal --------------------------------------------------------------------------------------


def goal_with(*tasks: GoalTask, status: TaskStatus, **more: Any) -> Goal:
    values = {"goal_id": "g1", "text": "Go", "requester": "user", "review_task_id": "g1-review"} | more
    return Goal(tasks=tasks, status=status, submitted_at="2026-01-02T03:04:05Z", **values)


def state_of(step: str, status: TaskStatus, **more: Any) -> TaskProgress:
    state = TaskState(
        step=step,
        seq=9,
        stored_at="2026-01-02T03:04:08Z",
        status=status,
        attempt=1,
        submitted_at="2026-01-02T03:04:06Z",
        **more,
    )
    return describe_task(state)


def live(progress: Progress) -> list[str]:
    console, shown = screen_of()
    console.print(_format_live(progress, 0.0))
    return [line.rstrip() for line in shown.getvalue().splitlines()]


LOOK = GoalTask(
    name="look",
    task_id="g1-look",
    text="Look",
    assignee="scout",
    issued=True,
    status=TaskStatus.COMPLETED,
    started_at="2026-01-02T03:04:05Z",
    ended_at="2026-01-02T03:04:07Z",
    summary="12 documents read",
)


def test_a_goal_under_review_says_so_and_shows_the_review() -> None:
    goal = goal_with(LOOK, status=TaskStatus.REVIEW, reviews=1)
    reviewing = state_of(subjects.NOTED, TaskStatus.IN_PROGRESS, note="runs it")
    progress = Progress(goal=goal, states={"g1-review": reviewing})
    head, look, review = live(progress)
    assert head.startswith("under review, 1 of 1 tasks ended, ")
    assert look.split() == ["✓", "look", "scout", "2.0", "s", "12", "documents", "read"]
    assert review.split()[:3] == ["▶", "review", "critic"]
    assert review.endswith("  runs it")
    assert live(Progress(goal=goal_with(LOOK, status=TaskStatus.REVIEW, reviews=2)))[0].startswith(
        "review 2, "
    )


def test_a_review_that_has_ended_shows_what_came_of_it_and_how_long_it_took() -> None:
    result = TaskResult(
        sender="critic",
        recipient="conductor",
        task_id="g1-review",
        agent="critic",
        status=TaskStatus.COMPLETED,
        output="Approved: the results are true.\n- all is there",
        completed_at="2026-01-02T03:04:08Z",
    )
    states = {"g1-review": state_of(subjects.ENDED, TaskStatus.COMPLETED, result=result)}
    *_, review = live(Progress(goal=goal_with(LOOK, status=TaskStatus.REVIEW, reviews=1), states=states))
    assert review.split() == [
        "✓",
        "review",
        "critic",
        "2.0",
        "s",
        *"Approved: the results are true.".split(),
    ]


def test_who_waits_for_a_person_says_where_to_answer() -> None:
    task = GoalTask(
        name="push", task_id="g1-review", text="Push", assignee="engineer", status=TaskStatus.IN_PROGRESS
    )
    waiting = state_of(
        subjects.NOTED, TaskStatus.IN_PROGRESS, note="waits for approval 6d8b5d57: git push --force"
    )
    shown = live(Progress(goal=goal_with(task, status=TaskStatus.IN_PROGRESS), states={"g1-review": waiting}))
    assert shown[0].startswith("waits for you: mailroom approvals list, 0 of 1 tasks ended, ")


async def test_off_a_terminal_lines_are_in_the_order_of_what_happens() -> None:
    reviewing = goal_with(LOOK, status=TaskStatus.REVIEW, reviews=1)
    ended = goal_with(LOOK, status=TaskStatus.COMPLETED, ended_at="2026-01-02T03:04:09Z")

    async def changes() -> AsyncIterator[Progress]:
        for goal in (goal_with(LOOK, status=TaskStatus.IN_PROGRESS), reviewing, ended):
            yield Progress(goal=goal)

    shown = io.StringIO()
    await show_progress({"": changes()}, Console(file=shown, width=200))
    lines = [line.partition(" ")[2].strip() for line in shown.getvalue().splitlines()]
    assert lines == [
        "look (scout) completed in 2.0 s: 12 documents read",
        "working",
        "under review",
        "review (critic) pending",
    ]


async def test_a_task_that_ended_with_findings_is_not_shown_as_just_completed() -> None:
    found = msgspec.structs.replace(LOOK, outcome=ResultOutcome.FINDINGS)
    progress = Progress(goal=goal_with(found, status=TaskStatus.COMPLETED, ended_at="2026-01-02T03:04:09Z"))

    async def changes() -> AsyncIterator[Progress]:
        yield progress

    assert [line.split()[:2] for line in live(progress)] == [["!", "look"]]
    shown = io.StringIO()
    await show_progress({"": changes()}, Console(file=shown, width=200))
    assert "look (scout) done with findings in 2.0 s: 12 documents read" in shown.getvalue()


def test_the_end_is_said_once() -> None:
    goal = goal_with(LOOK, status=TaskStatus.COMPLETED, ended_at="2026-01-02T03:04:09Z")
    assert [line.split()[:2] for line in live(Progress(goal=goal))] == [["✓", "look"]]


@pytest.mark.parametrize(
    ("answer", "report", "rest"),
    [
        ("All is well.", "# Go\n\n**All is well.**\n\n- one", "- one"),
        (
            "All is well.",
            "# Go\n\n2 of 2 tasks completed.\n\n## Answer\n\nAll is well.\n\n## look",
            "## look",
        ),
        ("One [a.py:1]\n\nTwo", "# Go\n\nOne \\[a.py:1\\]\n\nTwo\n\n## look", "## look"),
        ("All is well.", "# Go\n\nSomething else", "# Go\n\nSomething else"),
        ("", "# Go\n\nSomething else", "# Go\n\nSomething else"),
        ("All is well.", "# Go\n\nAll is well.", ""),
        ("All is well, but…", "# Go\n\n**All is well, but for one thing.**\n\n- one", "- one"),
    ],
)
def test_what_the_answer_said_is_not_said_again_by_the_report(
    tmp_path: Path, answer: str, report: str, rest: str
) -> None:
    path = tmp_path / "report.md"
    path.write_text(report)
    console = Console(file=io.StringIO(), width=80)
    ended = {"answer": answer, "report_path": str(path), "ended_at": "2026-01-02T03:04:09Z"}
    print_outcome(goal_with(LOOK, status=TaskStatus.COMPLETED, **ended), console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().partition(f"{path}\n")[2].strip() == rest


def test_a_report_is_read_without_its_backslashes_and_its_lists_hang(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    path.write_text("- Needs Python \\>=3.11 and `\\d+`" + " and more" * 8)
    console, shown = screen_of()
    print_outcome(goal_with(LOOK, status=TaskStatus.COMPLETED, report_path=str(path)), console)
    first, second = shown.getvalue().splitlines()[-2:]
    assert first.startswith("- Needs Python >=3.11 and `\\d+` and more")
    assert second.startswith("  more and more")


def test_a_headline_breaks_between_words_and_no_tokens_are_not_counted() -> None:
    unchecked = (NotChecked(what="known vulnerabilities of 3 PyPI packages", why="no network"),)
    goal = goal_with(
        LOOK, status=TaskStatus.COMPLETED, outcome=ResultOutcome.DONE, ended_at="2026-01-02T03:04:09Z"
    )
    console, shown = screen_of(50)
    print_outcome(goal, console, GoalResults(not_checked=unchecked, spent=Spent(), left="left today: all"))
    assert [line.rstrip() for line in shown.getvalue().splitlines()] == [
        "✓ done in 4.0 s; not checked: known",
        "  vulnerabilities of 3 PyPI packages",
    ]
    used, shown = screen_of(50)
    print_outcome(goal, used, GoalResults(spent=Spent(tokens=7), left="left today: all"))
    assert shown.getvalue().splitlines()[1].startswith("7 tokens")
    since = Fallback(since="2026-01-02T03:04:05Z", model="openai:spare", instead_of="openai:big")
    used, shown = screen_of(400)
    spent = Spent(tokens=7, read=1_000, cached=720, fallbacks=(since,))
    print_outcome(goal, used, GoalResults(spent=spent, left="left today: all"))
    assert "72 % of what was read came from the cache; openai:spare answered instead of" in shown.getvalue()


# --- figures, letters, events --------------------------------------------------------------------


def test_figures_are_wrapped_beneath_their_names() -> None:
    velocity = Velocity(tasks=1_234, p50=12.0, p95=3_700.0, within_target=0.5)
    safety = PolicyMetrics(
        judged=10, denied=4, asked=6, granted=5, refused=1, ran=("rm -rf /srv",), catch_rate=0.9, rules={}
    )
    figures = Metrics(
        messages=1,
        tasks={"completed": 1_234, "failed": 9},
        velocity=velocity,
        velocity_by_agent={"engineer": velocity},
        context_hits=None,
        drift=None,
        safety=safety,
        agents=(),
    )
    console, shown = screen_of()
    kpi._print(figures, console)
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    heads = [line[:13].strip() for line in lines]
    assert [head for head in heads if head] == [
        *("tasks", "velocity", "context", "drift", "safety", "handoffs", "delegation", "recall"),
        *("improvement", "adaptation", "patterns"),
    ]
    assert all(line[13] != " " or line.startswith(" " * 15) for line in lines)
    assert "within the target of 30 s" in " ".join(shown.getvalue().split())
    assert "RAN ALL THE SAME: rm -rf /srv" in " ".join(shown.getvalue().split())


def test_letters_stand_in_columns() -> None:
    letters = [
        Mail(
            number=number,
            id="x",
            sender=sender,
            recipient="user",
            created_at="2026-01-02T03:04:05Z",
            kind=kind,
            subject="",
            body="Hello",
        )
        for number, sender, kind in [(7, "scout", "letter"), (1_234, "conductor", "report")]
    ]
    console, shown = screen_of()
    _print_list(letters, console)
    first, second = shown.getvalue().splitlines()[:2]
    assert first.index("Hello") == second.index("Hello")
    assert first.startswith("   7  scout → user ")


@pytest.mark.parametrize(
    ("no_color", "level", "coloured"), [("", "warning", True), ("1", "warning", False), ("", "info", False)]
)
def test_only_what_matters_is_coloured(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_color: str,
    level: str,
    coloured: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("click._compat.isatty", lambda _: True)
    print_log_line(LogLine("scout", level, "ended"))
    assert ("\x1b[" in capsys.readouterr().out) is coloured


@pytest.mark.parametrize(("versions", "shown"), [(("0.1.0", "0.1.0"), False), (("0.1.0", "0.2.0"), True)])
def test_the_table_of_who_is_at_work_fits_80_columns(versions: tuple[str, str], shown: bool) -> None:
    posts = [
        status.AgentStatus(
            agent=name,
            processes=(
                Presence(
                    sender=name,
                    recipient="user",
                    agent=name,
                    instance="1",
                    version=version,
                    created_at=generate_iso_timestamp(),
                ),
            ),
        )
        for name, version in zip(("conductor", "specialist-tax-law"), versions, strict=True)
    ]
    overview = status.SystemStatus(
        url="127.0.0.1:4222",
        server_version="2.15.1",
        state=OfficeState.IDLE,
        active={},
        agents=tuple(posts),
        memory_writes_pending=0,
        dead_letters={},
        stored=0,
        state_dir="/state",
        free=0,
    )
    console, screen = screen_of()
    console.print(status._make_table(overview, False))
    table = screen.getvalue().replace("specialist-tax-…", "")
    assert ("0.1.0" in table) is shown
    assert shown or "…" not in table
    if not shown:
        console, screen = screen_of()
        console.width = 50
        console.print(status._make_table(overview, True))
        told = screen.getvalue()
        assert "processes  waiting  dead" in told
        assert max(map(len, told.splitlines())) <= 50


async def test_several_goals_are_shown_together_each_line_under_its_name() -> None:
    second_begins = asyncio.Event()

    async def first() -> AsyncIterator[Progress]:
        yield Progress(goal=goal_with(LOOK, status=TaskStatus.IN_PROGRESS))
        await second_begins.wait()
        yield Progress(goal=goal_with(LOOK, status=TaskStatus.COMPLETED, ended_at="2026-01-02T03:04:09Z"))

    async def second() -> AsyncIterator[Progress]:
        second_begins.set()
        yield Progress(goal=goal_with(LOOK, status=TaskStatus.REVIEW))
        yield Progress(goal=goal_with(LOOK, status=TaskStatus.FAILED, ended_at="2026-01-02T03:04:09Z"))

    for terminal in (False, True):
        second_begins.clear()
        shown = io.StringIO()
        console = Console(file=shown, width=80, force_terminal=terminal)
        async with asyncio.timeout(5):
            ended = await show_progress({"one": first(), "two": second()}, console)
        assert [each.goal and each.goal.status for each in ended] == [TaskStatus.COMPLETED, TaskStatus.FAILED]
        assert "one" in shown.getvalue()
        if not terminal:
            lines = [line.partition(" ")[2] for line in shown.getvalue().splitlines()]
            assert lines[0].startswith("one: look (scout) completed")
            assert "two: under review" in lines


def test_a_table_of_markdown_fits_the_terminal() -> None:
    rows = "\n".join(f"| Row {number} | {'many words ' * 12} | a \\| b |" for number in range(3))
    text = f"Before:\n\n| | left | right |\n|---|:--|---|\n{rows}\n\nAfter | it."
    for width in (50, 80):
        console = Console(force_terminal=True, width=width, file=io.StringIO(), color_system=None)
        print_block(text, console)
        shown = console.file.getvalue()  # type: ignore[attr-defined]
        assert max(map(len, shown.splitlines())) <= width
        assert "a | b" in shown
        assert shown.startswith("Before:")
        assert shown.rstrip().endswith("After | it.")
        assert "|---" not in shown
    plain = Console(force_terminal=False, width=80, file=io.StringIO())
    print_block(text, plain)
    assert plain.file.getvalue() == f"{text}\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text", ["| no table |", "a | b\n---|---", "| a |\n| b |", "||\n|-|", "| a |\n|---|"]
)
def test_what_looks_like_a_table_is_printed(text: str) -> None:
    console = Console(force_terminal=True, width=40, file=io.StringIO(), color_system=None)
    print_block(text, console)
    assert console.file.getvalue().strip() or text == "||\n|-|"  # type: ignore[attr-defined]
