"""Reports: everything is said with its source, what is missing is said, and it stays valid Markdown."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from services.conductor.checkup_report import compose_checkup
from services.conductor.playbook import load_playbooks
from services.conductor.report import _compose, answer_of, compose_plain, headline, memories_of
from services.conductor.report_sections import code, escape, prose
from shared.contracts import (
    Checked,
    DriftRule,
    Finding,
    Goal,
    GoalTask,
    HistoryReading,
    Inspection,
    NotChecked,
    Preparation,
    RepositoryReading,
    ResultOutcome,
    Statement,
    TaskStatus,
    TestFailure,
    TestRun,
    ToolRun,
    Verdict,
)
from shared.text.times import format_date

START, END = "2026-03-04T05:06:07+00:00", "2026-03-04T05:06:09.500000+00:00"
TASK = GoalTask(
    name="tests",
    task_id="t",
    text="Run the tests",
    assignee="engineer",
    status=TaskStatus.COMPLETED,
    started_at=START,
    ended_at=END,
)
GOAL = Goal(
    goal_id="goal_1",
    text="Check up on the repository at /home/x/kettle",
    requester="user",
    parameters={"repo": "/home/x/kettle"},
    tasks=(TASK,),
    submitted_at=START,
)
READING = RepositoryReading(
    name="kettle",
    purpose=(Statement(text="Boils water.", source="README.md:3"),),
    build=(Statement(text="`make test`: Run the tests", source="Makefile:2"),),
    layout=(Statement(text="`src/` holds 3 files", source="src/"),),
    questions=(Statement(text="No licence is declared: may others use this?", source="."),),
    languages={"Python": 1_200, "Shell": 3},
    files=42,
)
TESTS = TestRun(
    command="pytest -q",
    found="pyproject.toml:20",
    exit_code=1,
    passed=10,
    failed=2,
    skipped=1,
    errors=0,
    seconds=3.25,
    failures=(
        TestFailure(
            test="tests/test_a.py::test_x[a|b]", message="assert `1` == 2 | <b>", source="tests/test_a.py:5"
        ),
        TestFailure(test="test_y", message="boom", source="tests/test_a.py:9"),
    ),
    log_path="/out/tests.log",
)
HISTORY = HistoryReading(
    branch="main",
    commits=7,
    changes=("modified a.py",),
    latest=(Statement(text="2026 Fix #1", source="git:abc"),),
)


def finding(severity: Any = "high", **changes: Any) -> Finding:
    return Finding(
        **{
            "tool": "bandit",
            "rule": "B602 shell",
            "severity": severity,
            "file": "src/a.py",
            "line": 12,
            "message": "shell=True | `x`",
            **changes,
        }
    )


INSPECTION = Inspection(
    findings=(finding(), finding("medium", rule="B301 pickle", line=3, message="Pickle")),
    total=2,
    tools=(
        ToolRun(name="ruff", version="0.17", findings=0),
        ToolRun(name="bandit", version="1.9", findings=2),
        ToolRun(name="a linter for Shell", problem="Mailroom has none"),
    ),
    drift=(
        DriftRule(
            rule="`a` must not import `b`",
            source="ARCHITECTURE.md:4",
            violations=(
                finding("medium", tool="drift", rule="r", file="src/a.py", line=1, message="a imports b"),
            ),
        ),
        DriftRule(rule="c > d", source="ARCHITECTURE.md:6"),
    ),
    drift_note="9 imports were checked",
)
VERDICT = Verdict(approved=True, reasons=("All is well.",), checked=Checked(tests=1))


def report(**changes: Any) -> str:
    parts: dict[str, Any] = {
        "goal": GOAL,
        "reading": READING,
        "tests": TESTS,
        "history": HISTORY,
        "inspection": INSPECTION,
        "verdict": VERDICT,
        "failures": {},
    }
    return compose_checkup(**(parts | changes))


def parsed(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def headings(text: str) -> list[str]:
    tokens = parsed(text)
    return [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]


def shown(text: str) -> list[str]:
    """What a reader sees of each paragraph, heading and cell."""
    blocks = [token.children or [] for token in parsed(text) if token.type == "inline"]
    return ["".join(child.content for child in children if child.type != "softbreak") for children in blocks]


SECTIONS = [
    "What it is",
    "How it is built",
    "How it is laid out",
    "Tests",
    "Lint, security and secrets",
    "Drift from its own rules",
    "Open questions",
    "History",
    "How this was found",
]


def test_a_whole_report() -> None:
    text = report()
    assert headings(text) == ["Check-up of kettle", *SECTIONS]
    for expected in (
        "**kettle: 2 of 12 tests fail; 1 high and 1 medium findings; 1 of 2 stated rules broken.**",
        "- Worst: `tests/test_a.py::test_x[a|b]` fails: assert `1` == 2 \\| \\<b\\> (`tests/test_a.py:5`).",
        "- Next step: change what `tests/test_a.py:5` tests, or the test, then the other one.",
        "- Boils water. (`README.md:3`)",
        "- 42 files; lines: Python 1,200, Shell 3 (counted)",
        "- `make test`: Run the tests (`Makefile:2`)",
        "- `src/` holds 3 files (`src/`)",
        "- `pytest -q`, found in `pyproject.toml:20`: exit code 1, 3.2 s, 10 passed, 2 failed, 1 skipped",
        "- The whole output: `/out/tests.log`",
        "- `test_y` (`tests/test_a.py:9`): boom",
        "| high | `src/a.py:12` | shell=True \\| `x` | bandit B602 shell |",
        "- **Broken** 1 time: `a` must not import `b` (`ARCHITECTURE.md:4`)",
        "  - `src/a.py:1`: a imports b",
        "- Kept: c \\> d (`ARCHITECTURE.md:6`)",
        "- No licence is declared: may others use this? (the repository as a whole)",
        "- Branch `main`, 7 commits",
        "- 1 uncommitted change: `modified a.py`",
        "- 2026 Fix #1 (`git:abc`)",
        "- bandit 1.9: 2 findings",
        "- a linter for Shell: not run, Mailroom has none",
        "- Task `tests` by engineer: completed in 2.5 s",
        "- Checked: the tests were run again. All is well.",
        "- Goal `goal_1`, submitted 2026-03-04 05:06:07 UTC by user",
        "- Repository: `/home/x/kettle`",
    ):
        assert expected in text.splitlines(), expected
    assert report() == text


def test_one_is_not_many() -> None:
    one = Inspection(
        findings=(finding("medium"),), total=1, drift=(DriftRule(rule="c > d", source="A.md:1"),)
    )
    text = report(
        tests=TestRun(command="make test", passed=9, failed=0, errors=0, exit_code=0), inspection=one
    )
    assert headline(text) == "kettle: all 9 tests pass; 1 medium finding."
    assert "- Worst: shell=True \\| `x` (`src/a.py:12`).\n- Next step: change `src/a.py:12` so that" in text


def test_the_summary_is_short_and_first() -> None:
    lines = report().split("## What it is")[0].strip().splitlines()
    assert 3 <= len([line for line in lines[1:] if line]) <= 6


def test_headline() -> None:
    assert (
        headline(report())
        == "kettle: 2 of 12 tests fail; 1 high and 1 medium findings; 1 of 2 stated rules broken."
    )
    assert headline("# T\n\n**a \\* b** `c`\n\nmore") == "a * b c"
    assert headline("# T\n\n" + "word " * 100).endswith("word…")
    assert headline("Tests: 2 passed.\nTest commands:\n- `a`: 1\n- `b`: 1") == "Tests: 2 passed."
    assert headline("- only\n- a list") == "- only - a list"
    assert headline("") == headline("# only a title") == ""


def test_nothing_at_all_is_said_part_by_part() -> None:
    failures = {"reading": "no folder", "tests": "pytest is | not installed", "inspection": "it timed out"}
    text = report(reading=None, tests=None, history=None, inspection=None, verdict=None, failures=failures)
    assert headings(text) == ["Check-up of kettle", *SECTIONS]
    assert (
        headline(text)
        == "kettle: the tests were not run: pytest is | not installed. The code could not be inspected."
    )
    assert text.count("Not known.") == 5
    assert "Not run." in text
    assert "Not inspected." in text
    assert text.index("- The reading: no folder.") < text.index("## What it is")
    assert text.index("- The inspection: it timed out.") < text.index("## What it is")
    assert text.count("pytest is") == 1
    assert "- Next step: make the tests run" in text


def test_the_reason_and_the_cure_of_what_was_not_checked_come_first_and_once() -> None:
    why, cure = "go is not installed (apt install golang-go)", "Install it."
    tests = TestRun(
        problem=f"{why}.", cure=cure, prepared=(Preparation(ecosystem="go", problem=why, cure=cure),)
    )
    gaps = (
        NotChecked(what="12 Go files", why="there is no staticcheck", cure="Install staticcheck."),
        *(NotChecked(what=f"{number} more files", why="why") for number in range(2)),
    )
    text = report(tests=tests, inspection=Inspection(not_checked=gaps, checked=("3 workflow files",)))
    assert headline(text) == (
        f"kettle: the tests were not run: {why}. No finding of high or medium severity in what was checked; "
        "12 Go files not checked; 0 more files not checked; more not checked."
    )
    top = text.partition("## ")[0]
    assert "- Next step: Install it." in top
    assert "- 12 Go files: there is no staticcheck. Install staticcheck." in top.splitlines()
    for said in (why, cure, "there is no staticcheck"):
        assert text.count(said) == 1


@pytest.mark.parametrize(
    ("run", "state"),
    [
        ({"passed": 3, "failed": 0, "errors": 0, "exit_code": 0}, "all 3 tests pass"),
        ({"passed": 1, "failed": 0, "errors": 0, "exit_code": 0}, "the one test passes"),
        (
            {"passed": 297, "failed": 0, "errors": 0, "skipped": 3, "exit_code": 0},
            "297 tests passed, 3 skipped",
        ),
        ({"passed": 0, "failed": 1, "errors": 0, "exit_code": 1}, "1 of 1 test fails"),
        ({"passed": 5, "failed": 1, "errors": 1, "exit_code": 1}, "2 of 7 tests fail"),
        (
            {"passed": 3, "failed": 0, "errors": 0, "exit_code": 2},
            "no test fails, but the run ended with exit code 2",
        ),
        ({"passed": 0, "failed": 0, "errors": 0, "exit_code": 0}, "there are no tests to run"),
        (
            {"passed": 0, "failed": 0, "errors": 0, "exit_code": 5, "problem": "None found."},
            "the tests gave no result: None found",
        ),
        ({"exit_code": 3}, "the tests gave no result: exit code 3, no counts"),
        ({"timed_out": True, "passed": 1}, "the tests did not end in time"),
        ({"problem": "There is no runner."}, "the tests were not run: There is no runner"),
    ],
)
def test_the_state_of_the_tests(run: dict[str, Any], state: str) -> None:
    text = report(tests=TestRun(command="make test", **run), inspection=Inspection())
    ending = ". No" if ": " in state else "; no"
    assert headline(text) == f"kettle: {state}{ending} finding of high or medium severity in the code."


@pytest.mark.parametrize(
    ("parts", "advice"),
    [
        (
            {"inspection": Inspection(findings=(finding(tool="secrets", rule="AWS"),), total=1)},
            "and remove it from the history too.",
        ),
        (
            {"tests": TestRun(passed=1, failed=0, errors=0, exit_code=0)},
            "so that this no longer holds: ",
        ),
        (
            {
                "tests": TestRun(passed=1, failed=0, errors=0, exit_code=0),
                "inspection": Inspection(drift=INSPECTION.drift),
            },
            "to keep the rule, or the rule in ",
        ),
        (
            {"tests": TestRun(passed=1, failed=0, errors=0, exit_code=0), "inspection": Inspection()},
            "answer the first open question: No licence is declared: may others use this? "
            "(the repository as a whole)",
        ),
        (
            {
                "tests": TestRun(passed=1, failed=0, errors=0, exit_code=0),
                "inspection": Inspection(),
                "reading": RepositoryReading(name="k"),
            },
            "nothing.",
        ),
    ],
)
def test_what_to_do_first(parts: dict[str, Any], advice: str) -> None:
    (step,) = (line for line in report(**parts).splitlines() if line.startswith("- Next step: "))
    assert advice in step


def test_habits_share_a_row_and_the_rest_is_counted() -> None:
    findings = [finding(line=line, message=f"m{line}") for line in range(1, 6)]
    findings += [finding("medium", rule="B019", line=line) for line in range(1, 8)]
    findings += [finding("low", rule=f"L{rule}", line=line) for rule in range(20) for line in range(4)]
    text = report(inspection=Inspection(findings=tuple(findings), total=300))
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| -")][1:]
    assert [row.split(" | ")[0] for row in rows] == ["| high", "| medium"] + ["| low"] * 6
    assert "`src/a.py:1`, `src/a.py:2`, `src/a.py:3` and 4 more" in rows[1]
    assert "bandit L9 (4)" in text
    assert headline(text) == "kettle: 2 of 12 tests fail; 5 high and 7 medium findings."
    worst = report(inspection=Inspection(findings=(finding(),) * 3, total=9))
    assert "; at least 3 high findings." in headline(worst)
    assert "2 other rules, 208 that were counted but not listed." in text


NASTY = (
    "a | b",
    "`code | x` and ``two``",
    "unbalanced ` tick",
    "# heading",
    "- item",
    "1. item",
    "2) item",
    "> quote",
    "+ plus",
    "---",
    "===",
    "```\nfence",
    "~~~",
    "<script>alert(1)</script>",
    "<!-- comment",
    "[x](javascript:alert(1))",
    "![x](http://y/z.png)",
    "<http://x.org>",
    "&lt; &#65;",
    "*a* **b** _c_ __d__ ~~e~~",
    "snake_case_name and _private",
    "`a`_b_",
    "back\\slash \\` \\",
    "line\nbreak\r\n\n# new",
    "tab\tand\x1b[31mescape",
    "[ref]: http://x.org",
    "| --- | --- |",
    "trailing  ",
    " `` ` `` ",
    "`",
    "|",
    "né — ünï",
)


def visible(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


@pytest.mark.parametrize("text", NASTY)
def test_escaped_text_shows_exactly_itself(text: str) -> None:
    assert shown(escape(text)) == [visible(text)]
    assert shown(f"- {escape(text)} end") == [f"{visible(text)} end"]
    assert shown(f"| h |\n| --- |\n| {escape(text)} |") == ["h", visible(text)]


@pytest.mark.parametrize("text", NASTY)
def test_code_shows_exactly_itself(text: str) -> None:
    spans = [child for token in parsed(code(text)) for child in token.children or []]
    assert [(child.type, child.content) for child in spans] == [("code_inline", visible(text))]
    assert shown(f"| h |\n| --- |\n| {code(text, table=True)} |") == ["h", visible(text)]


@pytest.mark.parametrize("text", NASTY)
def test_prose_keeps_single_backticks_as_code_and_the_rest_as_it_is(text: str) -> None:
    for table in (False, True):
        said = prose(text, table=table)
        block = f"| h |\n| --- |\n| {said} |" if table else said
        blocks = [token for token in parsed(block) if token.type == "inline"]
        kinds = {child.type for token in blocks for child in token.children or []}
        assert kinds <= {"text", "code_inline", "text_special"}
        bare = "".join(shown(block)).removeprefix("h" * table)
        assert re.sub(r"[`\s]", "", bare) == re.sub(r"[`\s]", "", visible(text))


@pytest.mark.parametrize("text", NASTY)
def test_the_report_stays_valid_whatever_stands_in_it(text: str) -> None:
    line = visible(text) or "x"
    nasty = finding(file=line, rule=line, message=line, tool=line)
    text = report(
        goal=Goal(goal_id="g", text=text, requester="user", parameters={"repo": text}, submitted_at=START),
        reading=RepositoryReading(
            name=text,
            purpose=(Statement(text=text, source=text),),
            questions=(Statement(text=text, source=text),),
            languages={text: 1},
        ),
        tests=TestRun(
            command=text,
            found=text,
            passed=0,
            failed=1,
            errors=0,
            exit_code=1,
            problem=text,
            log_path=text,
            failures=(TestFailure(test=text, message=text, source=text),),
        ),
        history=HistoryReading(branch=text, changes=(text,), latest=(Statement(text=text, source=text),)),
        inspection=Inspection(
            findings=(nasty, finding("low")),
            total=2,
            tools=(ToolRun(name=text, version=text, problem=text), ToolRun(name=text, problem=text)),
            drift=(DriftRule(rule=text, source=text, violations=(nasty,)),),
            drift_note=text,
        ),
        verdict=Verdict(approved=False, reasons=(text,)),
        failures={"history": text},
    )
    assert headings(text)[1:] == SECTIONS
    tokens = parsed(text)
    assert [
        token.type
        for token in tokens
        if token.type in ("html_block", "fence", "code_block", "hr", "blockquote_open")
    ] == []
    rows = [token for token in tokens if token.type == "tr_open"]
    cells = [token for token in tokens if token.type in ("td_open", "th_open")]
    assert (len(rows), len(cells)) == (3, 12)
    inline = {child.type for token in tokens for child in token.children or []}
    assert inline <= {"text", "text_special", "code_inline", "strong_open", "strong_close", "softbreak"}
    assert tokens[-1].level == 0


def plain(results: dict[str, Any], tasks: tuple[GoalTask, ...] = (TASK,)) -> str:
    goal = Goal(
        goal_id="g", text="What does it *say*?\nmore", requester="user", tasks=tasks, submitted_at=START
    )
    return compose_plain(goal, results)


def test_a_plain_report_of_one_task() -> None:
    result = {
        "status": "completed",
        "output": "It says: **yes**.\n\n# Why\n\nBecause.\n\n```py\n# code",
        "evidence_refs": ["https://x.org/a|b", "."],
        "output_paths": ["/out/a.md"],
    }
    text = plain({"tests": result})
    assert headings(text) == ["What does it \\*say\\*?", "tests", "Why"]
    assert headline(text) == "It says: yes."
    assert "completed by engineer" in text
    assert "- `https://x.org/a|b`" in text
    assert "- `/out/a.md`" in text
    assert [token.content for token in parsed(text) if token.type == "fence"] == ["# code\n"]
    assert "- Goal `g`, submitted 2026-03-04 05:06:07 UTC by user" in text


def test_a_plain_report_of_several_tasks() -> None:
    results = {
        "late": {"status": "failed", "output": "", "error_message": "There was no time."},
        "tests": {"status": "completed", "output": "Done."},
        "odd": {},
    }
    text = plain(results)
    assert headings(text)[1:] == ["tests", "late", "odd"]
    assert headline(text) == "1 of 3 tasks completed."
    assert "There was no time." in text
    assert "It gave no output." in text
    assert "not ended" in text


def test_a_single_task_that_failed_is_reported_without_repeating_the_reason() -> None:
    task = GoalTask(
        name="task", task_id="t", text="Go", assignee="engineer", status=TaskStatus.FAILED, summary="No disk."
    )
    goal = Goal(
        goal_id="g",
        requester="user",
        submitted_at=START,
        text="Go",
        status=TaskStatus.FAILED,
        outcome=ResultOutcome.FAILED,
        reason="task: No disk.",
        verdict=Verdict(
            approved=False, decision="not_checked", reasons=("task: it ended as failed: No disk.",)
        ).to_dict(),
        tasks=(task,),
    )
    text = compose_plain(goal, {"task": {"status": "failed", "error_message": "No disk."}})
    assert text.count("No disk.") == 1, "as the headline"
    assert "Outcome: failed." in text


def test_a_plain_report_of_nothing() -> None:
    assert headline(plain({})) == "0 of 0 tasks completed."


def test_a_report_has_the_outcome_diffs_commands_gaps_and_cost(tmp_path: Path) -> None:
    patch = tmp_path / "shop.patch"
    patch.write_text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-```\n+b\n" + "+c\n" * 300)
    tests = TestRun(
        command="python -m pytest",
        exit_code=1,
        passed=3,
        failed=1,
        seconds=2.5,
        counted_by="JUnit report",
        prepared=(
            Preparation(ecosystem="python", tool="uv 0.9", read=("uv.lock",), seconds=4.0),
            Preparation(ecosystem="go", problem="There is no Go", cure="Install golang."),
        ),
        not_run=(NotChecked(what="tox -e docs", why="it needs a network", cure="Grant the host"),),
    )
    commands = [{"command": "npm test", "exit_code": 1}, {"command": "x", "seconds": "odd"}, {"command": 3}]
    metadata = {
        "tests": tests.to_dict(),
        "commands": commands,
        "patches": [str(patch), "/gone.patch"],
        "usage": {
            "input_tokens": 900,
            "output_tokens": 100,
            "cached_tokens": 648,
            "calls": 2,
            "cost": 0.25,
            "waited": 3.0,
        },
        "fallbacks": {
            "openai:spare": {"instead_of": "openai:big", "since": "2026-01-02T03:04:05Z"},
            "openai:other": {"instead_of": "openai:big", "since": "yesterday"},
            "openai:third": 5,
        },
    }
    result = {"status": "completed", "output": "I changed x.", "metadata": metadata}
    goal = msgspec.structs.replace(
        GOAL,
        outcome=ResultOutcome.NOT_CHECKED,
        status=TaskStatus.COMPLETED,
        tasks=(),
        verdict=Verdict(approved=False, decision="not_checked", reasons=("no runner",)).to_dict(),
    )
    text = compose_plain(goal, {"fix": result})
    for expected in (
        "Not checked. I changed x.",
        "Outcome: not checked: no runner.",
        "Not judged: no runner.",
        "- tox -e docs: it needs a network. Grant the host",
        "- The environment (go): There is no Go. Install golang.",
        "- Prepared with uv 0.9 from `uv.lock` (4.0 s)",
        "- Prepared with go (failed)",
        "- `npm test`: exit code 1, 0.0 s",
        "- `python -m pytest`: exit code 1, 2.5 s, 3 passed, 1 failed, counted by the JUnit report",
        "````diff",
        "(and 105 more lines)",
        "- `/gone.patch` cannot be read: No such file or directory",
        "- 2 model calls, 1,000 tokens, 0.2500 US dollars",
        "- 72 % of what was read came from the cache",
        "- requests waited 3.0 s in all for their turn at the server",
        f"- openai:spare answered instead of openai:big since {format_date('2026-01-02T03:04:05Z')}",
    ):
        assert expected in text.splitlines(), expected
    assert "openai:other" not in text


def test_a_report_on_several_folders_says_what_each_came_to() -> None:
    results = {
        "tests-a": {"status": "completed", "output": "Tests: 3 passed.", "metadata": {}},
        "tests-b": {"status": "failed", "error_message": "There is no folder /b"},
    }
    folders = {"a": "/r/a", "b": "/b"}
    goal = msgspec.structs.replace(
        GOAL, playbook="tests", tasks=(), status=TaskStatus.COMPLETED, parameters={"folders": folders}
    )
    text = compose_plain(goal, results)
    assert "1 of 2 tasks completed. tests-a: Tests: 3 passed. tests-b: There is no folder /b" in text
    checked = {"inspection-a": {"status": "completed", "metadata": {"inspection": INSPECTION.to_dict()}}}
    both = _compose(goal, load_playbooks()["checkup"], checked)
    assert "# Check-up of a\n" in both
    assert "# Check-up of b\n" in both
    nodes, _ = memories_of(goal, checked, Path("/r.md"), lambda *parts: "-".join(parts))
    assert len(nodes) == 4


COMPARED = {"reading-a": {"metadata": {"reading": READING.to_dict()}}}
BROKEN = {"reading-b": {"metadata": {"reading": {"name": 5}}}}
ON_GIT = {"history-b": {"metadata": {"history": HISTORY.to_dict()}}}
OFF_GIT = {"history-a": {"metadata": {"history": HistoryReading(problem="no git").to_dict()}}}


@pytest.mark.parametrize(
    ("results", "rows"),
    [
        (COMPARED, ["| | a | b |", "|---|---|---|", "| What it is | Boils water. | – |"]),
        (COMPARED | BROKEN, ["| Files | 42 | – |"]),
        (
            {"history-b": {"metadata": {"history": HISTORY.to_dict()}}},
            [f"| Commits | – | {HISTORY.commits} |"],
        ),
        (OFF_GIT, ["| Commits | – | – |"]),
        ({}, ["| Licence | – | – |"]),
    ],
)
def test_a_comparison_is_one_table(results: dict[str, Any], rows: list[str]) -> None:
    goal = Goal(
        goal_id="g",
        text="Compare /x/a and /x/b",
        requester="user",
        submitted_at="2026-01-02T03:04:05+00:00",
        status=TaskStatus.COMPLETED,
        playbook="compare",
        parameters={"folders": {"a": "/x/a", "b": "/x/b"}},
    )
    table = answer_of(goal, results).splitlines()
    assert set(rows) <= set(table)
    assert {row.count("|") for row in table} == {4}
