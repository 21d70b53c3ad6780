"""A pytest plugin: reports each test, and fails one that does not end in time."""

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading

import pytest

LONGEST = 8000
LIMIT = float(os.environ.get("MAILROOM_TEST_SECONDS", "0"))


class Reporter:
    """Writes the events of one session."""

    def __init__(self, config, path):
        self.config = config
        self.path = path
        self.is_worker = hasattr(config, "workerinput")  # of pytest-xdist: its controller reports
        self.file = None if self.is_worker else open(path, "a", encoding="utf-8", errors="replace")
        self.write(event="runner", name="pytest")

    def write(self, **event):
        if self.file is not None:
            self.file.write(json.dumps(event) + "\n")
            self.file.flush()

    def write_end(self, report, outcome):
        event = {"event": "end", "test": report.nodeid, "outcome": outcome}
        if outcome in ("failed", "error") and report.longrepr is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            event["message"] = str(getattr(crash, "message", ""))[:LONGEST]
            event["text"] = str(getattr(report, "longreprtext", report.longrepr))[-LONGEST:]
            event["place"] = [str(getattr(crash, "path", "")), getattr(crash, "lineno", 0)]
        self.write(**event)

    def pytest_collectreport(self, report):
        if report.failed or report.skipped:
            self.write_end(report, "error" if report.failed else "skipped")

    def pytest_runtest_logstart(self, nodeid, location):
        self.write(event="start", test=nodeid)

    def pytest_runtest_logreport(self, report):
        outcome = self.config.hook.pytest_report_teststatus(report=report, config=self.config)[0]
        if outcome:
            self.write_end(report, outcome)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        is_free = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        if not LIMIT or not is_free or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
            yield
            return

        def fail(*_):
            __tracebackhide__ = True
            with open(self.path, "a", encoding="utf-8") as file:  # a worker too: only it knows
                file.write(json.dumps({"event": "hung", "test": item.nodeid}) + "\n")
            with contextlib.suppress(Exception):
                faulthandler.dump_traceback(file=sys.__stderr__)
            pytest.fail("The test did not end within %g s" % LIMIT)

        signal.signal(signal.SIGALRM, fail)
        signal.setitimer(signal.ITIMER_REAL, LIMIT, LIMIT)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)


def pytest_configure(config):
    path = os.environ.get("MAILROOM_TEST_EVENTS")
    if path:
        config.pluginmanager.register(Reporter(config, path), "mailroom-reporter")
