"""What a Python project says it needs for its tests, and the settings of pytest."""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

from shared.projects.reading.installs import ALL, read_installs
from shared.projects.reading.locks import convert_version, read_lock, read_poetry, read_workspace_lock
from shared.projects.reading.project_files import (
    ProjectFiles,
    get_table,
    list_texts,
    list_workflows,
    read_hatch,
)
from shared.projects.reading.test_environments import TestNeeds, read_nox_needs, read_tox_needs

TESTS = frozenset(
    "test tests testing pytest unittest unittests unit-test unit-tests test-deps tests-require"
    " test-requirements test-dependencies testing-deps test-requires".split()
)
"""Names of extras and groups with what tests need, normalised."""
DEVELOPMENT = frozenset("dev devel develop development dev-dependencies devs all-dev ci".split())
"""The same for development as a whole; used if there is none for tests."""
FILES = re.compile(r"(?:.*[-_./])?tests?(?:ing)?(?:[-_/]requirements)?\.txt")
"""Requirement files with what tests need, in the folders of PLACES; all that are there are installed."""
DEVELOPMENT_FILES = re.compile(r"(?:.*[-_./])?(?:dev(?:elop(?:ment)?)?|local|ci)(?:[-_]requirements)?\.txt")
"""The same for development; the first is installed if there is none for tests."""
PLACES = ("*requirements*.txt", "requirements/*.txt", "tests/requirements.txt", "test/requirements.txt")
NATIVE = frozenset(".c .cc .cpp .cxx .h .hh .hpp .pyx .pxd .pxi .rs .f .f90 .f95 .zig .cu .m .mm .S".split())
"""Suffixes of sources that are compiled when the project is installed."""
REBUILT = ("mesonpy", "scikit_build_core", "skbuild")
"""Build backends whose editable installs refer to a folder of build products at a fixed place."""


class PythonPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed for a Python project.

    ``lock`` is the lock that is followed, ``is_package`` whether the project itself is installed. Extras
    and groups are names, ``requirements`` lines as in a requirements file, ``files`` such files, relative to
    the project, ``constraints`` bound the versions. ``optional`` files are left out if they contradict the
    rest. ``loose`` are the lines of extras and groups for development among them: each is left out if the
    whole cannot be installed. ``declared`` are the lines of the project's own table, if it cannot be
    installed, ``unread`` lines that are no requirements. ``sources`` are compiled.
    """

    name: str = ""
    lock: str = ""
    is_package: bool = False
    backend: str = ""
    requires_python: str = ""
    wanted_python: str = ""
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def without_manifests(self, lines: Iterable[str]) -> "PythonPlan":
        """The plan without what an installer parses itself: what can be read there, and in ``lines``."""
        readable = filter(is_requirement, lines)
        return msgspec.structs.replace(
            self.narrow(),
            lock="",
            is_package=False,
            extras=(),
            groups=(),
            files=(),
            requirements=tuple(dict.fromkeys((*self.declared, *self.requirements, *readable))),
        )

    def narrow(self) -> "PythonPlan":
        """The plan without what is optional or loose: what the tests themselves need."""
        return msgspec.structs.replace(
            self,
            extras=tuple(name for name in self.extras if normalise(name) in TESTS),
            groups=tuple(name for name in self.groups if normalise(name) in TESTS),
            requirements=tuple(line for line in self.requirements if line not in self.loose),
            optional=(),
            loose=(),
        )


def read_python(project_files: ProjectFiles, installs: Iterable[str] = ()) -> PythonPlan:
    """What a project says it needs; ``installs`` are the commands by which its CI installs it for tests."""
    tables = project_files.table("pyproject.toml")
    tables = {**tables, "tool": {**get_table(tables, "tool"), "hatch": read_hatch(project_files)}}
    setup = _read_setup(project_files)
    stated = _read_stated(project_files, tables, setup, read_installs(project_files, installs))
    lock = read_lock(project_files)
    project = get_table(tables, "project")
    poetry = get_table(tables, "tool", "poetry")
    own = get_table(poetry, "dependencies").get("python")
    is_package = _is_package(project_files, tables)
    requirements = (*stated.requirements, *lock.requirements)
    if not is_package:
        requirements = (*list_texts(project.get("dependencies")), *read_poetry(poetry), *requirements)
    declared = [*list_texts(project.get("dependencies"))]
    extras = get_table(project, "optional-dependencies")
    declared += [line for name in stated.extras for line in list_texts(extras.get(name))]
    declared += [line for name in stated.groups for line in _list_group(tables, name)]
    # The requirement files to be installed, and those to be tried with them
    listed = dict.fromkeys(project_files.glob(*PLACES))
    there = list(filter(FILES.fullmatch, listed))
    chosen = list(dict.fromkeys([*stated.files, *there]))
    if not chosen and not stated:
        chosen = sorted(filter(DEVELOPMENT_FILES.fullmatch, listed), key=lambda name: "dev" not in name)[:1]
    base = [name for name in ("requirements.txt", "requirements/base.txt") if project_files.has(name)][:1]
    if not base and not chosen and not is_package:
        base = project_files.glob("requirements*.txt")[:1]
    base = [name for name in base if name not in chosen]
    files, optional = (tuple(chosen), tuple(base)) if is_package else ((*base, *chosen), ())
    return PythonPlan(
        name=str(project.get("name") or poetry.get("name") or setup.get("name") or ""),
        lock=lock.name,
        is_package=is_package,
        backend=str(get_table(tables, "build-system").get("build-backend") or ""),
        requires_python=str(
            project.get("requires-python")
            or setup.get("requires_python")
            or lock.requires_python
            or (convert_version(own) if isinstance(own, str) else "")
        ),
        wanted_python=_find_wanted(project_files),
        extras=stated.extras,
        groups=stated.groups,
        requirements=tuple(line for line in dict.fromkeys(requirements) if is_requirement(line)),
        files=files if lock.name not in ("uv.lock", "Pipfile.lock") else stated.files,
        optional=optional if not lock.name else (),
        loose=tuple(_list_loose(tables, stated)),
        constraints=lock.constraints,
        declared=tuple(filter(is_requirement, declared)),
        unread=tuple(line for line in dict.fromkeys((*requirements, *declared)) if not is_requirement(line)),
        read=_list_read(project_files, tables, (*files, *optional)),
        sources=tuple(_list_native(project_files.folder)),
    )


def is_requirement(line: str) -> bool:
    """Whether pip could read ``line``, as a requirement or an option with a path."""
    try:
        Requirement(line)
    except InvalidRequirement:
        return bool(re.match(r"(-e|--editable|\.|[\w.-]+\[?.*@ )", line)) and "\0" not in line
    return True


def _is_package(files: ProjectFiles, tables: Mapping[str, Any]) -> bool:
    if get_table(tables, "tool", "uv").get("package") is False:
        return False
    poetry = get_table(tables, "tool", "poetry")
    if poetry and poetry.get("package-mode", True) is False:
        return False
    if files.has("setup.py") or "build-system" in tables:
        return True
    if "project" in tables:
        # Without a build system uv treats a project as a set of dependencies, unless its files can be found.
        name = re.sub(r"[-_.]+", "_", str(get_table(tables, "project").get("name", "")))
        return (files.folder / "src").is_dir() or files.has(f"{name}/__init__.py")
    return bool(poetry) or "name" in files.sections("setup.cfg").get("metadata", {})


def normalise(name: str) -> str:
    """A name of a package, an extra or a group as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_stated(
    files: ProjectFiles, tables: Mapping[str, Any], setup: Mapping[str, Any], ci: TestNeeds
) -> TestNeeds:
    """What CI, tox or nox install for the tests, and the extras and groups that are named for tests."""
    extras = [*get_table(tables, "project", "optional-dependencies"), *get_table(setup, "extras")]
    extras += list(get_table(tables, "tool", "poetry", "extras"))
    groups = list(get_table(tables, "dependency-groups"))
    named = {normalise(name) for name in ci.groups}
    grouped = TestNeeds(requirements=tuple(_list_groups(tables, named))) if named else TestNeeds()
    environment = ci.keep(extras, groups).join(grouped) or read_tox_needs(files)
    for_tests = TestNeeds(
        extras=tuple(name for name in extras if normalise(name) in TESTS),
        groups=tuple(name for name in groups if normalise(name) in TESTS),
        requirements=tuple(_list_groups(tables, TESTS)) + list_texts(setup.get("tests_require")),
    )
    if not environment and not for_tests:
        environment = read_nox_needs(files)
    needs = environment.join(for_tests)
    if needs or any(map(FILES.fullmatch, files.glob(*PLACES))):
        return needs.keep(extras, groups)
    return TestNeeds(
        extras=tuple(name for name in extras if normalise(name) in DEVELOPMENT),
        groups=tuple(name for name in groups if normalise(name) in DEVELOPMENT),
        requirements=tuple(_list_groups(tables, DEVELOPMENT)),
    )


def _list_loose(tables: Mapping[str, Any], stated: TestNeeds) -> Iterator[str]:
    """The lines of the extras and groups among ``stated`` that are not for tests by their names."""
    own = set(_list_groups(tables, TESTS))
    yield from (line for line in stated.requirements if line not in own)
    for name in stated.groups:
        if normalise(name) not in TESTS:
            yield from _list_group(tables, name)
    project = get_table(tables, "project")
    for name in stated.extras:
        if normalise(name) not in TESTS:
            lines = list_texts(get_table(project, "optional-dependencies").get(name))
            itself = re.compile(rf"{re.escape(str(project.get('name', '')))}\s*\[", re.IGNORECASE)
            # An extra may name others of the project, and one of a setup.py is known by its name alone.
            yield from (itself.sub(".[", line, count=1) for line in lines or (f".[{name}]",))


def _list_group(tables: Mapping[str, Any], name: str, depth: int = 0) -> Iterator[str]:
    """The lines of a dependency group, with those of the groups it includes (PEP 735)."""
    group = get_table(tables, "dependency-groups").get(name)
    for line in group if isinstance(group, list) else []:
        if isinstance(line, str):
            yield line
        elif isinstance(line, dict) and depth < 5:
            yield from _list_group(tables, str(line.get("include-group")), depth + 1)


def _list_groups(tables: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    """What the groups of Poetry, PDM, Hatch and uv's older form hold that have one of ``names``."""
    poetry = get_table(tables, "tool", "poetry")
    for name, group in get_table(poetry, "group").items():
        if {normalise(name), ALL} & set(names):
            yield from read_poetry({"dependencies": get_table(group, "dependencies")})
    if {"dev", "test", ALL} & set(names):
        # Poetry's and uv's older form knows one group only.
        yield from read_poetry({"dependencies": get_table(poetry, "dev-dependencies")})
        yield from list_texts(get_table(tables, "tool", "uv").get("dev-dependencies"))
    for name, lines in get_table(tables, "tool", "pdm", "dev-dependencies").items():
        if {normalise(name), ALL} & set(names):
            yield from (line for line in list_texts(lines) if not line.startswith("-e"))
    hatch = get_table(tables, "tool", "hatch", "envs")
    for name, environment in ((name, get_table(hatch, name)) for name in hatch):
        if normalise(name) in names or name in ("default", "hatch-test"):
            listed = (environment.get(key) for key in ("dependencies", "extra-dependencies"))
            yield from (line for lines in listed for line in list_texts(lines) if "{" not in line)


def _find_wanted(files: ProjectFiles) -> str:
    """The version in .python-version (the first), runtime.txt or .tool-versions; empty if there is none."""
    for line in files.text(".python-version").splitlines():
        if match := re.match(r"(?:cpython-|python-)?(\d+\.\d+(?:\.\d+)?)$", line.strip()):
            return match[1]
    for name in ("runtime.txt", ".tool-versions"):
        if match := re.search(r"(?m)^python[- ](\d+\.\d+(?:\.\d+)?)", files.text(name)):
            return match[1]
    wanted = files.table("Pipfile", "requires")
    return str(wanted.get("python_full_version") or wanted.get("python_version") or "")


def _read_setup(files: ProjectFiles) -> dict[str, Any]:
    """What setup.cfg and setup.py say, as far as it is written out in them."""
    sections = files.sections("setup.cfg")
    options = sections.get("options", {})
    found: dict[str, Any] = {
        "name": sections.get("metadata", {}).get("name", ""),
        "requires_python": options.get("python_requires", ""),
        "tests_require": [line for line in options.get("tests_require", "").splitlines() if line.strip()],
        "extras": dict.fromkeys(sections.get("options.extras_require", {}), ""),
    }
    called = _read_setup_call(files.module("setup.py"))
    return found | {name: value for name, value in called.items() if value}


def _read_setup_call(tree: ast.Module) -> dict[str, Any]:
    constants = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    keywords: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "setup":
            keywords |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    values = {name: constants.get(getattr(value, "id", ""), value) for name, value in keywords.items()}
    extras = values.get("extras_require")
    names = extras.keys if isinstance(extras, ast.Dict) else []
    return {
        "name": _evaluate(values.get("name")),
        "requires_python": _evaluate(values.get("python_requires")),
        "tests_require": _evaluate(values.get("tests_require")),
        "extras": {name.value: "" for name in names if isinstance(name, ast.Constant)},
    }


def _evaluate(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node else None
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None


def _list_read(project: ProjectFiles, tables: Mapping[str, Any], files: Iterable[str]) -> tuple[str, ...]:
    names = (
        *("pyproject.toml", "uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile", "Pipfile.lock"),
        *("setup.py", "setup.cfg", "tox.ini", "tox.toml", "noxfile.py", ".python-version", "runtime.txt"),
        *(
            "uv.toml",
            "hatch.toml",
            "pixi.toml",
            "MANIFEST.in",
            "pytest.ini",
            "meson.build",
            "CMakeLists.txt",
            "Cargo.toml",
            "Cargo.lock",
        ),
    )
    listed = [name for name in dict.fromkeys((*names, *files)) if project.has(name)]
    # A build backend may lie in the project itself.
    for place in list_texts(get_table(tables, "build-system").get("backend-path")):
        if ".." not in PurePosixPath(place).parts and not place.startswith("/"):
            listed += project.glob(f"{os.path.normpath(place)}/*.py")
    # Requirement files refer to others beside them.
    listed += project.glob("requirements*/*.txt", "*requirements*.txt")
    if not project.has("uv.lock") and (above := read_workspace_lock(project.folder)):
        listed.append(str(above))
    listed += [f".github/workflows/{path.name}" for path in list_workflows(project.folder)]
    listed += filter(project.has, (".gitlab-ci.yml", ".travis.yml", "appveyor.yml", "Makefile"))
    return tuple(dict.fromkeys(listed))


def _list_native(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        hidden = {"node_modules", "build", "target", "tests", "test", "docs"}
        folders[:] = sorted(name for name in folders if name not in hidden and not name.startswith("."))
        for name in sorted(files):
            if Path(name).suffix in NATIVE:
                yield str(Path(parent, name).relative_to(folder))
