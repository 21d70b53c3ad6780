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
OUTER = "PYTEST_IS_REPORTED"
"""Set while a session is reported: the tests of a plugin start others, which are not the project's own."""
PHASES = ("setup", "call", "teardown")
ENDS = {
    2: "pytest was interrupted",
    3: "pytest ended with an internal error",
    4: "pytest ended with a usage error",
}


class Reporter:
    """Writes the events of one session."""

    def __init__(self, config, path):
        self.config = config
        self.path = path
        self.is_worker = hasattr(config, "workerinput")  # of pytest-xdist: its controller reports
        self.file = None if self.is_worker else open(path, "a", encoding="utf-8", errors="replace")
        self.run = os.getpid()
        self.held = {}
        self.subtests = {}
        self.collected = None
        self.found = self.broken = 0
        self.write(event="runner", name="pytest")

    def write(self, **event):
        if self.file is not None:
            self.file.write(json.dumps({"run": self.run, **event}) + "\n")
            self.file.flush()

    def write_end(self, report, outcome):
        event = {"event": "end", "test": report.nodeid, "outcome": outcome}
        if outcome in ("failed", "error") and report.longrepr is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            event["message"] = str(getattr(crash, "message", ""))[:LONGEST]
            event["text"] = str(getattr(report, "longreprtext", report.longrepr))[-LONGEST:]
            event["place"] = [str(getattr(crash, "path", "")), getattr(crash, "lineno", 0)]
        elif outcome in ("skipped", "xfailed"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            event["message"] = str(reason or getattr(report, "wasxfail", ""))[:LONGEST]
        # A test has passed once it is torn down: until then, it may still end the process.
        if outcome in ("failed", "error") or report.when not in PHASES:
            self.write(**event)
        else:
            self.held.setdefault(report.nodeid, []).append(event)

    def write_held(self, nodeid):
        for event in self.held.pop(nodeid, ()):
            self.write(**event)

    def add_collected(self, ids):
        known = self.collected or set()
        new = [each for each in ids if each not in known]
        self.collected = known.union(new)
        self.write(event="collected", tests=new)

    def pytest_collectreport(self, report):
        if report.failed or report.skipped:
            self.broken += report.failed
            self.write_end(report, "error" if report.failed else "skipped")
            self.write_held(report.nodeid)

    def pytest_itemcollected(self, item):
        self.found += 1

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session):
        self.add_collected([item.nodeid for item in session.items])
        self.found -= len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        self.add_collected(ids)

    def pytest_runtest_logstart(self, nodeid, location):
        self.write(event="start", test=nodeid)

    def pytest_runtest_logreport(self, report):
        outcome = self.config.hook.pytest_report_teststatus(report=report, config=self.config)[0]
        if outcome == "rerun":  # this attempt counts for nothing: its own passed phases neither
            self.held.pop(report.nodeid, None)
            self.subtests.pop(report.nodeid, None)
        elif hasattr(report, "context"):  # a subtest, a part of its test, which fails with the first of them
            if report.failed:
                self.subtests.setdefault(report.nodeid, report)
        elif outcome:
            inner = self.subtests.pop(report.nodeid, None) if report.when == "call" else None
            self.write_end(inner or report, "failed" if inner else outcome)
        if report.when == "teardown":
            self.write_held(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid, location):
        self.write_held(nodeid)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session, exitstatus):
        yield
        status = int(session.exitstatus)
        message = ENDS.get(status, "")
        if self.broken:
            files = "1 file" if self.broken == 1 else "%d files" % self.broken
            message = "pytest could not collect the tests of %s" % files
        elif self.collected is None and not message:
            message = "pytest ended before it had collected the tests"
        self.write(event="done", message=message, counts={"unselected": max(0, self.found)})

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
    is_worker = hasattr(config, "workerinput")
    if path and (is_worker or OUTER not in os.environ):
        config.pluginmanager.register(Reporter(config, path), "mailroom-reporter")
        if not is_worker:
            os.environ[OUTER] = "1"
            config.add_cleanup(lambda: os.environ.pop(OUTER, None))
