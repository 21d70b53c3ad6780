"""``make bench`` itself: every measure runs from its first figure to its last."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.__main__ import MEASURES
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


def test_every_measure_runs_and_is_told_as_json(tmp_path: Path) -> None:
    figures = bench(tmp_path / "figures.json")
    assert {row["measure"] for row in figures["rows"]} == set(MEASURES)
    assert all(row["value"] > 0 for row in figures["rows"] if "map any of" not in row["name"])
    assert all(row["met"] is not None for row in figures["rows"] if row["target"] and row["bound_value"])


def test_memory_is_measured_over_the_bus(tmp_path: Path) -> None:
    figures = bench(tmp_path / "figures.json", "--only", "memory")
    rows = {row["name"]: row for row in figures["rows"]}
    assert {row["measure"] for row in rows.values()} == {"memory"}
    assert len(rows) == len(figures["rows"])
    # What is left when a bound is taken off may be less than nothing on a busy machine.
    assert all(row["value"] > 0 for name, row in rows.items() if ", over " not in name)
    assert all(row["met"] is not None for row in rows.values() if row["target"])
