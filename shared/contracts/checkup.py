"""Findings about a repository: every statement and finding with its source."""

from typing import Annotated, Literal

from shared.contracts.base import Contract, Text, between, text_up_to

Severity = Literal["high", "medium", "low"]


class Statement(Contract, frozen=True, kw_only=True):
    """A statement about a repository, and its source (``README.md:3``)."""

    text: Text
    source: Annotated[str, text_up_to(2_000)]


class Finding(Contract, frozen=True, kw_only=True):
    """A weakness at a place: ``file`` is relative to the repository, ``line`` 1-based (0: the whole file)."""

    tool: str
    rule: str
    severity: Severity
    file: str
    line: int = 0
    message: str

    @property
    def source(self) -> str:
        """``file:line``, or the file alone."""
        return f"{self.file}:{self.line}" if self.line else self.file


class RepositoryReading(Contract, frozen=True, kw_only=True):
    """What a repository is, how it is built and laid out, and what its documents leave open.

    ``languages`` counts lines by language, largest first.
    """

    name: str
    purpose: tuple[Statement, ...] = ()
    build: tuple[Statement, ...] = ()
    layout: tuple[Statement, ...] = ()
    questions: tuple[Statement, ...] = ()
    languages: dict[str, int] = {}
    files: int = 0


class HistoryReading(Contract, frozen=True, kw_only=True):
    """A git repository's branch, number of commits, uncommitted changes and latest commits."""

    branch: str = ""
    commits: int = 0
    changes: tuple[str, ...] = ()
    latest: tuple[Statement, ...] = ()
    problem: str = ""


class TestFailure(Contract, frozen=True, kw_only=True):
    """One failing test; ``source`` is ``file:line`` if the runner says so, else its name."""

    __test__ = False

    test: str
    message: str
    source: str


class TestRun(Contract, frozen=True, kw_only=True):
    """A run of a project's tests.

    ``found`` is the source of the command, ``problem`` the reason if nothing could be run or counted; counts
    are -1 if the runner's output does not have them. ``log_path`` is the whole output.
    """

    __test__ = False

    command: str = ""
    found: str = ""
    exit_code: int = -1
    passed: int = -1
    failed: int = -1
    skipped: int = -1
    errors: int = -1
    seconds: float = 0.0
    timed_out: bool = False
    failures: tuple[TestFailure, ...] = ()
    problem: str = ""
    log_path: str = ""


class ToolRun(Contract, frozen=True, kw_only=True):
    """A checking tool that was run over a repository, or why it was not (``problem``)."""

    name: str
    version: str = ""
    findings: int = 0
    problem: str = ""


class DriftRule(Contract, frozen=True, kw_only=True):
    """An architecture rule that a repository states about itself, and where its code breaks it."""

    rule: str
    source: str
    violations: tuple[Finding, ...] = ()


class Inspection(Contract, frozen=True, kw_only=True):
    """The findings of the critic's tools, worst first, and violations of the repository's own rules.

    ``findings`` holds the worst; ``total`` counts all.
    """

    findings: tuple[Finding, ...] = ()
    total: int = 0
    tools: tuple[ToolRun, ...] = ()
    drift: tuple[DriftRule, ...] = ()
    drift_note: str = ""


class Verdict(Contract, frozen=True, kw_only=True):
    """The critic's judgement: ``score`` 1 to 10, ``redo`` the names of tasks to be done again."""

    approved: bool
    score: Annotated[int, between(1, 10)]
    reasons: tuple[str, ...] = ()
    redo: tuple[str, ...] = ()
