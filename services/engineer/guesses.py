"""How a project is usually tested, read off its files: for one that neither states it nor has a CI."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from services.engineer.npm_scripts import (
    ScriptCall,
    cite_script,
    ends_in,
    find_members,
    read_scripts,
    recognise_script,
)
from services.engineer.project_files import IGNORED
from services.engineer.project_text import find_line, read_json, read_start
from services.engineer.runners import TestCommand

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
ASIDE = frozenset(
    "node_modules examples example fixtures fixture docs doc vendor third_party testdata bench benchmarks"
    " templates samples demo demos build dist target".split()
)
"""Folders whose projects are not the repository's own, or not tested for it."""
CTEST = r"(?i)^[ \t]*(enable_testing *\(|include *\( *CTest\b)"
TEST_OPTION = re.compile(
    r"(?im)^[ \t]*(?:cmake_dependent_)?option *\( *"
    r"(\w*(?:BUILD_TESTS?|TESTING|_TESTS?|BUILD_UNIT\w*)) +[^)]*?\bOFF *\)"
)


def guess_tests(project: Path) -> list[TestCommand]:
    """The usual commands for ``project``: one for each language, then those of folders in other languages.

    Folders two levels deep are looked at for languages that the folder itself has no tests in.
    """
    found = _guess_folder(project, project)
    spoken = {command.runner for command in found}
    for folder in _subfolders(project):
        covered = [project / each.folder for each in found if each.folder != "."]
        for command in _guess_folder(folder, project):
            if command.runner not in spoken and not any(folder.is_relative_to(other) for other in covered):
                found.append(command)
    return found


def _subfolders(project: Path) -> Iterator[Path]:
    def inner(folder: Path) -> list[Path]:
        left_out = {*IGNORED, *ASIDE}
        return sorted(
            path
            for path in folder.iterdir()
            if path.is_dir() and not path.is_symlink() and path.name not in left_out and path.name[0] != "."
        )

    first = inner(project)[:200]
    yield from first
    for folder in first:
        yield from inner(folder)[:50]


def _guess_folder(folder: Path, project: Path) -> list[TestCommand]:
    place = str(folder.relative_to(project))
    for group in DETECTORS:
        if found := [command for detect in group if (command := detect(folder))]:
            return [_place(command, place) for command in found]
    return []


def _place(command: TestCommand, place: str) -> TestCommand:
    if place == ".":
        return command
    return msgspec.structs.replace(command, found=f"{place}/{command.found}", folder=place)


def configures_pytest(folder: Path) -> bool:
    """Whether pytest, started in ``folder``, finds settings there."""
    return bool(_find_pytest_settings(folder))


def _find_pytest_settings(folder: Path) -> str:
    """Where pytest's settings in ``folder`` are, as ``file:line``; empty if there are none."""
    found = ((name, find_line(read_start(folder / name), form)) for name, form in PYTEST_SETTINGS.items())
    return next((f"{name}:{line}" for name, line in found if line), "")


def _find_python_project(folder: Path) -> TestCommand | None:
    """Pytest if it is configured, else what the test files of a Python project are written for."""
    if settings := _find_pytest_settings(folder):
        return _pytest(f"{settings} (settings of pytest)")
    if any((folder / name).is_file() for name in PYTHON_PROJECT):
        return _find_python_files(folder)
    return None


def _find_python_files(folder: Path) -> TestCommand | None:
    """What the test files in ``folder`` are written for: Django, pytest or unittest."""
    if line := find_line(read_start(folder / "manage.py"), r"DJANGO_SETTINGS_MODULE"):
        argv = ("python", "manage.py", "test")
        return TestCommand(runner="django", argv=argv, found=f"manage.py:{line} (a Django project)")
    unittest = None
    for path in _test_files(folder):
        text, place = read_start(path), path.relative_to(folder)
        if line := find_line(text, r"^ *(import .*\bpytest\b|from pytest\b)"):
            return _pytest(f"{place}:{line} (imports pytest)")
        if unittest is None and (line := find_line(text, r"^ *(import .*|from )\bunittest\b(?!\.mock)")):
            unittest = _unittest(folder, path, f"{place}:{line} (imports unittest)")
    if unittest:
        return unittest
    for path in _test_files(folder):
        if line := find_line(read_start(path), r"^(async )?def test_|^class Test"):
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
    argv: tuple[str, ...] = ("python", "-m", "unittest", "discover")
    if path.parent != folder and not (path.parent / "__init__.py").exists():
        argv += ("-s", str(path.parent.relative_to(folder)))
    return TestCommand(runner="unittest", argv=argv, found=found)


def _find_node(folder: Path) -> TestCommand | None:
    """The test script of package.json, run by the package manager whose lock file is there."""
    scripts = read_scripts(folder)
    commands = recognise_script(scripts, "test")
    if find_members(folder, ScriptCall(manager="npm", name="test")):
        return None  # those of the packages are found in their folders
    if not commands or any(command.browser for command in commands):
        return None
    manager = choose_manager(folder)
    return TestCommand(
        runner="node",
        argv=(manager, "run", "test"),
        found=f"{cite_script(folder, 'test')} (scripts.test: {scripts['test'][:100]})",
        starts=ends_in(scripts, "test"),
        names=frozenset(" ".join(each.words) for each in commands),
    )


def choose_manager(folder: Path) -> str:
    """The package manager of the project: the one it names, or whose lock file is there; else npm."""
    named = str(read_json(folder / "package.json").get("packageManager", "")).partition("@")[0]
    locked = next((tool for lock, tool in NODE_LOCKS.items() if (folder / lock).exists()), "npm")
    return named if named in ("npm", "pnpm", "yarn", "bun") else locked


def _find_cargo(folder: Path) -> TestCommand | None:
    text = read_start(folder / "Cargo.toml")
    line = find_line(text, r"^\[(package|workspace)\]")
    if not line:
        return None
    every = ("--workspace",) if find_line(text, r"^\[workspace\]") else ()
    return TestCommand(
        runner="cargo", argv=("cargo", "test", *every), found=f"Cargo.toml:{line} (a Rust package)"
    )


def _find_go(folder: Path) -> TestCommand | None:
    line = find_line(read_start(folder / "go.mod"), r"^module\s")
    argv = ("go", "test", "./...")
    return TestCommand(runner="go", argv=argv, found=f"go.mod:{line} (a Go module)") if line else None


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
            return TestCommand(runner="java", argv=(start, *arguments), found=found)
    return None


def _find_ctest(folder: Path) -> TestCommand | None:
    text = read_start(folder / "CMakeLists.txt")
    line = find_line(text, CTEST)
    if not line and text:  # it may stand in the folder of the tests alone
        inner = [
            name
            for name in ("test", "tests")
            if find_line(read_start(folder / name / "CMakeLists.txt"), r"add_test|discover_tests")
        ]
        line = find_line(text, r"(?i)add_subdirectory *\( *tests?\b") if inner else 0
    if not line:
        return None
    return TestCommand(runner="ctest", argv=("ctest",), found=f"CMakeLists.txt:{line} (tests of CTest)")


def option_names(folder: Path) -> tuple[str, ...]:
    """The options of a CMake project that its tests are built with and that are off unless they are set."""
    return tuple(
        f"-D{name}=ON" for name in dict.fromkeys(TEST_OPTION.findall(read_start(folder / "CMakeLists.txt")))
    )


def _find_meson(folder: Path) -> TestCommand | None:
    if not (folder / "meson.build").is_file():
        return None
    setup = "meson setup build-test || meson setup --reconfigure build-test"
    found = "meson.build:1 (a Meson project)"
    return TestCommand(runner="any", argv=("meson", "test", "-C", "build-test"), found=found, before=(setup,))


def _find_make(folder: Path) -> TestCommand | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        for target in ("test", "check"):
            if line := find_line(read_start(folder / name), rf"^{target} *:(?![:=])"):
                found = f"{name}:{line} (the target {target})"
                return TestCommand(
                    runner="any", argv=("make", target), found=found, names=frozenset({target})
                )
    if (folder / "configure").is_file() or (folder / "configure.ac").is_file():
        before = ("test -x configure || autoreconf -fi", "./configure", "make")
        place = "configure.ac" if (folder / "configure.ac").is_file() else "configure"
        return TestCommand(
            runner="any", argv=("make", "check"), found=f"{place}:1 (Autotools)", before=before
        )
    return None


OTHER_FILES = (
    ("mix.exs", ("mix", "test")),
    ("Package.swift", ("swift", "test")),
    ("phpunit.xml", ("vendor/bin/phpunit",)),
    ("phpunit.xml.dist", ("vendor/bin/phpunit",)),
    (".rspec", ("bundle", "exec", "rspec")),
    ("Rakefile", ("bundle", "exec", "rake", "test")),
    ("build.zig", ("zig", "build", "test")),
    ("deno.json", ("deno", "test")),
)


def _find_other(folder: Path) -> TestCommand | None:
    for name, argv in OTHER_FILES:
        if (folder / name).is_file():
            return TestCommand(runner="any", argv=argv, found=f"{name}:1 (a project of {argv[0]})")
    return None


Detector = Callable[[Path], TestCommand | None]
DETECTORS: tuple[tuple[Detector, ...], ...] = (
    (_find_python_project, _find_node, _find_cargo, _find_go),
    (_find_java,),
    (_find_ctest,),
    (_find_python_files,),
    (_find_meson, _find_make),
    (_find_other,),
)
"""In groups: the first group with a command counts. A stray test_*.py must not hide a project's own tests."""
