"""The engineer's results as text for people, and what it delivers: a patch for each project."""

import asyncio
import contextlib
import shlex
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from services.engineer.collecting import UNCOUNTED
from services.engineer.testing import NO_CODE, NOTHING_FOUND
from shared.contracts import HistoryReading, Preparation, ResultOutcome, TestRun, TestSuite
from shared.errors import ActionError
from shared.files import write_atomically
from shared.sandbox import remove_tree, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.skills.clones import AUTHOR, BASE, ENVIRONMENT, MAX_PATCH
from shared.skills.git import find_any
from shared.skills.workspace import RanCommand
from shared.tasks.actions import Outcome
from shared.tasks.evidence import CODER, find_unproved
from shared.text.display import count, flatten, format_list

MAX_FILE = 10_000_000  # The most bytes of a file that is delivered
MAX_FILES = 100  # The most files that are delivered beside the patches
PATCH_SECONDS = 120.0

MAKE_PATCH = (
    'cd "$3" && export GIT_INDEX_FILE=/tmp/mailroom-index && git read-tree "$1" && git add --all . && '
    'git diff --cached --binary --no-ext-diff --no-textconv --no-color --output="$2" "$1"'
)
"""The difference to the commit the copy began with, new files included, whatever was committed since."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of the ``patches`` and ``files`` that were delivered; ``missing`` says what was not, and why."""

    patches: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


async def deliver(workspace: Path, outputs: Path, make: Callable[[str], Awaitable[bytes]]) -> Delivery:
    """Put the changes in the ``workspace`` into the folder ``outputs``; ``make`` makes a project's patch."""
    projects, loose, missing = await asyncio.to_thread(_survey, workspace)
    patches = []
    for project in projects:
        try:
            patch = await make(project)
        except ActionError as error:
            missing.append(f"the changes of {project}: {error}")
            continue
        if patch:
            path = outputs / f"{project}.patch"
            await asyncio.to_thread(_write, path, patch)
            patches.append(str(path))
    files, left = await asyncio.to_thread(_copy, workspace, loose, outputs / "files")
    return Delivery(patches=tuple(patches), files=tuple(files), missing=(*missing, *left))


async def make_patch(workspace: Path, project: str) -> bytes:
    """How the copy ``project`` differs from what it was copied from, as a patch; empty if it does not.

    Raises ActionError with git's reason if there is nothing to compare with.
    """
    aside = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="mailroom-patch-"))
    try:
        result = await run_command(
            ["bash", "-c", MAKE_PATCH, "patch", BASE, str(aside / "change.patch"), f"./{project}"],
            cwd=workspace,
            timeout=PATCH_SECONDS,
            writable=[workspace, aside],
            env={**ENVIRONMENT, **AUTHOR, "GIT_CEILING_DIRECTORIES": str(workspace)},
        )
        if result.exit_code:
            words = result.output.strip().splitlines() or [f"exit code {result.exit_code}"]
            raise ActionError(f"No patch can be made: {words[-1].removeprefix('fatal: ')[:300]}")
        # Programs that the copy's own git settings name could have put a link there.
        with ConfinedFolder(aside) as confined:
            return confined.read("change.patch", MAX_PATCH)
    finally:
        await asyncio.to_thread(remove_tree, aside)


def _survey(workspace: Path) -> tuple[list[str], list[str], list[str]]:
    """The folders with a git history of their own, the files in no such folder, and why others are unread."""
    projects: list[str] = []
    loose: list[str] = []
    unread: list[str] = []
    waiting = ["."]
    with ConfinedFolder(workspace) as confined:
        while waiting and len(loose) <= MAX_FILES:
            folder = waiting.pop(0)
            try:
                entries = confined.entries(folder)
            except ActionError as error:
                unread.append(str(error))
                continue
            for name, mode in entries:
                path = str(PurePosixPath(folder, name))
                if not path.isprintable():
                    continue  # neither JSON nor a person could carry such a name
                if stat.S_ISREG(mode):
                    loose.append(path)
                elif stat.S_ISDIR(mode) and not name.startswith((".", "__")) and name != "node_modules":
                    inside = None
                    with contextlib.suppress(
                        ActionError
                    ):  # what cannot be read is reported when it is listed
                        inside = confined.stat(f"{path}/.git")
                    has_history = folder == "." and inside is not None and stat.S_ISDIR(inside.st_mode)
                    (projects if has_history else waiting).append(path)
    return projects, loose, unread


def _copy(workspace: Path, paths: list[str], target: Path) -> tuple[list[str], list[str]]:
    copied, left = [], []
    with ConfinedFolder(workspace) as confined:
        for path in paths[:MAX_FILES]:
            try:
                _write(target / path, confined.read(path, MAX_FILE))
            except ActionError as error:
                left.append(str(error))
            else:
                copied.append(str(target / path))
    if len(paths) > MAX_FILES:
        left.append(f"only the first {MAX_FILES} files are handed over, the others are in the workspace")
    return copied, left


def _write(path: Path, data: bytes) -> None:
    try:
        write_atomically(path, data)
    except OSError as error:
        raise ActionError(f"{path} cannot be written: {error.strerror}") from None


SHOWN = 10  # How many failing tests, changes or left-out files the text names; the rest is counted
LISTED = 20  # How many commands the text names; the data hold up to MAX_COMMANDS
MAX_COMMANDS = 200


def format_tests(tests: TestRun, skipped: tuple[str, ...] = (), before: TestRun | None = None) -> str:
    """How the tests went: the counts first, then the failing ones with their places, then the rest."""
    lines = [format_headline(tests)]
    lines += [f"Before the change: {_format_counts(before)}."] if before else []
    lines += ([f"{tests.cure.rstrip('.')}."] if tests.cure else []) if tests.problem else []
    lines += _format_list(f"{each.test}: {each.message} ({each.source})" for each in tests.failures)
    lines += [f"{note}." for note in tests.notes if note != NO_CODE]
    lines += _titled("Flaky, failed and then passed when run once more:", tests.flaky)
    lines += _titled("Did not end in time:", tests.hung)
    if len(tests.suites) > 1:
        lines += _titled("Test commands:", (format_suite(each) for each in tests.suites))
    elif tests.command:
        lines.append(f"The command was `{tests.command}`, found in {tests.found}.")
    lines += [_format_preparation(each) for each in tests.prepared]
    lines += _titled("Not run:", (f"{each.what}: {each.why}" for each in tests.not_run))
    if skipped:
        lines += _titled(f"{len(skipped):,} files were not copied, so the tests ran without them:", skipped)
    return "\n".join(lines)


def format_headline(tests: TestRun) -> str:
    """The counts and what ran, or why there are none, in a line."""
    if NO_CODE in tests.notes:
        return f"{NO_CODE}."
    if tests.passed < 0:
        return f"The tests could not be run: {tests.problem}." if tests.problem else "No tests were run."
    runs = "pytest" if tests.counted_by == "reporter of pytest" else tests.command.partition(";")[0]
    source = tests.found.partition(" ")[0].rstrip(",;")
    ran = f" with {tests.interpreter}" if tests.interpreter else ""
    subject = "Tests, incomplete" if tests.incomplete else "Tests"
    head = f"{subject}: {_format_counts(tests)} in {tests.seconds:.1f} s{ran} ({runs}, from {source})."
    return f"{head} {tests.problem}." if tests.problem else head


def format_suite(suite: TestSuite) -> str:
    """One test command with its counts, or why it has none."""
    place = "" if suite.folder == "." else f" in {suite.folder}"
    counts = _format_counts(suite) if suite.passed >= 0 else "not counted"
    problem = f" ({suite.problem})" if suite.problem else ""
    incomplete = "incomplete, " if suite.incomplete else ""
    return f"`{suite.command}`{place}: {incomplete}{counts}{problem}"


def _format_counts(tests: TestSuite) -> str:
    if tests.passed < 0:
        return "nothing was counted"
    errors = "error" if tests.errors == 1 else "errors"
    counts = {"failed": tests.failed, errors: tests.errors, "skipped": tests.skipped}
    others = (f"{number:,} {kind}" for kind, number in counts.items() if number)
    return ", ".join([f"{tests.passed:,} passed", *others])


def _format_preparation(made: Preparation) -> str:
    place = "" if made.folder == "." else f" in {made.folder}"
    what = f"{made.ecosystem}{place}"
    if made.problem:
        return f"Not prepared: {what}: {made.problem}."
    with_tool = f" by {made.tool}" if made.tool else ""
    cached = "used again from the cache" if made.cached else f"in {made.seconds:.1f} s"
    return f"Prepared: {what}{with_tool}, {cached}."


def _titled(title: str, rows: Iterable[str]) -> list[str]:
    listed = _format_list(rows)
    return [title, *listed] if listed else []


def cite_tests(tests: TestRun) -> tuple[str, ...]:
    """The sources of a report on tests: each place once."""
    found = [each.found.partition(" ")[0].rstrip(",;") for each in tests.suites or (tests,)]
    places = (*found, *(each.source for each in tests.failures), tests.log_path)
    return tuple(dict.fromkeys(place for place in places if place))


def format_history(history: HistoryReading) -> str:
    """Branch, changes and commits, or why they cannot be read."""
    if history.problem:
        return f"{history.problem}."
    cut = f"\n{history.cut}." if history.cut else ""
    if history.since or history.until or history.author:
        return f"{format_log(history)}{cut}\n\n{format_changes(history)}"
    return f"{format_changes(history)}\n{format_log(history)}{cut}"


def format_changes(history: HistoryReading) -> str:
    """The branch and the uncommitted changes."""
    if not history.changes:
        return f"On branch {history.branch}, with no uncommitted changes."
    head = f"On branch {history.branch}, with {count(len(history.changes), 'uncommitted change')}:"
    return "\n".join([head, *_format_list(history.changes)])


def format_log(history: HistoryReading) -> str:
    """The number of commits and the latest of them."""
    # As far as it was read for an author and a time: `` by Ana from one day to another``
    author = f" by {history.author}" if history.author else ""
    since = f" from {history.since}" if history.since else ""
    time = f"{since} to {history.until}" if history.until else f"{since} to today" if since else ""
    period = f"{author}{time}"
    if not history.commits:
        return f"There are no commits{period}." if period else "There are no commits yet."
    first, *rows = [f"{commit.text} ({commit.source})" for commit in history.latest]
    head = f"{count(history.commits, 'commit')}{period}, the latest: {first}"
    rows = [f"- {row}" for row in rows]
    if history.files:
        rows += ["", f"{count(len(history.files), 'file')} changed:", *_format_list(history.files)]
    return "\n".join([head, *rows])


def _format_list(entries: Iterable[str]) -> list[str]:
    rows = [f"- {entry}" for entry in entries]
    return rows if len(rows) <= SHOWN else [*rows[:SHOWN], f"- and {len(rows) - SHOWN:,} more"]


def outcome_of(tests: TestRun) -> ResultOutcome:
    """What a run of tests comes to: nothing that was cut short is done, whatever passed until then."""
    if tests.failed > 0 or tests.errors > 0 or tests.hung:
        return ResultOutcome.FINDINGS
    if NO_CODE in tests.notes:
        return ResultOutcome.DONE
    uncounted = tests.passed < 0 or any(
        suite.passed < 0 and suite.problem != UNCOUNTED for suite in tests.suites
    )
    if uncounted or tests.incomplete or not (tests.passed or tests.skipped):
        return ResultOutcome.NOT_CHECKED
    ended_early = any("before its tests" in note for note in tests.notes)
    return ResultOutcome.FINDINGS if tests.problem or ended_early else ResultOutcome.DONE


def report_tests(tests: TestRun, skipped: tuple[str, ...], before: TestRun | None = None) -> Outcome:
    """The outcome of a run of tests; ``before`` is that without the change that was tried."""
    earlier = {"tests_before": before.to_dict()} if before else {}
    logs = [each.log_path for each in tests.suites if each.log_path] or [tests.log_path]
    return Outcome(
        output=format_tests(tests, skipped, before),
        data={"tests": tests.to_dict(), "not_copied": list(skipped), **earlier},
        evidence_refs=cite_tests(tests),
        output_paths=tuple(path for path in dict.fromkeys(logs) if path),
        outcome=outcome_of(tests),
    )


def report_history(history: HistoryReading, output: str) -> Outcome:
    """The outcome of reading a repository's history."""
    sources = tuple(commit.source for commit in history.latest)
    came_to = ResultOutcome.NOT_CHECKED if history.problem else ResultOutcome.DONE
    data = {"history": history.to_dict()}
    return Outcome(output=output, data=data, evidence_refs=sources, outcome=came_to)


def read_patch(folder: Path, path: str) -> bytes:
    """The patch at ``path``, which a task of the same goal delivered into ``folder``; raises ActionError."""
    with ConfinedFolder(folder) as confined:
        return confined.read(path, MAX_PATCH)


def report_merge(source: Path, patches: Sequence[str], merged: Path | None, tests: TestRun | None) -> Outcome:
    """The outcome of making one of ``patches``: none if together they change nothing."""
    if merged is None:
        return Outcome(output=f"Together, {len(patches)} patches change nothing in {source}.")
    path = str(merged)
    parts = [
        f"Made one patch of {len(patches)} for {source}: {path}{_format_usage(path, source)}",
        format_tests(tests) if tests else "",
    ]
    # Without a way to test the project there is nothing to check, as for a single task.
    untested = tests is None or tests.problem == NOTHING_FOUND
    logs = [each.log_path for each in tests.suites if each.log_path] if tests else []
    return Outcome(
        output="\n\n".join(filter(None, parts)),
        data={
            "patches": [path],
            "patch_targets": [{"path": path, "folder": str(source)}],
            "merged": list(patches),
            **({"tests": tests.to_dict()} if tests else {}),
        },
        evidence_refs=cite_tests(tests) if tests else (),
        output_paths=(path, *logs),
        outcome=ResultOutcome.DONE if untested or tests is None else outcome_of(tests),
    )


def report_conflict(patch: str, files: Sequence[str], source: Path, folder: str) -> Outcome:
    """The outcome of a merge that ``patch`` does not go into; both sides stand in ``folder``."""
    listed = format_list(files, SHOWN)
    problem = f"{patch} does not go together with the changes before it, in {listed}"
    return Outcome(
        output=problem,
        data={"conflicts": {"patch": patch, "files": list(files), "repo": str(source), "folder": folder}},
        outcome=ResultOutcome.FAILED,
        problem=problem,
    )


def judge_merge(outcome: Outcome, left: Sequence[str]) -> Outcome:
    """``outcome``, failed if both sides of a merge are ``left`` in files of the workspace."""
    if not left:
        return outcome
    problem = f"Both sides still stand between git's conflict marks in {format_list(left, SHOWN)}"
    data = {name: value for name, value in outcome.data.items() if name not in ("patches", "patch_targets")}
    return msgspec.structs.replace(outcome, data=data, outcome=ResultOutcome.FAILED, problem=problem)


def report_delivery(
    outcome: Outcome,
    delivery: Delivery,
    commands: Sequence[RanCommand],
    workspace: Path,
    origin: Callable[[str], Path | None],
) -> Outcome:
    """``outcome`` with what was changed and run for it, as it is on the disk and not as it is claimed.

    ``origin`` says what a folder of the workspace is a copy of.
    """
    parts, listed = [outcome.output], commands[-LISTED:]
    if delivery.patches or delivery.files:
        rows = [f"- {path}{_format_usage(path, origin(Path(path).stem))}" for path in delivery.patches]
        parts.append("\n".join(["Handed over:", *rows, *(f"- {path}" for path in delivery.files)]))
    if delivery.missing:
        parts.append("\n".join(["Not handed over:", *(f"- {what}" for what in delivery.missing)]))
    if commands:
        ends = (
            "stopped, its time was up" if each.timed_out else f"exit code {each.exit_code}" for each in listed
        )
        ran = [f"- {flatten(each.command, 120)} ({end})" for each, end in zip(listed, ends, strict=True)]
        parts.append("\n".join(["Commands that were run:", *ran]))
    return msgspec.structs.replace(
        outcome,
        output="\n\n".join(parts),
        data={
            **outcome.data,
            "commands": [msgspec.to_builtins(each) for each in commands[-MAX_COMMANDS:]],
            "patches": list(delivery.patches),
            "patch_targets": [
                {"path": path, "folder": str(source)}
                for path in delivery.patches
                if (source := origin(Path(path).stem)) is not None
            ],
            "workspace": str(workspace),
        },
        evidence_refs=_join(
            (place for ref in outcome.evidence_refs if (place := _locate(ref, origin))),
            (each.log for each in listed if each.log),
        ),
        output_paths=_join(delivery.patches, delivery.files, outcome.output_paths),
    )


def judge_words(outcome: Outcome, facts: Mapping[str, Any]) -> Outcome:
    """The outcome of a task given as text: what its words claim and nothing bears out comes first.

    ``facts`` has the last run of ``tests``, if there was one.
    """
    doubts = find_unproved(outcome.output, {**outcome.data, **facts}, CODER, outcome.output_paths)
    if doubts:
        listed = "\n".join(["Not borne out by what is on record:", *(f"- {doubt}" for doubt in doubts)])
        return msgspec.structs.replace(
            outcome, output=f"{listed}\n\n{outcome.output}", outcome=ResultOutcome.NOT_CHECKED
        )
    tests = facts.get("tests")
    if not isinstance(tests, Mapping) or (tests.get("exit_code") == 0 and not tests.get("incomplete")):
        return outcome
    broken = max(0, tests.get("failed", 0)) + max(0, tests.get("errors", 0))
    came_to = ResultOutcome.FINDINGS if broken else ResultOutcome.NOT_CHECKED
    return msgspec.structs.replace(outcome, outcome=came_to)


def _locate(ref: str, origin: Callable[[str], Path | None]) -> str:
    """``ref`` as others find it: a place in a copy is one in its project; empty if the patch made it."""
    folder, _, rest = ref.partition("/")
    if (source := origin(folder)) is None:
        return ref
    name, line, *_ = *rest.split(":"), ""
    try:
        lines = (source / name).read_bytes().count(b"\n") + 1
        return f"{source}/{rest}" if lines >= int(line or 1) else ""
    except (OSError, ValueError):
        return ""


def _format_usage(patch: str, origin: Path | None) -> str:
    """The command that applies a patch to its project: outside of it, git skips files without an error."""
    if origin is None:
        return ""
    repository = find_any(origin)
    if repository and repository.bare:
        return ""
    top = repository.top if repository else origin
    within = [] if origin == top else [f"--directory={origin.relative_to(top)}"]
    return f", to apply: {shlex.join(['git', '-C', str(top), 'apply', *within, patch])}"


def add_partial(error: ActionError, made: Sequence[str], workspace: Path) -> ActionError:
    """``error`` with where the unfinished work is, and where it was done."""
    more = f" and {len(made) - 1} more" if len(made) > 1 else ""
    files = f"Unfinished: {made[0]}{more}. " if made else ""
    return ActionError(str(error).removesuffix("."), f"{files}The workspace is {workspace}")


def _join(*groups: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for group in groups for each in group))
