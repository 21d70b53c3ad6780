"""How a test command is started, and watched: its words, its environment, what has its runner report."""

import asyncio
import contextlib
import itertools
import os
import re
import shlex
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from services.engineer.results import count_events
from services.engineer.working_copy import WorkingCopy
from shared.projects.environments import Surroundings, format_path
from shared.projects.reading.guesses import option_names
from shared.projects.reading.project_files import ProjectFiles
from shared.projects.reading.test_commands import TestCommand, recognise
from shared.projects.reading.test_environments import read_pytest_settings
from shared.sandbox import CommandResult, Reach, read_processor_time, run_command

REPORTERS = Path(__file__).with_name("reporters")
PYTHON_WORDS = ("python", "python3")
USUAL_REPORTERS = frozenset(
    "spec dot min nyan progress list landing".split()
)  # Of Mocha: ours may replace them
JUNIT = "junit.xml"
JEST = "jest.json"
EVENTS = "events.jsonl"


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """What will be run and where; ``line`` is the command as a person would type it in the project.

    ``events``, ``junit`` and ``jest`` are where its runner reports; ``plain`` is the same command without a
    reporter, for runners that refuse one; ``alone`` the runner that a script of several steps ends in.
    ``before`` are lines for a shell that build what the tests need.
    """

    argv: tuple[str, ...]
    line: str
    cwd: Path
    env: dict[str, str]
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    events: Path
    junit: Path
    jest: Path
    plain: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    plain_env: dict[str, str] = {}

    def reports(self, argv: Sequence[str]) -> bool:
        """Whether the words of ``argv`` give the runner a reporter, or a file to report to."""
        return any("mailroom_" in word or str(self.events.parent) in word for word in argv)


def invoke(
    command: TestCommand, copy: WorkingCopy, around: Surroundings, seconds: float, number: int = 0
) -> Invocation:
    """The invocation of ``command`` in a working copy; a test may take ``seconds``."""
    results = copy.results / str(number)
    results.mkdir(exist_ok=True)
    # Where it runs: for CTest the folder of the sources, although CI enters that of the build
    root = copy.root
    cwd = root / command.folder
    while command.runner == "ctest" and cwd != root and not (cwd / "CMakeLists.txt").is_file():
        cwd = cwd.parent
    search = format_path(*around.path)
    plain = _words(command, search)
    # The variables a person's shell would have: tests of colours and terminals look at them.
    own = {"TERM": "xterm", **command.env, **around.env, "PATH": search}
    # It would wait for changes of files otherwise.
    own |= {"CI": "true"} if "react-scripts" in command.starts else {}
    events, junit, jest = results / EVENTS, results / JUNIT, results / JEST
    argv, extra = _report(command, plain, cwd, copy, results)
    if "PYTHONPATH" in extra:
        extra["PYTHONPATH"] = os.pathsep.join(filter(None, (extra["PYTHONPATH"], own.get("PYTHONPATH"))))
    env = {**own, **extra, "MAILROOM_TEST_EVENTS": str(events)}
    # Its own limit is for a test that hangs; what runs the tests as a whole has another.
    env["MAILROOM_TEST_SECONDS"] = f"{seconds:g}"
    if command.runner == "ctest":
        argv = plain = _ctest(command, cwd, results)
    return Invocation(
        argv=argv,
        line=shlex.join(command.argv),
        cwd=cwd,
        env=env,
        readable=(*around.readable, REPORTERS),
        writable=(copy.root, copy.results, *around.writable),
        events=events,
        junit=junit,
        jest=jest,
        plain=plain,
        before=tuple(line for line in command.before if not line.startswith("-D")),
        alone=_alone(command, copy, results),
        plain_env=own,
    )


def _words(command: TestCommand, search: str) -> tuple[str, ...]:
    """The command's words with a package manager that is installed."""
    words = command.argv
    if shutil.which(words[0], path=search) is not None:
        return words
    if words[0] in ("pnpm", "yarn", "bun") and words[1:2] == ("run",):
        return ("npm", *words[1:])
    if words[0] in PYTHON_WORDS:
        other = next((name for name in PYTHON_WORDS if shutil.which(name, path=search)), words[0])
        return (other, *words[1:])
    return words


def _report(
    command: TestCommand, words: tuple[str, ...], cwd: Path, copy: WorkingCopy, results: Path
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The words and variables that make the runner report each test, if it can."""
    python_path = {"PYTHONPATH": str(REPORTERS)}
    if command.runner == "pytest":
        at = words.index("pytest") + 1
        # A cache elsewhere rather than none: without one, pytest refuses projects that set cache_dir or --ff.
        options: tuple[str, ...] = ("-p", "mailroom_pytest", "-o", f"cache_dir={results / 'cache'}")
        if not any(read_pytest_settings(ProjectFiles(folder, copy.root)) for folder in (cwd, copy.root)):
            # Else pytest looks for settings in the folders above, which are not the project's.
            options += ("-c", os.devnull, "--rootdir", str(copy.root))
        return (*words[:at], *options, *words[at:]), python_path
    if command.runner == "unittest":
        return tuple("mailroom_unittest" if word == "unittest" else word for word in words), python_path
    if command.runner == "go":
        return ("go", "test", "-json", *words[2:]), {}
    if command.runner == "cargo" and "--no-fail-fast" not in words:
        return ("cargo", "test", "--no-fail-fast", *words[2:]), {}
    if command.runner == "node":
        return _report_javascript(command, words, results)
    if command.runner == "any":
        ruby = shlex.join(["--require", str(REPORTERS / "mailroom_rspec.rb")])
        ruby = " ".join(filter(None, (command.env.get("SPEC_OPTS", ""), ruby)))
        return words, {**python_path, "PYTEST_ADDOPTS": "-p mailroom_pytest", "SPEC_OPTS": ruby}
    return words, {}


def _report_javascript(
    command: TestCommand, words: tuple[str, ...], results: Path
) -> tuple[tuple[str, ...], dict[str, str]]:
    starts = [word for word in command.starts if word not in ("npx", "c8", "nyc")]
    runner = starts[0].rpartition("/")[2] if starts else ""
    tested = [word for name in (*command.names, *command.starts) for word in name.split()]
    reported = re.search(r"(?:--reporter|-R)[= ](\S+)", " ".join(starts))
    options: tuple[str, ...] = ()
    if runner == "tap" and not reported:  # with colours it would draw a picture of its run
        return words, {"TAP_REPORTER": "tap"}
    if runner == "jest" or starts[:2] == ["react-scripts", "test"]:
        options = ("--json", f"--outputFile={results / JEST}")
    elif runner == "vitest" and not any(word.startswith("--reporter") for word in starts):
        options = ("--reporter=default", "--reporter=junit", f"--outputFile.junit={results / JUNIT}")
    elif runner in ("mocha", "_mocha") and (not reported or reported[1] in USUAL_REPORTERS):
        options = ("--reporter", str(REPORTERS / "mailroom_mocha.cjs"))
    elif "--test" in tested and not any("--test-reporter" in word for word in tested):  # of Node itself
        reporters = (("spec", "stdout"), (str(REPORTERS / "mailroom_node.mjs"), str(results / "node.out")))
        added = [f'--test-reporter="{name}" --test-reporter-destination="{to}"' for name, to in reporters]
        return words, {"NODE_OPTIONS": " ".join([command.env.get("NODE_OPTIONS", ""), *added]).strip()}
    if not options:
        return words, {}
    # npm needs a mark before what it hands on; the others would hand the mark on too.
    mark = ("--",) if words[0] == "npm" and "--" not in words else ()
    return (*words, *mark, *options), {}


def _alone(command: TestCommand, copy: WorkingCopy, results: Path) -> tuple[str, ...]:
    """The runner that a script ends in, for one whose earlier steps, such as a linter, may fail."""
    starts = command.starts
    if not starts and len(command.names) == 1:  # the one test runner that it starts somewhere, if it is one
        words = tuple(next(iter(command.names)).split())
        found = recognise(words)
        is_runner = found and found.runner == "node" and not found.indirect and not found.browser
        starts = words if is_runner else ()
    if command.runner != "node" or not starts or command.argv[0] not in ("npm", "pnpm", "yarn", "bun"):
        return ()
    words = starts if starts[0] in ("node", "tsx", "npx", "bun", "deno") else ("npx", "--no-install", *starts)
    return _report_javascript(msgspec.structs.replace(command, argv=words, starts=starts), words, results)[0]


def _ctest(command: TestCommand, cwd: Path, results: Path) -> tuple[str, ...]:
    """Configure, build and test beside the project, with the options of its CI and those its tests need."""
    flags = [word for word in command.before if word.startswith("-D")] or [*option_names(ProjectFiles(cwd))]
    build = "build-mailroom"
    pairs = itertools.pairwise(command.argv[1:])
    kept = [
        f"{option} {shlex.quote(value)}" for option, value in pairs if option in ("-R", "-L", "-E", "-LE")
    ]
    steps = (
        shlex.join(["cmake", "-S", ".", "-B", build, *flags]),
        f"cmake --build {build} --parallel 2",
        f"ctest --test-dir {build} --output-on-failure --timeout 300 {' '.join(kept)} --output-junit "
        + shlex.quote(str(results / JUNIT)),
    )
    return ("sh", "-c", " && ".join(steps))


# --- running it under a watch -----------------------------------------------------------------------

OUTPUT_LIMIT = 4_000_000
LOOK_EVERY = 1.0  # Seconds between two looks at a command that runs
WORKING = 0.05  # The part of a processor that a command uses at least which works
BUSY = 4.0
"""How many times as long as an idle command one may be silent that works: compilers are, and large tests."""
TELL_EVERY = 20.0  # Seconds between two notes on its progress

Note = Callable[[str], Awaitable[None]]


class _Progress:
    """How far a command has come: what it printed and its tests reported, and how long it has worked."""

    def __init__(self, log: Path, events: Path, quiet: float) -> None:
        self.files = (log, events)
        self.quiet = quiet
        self.processes: list[int] = []
        self.changed = self.worked = time.monotonic()
        self.sizes: tuple[int, ...] = ()
        self.used = 0.0

    def has_stopped(self, now: float) -> bool:
        """Whether the command does nothing any more, as far as can be seen at the time ``now``."""
        sizes = tuple(map(_size, self.files))
        if sizes != self.sizes:
            self.changed, self.sizes = now, sizes
        used = read_processor_time(self.processes[0]) if self.processes else 0.0
        if abs(used - self.used) >= LOOK_EVERY * WORKING:
            self.worked, self.used = now, used
        silent = now - self.changed
        return silent > self.quiet * BUSY or min(silent, now - self.worked) > self.quiet


async def run_watched(
    argv: Sequence[str],
    *,
    cwd: Path,
    timeout: float,
    quiet: float,
    env: Mapping[str, str],
    readable: Sequence[Path],
    writable: Sequence[Path],
    log: Path,
    events: Path,
    note: Note,
    reach: Reach | None = None,
) -> CommandResult:
    """The result of ``argv``, interrupted after ``timeout`` seconds, or ``quiet`` ones without progress.

    Progress is output, or an event of a test. A command that uses the processor meanwhile has BUSY times as
    long. Raises ActionError as run_command does.
    """
    started = told = time.monotonic()
    progress = _Progress(log, events, quiet)
    running = asyncio.ensure_future(
        run_command(
            argv,
            cwd=cwd,
            timeout=timeout,
            writable=writable,
            readable=readable,
            env=env,
            output_limit=OUTPUT_LIMIT,
            log_path=log,
            reach=reach,
            # Test runners report what they have when interrupted from the keyboard; SIGTERM just ends them.
            stop_signal=signal.SIGINT,
            started=progress.processes.append,
        )
    )
    try:
        while not (await asyncio.wait({running}, timeout=LOOK_EVERY))[0]:
            now = time.monotonic()
            if await asyncio.to_thread(progress.has_stopped, now):
                running.cancel()
                await asyncio.wait({running})
                return CommandResult(
                    argv=tuple(argv),
                    exit_code=-signal.SIGINT,
                    output=_read_end(log),
                    seconds=now - started,
                    timed_out=True,
                )
            if now - told > TELL_EVERY:
                told = now
                ended, failed = await asyncio.to_thread(count_events, events)
                counted = f"{ended:,} tests so far, {failed:,} failed" if ended else "the tests run"
                await note(f"{counted} ({now - started:.0f} s)")
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
    return running.result()


def _read_end(log: Path) -> str:
    data = log.read_bytes()[-OUTPUT_LIMIT:] if log.is_file() else b""
    return data.decode("utf-8", "replace")


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat(follow_symlinks=False).st_size
    return 0
