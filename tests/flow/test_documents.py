"""What documents promise is done as they say it: the tutorial, a backup and its restoring, the examples."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from shared.contracts import ResultOutcome, TaskStatus
from tests.support.office import Office
from tests.support.server import ROOT, environment
from tests.support.up import processes_of

DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEP_TIMEOUT = 100.0


def steps(document: Path, beginning: str = "", end: str = "") -> list[tuple[str, list[str]]]:
    """The commands of a document, each block with the lines that it is said to print.

    What begins with a line ``beginning`` and ends before a line ``end``.
    """
    text = document.read_text("utf-8").partition(f"\n{beginning}\n")[2] if beginning else document.read_text()
    found: list[tuple[str, list[str]]] = []
    for kind, block in BLOCK.findall(text.partition(f"\n{end}\n")[0] if end else text):
        if kind == "sh":
            found.append((block, []))
        else:
            found[-1][1].extend(line for line in block.splitlines() if line.strip())
    return found


def missing_lines(shown: list[str], printed: str) -> list[str]:
    """What is shown and was not printed, in this order; ``…`` stands for anything, spaces for some spaces."""
    left = iter(re.sub(r" +", " ", line) for line in printed.splitlines())
    missing = []
    for line in shown:
        pattern = re.compile(r".*".join(map(re.escape, re.sub(r" +", " ", line.strip()).split("…"))))
        if not any(pattern.search(each) for each in left):
            missing.append(line)
    return missing


class Terminal:
    """A shell whose folder stays from block to block, as a person's does."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        self.state = folder / "state"
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        self.variables = {**environment(self.state, PATH=path, HOME=str(folder), COLUMNS="200"), **more}

    def run(self, block: str) -> str:
        """What a block prints, errors too; it has to end with exit code 0."""
        place = self.folder / ".place"
        script = f"set -e\n{block}\npwd > '{place}'"
        where = place.read_text().strip() if place.exists() else self.folder
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=where,
            env=self.variables,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=STEP_TIMEOUT,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}"
        return done.stdout

    def follow(self, found: list[tuple[str, list[str]]]) -> None:
        """Run each block, and compare what it prints with what is shown."""
        for block, shown in found:
            printed = self.run(block)
            assert missing_lines(shown, printed) == [], f"{block}\n{printed}"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    yield Terminal(tmp_path, XDG_CACHE_HOME=cache)
    for folder in (tmp_path / "state", tmp_path / "restored"):
        for process in processes_of(folder):
            with contextlib.suppress(psutil.Error):
                psutil.Process(process).kill()


@pytest.mark.timeout(240)
def test_the_tutorial_goes_as_it_is_written(terminal: Terminal) -> None:
    found = steps(DOCS / "start.md")
    assert len(found) > 8
    assert sum(len(shown) for _, shown in found) > 20
    terminal.follow(found)


def test_a_line_that_was_not_printed_is_noticed() -> None:
    assert missing_lines(["a … c", "d"], "a b c\nx d\n") == []
    assert missing_lines(["d", "a … c"], "a b c\nx d\n") == ["a … c"]


@pytest.mark.timeout(240)
@pytest.mark.skipif(not shutil.which("tar"), reason="there is no tar")
def test_an_office_is_backed_up_and_restored_as_it_is_written(terminal: Terminal) -> None:
    # Who is asked nothing here takes half a second to start, each of three times.
    terminal.variables["MAILROOM_REPLICAS"] = "cortex=0,critic=0,engineer=0,frontier=0,scout=0"
    terminal.run("mailroom up --detach")
    terminal.run("mailroom memory add 'The spare key lies under the third pot' --kind fact")
    terminal.run("mailroom ask 'remind me tomorrow at 9 to water the third pot'")
    terminal.follow(steps(DOCS / "operate.md", "## Back up", "## Restore"))
    terminal.run("mailroom down")
    shutil.rmtree(terminal.state)
    terminal.follow(steps(DOCS / "operate.md", "## Restore", "## Upgrade"))
    assert "third pot" in terminal.run("mailroom ask 'where does the spare key lie?'")
    assert "water the third pot" in terminal.run("mailroom reminders list")
    terminal.run("mailroom down")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_takes_the_units_and_finds_them_confined(tmp_path: Path) -> None:
    for source in (ROOT / "deploy" / "systemd").iterdir():
        text = source.read_text()
        if source.suffix == ".service":
            assert "ExecStart=/opt/mailroom/.venv/bin/mailroom " in text
        (tmp_path / source.name).write_text(text.replace("=/opt/mailroom/.venv", f"={ROOT}/.venv"))
    units = sorted(map(str, tmp_path.glob("mailroom*")))
    assert len(units) == 3
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for name, most in (
        ("mailroom", 40),
        ("mailroom-backup", 25),
    ):  # tenths: 5.5 and more is "medium" to systemd
        security = ["systemd-analyze", "security", "--offline=true", f"--threshold={most}", "--no-pager"]
        found = subprocess.run([*security, str(tmp_path / f"{name}.service")], capture_output=True, text=True)
        assert found.returncode == 0, found.stdout[-300:]


# --- the examples of extend.md -----------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    running = Office(tmp_path_factory.mktemp("office"), MAILROOM_AGENTS_DIR=str(EXAMPLES))
    try:
        await running.open(["memory", "conductor", "critic", "proofreader"])
        yield running
    finally:
        await running.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_goal_of_the_example_agent_is_completed(office: Office, tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text("# Guide\n\nSee [the plan](plan.md) and [this](guide.md).\n")
    context = {"assignee": "proofreader", "action": "check_links", "folder": str(tmp_path)}
    await office.submit({"text": f"Proofread {tmp_path}", "goal_id": "proofread", "context": context})
    goal = await office.finished("proofread")
    assert goal.status is TaskStatus.COMPLETED, goal.reason
    assert goal.outcome is ResultOutcome.DONE
    report = Path(goal.report_path).read_text()
    assert "1 links lead nowhere" in report
    assert "guide.md:3: plan.md" in report


@pytest.mark.asyncio(loop_scope="module")
async def test_a_goal_of_the_example_skill_is_completed(office: Office) -> None:
    context = {"assignee": "proofreader", "action": "count_words", "text": "a few plain words", "at_least": 3}
    await office.submit({"text": "Count", "goal_id": "count", "context": context})
    goal = await office.finished("count")
    assert goal.status is TaskStatus.COMPLETED, goal.reason
    (result,) = [each for each in await office.results("proofreader") if each.goal_id == "count"]
    assert result.output == "3 words"


@pytest.mark.asyncio(loop_scope="module")
async def test_the_example_refuses_what_is_no_folder_with_its_cure(office: Office) -> None:
    context = {"assignee": "proofreader", "action": "check_links", "folder": "/nowhere/at/all"}
    await office.submit({"text": "Proofread", "goal_id": "nowhere", "context": context})
    goal = await office.finished("nowhere")
    assert goal.status is TaskStatus.FAILED
    assert "/nowhere/at/all is no folder. Name one by its absolute path" in goal.reason


def test_extend_shows_the_examples_as_they_are() -> None:
    """The code in the document is that of the files."""
    text = (DOCS / "extend.md").read_text("utf-8")
    for name in ("profile.yaml", "__main__.py", "links.py", "counting.py"):
        code = (EXAMPLES / "proofreader" / name).read_text("utf-8")
        assert f"\n{code.strip()}\n```" in text, name
