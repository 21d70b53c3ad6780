"""Running a project's tests in a working copy of it: each test command a suite, their sums a TestRun."""

import asyncio
import itertools
import re
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from services.engineer.collecting import (
    RUNNERS,
    UNCOUNTED,
    Collected,
    Diagnosis,
    collect,
    diagnose,
    format_missing,
    strip_output,
)
from services.engineer.invocation import Invocation, Note, invoke, run_watched
from services.engineer.reruns import SHORT, rerun_failures, run_rest
from services.engineer.results import Results, format_go, parse_go
from services.engineer.working_copy import WorkingCopy
from shared.contracts import Connection, TestRun, TestSuite
from shared.errors import ActionError
from shared.log import logger
from shared.projects import Environment, prepare
from shared.projects.environments import find_surroundings
from shared.projects.reading import ProjectFiles, read_project
from shared.projects.reading.discovery import Discovery
from shared.projects.reading.project_files import UNFORESEEN
from shared.projects.reading.test_commands import VALUED, TestCommand
from shared.projects.steps import explain
from shared.sandbox import CommandResult, Reach
from shared.source import CODE
from shared.text.display import clean, count, format_list, shorten

NOTHING_FOUND = "No way to test this project was found"
NO_CODE = "There are no tests to run: it holds documents, and no code"
NAME_ONE = 'Name one in pyproject.toml: [tool.mailroom] test = "...", or in .mailroom.yaml: test: ...'
REFUSED = re.compile(
    r"mailroom_|NODE_OPTIONS|[Uu]n(?:known|recogni[sz]ed) (?:\w+ )?(?:option|argument|flag)|--outputFile"
    r"|[Cc]annot find reporter"
)
"""What a runner says that refuses the reporter it was given."""
MOST_LFS = 200  # The most files of Git LFS that are looked at
MOST_REASONS = 4  # The most reasons of skipped tests that are named
NETWORK_CURE = "Tests have no network here: allow their hosts by the setting reach, or run them elsewhere"

Record = Callable[[Sequence[str], Sequence[Connection]], Awaitable[None]]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that all tests of a command may take (``whole``), and that a single one may (``one``)."""

    whole: float = 1200.0
    one: float = 120.0

    @property
    def quiet(self) -> float:
        """Seconds without any progress: more than for one test, since compilers and set-ups say little."""
        return 2 * self.one


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where tests are run: the copy of ``repo``, what was prepared for it, and where output goes.

    ``reach`` are the hosts that a person allowed, ``record`` writes down which were asked for.
    """

    repo: Path
    copy: WorkingCopy
    log: Path
    limits: Limits
    note: Note
    prepared: tuple[Environment, ...] = ()
    reach: Reach | None = None
    record: Record | None = None


def discover(root: Path) -> Discovery | TestRun:
    """The test commands of a project; if there are none, a TestRun whose ``problem`` says why."""
    project = read_project(root)
    try:
        found = project.tests
    except ActionError as error:
        return TestRun(problem=str(error), cure="Correct it")
    except UNFORESEEN as error:
        logger(__name__).exception("project_unreadable", folder=str(root))
        problem = f"The project's files could not be read ({type(error).__name__}: {error})"
        return TestRun(problem=problem, cure=NAME_ONE, notes=tuple(name_unreadable(project.files)))
    if found.commands:
        return found
    notebooks = sum(path.endswith(".ipynb") for path in project.tree.files)
    said = (f"Not run: {count(notebooks, 'notebook')}",) if notebooks else ()
    notes = (*said, *name_unreadable(project.files))
    own = (path for path in project.tree.files if not path.startswith("."))
    if not found.not_run and project.docs and not any(path.endswith(CODE) for path in own):
        return TestRun(passed=0, failed=0, skipped=0, errors=0, exit_code=0, notes=(NO_CODE, *notes))
    return TestRun(problem=NOTHING_FOUND, cure=NAME_ONE, not_run=found.not_run, notes=notes)


async def run_tests(found: Discovery, site: Site) -> TestRun:
    """Run every test command; failures and what keeps tests from running are in the result."""
    suites = []
    for number, command in enumerate(found.commands):
        another = site.log.with_name(f"{site.log.stem}-{number + 1}{site.log.suffix}")
        log = another if number else site.log
        suites.append(await run_suite(command, msgspec.structs.replace(site, log=log), number))
    run = add_suites(suites)
    prepared = tuple(each.preparation for each in site.prepared)
    left_out = [note for each in prepared for note in each.notes if note.startswith("Left out")]
    folders = dict.fromkeys((".", *(each.folder for each in found.commands)))
    unread = await asyncio.to_thread(name_unreadable, ProjectFiles(site.copy.root), folders)
    absent = await asyncio.to_thread(name_absent, ProjectFiles(site.copy.root))
    notes = tuple(dict.fromkeys((*found.notes, *run.notes, *unread, *left_out, *absent)))
    cure = absent[0] if absent and run.problem else run.cure
    return msgspec.structs.replace(run, prepared=prepared, not_run=found.not_run, notes=notes, cure=cure)


def name_unreadable(files: ProjectFiles, folders: Iterable[str] = (".",)) -> list[str]:
    """A sentence for each manifest in ``folders`` that cannot be read."""
    return [
        f"{Path(folder, name)} was left out, since it cannot be read: {why}"
        for folder in folders
        for name, why in files.at(folder).list_unreadable()
    ]


def name_absent(files: ProjectFiles) -> list[str]:
    """What a clone lacks that git knows of: submodules that were not fetched, and files of Git LFS."""
    places = re.findall(r"(?m)^\s*path\s*=\s*(\S.*?)\s*$", files.text(".gitmodules"))
    inner = (path for path in places if not path.startswith("/") and ".." not in Path(path).parts)
    empty = [path for path in inner if not any((files.folder / path).glob("*"))]
    notes = []
    if empty:
        verb = "was" if len(empty) == 1 else "were"
        named = f"{count(len(empty), 'submodule')} {verb} not fetched: {format_list(empty)}"
        notes.append(f"{named}. Fetch with git submodule update --init --recursive")
    forms = re.findall(r"(?m)^([^#\s]\S*)\s.*\bfilter=lfs\b", files.text(".gitattributes"))
    whole = [f"{form}/*" if form.endswith("**") else form for form in forms[:50]]
    globs = (form.lstrip("/") if "/" in form.strip("/") else f"**/{form}" for form in whole)
    listed = itertools.islice((name for form in globs for name in files.glob(form)), MOST_LFS)
    if lacking := [name for name in listed if files.text(name).startswith("version https://git-lfs")]:
        named = f"{count(len(lacking), 'file')} of Git LFS hold a pointer alone: {format_list(lacking, 3)}"
        notes.append(f"{named}. Fetch with git lfs pull")
    return notes


async def prepare_tests(found: Discovery, site: Site, cache: Path) -> Site:
    """``site`` with environments for the folders that tests are run in, and for those above them."""
    places = [Path(each.folder) for each in found.commands]
    folders = {str(folder) for place in places for folder in (place, *place.parents)}
    prepared = await prepare(
        site.copy.root,
        source=site.repo,
        cache=cache,
        note=site.note,
        timeout=site.limits.whole,
        log=site.log.with_name("preparing.log"),
        folders=None if any(each.runner == "any" for each in found.commands) else folders,
        reach=site.reach,
    )
    return msgspec.structs.replace(site, prepared=prepared)


async def run_suite(command: TestCommand, site: Site, number: int = 0) -> TestSuite:
    """Run one test command, and what failed once more."""
    around = await find_surroundings(
        site.prepared, RUNNERS[command.runner].ecosystem, site.repo, site.copy.root, command.folder
    )
    suite = TestSuite(
        command=shlex.join(command.argv),
        found=command.found,
        folder=command.folder,
        interpreter=around.interpreter,
    )
    if around.problem and command.runner not in ("unittest", "node"):
        return msgspec.structs.replace(suite, problem=around.problem, cure=around.cure)
    await site.note(f"runs {suite.command}, found in {command.found}")
    invocation = invoke(command, site.copy, around, site.limits.one, number)
    failed = [each for line in invocation.before if (each := await _build(line, invocation, site))]
    suite = msgspec.structs.replace(suite, notes=tuple(f"{cause}. {cure}" for cause, cure in failed))
    done = await _run(command, invocation, site, suite)
    if failed and done.passed < 0:
        problem, cure = failed[0]
        done = msgspec.structs.replace(done, problem=problem, cure=cure, notes=done.notes[len(failed) :])
    if around.problem and (done.passed <= 0 or done.failed or done.errors):
        # It needs nothing to be installed, so it was tried; but what fails now may fail for that.
        return msgspec.structs.replace(suite, problem=around.problem, cure=around.cure)

    async def part(command: TestCommand, seconds: float, number: int) -> tuple[TestSuite, Path]:
        log = site.log.with_name(f"{site.log.stem}-again{site.log.suffix}")
        limits = msgspec.structs.replace(site.limits, whole=seconds)
        await site.note(f"runs {shorten(shlex.join(command.argv), 200)} once more")
        invocation = invoke(command, site.copy, around, limits.one, number)
        site_again = msgspec.structs.replace(site, log=log, limits=limits)
        return await _run(command, invocation, site_again, TestSuite()), invocation.events

    async def again(command: TestCommand, seconds: float) -> TestSuite:
        return (await part(command, seconds, 100 + number))[0]

    async def rest(command: TestCommand, seconds: float, turn: int) -> tuple[TestSuite, Path]:
        return await part(command, seconds, 1000 * (number + 1) + turn)

    done = await run_rest(command, done, invocation.events, site.limits.whole, rest)
    is_uncounted = done.passed < 0 and not done.timed_out
    for other in command.variants if (done.skipped > 0 or is_uncounted) and done.seconds < SHORT else ():
        tried = await again(other, max(SHORT, 4 * done.seconds))
        is_fuller = tried.skipped < done.skipped and tried.broken <= done.broken
        if tried.passed > done.passed and (is_fuller or done.passed < 0):
            given = shlex.join(other.argv)
            why = "skips fewer tests" if is_fuller else f"runs here: `{suite.command}` does not"
            note = f"Counted is the variant of CI that {why} ({other.found}): `{given}`"
            done = msgspec.structs.replace(
                tried, command=given, found=other.found, folder=done.folder, notes=(*tried.notes, note)
            )
    return await rerun_failures(command, done, again)


async def _build(line: str, invocation: Invocation, site: Site) -> Diagnosis | None:
    """Run a step that comes before the tests; if it fails, that the tests do without it, and what to do."""
    await site.note(f"runs {line}")
    log = site.log.with_name(f"{site.log.stem}-before{site.log.suffix}")
    try:
        result = await _execute(
            ("bash", "-e", "-c", line), invocation.env, invocation, msgspec.structs.replace(site, log=log)
        )
    except ActionError as error:
        return f"The step before the tests `{line}` was not run: {error.cause}", error.cure
    if not result.exit_code and not result.timed_out:
        return None
    cause, cure = explain(f"`{line}`, a step before the tests,", result)
    return cause, cure if "not installed" in cause else f"The tests ran without it. {cure}"


async def _run(command: TestCommand, invocation: Invocation, site: Site, suite: TestSuite) -> TestSuite:
    """The suite with how its run went, without the reporter if the runner refuses it."""
    started = time.time()
    try:
        result = await _execute(invocation.argv, invocation.env, invocation, site)
        collected = await _collect(command, invocation, result, site, started)
        is_over = collected.results or result.timed_out or not result.exit_code
        for argv, env, notes in () if is_over else _other_ways(command, invocation, result):
            again = await _execute(argv, env, invocation, site)
            counted = await _collect(command, invocation, again, site, started)
            if counted.results:
                result, collected = again, counted
                suite = msgspec.structs.replace(suite, notes=(*suite.notes, *notes))
                break
    except ActionError as error:
        program = re.match(r"(\S+) is not installed", str(error))
        problem, cure = format_missing(program[1]) if program else (str(error), "")
        return msgspec.structs.replace(suite, problem=problem, cure=cure, log_path=str(site.log))
    return _conclude(command, suite, result, collected, site)


async def _execute(
    argv: Sequence[str], env: dict[str, str], invocation: Invocation, site: Site
) -> CommandResult:
    result = await run_watched(
        argv,
        cwd=invocation.cwd,
        timeout=site.limits.whole,
        quiet=site.limits.quiet,
        env=env,
        readable=invocation.readable,
        writable=invocation.writable,
        log=site.log,
        events=invocation.events,
        note=site.note,
        reach=site.reach,
    )
    if site.record and result.connections:
        await site.record(argv, result.connections)
    return msgspec.structs.replace(result, output=strip_output(result.output))


async def _collect(
    command: TestCommand, invocation: Invocation, result: CommandResult, site: Site, started: float
) -> Collected:
    root = site.copy.root
    found = await asyncio.to_thread(
        collect, command, invocation, result.output, root, started, stopped=result.timed_out, argv=result.argv
    )
    if command.runner == "go" and found.counted_by == "go test -json":
        # A log is for people.
        text = format_go(parse_go(result.output))
        await asyncio.to_thread(site.log.write_text, text, "utf-8", "replace")
    return found


def _other_ways(
    command: TestCommand, invocation: Invocation, result: CommandResult
) -> Iterator[tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]]:
    """How to run it instead if it did not get to its tests: words, environment, and what to note about it."""
    if unknown := re.search(r"error: unrecognized arguments: (.+)", result.output):
        pairs = itertools.pairwise(("", *command.argv))
        words = set(unknown[1].split())
        lacking = {word for before, word in pairs if word in words or before in words & VALUED}
        kept = tuple(word for word in invocation.argv if word not in lacking)
        if lacking:
            options = shlex.join(word for word in command.argv if word in lacking)
            yield kept, invocation.env, (f"Without {options}, which nothing here knows",)
    if invocation.plain != invocation.argv and REFUSED.search(result.output):
        yield invocation.plain, invocation.plain_env, ()
    if invocation.alone:
        given = shlex.join(command.argv)
        counted = shlex.join(command.starts) or " ".join(command.names)
        note = f"`{given}` ended with exit code {result.exit_code} before its tests; counted is `{counted}`"
        yield invocation.alone, invocation.env, (note,)


def _conclude(
    command: TestCommand, suite: TestSuite, result: CommandResult, collected: Collected, site: Site
) -> TestSuite:
    results = collected.results
    counts = results or Results(passed=-1, failed=-1, skipped=-1, errors=-1)
    problem, cure = diagnose(command, result, results, site.copy.root, collected.hung)
    return msgspec.structs.replace(
        suite,
        exit_code=result.exit_code,
        passed=counts.passed,
        failed=counts.failed,
        skipped=counts.skipped,
        errors=counts.errors,
        seconds=round(result.seconds, 3),
        timed_out=result.timed_out,
        failures=counts.failures,
        problem=problem,
        cure=cure,
        log_path=str(site.log),
        counted_by=collected.counted_by,
        hung=collected.hung,
        notes=(*suite.notes, *_notes(command, counts), *find_coverage(result.output)),
        incomplete=bool(counts.cut or result.timed_out or result.problem) and results is not None,
    )


COVERAGE = (
    r"^TOTAL\s+\d+\s+\d+.*?\s(\d+(?:\.\d+)?)%",  # coverage.py, pytest-cov
    r"^All files\s*\|\s*(\d+(?:\.\d+)?)\s*\|",  # Istanbul: nyc, c8, Jest, Vitest
    r"^total:\s+\(statements\)\s+(\d+(?:\.\d+)?)%",  # go tool cover
    r"^  lines\.+: (\d+(?:\.\d+)?)%",  # lcov
)


def find_coverage(output: str) -> list[str]:
    """What the command itself says of its coverage, as it counts that."""
    found = (re.findall(form, output, re.MULTILINE) for form in COVERAGE)
    numbers = next(filter(None, found), [])
    return [f"Coverage, as the command counts it: {numbers[-1]} %"] if numbers else []


def _notes(command: TestCommand, counts: Results) -> list[str]:
    broken = max(counts.failed, 0) + max(counts.errors, 0)
    notes = []
    if counts.networked:
        number = min(counts.networked, broken)
        verb = "needs" if number == 1 else "need"
        notes.append(f"{number} of {broken} failures {verb} a network. {NETWORK_CURE}")
    if counts.skipped > 0 and counts.reasons:
        whys = [f"{clean(reason)} ({number:,})" for reason, number in counts.reasons]
        notes.append(f"Skipped: {format_list(whys, MOST_REASONS)}")
    if counts.unselected:
        left_out = count(counts.unselected, "collected test")
        notes.append(f"{left_out} not selected, by the project's own settings")
    if broken and command.services:
        names = ", ".join(command.services)
        notes.append(f"CI starts {names} beside these tests, which is not here")
    return notes


def add_suites(suites: Sequence[TestSuite]) -> TestRun:
    """The sums of ``suites``; counts are -1 if no suite has any."""
    counted = [each for each in suites if each.passed >= 0]

    def total(name: str) -> int:
        return sum(max(getattr(each, name), 0) for each in counted) if counted else -1

    several = len(suites) > 1
    # A step that ended well and counts nothing takes nothing from what the others counted.
    silent = [each for each in suites if counted and each.problem == UNCOUNTED]
    unsaid = [f"`{each.command}` ended well, and does not tell how many tests ran" for each in silent]
    troubled = next((each for each in suites if each.problem and each not in silent), None)
    problem = troubled.problem if troubled else ""
    ended = [each.exit_code for each in suites]
    return TestRun(
        command="; ".join(each.command for each in suites),
        found="; ".join(each.found for each in suites),
        exit_code=next((code for code in ended if code), 0) if ended else -1,
        passed=total("passed"),
        failed=total("failed"),
        skipped=total("skipped"),
        errors=total("errors"),
        seconds=round(sum(each.seconds for each in suites), 3),
        timed_out=any(each.timed_out for each in suites),
        failures=tuple(failure for each in suites for failure in each.failures)[:200],
        problem=f"`{troubled.command}`: {problem}" if troubled and several else problem,
        cure=troubled.cure if troubled else "",
        log_path=suites[0].log_path if suites else "",
        folder=suites[0].folder if not several and suites else ".",
        interpreter=", ".join(dict.fromkeys(each.interpreter for each in suites if each.interpreter)),
        counted_by=", ".join(dict.fromkeys(each.counted_by for each in suites if each.counted_by)),
        flaky=tuple(name for each in suites for name in each.flaky),
        hung=tuple(name for each in suites for name in each.hung),
        notes=tuple(dict.fromkeys((*(note for each in suites for note in each.notes), *unsaid))),
        incomplete=any(each.incomplete for each in suites),
        suites=tuple(suites),
    )
