"""What the engineer found, in a few lines for people."""

from collections.abc import Iterable

from shared.contracts import HistoryReading, TestRun

SHOWN = 10
"""How many failing tests, changes or left-out files are named; the rest is counted."""


def tell_tests(tests: TestRun, skipped: tuple[str, ...] = ()) -> str:
    """How the tests went, the failing ones with their places."""
    lines = [_tell_counts(tests)] if tests.passed >= 0 else []
    lines += [f"{tests.problem}."] if tests.problem else []
    lines += _list(f"{each.test}: {each.message} ({each.source})" for each in tests.failures)
    if tests.command:
        lines.append(f"The command was `{tests.command}`, found in {tests.found}.")
    if skipped:
        lines.append(f"{len(skipped):,} files were not copied, so the tests ran without them:")
        lines += _list(skipped)
    return "\n".join(lines)


def _tell_counts(tests: TestRun) -> str:
    errors = "error" if tests.errors == 1 else "errors"
    counts = {"failed": tests.failed, errors: tests.errors, "skipped": tests.skipped}
    told = [f"{tests.passed:,} passed", *(f"{number:,} {kind}" for kind, number in counts.items() if number)]
    return f"Tests: {', '.join(told)} in {tests.seconds:.1f} seconds."


def cite_tests(tests: TestRun) -> tuple[str, ...]:
    """Where what is said about the tests can be looked up: each place once."""
    found = tests.found.partition(" ")[0]
    places = (found, *(each.source for each in tests.failures), tests.log_path)
    return tuple(dict.fromkeys(place for place in places if place))


def tell_history(history: HistoryReading) -> str:
    """Branch, changes and commits, or why they cannot be told."""
    if history.problem:
        return f"{history.problem}."
    return f"{tell_changes(history)}\n{tell_log(history)}"


def tell_changes(history: HistoryReading) -> str:
    """The branch and the uncommitted changes."""
    if not history.changes:
        return f"On branch {history.branch}, with no uncommitted changes."
    changes = (
        "1 uncommitted change"
        if len(history.changes) == 1
        else f"{len(history.changes):,} uncommitted changes"
    )
    head = f"On branch {history.branch}, with {changes}:"
    return "\n".join([head, *_list(history.changes)])


def tell_log(history: HistoryReading) -> str:
    """The number of commits and the latest of them."""
    if not history.commits:
        return "There are no commits yet."
    head = "1 commit" if history.commits == 1 else f"{history.commits:,} commits"
    head += ", the latest:"
    return "\n".join([head, *(f"- {commit.text} ({commit.source})" for commit in history.latest)])


def _list(entries: Iterable[str]) -> list[str]:
    told = [f"- {entry}" for entry in entries]
    return told if len(told) <= SHOWN else [*told[:SHOWN], f"- and {len(told) - SHOWN:,} more"]
