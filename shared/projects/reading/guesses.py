"""How a project is tested that does not say so: by its make, just and script files, and by its kind."""

import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from shared.projects.reading.node_scripts import (
    CHECKERS,
    ScriptCall,
    choose_manager,
    cite_script,
    ends_in,
    find_members,
    read_scripts,
    recognise_script,
)
from shared.projects.reading.project_files import (
    ProjectFiles,
    find_line,
    get_table,
    read_hatch,
    read_pixi,
)
from shared.projects.reading.test_commands import (
    UNKNOWN,
    Found,
    Recognised,
    TestCommand,
    recognise,
    recognise_lines,
)
from shared.projects.reading.test_environments import (
    find_nox_commands,
    find_tox_commands,
    list_test_files,
    read_pytest_settings,
)
from shared.source import SKIPPED, as_mapping

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

    def inner(folder: Path) -> list[Path]:
        left_out = {*SKIPPED, *ASIDE}
        return sorted(
            path
            for path in folder.iterdir()
            if path.is_dir() and not path.is_symlink() and path.name not in left_out and path.name[0] != "."
        )

    found = _guess_folder(project)
    spoken = {command.runner for command in found}
    first = inner(project.folder)[:200]
    second = (folder for above in first for folder in inner(above)[:50])
    for place in (str(folder.relative_to(project.folder)) for folder in (*first, *second)):
        covered = [each.folder for each in found if each.folder != "."]
        for command in _guess_folder(project.at(place)):
            if command.runner not in spoken and not any(Path(place).is_relative_to(each) for each in covered):
                where = f"{place}/{command.found}"
                found.append(msgspec.structs.replace(command, found=where, folder=place))
    return found


def _guess_folder(folder: ProjectFiles) -> list[TestCommand]:
    groups = ([command for detect in group if (command := detect(folder))] for group in DETECTORS)
    return next(filter(None, groups), [])


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
    files = list_test_files(folder)
    for place in files:
        if line := folder.find_line(place, r"^ *(import .*\bpytest\b|from pytest\b)"):
            return _pytest(f"{place}:{line} (imports pytest)")
        if unittest is None and (line := folder.find_line(place, UNITTEST)):
            above, said = Path(place).parent, f"{place}:{line} (imports unittest)"
            apart = above != Path() and not folder.has(f"{above}/__init__.py")
            words = ("python", "-m", "unittest", "discover", *(("-s", str(above)) if apart else ()))
            unittest = TestCommand(runner="unittest", argv=words, found=said)
    if unittest:
        return unittest
    for place in files:
        if line := folder.find_line(place, r"^(async )?def test_|^class Test"):
            return _pytest(f"{place}:{line} (a test function)")
    return None


def _pytest(found: str) -> TestCommand:
    return TestCommand(runner="pytest", argv=("python", "-m", "pytest"), found=found)


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
    if not (line := folder.find_line("Cargo.toml", r"^\[(package|workspace)\]")):
        return None
    every = ("--workspace",) if folder.find_line("Cargo.toml", r"^\[workspace\]") else ()
    found = f"Cargo.toml:{line} (a Rust package)"
    return TestCommand(runner="cargo", argv=("cargo", "test", *every), found=found)


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
        places = ("test/CMakeLists.txt", "tests/CMakeLists.txt")
        inner = any(folder.find_line(place, r"add_test|discover_tests") for place in places)
        line = folder.find_line("CMakeLists.txt", r"(?i)add_subdirectory *\( *tests?\b") if inner else 0
    if not line:
        return None
    return TestCommand(runner="ctest", argv=("ctest",), found=f"CMakeLists.txt:{line} (tests of CTest)")


def option_names(folder: ProjectFiles) -> tuple[str, ...]:
    """The options of a CMake project that its tests are built with and that are off unless they are set."""
    return tuple(f"-D{name}=ON" for name in dict.fromkeys(TEST_OPTION.findall(folder.text("CMakeLists.txt"))))


def _find_meson(folder: ProjectFiles) -> TestCommand | None:
    places = folder.glob("meson.build", "**/meson.build")
    if not folder.has("meson.build") or not any(folder.find_line(each, r"^\s*test\(") for each in places):
        return None
    setup = "meson setup build-test || meson setup --reconfigure build-test"
    found = "meson.build:1 (a Meson project)"
    return TestCommand(runner="any", argv=("meson", "test", "-C", "build-test"), found=found, before=(setup,))


MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def _find_make(folder: ProjectFiles) -> TestCommand | None:
    for name in MAKEFILES:
        for target in ("test", "check"):
            line = folder.find_line(name, rf"^{target} *:(?![:=])")
            if line and _may_test(folder.text(name), target):
                found = f"{name}:{line} (the target {target})"
                names = frozenset({target})
                return TestCommand(runner="any", argv=("make", target), found=found, names=names)
    made = folder.text("Makefile.in")
    if folder.has("configure", "configure.ac") and (not made or re.search(r"(?m)^check *:", made)):
        before = ("test -x configure || autoreconf -fi", "./configure", "make")
        found = f"{folder.first('configure.ac', 'configure')}:1 (Autotools)"
        return TestCommand(runner="any", argv=("make", "check"), found=found, before=before)
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
    if tests := folder.glob("*.bats", "test/*.bats", "tests/*.bats", "test/**/*.bats", "tests/**/*.bats"):
        place = Path(tests[0]).parts[0] if "/" in tests[0] else "."
        argv = ("bats", *(("--recursive",) if tests[0].count("/") > 1 else ()), place)
        return TestCommand(runner="any", argv=argv, found=f"{tests[0]}:1 (tests of Bats)")
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


TEST_TARGET = re.compile(r"(?:^|[-_./])(?:tests?|check|ci|unit|spec|unittests?)(?:$|[-_./])|^\w*tests?$")
NO_TEST_TARGET = re.compile(
    r"lint|format|fmt|bench|demo|docs?\b|type|clean|install|build|deps|style|mypy|cov(erage)?[-_]report|setup|perf"
    r"|dist|docker|image|push"
)
TRIVIAL = re.compile(r"(?i)install|init|dep|venv|env|lint|fmt|format|vet|tidy|check|clean|setup|test|FORCE")
"""Targets that others need and that build nothing that tests do."""
JUSTFILES = ("justfile", "Justfile", ".justfile")
SUBSTITUTED = frozenset({"pytest", "unittest", "django", "cargo", "go", "node"})
"""Runners that need nothing of make: what a target runs of them is run as it is."""


def resolve(command: Recognised, files: ProjectFiles) -> list[Found] | None:
    """The test commands that an indirect one comes to; None if its file does not say."""
    reader = {
        "tox": find_tox_commands,
        "nox": find_nox_commands,
        "make": _resolve_make,
        "script": _resolve_script,
    }
    return reader[command.indirect](command.words, files)


BRANCHES = re.compile(r"(?m)^\s*(?:for|while|until|case|function|trap)\b|^\s*[\w-]+ *\( *\)")


def read_script(files: ProjectFiles, command: Recognised) -> list[Found]:
    """The test commands that a shell script of the project comes to; empty if it is none, or not plain.

    Runners report what they run, scripts do not.
    """
    words = command.words[1:] if command.words[0] in ("sh", "bash") else command.words
    text = files.text(words[0].removeprefix("./")) if command.runner == "any" and len(words) == 1 else ""
    if not re.match(r"#!.*\b(?:ba|da)?sh\b", text) or BRANCHES.search(text):
        return []
    found = list(recognise_lines(text, words[0].removeprefix("./"), 1))
    return found if all(each.command.runner in SUBSTITUTED for each in found) else []


# make and just


def _resolve_make(words: tuple[str, ...], files: ProjectFiles) -> list[Found] | None:
    options = dict(itertools.pairwise(words))
    inner = options.get("-C", options.get("--directory", ""))
    place = files.at(inner) if inner and not inner.startswith("/") else files
    name = place.first(*(JUSTFILES if words[0] == "just" else MAKEFILES))
    targets = [word for word in words[1:] if not word.startswith("-") and "=" not in word and word != inner]
    if not name:
        return None
    text = place.text(name)
    found: list[Found] = []
    for target in targets:
        commands, needs_more = _read_target(text, name, target, depth=4)
        substituted = [each for each in commands if each.command.runner in SUBSTITUTED]
        if substituted and not needs_more:
            found += substituted
        elif commands or _may_test(text, target):
            program = (words[0], target)
            line = find_line(text, rf"^{re.escape(target)}\b[^=\n]*:") or 1
            command = Recognised(runner="any", words=program, names=frozenset({target}))
            if find_line(text, rf"^{re.escape(target)}\b[^=\n]*:") or "include" in text or "%" in text:
                found.append(Found(command=command, source=f"{name}:{line}"))
    return [msgspec.structs.replace(each, folder=f"{inner}/{each.folder}".strip("/")) for each in found]


def _may_test(text: str, target: str) -> bool:
    """Whether a target in which no test command is known tests by its name, and not only by linters."""
    recipe = re.search(rf"(?m)^{re.escape(target)} *:(?!=)[^\n]*\n((?:\t.*\n?)+)", text)
    words = (line.lstrip("\t @-").split() for line in recipe[1].splitlines()) if recipe else ()
    heads = {each[0].rpartition("/")[2] for each in words if each}
    named = TEST_TARGET.search(target) and not NO_TEST_TARGET.search(target)
    return bool(named) and (not heads or not heads <= CHECKERS)


def _read_target(text: str, file: str, target: str, depth: int) -> tuple[list[Found], bool]:
    """The test commands of a target and of those it needs, and whether these build something first."""
    match = re.search(
        rf"^{re.escape(target)}(?: [^:=\n]*)?:(?![:=])([^#\n]*)\n((?:(?:[\t ].*)?\n|#.*\n)*)",
        f"{text}\n",
        re.MULTILINE,
    )
    if match is None or depth <= 0:
        return [], False
    first = text.count("\n", 0, match.start(2)) + 1
    recipe = re.sub(r"^[\t ]+[@+-]*", "", match[2], flags=re.MULTILINE)
    recipe = re.sub(r"\$[({](?!shell)([\w-]+)[)}]", r"${\1}", recipe).replace("$$", "$")
    found, builds = [], False
    for needed in match[1].split():
        inner, more = _read_target(text, file, needed, depth - 1)
        found += inner
        builds = builds or more or (not inner and not TRIVIAL.search(needed))
    variables = dict(re.findall(r"^(?:export )?([\w-]+)\s*[:?]?=[ \t]*(.*)$", text, re.MULTILINE))
    variables = {"MAKE": "make", **{key: value for key, value in variables.items() if "$" not in value}}
    # Make replaces them before the shell splits words.
    recipe = re.sub(r"\$\{(\w+)\}", lambda name: variables.get(name[1], name[0]), recipe)
    for each in recognise_lines(recipe, file, first, variables):
        if each.command.indirect == "make":
            for word in each.command.words[1:]:
                inner, more = _read_target(text, file, word, depth - 1)
                found += inner
                builds = builds or more
        else:
            found.append(each)
    return found, builds


# the scripts of hatch, pdm, poe and pixi


def _resolve_script(words: tuple[str, ...], files: ProjectFiles) -> list[Found] | None:
    rest = [word for word in words[1:] if not word.startswith("-") and UNKNOWN not in word]
    rest = rest[2:] if rest[:1] == ["env"] else rest
    if words[0] == "hatch" and rest[:1] == ["test"]:
        # Its own options choose environments, repeat and measure; only places of tests are pytest's.
        places = [word for word in rest[1:] if files.has(word) or (files.folder / word).is_dir()]
        command = recognise(["python", "-m", "pytest", *places])
        return [Found(command=command, source="pyproject.toml:1")] if command else None
    rest = rest[1:] if rest[:1] == ["run"] else rest
    if words[0] == "pixi" and "run" in words:  # options of its own have values
        rest = list(words[words.index("run") + 1 :])
        while rest and rest[0].startswith("-"):
            rest = rest[1 if "=" in rest[0] else 2 :]
    if not rest:
        return None
    name = rest[0].rpartition(":")[2]
    scripts: dict[str, Any] = {
        **files.table("pyproject.toml", "tool", "pdm", "scripts"),
        **files.table("pyproject.toml", "tool", "poe", "tasks"),
    }
    pixi = read_pixi(files)
    for feature in (pixi, *map(as_mapping, get_table(pixi, "feature").values())):
        scripts |= get_table(feature, "tasks")
    for environment in get_table(read_hatch(files), "envs").values():
        if isinstance(environment, dict) and isinstance(environment.get("scripts"), dict):
            scripts = {**environment["scripts"], **scripts}
    body = _script_text(scripts.get(name), scripts)
    if not body:
        recognised = recognise([name, *rest[1:]])
        return [Found(command=recognised, source="pyproject.toml:1")] if recognised else None
    line = files.find_line("pyproject.toml", rf'^\s*"?{re.escape(name)}"? *=') or 1
    body = re.sub(r"\{args(?::([^{}]*))?\}", lambda match: match[1] or "", body)
    found = list(recognise_lines(body, "pyproject.toml", line))
    return [msgspec.structs.replace(each, source=f"pyproject.toml:{line}") for each in found]


def _script_text(value: Any, scripts: Mapping[str, Any], depth: int = 3) -> str:
    if isinstance(value, dict):
        named = ("cmd", "shell", "composite", "sequence", "depends-on", "depends_on")
        value = next((value[key] for key in named if value.get(key)), None)
    if isinstance(value, str):
        words = value.split(maxsplit=1)
        inner = scripts.get(words[0]) if words and depth else None
        return _script_text(inner, scripts, depth - 1) if inner else value
    if isinstance(value, list):
        return "\n".join(_script_text(each, scripts, depth - 1) for each in value if depth)
    return ""
