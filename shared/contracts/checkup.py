"""Findings about a repository: every statement and finding with its source."""

from typing import Annotated, Literal

import msgspec

from shared.contracts.base import Contract, Text, text_up_to

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
    """What a repository is, its licence, how it is built and laid out, what its documents leave open.

    ``languages`` counts lines by language, largest first.
    """

    name: str
    purpose: tuple[Statement, ...] = ()
    build: tuple[Statement, ...] = ()
    layout: tuple[Statement, ...] = ()
    questions: tuple[Statement, ...] = ()
    licence: tuple[Statement, ...] = ()
    languages: dict[str, int] = {}
    files: int = 0


class HistoryReading(Contract, frozen=True, kw_only=True):
    """A git repository's branch, number of commits, uncommitted changes and latest commits.

    If it was read from ``since`` to ``until`` (dates or tags), or for an ``author``, the commits are those of
    that time and author, and ``files`` what they changed, most lines first (``+12 -3 src/a.py``). ``cut``
    says where the history of a shallow clone begins.
    """

    branch: str = ""
    commits: int = 0
    changes: tuple[str, ...] = ()
    latest: tuple[Statement, ...] = ()
    problem: str = ""
    since: str = ""
    until: str = ""
    files: tuple[str, ...] = ()
    cut: str = ""
    author: str = ""


class TestFailure(Contract, frozen=True, kw_only=True):
    """One failing test; ``source`` is ``file:line`` if the runner says so, else its name."""

    __test__ = False

    test: str
    message: str
    source: str


class NotChecked(Contract, frozen=True, kw_only=True):
    """Something that was asked for and not looked at: what, why, and what to do so that it can be."""

    what: Text
    why: Text
    cure: str = ""


class CommandRecord(Contract, frozen=True, kw_only=True):
    """A command that was run: as a person would type it, its exit code, and how many seconds it took."""

    command: str
    exit_code: int = 0
    seconds: float = 0.0


class Connection(Contract, frozen=True, kw_only=True):
    """A connection that a jailed command asked the gate for; ``why`` is empty if it was ``allowed``.

    ``sent`` and ``received`` are in bytes.
    """

    host: str
    port: int
    allowed: bool
    why: str = ""
    sent: int = 0
    received: int = 0
    seconds: float = 0.0


class Preparation(Contract, frozen=True, kw_only=True):
    """How a project's environment was made.

    ``ecosystem`` is python, javascript, rust, go, java, c or other, ``folder`` that of the project relative
    to the repository, ``tool`` and ``interpreter`` what was used, with versions (``uv 0.9.5``, ``CPython
    3.12.1``), ``read`` the files it was made from, ``cached`` whether an earlier one was used. ``problem`` is
    why it failed, in one sentence, empty if it did not; ``cure`` what to do then; ``refused`` the hosts that
    were asked for and not reachable. ``notes`` say what was decided where the manifests say nothing.
    """

    ecosystem: str
    folder: str = "."
    tool: str = ""
    interpreter: str = ""
    read: tuple[str, ...] = ()
    steps: tuple[CommandRecord, ...] = ()
    seconds: float = 0.0
    cached: bool = False
    problem: str = ""
    cure: str = ""
    refused: tuple[str, ...] = ()
    log_path: str = ""
    notes: tuple[str, ...] = ()


class TestSuite(Contract, frozen=True, kw_only=True):
    """A run of one test command of a project, in its ``folder``.

    ``found`` is the source of the command, ``problem`` the reason if nothing could be run or counted,
    ``cure`` what to do then; counts are -1 if the runner's output has none. ``log_path`` is the whole output.
    ``counted_by`` is what the counts come from (``JUnit report``, ``go test -json``, ``console text``).
    ``flaky`` are the tests that failed and then passed when run once more; they count as passed. ``hung`` are
    those that were running when their time was up. ``incomplete`` says that the run was cut short: its runner
    did not say that it ended, or tests never ran; ``problem`` says where. The counts are then those of what
    ran. ``notes`` are sentences about the results, such as how many failures need a network.
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
    cure: str = ""
    folder: str = "."
    interpreter: str = ""
    counted_by: str = ""
    flaky: tuple[str, ...] = ()
    hung: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    incomplete: bool = False

    @property
    def broken(self) -> int:
        """How many tests failed or could not be run."""
        return max(self.failed, 0) + max(self.errors, 0)

    @property
    def counts(self) -> str:
        """``3 passed, 1 failed``; empty if nothing was counted, or there were no tests."""
        kinds = ("passed", "failed", "errors", "skipped")
        return ", ".join(f"{number:,} {kind}" for kind in kinds if (number := getattr(self, kind)) > 0)


class TestRun(TestSuite, frozen=True, kw_only=True):
    """A run of all tests of a project: if it has several ``suites``, the counts are their sums.

    ``prepared`` is how its environments were made, ``not_run`` which test commands were not run, and why.
    """

    prepared: tuple[Preparation, ...] = ()
    suites: tuple[TestSuite, ...] = ()
    not_run: tuple[NotChecked, ...] = ()


class ToolRun(Contract, frozen=True, kw_only=True):
    """A checking tool that was run over ``files`` of a repository, or why it was not (``problem``)."""

    name: str
    version: str = ""
    findings: int = 0
    problem: str = ""
    files: int = 0


class DriftRule(Contract, frozen=True, kw_only=True):
    """A rule that a repository states about itself, and where its code breaks it.

    ``not_checked`` is why it was not checked; empty if it was.
    """

    rule: str
    source: str
    violations: tuple[Finding, ...] = ()
    not_checked: str = ""


class Inspection(Contract, frozen=True, kw_only=True):
    """The findings of the critic's tools, worst first, and violations of the repository's own rules.

    ``findings`` holds the worst; ``total`` counts all. ``checked`` is what tools looked at (``41 Python
    files``), ``not_checked`` what they did not.
    """

    findings: tuple[Finding, ...] = ()
    total: int = 0
    tools: tuple[ToolRun, ...] = ()
    drift: tuple[DriftRule, ...] = ()
    drift_note: str = ""
    not_checked: tuple[NotChecked, ...] = ()
    checked: tuple[str, ...] = ()


class Checked(Contract, frozen=True, kw_only=True):
    """What a review checked of the results.

    ``tests`` were run again, ``records`` are runs of tests held against the record of them, ``patches`` were
    applied to a copy, ``inspections`` repeated; ``code`` are files that compile or parse, ``files`` those
    that are there. Of ``sources`` that results name, so many were ``found``; of the ``criteria`` of success,
    so many are ``met``. ``content`` says that a model judged the results against the goal. ``unjudged`` are
    what could not be checked, each with the reason.
    """

    tests: int = 0
    records: int = 0
    patches: int = 0
    inspections: int = 0
    code: int = 0
    files: int = 0
    sources: int = 0
    found: int = 0
    criteria: int = 0
    met: int = 0
    content: bool = False
    unjudged: tuple[str, ...] = ()

    def plus(self, other: "Checked") -> "Checked":
        """Both in one."""
        content = self.content or other.content
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__}
        return Checked(**{**sums, "content": content})


Decision = Literal["", "approved", "sent_back", "not_checked", "nothing_checked"]


class Verdict(Contract, frozen=True, kw_only=True):
    """The critic's judgement: whether what the results say is true.

    ``decision`` is approved (all that was ``checked`` holds), sent_back (a claim does not hold; ``redo``
    names the tasks to be done again), not_checked (it could not be found out; ``checked.unjudged`` says what)
    or nothing_checked (nothing that the results name can be looked up or run again). ``approved`` follows
    from it, where there is one. ``objections`` are those of the ``reasons`` that send a task back; ``kinds``
    are those of the text that they may tell (shared/llm/leaving.py).
    """

    approved: bool
    reasons: tuple[str, ...] = ()
    redo: tuple[str, ...] = ()
    decision: Decision = ""
    checked: Checked = Checked()
    objections: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.decision:
            decision = "approved" if self.approved else "sent_back"
            msgspec.structs.force_setattr(self, "decision", decision)
        msgspec.structs.force_setattr(self, "approved", self.decision == "approved")
