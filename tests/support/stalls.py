"""A test that fails while the machine stands still is run once again: its time limits mean nothing then.

A shared machine can stop a process for seconds, or its disk. A thread measures both; the summary names the
tests that were run again, so that a test which fails for another reason is not hidden among them.
"""

import os
import tempfile
import threading
import time
from collections import deque

import pytest
import pytest_timeout
from _pytest.runner import runtestprotocol

TICK = 0.25
"""Seconds between two looks at the clock."""
STALL = 2.0
"""Seconds of standing still after which a failure says nothing: the shortest time limits are as long."""
AGAIN = "run again after a stall of seconds"


class StallWatch:
    """Measures for how long this process got no processor time, or its disk wrote nothing, in a thread."""

    def __init__(self) -> None:
        self._stalls: deque[tuple[float, float]] = deque(maxlen=1_000)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stalls", daemon=True)
        self._thread.start()

    def longest_since(self, begun: float) -> float:
        """The longest stall, in seconds, that ended after ``begun`` on the monotonic clock; 0.0 for none."""
        return max((seconds for ended, seconds in self._stalls if ended >= begun), default=0.0)

    def end(self) -> None:
        """Stop measuring."""
        self._ended.set()

    def _watch(self) -> None:
        with tempfile.TemporaryFile(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as written:
            before = time.monotonic()
            while not self._ended.wait(TICK):
                os.pwrite(written.fileno(), b"x", 0)
                os.fsync(written.fileno())
                now = time.monotonic()
                if now - before - TICK >= STALL:
                    self._stalls.append((now, now - before - TICK))
                before = now


class RunAgain:
    """The pytest plugin: runs a failed test again if there was a stall, and tells so at the end."""

    def __init__(self) -> None:
        self._watch = StallWatch()
        self._told: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        begun = time.monotonic()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        stall = self._watch.longest_since(begun)
        if stall and any(report.failed for report in reports):
            item.user_properties.append((AGAIN, round(stall, 1)))
            self._begin_time_limit(item)
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @staticmethod
    def _begin_time_limit(item: pytest.Item) -> None:
        """Have pytest-timeout count from now: the failure ended its count, and what hangs would not end."""
        settings = pytest_timeout._get_item_settings(item)
        if settings.timeout:
            item.config.hook.pytest_timeout_cancel_timer(item=item)
            item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        stall = dict(report.user_properties).get(AGAIN)
        if stall and report.when == "call":
            self._told.append(f"{report.nodeid}: {AGAIN}: {stall}")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._told:
            terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        self._watch.end()
