"""A check-up's section on tests: what ran in which environment, and what failed."""

from collections.abc import Iterable, Iterator

from services.conductor.markdown import code, count_broken, place, prose
from shared.contracts import Preparation, TestRun, TestSuite

MAX_FAILURES = 20
MAX_ROWS = 12


def format_section(tests: TestRun | None) -> list[str]:
    """The rows of the section; why something was not run is said above it."""
    if tests is None:
        return ["Not run."]
    rows = [row for suite in tests.suites or (tests,) for row in _format_suite(suite)]
    rows += ["- It was stopped because it took too long."] if tests.timed_out else []
    rows += [f"- {prose(note)}" for note in tests.notes]
    rows += [f"- {prose(_format_preparation(each))}" for each in tests.prepared if not each.problem]
    rows += [f"- The whole output: {code(tests.log_path)}"] if tests.log_path else []
    rows += _titled("Failing:", _format_failures(tests), MAX_FAILURES, count_broken(tests))
    rows += _titled("Flaky, failed and then passed when run once more:", map(code, tests.flaky))
    rows += _titled("Did not end in time:", map(code, tests.hung))
    return rows or ["Not run."]


def _format_suite(suite: TestSuite) -> Iterator[str]:
    if not suite.command:
        return
    source = f", found in {code(suite.found)}" if suite.found else ""
    yield f"- {code(suite.command)}{'' if suite.folder == '.' else f' in {code(suite.folder)}'}{source}"
    counts = {kind: getattr(suite, kind) for kind in ("passed", "failed", "errors", "skipped")}
    numbers = ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number >= 0)
    with_what = f" with {prose(suite.interpreter)}" if suite.interpreter else ""
    counted = f", counted by its {prose(suite.counted_by)}" if suite.counted_by else ""
    ended = f"exit code {suite.exit_code} after {suite.seconds:.1f} s"
    yield f"- {numbers or 'No counts'}; {ended}{with_what}{counted}"


def _format_preparation(made: Preparation) -> str:
    where = made.ecosystem if made.folder == "." else f"{made.ecosystem} in {made.folder}"
    how = "used again" if made.cached else f"made in {made.seconds:.1f} s"
    return f"Environment: {where}, by {made.tool or 'hand'}, {how}"


def _format_failures(tests: TestRun) -> Iterator[str]:
    for failure in tests.failures:
        yield f"{code(failure.test)} ({place(failure.source)}): {prose(failure.message)}"


def _titled(title: str, entries: Iterable[str], most: int = MAX_ROWS, total: int = 0) -> list[str]:
    listed = list(entries)
    if not listed:
        return []
    hidden = max(total, len(listed)) - most
    more = [f"- and {hidden:,} more"] if hidden > 0 else []
    return ["", title, "", *(f"- {entry}" for entry in listed[:most]), *more]
