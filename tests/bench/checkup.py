"""How long the check-up of a repository of 1,000 Python files takes without a model, its own tests aside."""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from shared import subjects
from shared.contracts import GoalTask, TaskStatus
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_most, compare
from tests.support.office import Office

NAME = "checkup"
FILES, PACKAGES = 1_000, 20
GOAL = at_most(20)
"""Seconds of the whole goal; its longest task is an atomic one, with 30 s to be done in."""
ATOMIC = at_most(30)
BARE = "ruff and bandit alone"

MODULE = '''"""Module {number} of the shop: prices and orders."""

import json
from dataclasses import dataclass

from shop.part{package} import base


@dataclass
class Order{number}:
    """An order."""

    name: str
    amount: int = {number}

    def total(self, rate: float = 0.081) -> float:
        """The total with the tax."""
        if self.amount < 0:
            raise ValueError("amount must not be negative")
        return round(self.amount * (1 + rate), 2)


def load_orders(path: str) -> list[Order{number}]:
    """Read orders from a JSON file."""
    with open(path, encoding="utf-8") as file:
        return [Order{number}(**row) for row in json.load(file)]


def summarise(orders: list[Order{number}]) -> dict[str, float]:
    """Totals by name."""
    totals: dict[str, float] = {{}}
    for order in orders:
        totals[order.name] = totals.get(order.name, base.ZERO) + order.total()
    return totals
'''


async def measure(plan: Plan) -> list[Row]:
    """Goals over one generated repository, in turn with the linters alone."""
    files, rounds = (40, 1) if plan.quick else (FILES, min(3, plan.rounds))
    with TemporaryDirectory() as name:
        folder = Path(name)
        repo = folder / "shop"
        make_repository(repo, files)
        office = Office(folder)
        try:
            await office.open()
            took, tasks, bare = [], [], []
            for number in range(rounds):
                bare.append(_lint(repo))
                seconds, ended = await _check_up(office, repo, f"goal-{number}")
                took.append(seconds)
                tasks.append(max(map(_seconds, ended)))
        finally:
            await office.close()
    value, bound = statistics.median(took), statistics.median(bare)
    note = f"{files:,} files; the repository has no tests of its own"
    return [
        compare(NAME, "check-up", value, "s", BARE, bound, NO_TARGET if plan.quick else GOAL, note),
        compare(NAME, "its longest task", statistics.median(tasks), "s", BARE, bound, ATOMIC),
    ]


def make_repository(repo: Path, files: int) -> None:
    """A git repository of ``files`` Python modules in PACKAGES packages, with documents and one commit."""
    for package in range(PACKAGES):
        part = repo / "shop" / f"part{package}"
        part.mkdir(parents=True)
        (part / "__init__.py").write_text('"""A part of the shop."""\n')
        (part / "base.py").write_text('"""What is shared."""\n\nZERO = 0.0\n')
    (repo / "shop" / "__init__.py").write_text('"""A shop."""\n')
    for number in range(files - 2 * PACKAGES - 1):
        package = number % PACKAGES
        text = MODULE.format(number=number, package=package)
        (repo / "shop" / f"part{package}" / f"module{number}.py").write_text(text)
    (repo / "README.md").write_text("# Shop\n\nA web shop of many parts.\n")
    (repo / "pyproject.toml").write_text('[project]\nname = "shop"\nversion = "1.0"\n')
    who = ["-c", "user.name=shop", "-c", "user.email=shop@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "Open the shop"]):
        subprocess.run(["git", *command], cwd=repo, check=True)


async def _check_up(office: Office, repo: Path, goal_id: str) -> tuple[float, tuple[GoalTask, ...]]:
    body = {"text": "Check up", "goal_id": goal_id, "context": {"playbook": "checkup", "repo": str(repo)}}
    begun = time.perf_counter()
    await office.submit(body)
    goal = await office.finished(goal_id, 300)
    seconds = time.perf_counter() - begun
    if goal.status is not TaskStatus.COMPLETED:
        raise RuntimeError(f"the check-up ended as {goal.status}: {goal.reason or goal.answer}")
    assert goal.requester == subjects.USER
    return seconds, goal.tasks


def _seconds(task: GoalTask) -> float:
    from datetime import datetime

    return (datetime.fromisoformat(task.ended_at) - datetime.fromisoformat(task.started_at)).total_seconds()


def _lint(repo: Path) -> float:
    begun = time.perf_counter()
    for command in (["ruff", "check", "--isolated", "-q", "."], ["bandit", "-q", "-r", "."]):
        tool = Path(sys.executable).parent / command[0]
        subprocess.run([str(tool), *command[1:]], cwd=repo, capture_output=True)
    return time.perf_counter() - begun
