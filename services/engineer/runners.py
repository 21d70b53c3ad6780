"""Test runners: how a project's is recognised in its files, how it is started, and who parses its output."""

import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from services.engineer import console_results as console
from services.engineer.project_files import IGNORED
from services.engineer.results import Results
from shared.errors import ActionError

READABLE = 500_000
"""The most characters of a file that are read."""


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of test runner.

    ``programs`` are the programs and Python modules that start it. ``parsers`` read what it prints; the first
    that finds results counts. One that ``writes_junit`` is asked for a JUnit report, which is read first.
    """

    parsers: tuple[Callable[[str, Path], Results | None], ...]
    programs: tuple[str, ...] = ()
    writes_junit: bool = False


JAVASCRIPT = (console.parse_jest, console.parse_vitest, console.parse_tap, console.parse_mocha)
RUNNERS = {
    "pytest": Runner(parsers=(console.parse_pytest,), programs=("pytest", "py.test"), writes_junit=True),
    "unittest": Runner(parsers=(console.parse_unittest,), programs=("unittest",)),
    "node": Runner(parsers=JAVASCRIPT, programs=("npm", "pnpm", "yarn", "node")),
    "cargo": Runner(parsers=(console.parse_cargo,), programs=("cargo",)),
    "go": Runner(parsers=(console.parse_go,), programs=("go",)),
    "any": Runner(  # make, a script, Maven and the like: what they start in turn is not known
        parsers=(
            *(console.parse_cargo, console.parse_go, console.parse_ctest, console.parse_maven),
            *(console.parse_gradle, *JAVASCRIPT, console.parse_unittest, console.parse_pytest),
        )
    ),
}

PYTEST_SETTINGS = {
    "pytest.toml": r"^\[pytest\]",
    "pytest.ini": r"^\[pytest\]",
    ".pytest.ini": r"^\[pytest\]",
    "pyproject.toml": r"^\[tool\.pytest(\.ini_options)?\]",
    "tox.ini": r"^\[pytest\]",
    "setup.cfg": r"^\[tool:pytest\]",
}
PYTHON_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
NODE_LOCKS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}


PACKAGES = (
    (
        "Cargo.toml",
        r"^\[(package|workspace)\]",
        "a Rust package",
        "cargo",
        ("cargo", "test", "--no-fail-fast"),
    ),
    ("go.mod", r"^module\s", "a Go module", "go", ("go", "test", "-v", "./...")),
)
"""File, pattern of a line in it, what that shows, runner and command."""
CTEST = r"(?i)^[ \t]*(enable_testing *\(|include *\( *CTest\b)"
CMAKE = (
    "cmake -S . -B build-test && cmake --build build-test && ctest --test-dir build-test --output-on-failure"
)
BUILD_FILES = (
    *(
        (name, rf"^{target} *:(?!=)", f"the target {target}", "any", ("make", target))
        for name in ("GNUmakefile", "makefile", "Makefile")
        for target in ("test", "check")
    ),
    ("CMakeLists.txt", CTEST, "tests of CTest", "any", ("sh", "-c", CMAKE)),
)
"""The same for build tools, which may test anything."""


class TestCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How to run a project's tests.

    ``runner`` is a key of RUNNERS, ``found`` where the command was found (``package.json:7 (...)``),
    ``folder`` where to run it, relative to the project. A leading ``python`` stands for the interpreter.
    """

    __test__ = False

    runner: str
    argv: tuple[str, ...]
    found: str
    folder: str = "."


def find_tests(project: Path) -> TestCommand | None:
    """The command that tests ``project``: the one it states itself, else the usual one of its kind.

    If nothing is found in the folder itself, its subfolders are tried in the order of their names. Raises
    ActionError if the project states a command that makes no sense.
    """
    subfolders = sorted(
        path for path in project.iterdir() if path.is_dir() and path.name not in {*IGNORED, "node_modules"}
    )
    for folder in (project, *subfolders):
        for detect in DETECTORS:
            if command := detect(folder):
                place = folder.relative_to(project)
                found = command.found if folder == project else f"{place}/{command.found}"
                return msgspec.structs.replace(command, found=found, folder=str(place))
    return None


def configures_pytest(folder: Path) -> bool:
    """Whether pytest, started in ``folder``, finds settings there."""
    return bool(_find_pytest_settings(folder))


def _read(path: Path) -> str:
    """The start of a text file, empty if there is none."""
    if not path.is_file():
        return ""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(READABLE)


def _find_line(text: str, pattern: str) -> int:
    """The 1-based line on which ``pattern`` first matches, 0 for none."""
    match = re.search(pattern, text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else 0


def _parse_mapping(text: str, parse: Callable[[str], Any], *keys: str) -> dict[str, Any]:
    """The mapping at ``keys`` within ``text``, empty if it is something else or malformed."""
    try:
        values = parse(text)
    except (ValueError, yaml.YAMLError, RecursionError):
        return {}
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _find_stated(folder: Path) -> TestCommand | None:
    """The command in ``[tool.mailroom] test`` of pyproject.toml, or in ``.mailroom.yaml``."""
    text = _read(folder / "pyproject.toml")
    mailroom = _parse_mapping(text, tomllib.loads, "tool", "mailroom")
    if "test" in mailroom:
        header = _find_line(text, r"^\[tool\.mailroom\]")
        within = "\n" * header + "\n".join(text.splitlines()[header:])
        line = _find_line(within, r"^ *test *=") or header or _find_line(text, r"mailroom")
        return _parse_stated(mailroom["test"], f"pyproject.toml:{line}", "[tool.mailroom] test")
    text = _read(folder / ".mailroom.yaml")
    stated = _parse_mapping(text, yaml.safe_load)
    if "test" in stated:
        line = _find_line(text, r"^test *:")
        return _parse_stated(stated["test"], f".mailroom.yaml:{line}", "test")
    return None


def _parse_stated(value: Any, source: str, name: str) -> TestCommand:
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        words = value
    elif isinstance(value, str) and value.strip():
        words = ["sh", "-c", value] if re.search(r"[|&;<>()$`*\n]", value) else _split(value, source)
    else:
        raise ActionError(f"{source}: {name} must be a command, as text or as a list of words")
    started = {words[0], *(words[2:3] if words[1:2] == ["-m"] else [])}
    runner = next((name for name, each in RUNNERS.items() if started & set(each.programs)), "any")
    return TestCommand(runner=runner, argv=_as_module(words), found=f"{source} ({name})")


def _split(text: str, source: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ActionError(f"{source}: the test command {text!r} is not well formed: {error}") from None


def _as_module(words: list[str]) -> tuple[str, ...]:
    if words[0] in RUNNERS["pytest"].programs:
        return ("python", "-m", "pytest", *words[1:])
    return ("python", *words[1:]) if words[0] in ("python", "python3") else tuple(words)


def _find_python_project(folder: Path) -> TestCommand | None:
    """Pytest if it is configured, else what the test files of a Python project are written for."""
    if settings := _find_pytest_settings(folder):
        return _pytest(f"{settings} (settings of pytest)")
    if any((folder / name).is_file() for name in PYTHON_PROJECT):
        return _find_python_files(folder)
    return None


def _find_pytest_settings(folder: Path) -> str:
    """Where pytest's settings in ``folder`` are, as ``file:line``; empty if there are none."""
    found = ((name, _find_line(_read(folder / name), pattern)) for name, pattern in PYTEST_SETTINGS.items())
    return next((f"{name}:{line}" for name, line in found if line), "")


def _find_python_files(folder: Path) -> TestCommand | None:
    """What the test files in ``folder`` are written for: Django, pytest or unittest."""
    if line := _find_line(_read(folder / "manage.py"), r"DJANGO_SETTINGS_MODULE"):
        argv = ("python", "manage.py", "test")
        return TestCommand(runner="unittest", argv=argv, found=f"manage.py:{line} (a Django project)")
    unittest = None
    for path in _test_files(folder):
        text, place = _read(path), path.relative_to(folder)
        if line := _find_line(text, r"^ *(import .*\bpytest\b|from pytest\b)"):
            return _pytest(f"{place}:{line} (imports pytest)")
        if unittest is None and (line := _find_line(text, r"^ *(import .*|from )\bunittest\b(?!\.mock)")):
            unittest = _unittest(folder, path, f"{place}:{line} (imports unittest)")
    if unittest:
        return unittest
    for path in _test_files(folder):
        if line := _find_line(_read(path), r"^(async )?def test_|^class Test"):
            return _pytest(f"{path.relative_to(folder)}:{line} (a test function)")
    return None


def _test_files(folder: Path) -> Iterator[Path]:
    places = (folder, *(folder / name for name in ("tests", "test", "src") if (folder / name).is_dir()))
    for place in places:
        for pattern in ("conftest.py", "test*.py", "*_test.py"):
            yield from sorted(place.glob(pattern) if place == folder else place.rglob(pattern))


def _pytest(found: str) -> TestCommand:
    return TestCommand(runner="pytest", argv=("python", "-m", "pytest"), found=found)


def _unittest(folder: Path, path: Path, found: str) -> TestCommand:
    argv: tuple[str, ...] = ("python", "-m", "unittest", "discover", "-v")
    if path.parent != folder and not (path.parent / "__init__.py").exists():
        argv += ("-s", str(path.parent.relative_to(folder)))
    return TestCommand(runner="unittest", argv=argv, found=found)


def _find_node(folder: Path) -> TestCommand | None:
    """The test script of package.json, run by the package manager whose lock file is there."""
    text = _read(folder / "package.json")
    script = _parse_mapping(text, msgspec.json.decode, "scripts").get("test")
    if not isinstance(script, str) or not script.strip() or "no test specified" in script:
        return None
    line = _find_line(text, r'^[ \t]*"test" *:') or _find_line(text, r'"scripts"')
    wanted = next((tool for lock, tool in NODE_LOCKS.items() if (folder / lock).exists()), "npm")
    manager = wanted if shutil.which(wanted) else "npm"
    instead = "" if manager == wanted else f"; {wanted} is not installed, so npm runs it"
    found = f"package.json:{line} (scripts.test: {script[:100]}{instead})"
    return TestCommand(runner="node", argv=(manager, "run", "test"), found=found)


def _find_by_line(
    folder: Path, rows: Iterable[tuple[str, str, str, str, tuple[str, ...]]]
) -> TestCommand | None:
    """The command of the first row whose file has a line that matches its pattern."""
    for file, pattern, what, runner, argv in rows:
        if line := _find_line(_read(folder / file), pattern):
            return TestCommand(runner=runner, argv=argv, found=f"{file}:{line} ({what})")
    return None


def _find_java(folder: Path) -> TestCommand | None:
    """Maven or Gradle, through the project's own wrapper if it has one."""
    for name, wrapper, program, arguments in (
        ("pom.xml", "mvnw", "mvn", ("--batch-mode", "test")),
        ("build.gradle", "gradlew", "gradle", ("test",)),
        ("build.gradle.kts", "gradlew", "gradle", ("test",)),
    ):
        if (folder / name).is_file():
            start = f"./{wrapper}" if (folder / wrapper).is_file() else program
            found = f"{name}:1 (a project of {program})"
            return TestCommand(runner="any", argv=(start, *arguments), found=found)
    return None


DETECTORS = (
    _find_stated,
    _find_python_project,
    _find_node,
    partial(_find_by_line, rows=PACKAGES),
    _find_python_files,
    partial(_find_by_line, rows=BUILD_FILES),
    _find_java,
)
"""In order: a stray test_*.py in a JavaScript project must not hide that project's own tests."""
