"""Errors are sentences for people, and the tree in the docstring is the tree there is."""

import inspect
import re

import pytest

from shared import errors
from shared.errors import ActionError, BusError, MailroomError, Reject, Retry, Verdict


def test_an_error_reads_as_its_cause_and_its_cure():
    error = ActionError("There is no such folder", "Name an existing one")
    assert str(error) == "There is no such folder. Name an existing one"
    assert (error.cause, error.cure) == ("There is no such folder", "Name an existing one")
    assert str(ActionError("There is no such folder")) == "There is no such folder"


def test_verdicts_carry_their_reason_and_delay():
    assert str(Retry("The store is busy")) == "The store is busy"
    assert Retry("The store is busy").delay is None
    assert Retry("The store is busy", 2.5).delay == 2.5
    assert isinstance(Reject("Not for us"), Verdict)
    assert not isinstance(Reject("Not for us"), BusError)


def test_the_tree_in_the_docstring_is_the_tree_there_is():
    drawn, path = {}, []
    for line in inspect.getdoc(errors).splitlines():
        if match := re.match(r"([ │├└─]*)(\w+)  ", line):
            depth = (len(match[1]) + 3) // 4
            path = [*path[:depth], match[2]]
            drawn[match[2]] = path[-2] if depth else "Exception"
    there = {
        name: value.__bases__[0].__name__ for name, value in vars(errors).items() if inspect.isclass(value)
    }
    assert drawn == there


@pytest.mark.parametrize(
    "error",
    [value for value in vars(errors).values() if inspect.isclass(value)],
    ids=lambda error: error.__name__,
)
def test_every_error_is_a_mailroom_error_with_a_docstring(error):
    assert issubclass(error, MailroomError)
    assert error.__doc__
    assert str(error("Something is wrong")) == "Something is wrong"
