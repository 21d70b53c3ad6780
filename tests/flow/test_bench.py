"""``make bench`` itself: every measure runs from its first figure to its last."""

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.__main__ import MEASURES
from tests.flow.conftest import ROOT


def test_every_measure_runs_and_is_told_as_json(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    run = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--json", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    summary = json.loads(run.stdout.splitlines()[-1])
    assert summary["cores"] > 0
    figures = json.loads(file.read_text())
    assert figures["versions"] == summary["versions"]
    assert {row["measure"] for row in figures["rows"]} == set(MEASURES)
    assert all(row["value"] > 0 for row in figures["rows"] if "map any of" not in row["name"])
    assert all(row["met"] is not None for row in figures["rows"] if row["target"] and row["bound_value"])
