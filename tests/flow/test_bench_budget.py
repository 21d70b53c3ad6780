"""The budget of speed: what is over it, how it is lowered, and that nothing outlives an ended bench."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.bench.budget import FILE, Figure, read_budget, write_budget
from tests.support.server import ROOT
from tests.support.sweeper import find_users
from tests.support.waiting import wait_for


def test_noise_is_nothing_drift_a_warning_and_twice_as_much_a_failure() -> None:
    figure = Figure(measure="jail", row="a command", ratio=2.0, drift=1.5)
    verdicts = [figure.judge(ratio) for ratio in (0.1, 3.0, 3.1, 4.0, 4.1, None)]
    assert verdicts == ["", "", "warning", "warning", "failure", "failure"]


def test_ratios_are_lowered_and_nothing_else_is_lost() -> None:
    text = '# A comment\n[jail]\n"a command" = [1.5, 1.4]  # why\n"another" = [2, 1.1]\n'
    measured = {"a command": 1.23456, "another": 9.0}
    lowered = text.replace("1.5, 1.4", "1.23, 1.4")
    assert write_budget(text, measured, lower=True) == lowered
    assert write_budget(text, measured, lower=False) == lowered.replace("[2, 1.1]", "[9, 1.1]")


def test_every_line_of_the_file_can_be_lowered() -> None:
    text = FILE.read_text()
    figures = read_budget(text)
    assert len(figures) >= 20
    assert len({figure.row for figure in figures}) == len(figures)
    halves = write_budget(text, {figure.row: figure.ratio / 2 for figure in figures}, lower=True)
    assert all(
        half.ratio == pytest.approx(figure.ratio / 2, rel=0.01)
        for half, figure in zip(read_budget(halves), figures, strict=True)
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_a_bench_that_is_ended(number: signal.Signals) -> None:
    bench = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.budget", "--only", "memory"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        folder = wait_for(lambda: _find_folder(bench.pid))
        wait_for(lambda: all(part in _list_commands(folder) for part in ("nats-server", "services.memory")))
    finally:
        bench.send_signal(number)
    assert bench.wait(40) != 0
    wait_for(lambda: not folder.exists(), 20)
    wait_for(lambda: not find_users(folder), 5)


def _find_folder(pid: int) -> Path | None:
    commands = [child.cmdline() for child in psutil.Process(pid).children()]
    return next((Path(command[-2]) for command in commands if "tests.support.sweeper" in command), None)


def _list_commands(folder: Path) -> str:
    found = []
    for process in find_users(folder):
        with contextlib.suppress(psutil.Error):
            found += process.cmdline()
    return " ".join(found)
