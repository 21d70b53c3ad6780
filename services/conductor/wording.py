"""How findings, places and test results are put into words."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from services.conductor.markdown import code, prose, short
from shared.contracts import Finding, Statement, TestRun


def cite(statement: Statement) -> str:
    """A statement with its source."""
    return f"{prose(statement.text)} ({place(statement.source)})"


def place(source: str, *, table: bool = False) -> str:
    """Where something can be looked up."""
    return "the repository as a whole" if source == "." else code(source, table=table)


def brief(finding: Finding) -> str:
    """A finding in a few words, with its place."""
    return f"{prose(short(finding.message))} ({place(finding.source)})"


def severities(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings there are of each severity that occurs, worst first."""
    counts = Counter(finding.severity for finding in findings)
    return {severity: counts[severity] for severity in ("high", "medium", "low") if counts[severity]}


def count_broken(tests: TestRun) -> int:
    """How many tests failed or could not be run."""
    return max(tests.failed, 0) + max(tests.errors, 0)


def words_of(result: Mapping[str, Any]) -> str:
    """What a task says: why it failed, if it did, and what there is of it; empty for nothing."""
    parts = (str(result.get(key) or "").strip() for key in ("error_message", "output"))
    return "\n\n".join(filter(None, parts))
