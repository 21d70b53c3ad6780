"""``python -m unittest`` that reports each test as it starts and ends."""

import json
import os
import sys
import unittest

LONGEST = 8000
PATH = os.environ.get("MAILROOM_TEST_EVENTS")


def write(**event):
    if PATH:
        with open(PATH, "a", encoding="utf-8", errors="replace") as file:
            file.write(json.dumps({"run": os.getpid(), **event}) + "\n")


def list_tests(test):
    try:
        return [name for each in test for name in list_tests(each)]
    except TypeError:
        return [test.id()]


class Result(unittest.TextTestResult):
    """unittest's own result, which writes its events too."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.broken = set()

    def write_end(self, test, outcome, error=None, **more):
        event = {"event": "end", "test": test.id(), "outcome": outcome, **more}
        if error is not None:
            event["message"] = ("%s: %s" % (error[0].__name__, error[1]))[:LONGEST]
            event["text"] = self._exc_info_to_string(error, test)[-LONGEST:]
        write(**event)

    def startTest(self, test):
        super().startTest(test)
        write(event="start", test=test.id())

    def addSuccess(self, test):
        super().addSuccess(test)
        self.write_end(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.write_end(test, "failed", err)

    def addError(self, test, err):
        super().addError(test, err)
        self.write_end(test, "error", err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.write_end(test, "skipped", message=str(reason))

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.write_end(test, "xfailed")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.write_end(test, "failed", message="It was expected to fail, and passed")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:  # a test fails once, with the first of its subtests that does
            outcome = "failed" if issubclass(err[0], test.failureException) else "error"
            self.write_end(test, outcome, err, name=subtest.id(), nested=test.id() in self.broken)
            self.broken.add(test.id())


class Runner(unittest.TextTestRunner):
    """unittest's own runner with that result."""

    resultclass = Result

    def run(self, test):
        """Run the tests; only a run that gets here has ended."""
        write(event="runner", name="unittest")
        write(event="collected", tests=list_tests(test))
        result = super().run(test)
        left = test.countTestCases() - result.testsRun if result.shouldStop else 0
        write(event="done", counts={"left": left})
        return result


if __name__ == "__main__":
    unittest.main(module=None, testRunner=Runner, argv=["python -m unittest"] + sys.argv[1:])
