"""``make bench`` itself: its measures run from the first figure to the last.

Those of the budget of speed run before the tests (``make bench-budget``).
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.bench.__main__ import MEASURES
from tests.bench.budget import FILE as BUDGET
from tests.support.server import ROOT


def bench(file: Path, *args: str) -> dict[str, Any]:
    """What a quick run writes as JSON."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--json", str(file), *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    summary = json.loads(run.stdout.splitlines()[-1])
    assert summary["cores"] > 0
    figures: dict[str, Any] = json.loads(file.read_text())
    assert figures["versions"] == summary["versions"]
    return figures


@pytest.mark.timeout(300)
def test_measures_run_and_are_told_as_json(tmp_path: Path) -> None:
    budgeted = tomllib.loads(BUDGET.read_text())
    chosen = (*(name for name in MEASURES if name not in budgeted), "policy")
    figures = bench(tmp_path / "figures.json", *(word for name in chosen for word in ("--only", name)))
    rows = figures["rows"]
    assert {row["measure"] for row in rows} == set(chosen)
    names = [(row["measure"], row["name"]) for row in rows]
    assert len(set(names)) == len(names)
    # What is left when a bound is taken off may be less than nothing on a busy machine.
    measured = [row for row in rows if "map any of" not in row["name"] and ", over " not in row["name"]]
    assert all(row["value"] > 0 for row in measured)
    assert all(row["met"] is not None for row in rows if row["target"] and row["bound_value"])
