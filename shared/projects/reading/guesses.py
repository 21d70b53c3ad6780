"""How a project is usually tested, read off its files: for one that neither states it nor has a CI."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from shared.projects.reading.node_scripts import (
    ScriptCall,
    choose_manager,
    cite_script,
    ends_in,
    find_members,
    read_scripts,
    recognise_script,
)
from shared.projects.reading.project_files import ProjectFiles
from shared.projects.reading.pytest_settings import read_pytest_settings
from shared.projects.reading.test_commands import TestCommand
from shared.source import SKIPPED

PYTHON_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
ASIDE = frozenset(
    "node_modules venv examples example fixtures fixture docs doc vendor third_party testdata bench"
    " benchmarks templates samples demo demos build dist target".split()
)
"""Folders whose projects are not the repository's own, or not tested for it."""
UNITTEST = r"^ *(import .*|from )\bunittest\b(?!\.mock)"
CTEST = r"(?i)^[ \t]*(enable_testing *\(|include *\( *CTest\b)"
TEST_OPTION = re.compile(
    r"(?im)^[ \t]*(?:cmake_dependent_)?option *\( *"
    r"(\w*(?:BUILD_TESTS?|TESTING|_TESTS?|BUILD_UNIT\w*)) +[^)]*?\bOFF *\)"
)


def guess_tests(project: ProjectFiles) -> list[TestCommand]:
    """The usual commands for ``project``: one for each language, then those of folders in other languages.

    Folders two levels deep are looked at for languages that the folder itself has no tests in.
    """
    found = _guess_folder(project, ".")
    spoken = {command.runner for command in found}
    for place in _list_subfolders(project.folder):
        covered = [each.folder for each in found if each.folder != "."]
        for command in _guess_folder(project.at(place), place):
            if command.runner not in spoken and not any(Path(place).is_relative_to(each) for each in covered):
                found.append(command)
    return found


def _list_subfolders(project: Path) -> Iterator[str]:
    def inner(folder: Path) -> list[Path]:
        left_out = {*SKIPPED, *ASIDE}
        return sorted(
            path
            for path in folder.iterdir()
            if path.is_dir() and not path.is_symlink() and path.name not in left_out and path.name[0] != "."
        )

    first = inner(project)[:200]
    second = (folder for above in first for folder in inner(above)[:50])
    yield from (str(folder.relative_to(project)) for folder in (*first, *second))


def _guess_folder(folder: ProjectFiles, place: str) -> list[TestCommand]:
    for group in DETECTORS:
        if found := [command for detect in group if (command := detect(folder))]:
            return [_place(command, place) for command in found]
    return []


def _place(command: TestCommand, place: str) -> TestCommand:
    if place == ".":
        return command
    return msgspec.structs.replace(command, found=f"{place}/{command.found}", folder=place)


def _find_python_project(folder: ProjectFiles) -> TestCommand | None:
    """Pytest if it is configured, else what the test files of a Python project are written for."""
    if settings := read_pytest_settings(folder):
        return _pytest(f"{settings.place} (settings of pytest)")
    if folder.has(*PYTHON_PROJECT):
        return _find_python_files(folder)
    return None


def _find_python_files(folder: ProjectFiles) -> TestCommand | None:
    """What the test files in ``folder`` are written for: Django, pytest or unittest."""
    if line := folder.find_line("manage.py", r"DJANGO_SETTINGS_MODULE"):
        argv = ("python", "manage.py", "test")
        return TestCommand(runner="django", argv=argv, found=f"manage.py:{line} (a Django project)")
    unittest = None
    for place in _list_test_files(folder):
        if line := folder.find_line(place, r"^ *(import .*\bpytest\b|from pytest\b)"):
            return _pytest(f"{place}:{line} (imports pytest)")
        if unittest is None and (line := folder.find_line(place, UNITTEST)):
            unittest = _unittest(folder, Path(place), f"{place}:{line} (imports unittest)")
    if unittest:
        return unittest
    for place in _list_test_files(folder):
        if line := folder.find_line(place, r"^(async )?def test_|^class Test"):
            return _pytest(f"{place}:{line} (a test function)")
    return None


def _list_test_files(folder: ProjectFiles) -> list[str]:
    patterns = ("conftest.py", "test*.py", "*_test.py")
    below = (f"{place}/**/{pattern}" for place in ("tests", "test", "src") for pattern in patterns)
    return folder.glob(*patterns, *below)


def _pytest(found: str) -> TestCommand:
    return TestCommand(runner="pytest", argv=("python", "-m", "pytest"), found=found)


def _unittest(folder: ProjectFiles, path: Path, found: str) -> TestCommand:
    argv: tuple[str, ...] = ("python", "-m", "unittest", "discover")
    if path.parent != Path() and not folder.has(f"{path.parent}/__init__.py"):
        argv += ("-s", str(path.parent))
    return TestCommand(runner="unittest", argv=argv, found=found)


def _find_node(folder: ProjectFiles) -> TestCommand | None:
    """The test script of package.json, run by the package manager whose lock file is there."""
    scripts = read_scripts(folder)
    commands = recognise_script(scripts, "test")
    if find_members(folder, ScriptCall(manager="npm", name="test")):
        return None  # those of the packages are found in their folders
    if not commands or any(command.browser for command in commands):
        return None
    manager = choose_manager(folder).name
    return TestCommand(
        runner="node",
        argv=(manager, "run", "test"),
        found=f"{cite_script(folder, 'test')} (scripts.test: {scripts['test'][:100]})",
        starts=ends_in(scripts, "test"),
        names=frozenset(" ".join(each.words) for each in commands),
    )


def _find_cargo(folder: ProjectFiles) -> TestCommand | None:
    line = folder.find_line("Cargo.toml", r"^\[(package|workspace)\]")
    if not line:
        return None
    every = ("--workspace",) if folder.find_line("Cargo.toml", r"^\[workspace\]") else ()
    return TestCommand(
        runner="cargo", argv=("cargo", "test", *every), found=f"Cargo.toml:{line} (a Rust package)"
    )


def _find_go(folder: ProjectFiles) -> TestCommand | None:
    line = folder.find_line("go.mod", r"^module\s")
    argv = ("go", "test", "./...")
    return TestCommand(runner="go", argv=argv, found=f"go.mod:{line} (a Go module)") if line else None


def _find_java(folder: ProjectFiles) -> TestCommand | None:
    """Maven or Gradle, through the project's own wrapper if it has one."""
    for name, wrapper, program, arguments in (
        ("pom.xml", "mvnw", "mvn", ("--batch-mode", "test")),
        ("build.gradle", "gradlew", "gradle", ("test",)),
        ("build.gradle.kts", "gradlew", "gradle", ("test",)),
    ):
        if folder.has(name):
            start = f"./{wrapper}" if folder.has(wrapper) else program
            found = f"{name}:1 (a project of {program})"
            return TestCommand(runner="java", argv=(start, *arguments), found=found)
    return None


def _find_ctest(folder: ProjectFiles) -> TestCommand | None:
    line = folder.find_line("CMakeLists.txt", CTEST)
    if not line:  # it may stand in the folder of the tests alone
        inner = [
            name
            for name in ("test", "tests")
            if folder.find_line(f"{name}/CMakeLists.txt", r"add_test|discover_tests")
        ]
        line = folder.find_line("CMakeLists.txt", r"(?i)add_subdirectory *\( *tests?\b") if inner else 0
    if not line:
        return None
    return TestCommand(runner="ctest", argv=("ctest",), found=f"CMakeLists.txt:{line} (tests of CTest)")


def option_names(folder: ProjectFiles) -> tuple[str, ...]:
    """The options of a CMake project that its tests are built with and that are off unless they are set."""
    return tuple(f"-D{name}=ON" for name in dict.fromkeys(TEST_OPTION.findall(folder.text("CMakeLists.txt"))))


def _find_meson(folder: ProjectFiles) -> TestCommand | None:
    if not folder.has("meson.build"):
        return None
    setup = "meson setup build-test || meson setup --reconfigure build-test"
    found = "meson.build:1 (a Meson project)"
    return TestCommand(runner="any", argv=("meson", "test", "-C", "build-test"), found=found, before=(setup,))


def _find_make(folder: ProjectFiles) -> TestCommand | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        for target in ("test", "check"):
            if line := folder.find_line(name, rf"^{target} *:(?![:=])"):
                found = f"{name}:{line} (the target {target})"
                return TestCommand(
                    runner="any", argv=("make", target), found=found, names=frozenset({target})
                )
    if folder.has("configure", "configure.ac"):
        before = ("test -x configure || autoreconf -fi", "./configure", "make")
        place = folder.first("configure.ac", "configure")
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


def _find_other(folder: ProjectFiles) -> TestCommand | None:
    for name, argv in OTHER_FILES:
        if folder.has(name):
            return TestCommand(runner="any", argv=argv, found=f"{name}:1 (a project of {argv[0]})")
    return None


Detector = Callable[[ProjectFiles], TestCommand | None]
DETECTORS: tuple[tuple[Detector, ...], ...] = (
    (_find_python_project, _find_node, _find_cargo, _find_go),
    (_find_java,),
    (_find_ctest,),
    (_find_python_files,),
    (_find_meson, _find_make),
    (_find_other,),
)
"""In groups: the first group with a command counts. A stray test_*.py must not hide a project's own tests."""
