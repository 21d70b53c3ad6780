"""What results claim that can be run, and the record of running it again; tests are run by the engineer."""

import contextlib
import re
import shlex
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import msgspec

from services.critic.findings import clean
from shared.agent.context import AgentContext
from shared.contracts import Checked, TaskStatus, TestRun
from shared.errors import ActionError
from shared.sandbox import CommandResult, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.source import as_list, as_mapping

PATCHES = ("patch", "diff")
"""Keys of a result's metadata that hold a unified diff; files with these suffixes are patches too."""
CODE = (".py", ".pyi", ".sh", ".bash", ".json")  # Output files that can be looked at without running them
FOLDER = re.compile(r"(?<![\w~/.:])~?/[^\s\"'`<>|]{2,300}")
MAX_FILES = 50
MAX_FILE = 2_000_000  # The most bytes of a file of code or a patch that is looked at


PLACE = re.compile(r"(?P<file>[\w./-]+\.\w+):(?P<line>\d+)(?::\d+)?:? ")


class NamedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a result names, as it stands beneath the folder ``root``."""

    root: Path
    name: str


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What one task's result claims: that ``tests`` passed, patches as text, files of code.

    ``made`` are the patches that it made itself, also if they are delivered as a part of another's.
    ``there`` says how many files are there, ``missing`` which are not. An inspection (``inspected``) claims
    versions and numbers of findings of its ``tools``, and how often each of the repository's ``rules`` is
    broken, by rule and source.
    """

    task: str
    author: str = ""
    tests: bool = False
    patches: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    files: tuple[NamedFile, ...] = ()
    there: int = 0
    missing: tuple[str, ...] = ()
    inspected: bool = False
    tools: dict[str, tuple[str, int]] = {}
    rules: dict[tuple[str, str], int] = {}


def read_claims(name: str, result: Mapping[str, Any], folders: tuple[Path, ...]) -> Claims:
    """The claims of a completed result; its files count if they lie beneath ``folders``, without links.

    Of its patches those count that it says it delivers, if it says so: others were tried on the way.
    """
    metadata = as_mapping(result.get("metadata"))
    inspection = as_mapping(metadata.get("inspection"))
    inline = (metadata.get(key) for key in PATCHES)
    tools = map(as_mapping, as_list(inspection.get("tools")))
    drift = map(as_mapping, as_list(inspection.get("drift")))
    accounts = (
        each for each in map(as_mapping, metadata.values()) if {"exit_code", "passed", "command"} <= set(each)
    )
    tests = next(accounts, {})
    paths = [path for path in as_texts(result.get("output_paths")) if path.startswith("/")]
    there, missing = _look_up(paths, folders)
    delivered = as_texts(metadata.get("patches"))
    made, _ = _look_up([path for path in delivered if path.startswith("/")], folders)
    handed = [file for file in there if file in made] if "patches" in metadata else there
    return Claims(
        task=name,
        author=str(result.get("agent") or ""),
        tests=tests.get("exit_code") == 0
        and not (tests.get("problem") or tests.get("incomplete"))
        and isinstance(tests["command"], str)
        and bool(tests["command"].strip()),
        patches=tuple(dict.fromkeys((*filter(_is_patch, inline), *_patch_files(handed)))),
        made=tuple(_patch_files(made)),
        files=tuple(file for file in there if Path(file.name).suffix in CODE)[:MAX_FILES],
        there=len(there),
        missing=missing,
        inspected="inspection" in metadata,
        tools={
            str(tool.get("name")): (str(tool["version"]), tool["findings"])
            for tool in tools
            if tool.get("version") and isinstance(tool.get("findings"), int)
        },
        rules={
            (str(rule.get("rule")), str(rule.get("source"))): len(as_list(rule.get("violations")))
            for rule in drift
            if not rule.get("not_checked")
        },
    )


def find_named_folder(text: str) -> Path | None:
    """The first folder that a goal names by its whole path, as in "fix the test in ~/src/shop"; None if none.

    A home and what lies at the root of the disk are too much to be meant.
    """
    for found in FOLDER.finditer(text):
        path = Path(found[0].rstrip(".,:;!?)")).expanduser()
        if len(path.parts) > 2 and path != Path.home() and path.is_dir():
            return path
    return None


def _is_patch(text: Any) -> TypeGuard[str]:
    return isinstance(text, str) and "\n+++ " in f"\n{text}" and len(text) <= MAX_FILE


def _patch_files(files: list[NamedFile]) -> Iterator[str]:
    for file in files:
        if Path(file.name).suffix.lstrip(".") in PATCHES:
            with contextlib.suppress(ActionError):  # it is gone by now
                yield read_file(file).decode("utf-8", "surrogateescape")  # its line ends are part of it


def read_file(file: NamedFile) -> bytes:
    """Its content; raises ActionError if it is gone, or if its path is or passes through a link."""
    with ConfinedFolder(file.root) as confined:
        return confined.read(file.name, MAX_FILE)


def _look_up(paths: list[str], folders: tuple[Path, ...]) -> tuple[list[NamedFile], tuple[str, ...]]:
    """The files of the ``paths`` that exist and are not too large, and the paths that do not exist."""
    there, missing = list[NamedFile](), list[str]()
    for path in paths:
        folder = next((folder for folder in folders if Path(path).is_relative_to(folder)), None)
        if folder is None or not folder.is_dir():
            continue
        file = NamedFile(root=folder.resolve(), name=str(Path(path).relative_to(folder)))
        with contextlib.suppress(ActionError), ConfinedFolder(file.root) as confined:
            found = confined.stat(file.name)
            if found is not None and stat.S_ISREG(found.st_mode) and found.st_size <= MAX_FILE:
                there.append(file)
            elif found is None:
                # If its folder is gone too, all of it may have been removed meanwhile.
                with confined.open_folder(str(Path(file.name).parent)):
                    missing.append(path)
    return there, tuple(missing)


def as_texts(value: Any) -> list[str]:
    """The texts in a list, empty if it is none."""
    return [text for text in as_list(value) if isinstance(text, str)]


# --- the record of checking them again --------------------------------------------------------------

NOTHING = Checked()
SECONDS = 60.0  # How long a command of a review may run


class Rerun(msgspec.Struct, kw_only=True):
    """What checking claims again shows, by task; commands run for at most ``timeout`` seconds each.

    ``faults`` refute one, ``unrun`` say why one was not run, ``confirmed`` what bears one out; ``checked``
    counts that, ``runs`` says what was run.
    """

    timeout: float = SECONDS
    faults: list[tuple[str, str]] = []
    unrun: list[tuple[str, str]] = []
    confirmed: list[tuple[str, str]] = []
    runs: list[dict[str, Any]] = []
    checked: Checked = NOTHING

    def refute(self, task: str, why: str) -> None:
        """Note that a claim of ``task`` does not hold."""
        self.faults.append((task, why))

    def skip(self, task: str, why: str) -> None:
        """Note that a claim of ``task`` was not run, or that its run shows nothing."""
        self.unrun.append((task, clean(why)))

    def confirm(self, task: str, what: str, checked: Checked = NOTHING) -> None:
        """Note what bears out a claim of ``task``, which is ``checked`` by that."""
        self.confirmed.append((task, clean(what)))
        self.count(checked)

    def count(self, checked: Checked) -> None:
        """Count what was checked."""
        self.checked = self.checked.plus(checked)

    def add_run(self, task: str, command: str, **how: Any) -> None:
        """Note that something was run for ``task``."""
        self.runs.append({"task": task, "command": command, **how})

    async def execute(
        self, task: str, argv: Sequence[str], cwd: Path, readable: Sequence[Path] = ()
    ) -> CommandResult | None:
        """The result of the command in the jail; None, which is noted, if it cannot be run at all."""
        line = shlex.join([Path(argv[0]).name, *argv[1:]])[:300]
        limit = min(self.timeout, SECONDS)
        try:
            result = await run_command(argv, cwd=cwd, timeout=limit, writable=[cwd], readable=readable)
        except ActionError as error:
            self.skip(task, f"{line}: {error}")
            return None
        self.add_run(task, line, exit_code=result.exit_code, seconds=round(result.seconds, 3))
        return result


def last_line(result: CommandResult) -> str:
    """The line of the output that names the place of an error, else its last."""
    lines = [line.strip() for line in result.output.splitlines() if line.strip()]
    placed = [line for line in lines if PLACE.match(line)]
    return clean((placed or lines or ["without a word"])[-1])


# --- tests, which the engineer runs -----------------------------------------------------------------

TESTER = "engineer"
TRY, RUN = "try_patch", "run_tests"  # The actions of the engineer that run tests; neither asks a model


class Tested(NamedTuple):
    """A run of tests, and with a patch the run without it."""

    after: TestRun
    before: TestRun | None = None


Tester = Callable[[Path, str], Awaitable[Tested]]
"""Runs the tests of a repository with a patch (empty: as it is); raises ActionError if that cannot be."""


def tester_of(context: AgentContext) -> Tester:
    """A tester that gives the current task's subtasks to the engineer."""

    async def run(repo: Path, patch: str) -> Tested:
        engineer = (await context.directory.read()).get(TESTER)
        if engineer is None or not {TRY, RUN} <= set(engineer.actions):
            raise ActionError(f"{TESTER} is not at work, which runs tests", "Start it")
        if not patch.isascii() and patch != patch.encode("utf-8", "replace").decode("utf-8"):
            raise ActionError("The patch is not UTF-8, so no task can carry it")
        action, params = (TRY, {"repo": str(repo), "patch": patch}) if patch else (RUN, {"repo": str(repo)})
        text = f"Run the tests of {repo} again{' with the patch under review' if patch else ''}"
        result = await context.delegation.run(TESTER, text, action, params)
        if result.status is not TaskStatus.COMPLETED:
            raise ActionError(result.error_message or f"the run ended as {result.status}")
        return Tested(
            _read(result.metadata, "tests"), _read(result.metadata, "tests_before") if patch else None
        )

    return run


def _read(metadata: Mapping[str, Any], key: str) -> TestRun:
    try:
        return TestRun.from_dict(metadata[key])
    except (KeyError, TypeError, ValueError) as error:
        raise ActionError(f"the account of the tests cannot be read: {error}") from None


def judge_tests(record: Rerun, claims: Sequence[Claims], tested: Tested) -> None:
    """Note what a run of tests shows about the ``claims`` that tests pass, and about their patches."""
    after, before = tested
    counts = format_counts(after)
    if after.flaky:
        counts += f" ({after.flaky[0]} failed once and then passed)"
    if before is not None:
        counts = f"without the patch {format_counts(before)}; with it {counts}"
    known = {each.test for each in before.failures} if before else set()
    new = [each.test for each in after.failures if each.test not in known]
    for claim in claims:
        how = "its patch was tried on a copy" if claim.patches else "its tests were run again"
        if not after.command:
            note = record.skip if claim.tests else record.confirm
            note(claim.task, f"{how}; there are no tests to run")
        elif after.passed < 0 or ((after.incomplete or after.problem) and not after.failures):
            record.skip(claim.task, f"{how}, which says nothing: {after.problem or counts}")
        elif (after.exit_code and claim.tests) or (claim.patches and new):
            worst = next(iter(new), "") or next((each.test for each in after.failures), "")
            record.refute(claim.task, f"{how}: {counts}{f' ({worst} fails)' if worst else ''}")
        elif after.incomplete:
            record.skip(claim.task, f"{how}: {counts}, and not to the end: {after.problem}")
        else:
            record.confirm(claim.task, f"{how}: {counts}", Checked(tests=1))


def format_counts(tests: TestRun) -> str:
    """``3 passed, 1 failed``, or the exit code if nothing was counted."""
    return tests.counts or (f"exit code {tests.exit_code}" if tests.command else "no tests")


# --- runs on record ---------------------------------------------------------------------------------

RUNS = "run the tests"  # What the note of a test run in a task's journal begins with


def find_recorded_runs(results: Mapping[str, Any]) -> dict[str, str]:
    """What bears out the passing tests among ``results``, by task, a sentence each.

    A run counts if its tests were counted, its output is still there, and the journal of the task, which its
    requester read in the trail, has the note of the run.
    """
    found = {}
    for name, result in results.items():
        tests = _counted_run(as_mapping(result))
        notes = map(as_mapping, as_list(as_mapping(result).get("journal")))
        if tests is not None and any(str(note.get("what", "")).startswith(RUNS) for note in notes):
            shown = f"{tests.counts or 'no tests'}, exit code {tests.exit_code}"
            found[name] = f"checked against the record of the run: {shown}"
    return found


def _counted_run(result: Mapping[str, Any]) -> TestRun | None:
    """The run of tests in a result, if they were counted and their output is there."""
    for value in as_mapping(result.get("metadata")).values():
        if not isinstance(value, Mapping) or not {"exit_code", "passed", "counted_by"} <= set(value):
            continue
        try:
            tests = msgspec.convert(value, TestRun)
        except (msgspec.ValidationError, ValueError):
            return None
        if tests.incomplete:
            return None
        runs = [run for run in (tests.suites or (tests,)) if not run.problem]
        counted = all(run.counted_by for run in runs)
        there = all(Path(run.log_path).is_file() for run in runs if run.log_path)
        return tests if runs and counted and there else None
    return None
