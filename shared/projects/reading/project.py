"""A project as it is read, each part once when it is first asked for; which projects a repository holds."""

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import msgspec

from shared.contracts.checkup import Statement
from shared.projects.reading.ci import Script, read_ci
from shared.projects.reading.discovery import Discovery, find_tests
from shared.projects.reading.licences import read_licence
from shared.projects.reading.manifests import Manifest, read_manifests
from shared.projects.reading.node_scripts import LOCKS as NODE_LOCKS
from shared.projects.reading.node_scripts import read_scripts
from shared.projects.reading.project_files import ProjectFiles, get_table
from shared.source import Limits, Tree, read_tree

DEPTH = 3  # How many folders deep projects are looked for
MOST = 24  # The most projects of a repository
SKIPPED = frozenset(
    "node_modules vendor third_party third-party external examples example samples demo demos docs doc bench"
    " benchmark benchmarks website fuzz fixtures testdata test-data templates template __fixtures__ build"
    " dist target venv env".split()
)
"""Folders whose manifests belong to other people's code or to material of the tests."""
LOCKS = {
    "python": ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"),
    "javascript": tuple(NODE_LOCKS),
    "rust": ("Cargo.lock",),
    "go": ("go.sum",),
}
"""A folder with one of these is a project of its own, even inside of another."""
NODE_KEYS = frozenset(("dependencies", "devDependencies", "workspaces", "packageManager", "scripts"))
PYTHON_TABLES = ("project", "build-system", "dependency-groups")
PYTHON_TOOLS = ("poetry", "pdm", "uv", "flit", "setuptools", "hatch", "pytest")
OTHERS = {
    "ruby": ("Gemfile",),
    "php": ("composer.json",),
    "elixir": ("mix.exs",),
    "dotnet": ("*.sln", "*.slnx", "*.csproj", "*.fsproj"),
    "swift": ("Package.swift",),
    "zig": ("build.zig",),
    "deno": ("deno.json", "deno.jsonc"),
    "dart": ("pubspec.yaml",),
    "haskell": ("stack.yaml", "*.cabal"),
    "scala": ("build.sbt",),
    "clojure": ("project.clj", "deps.edn"),
    "ocaml": ("dune-project",),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "make": ("GNUmakefile", "makefile", "Makefile"),
}
"""Kinds of which the tool chain alone is checked, and the names (patterns) of their manifests."""


class FoundProject(msgspec.Struct, frozen=True, kw_only=True):
    """A project in ``folder``, relative to the repository; ``kind`` is its ecosystem, or a key of OTHERS."""

    folder: str
    kind: str

    @property
    def ecosystem(self) -> str:
        """The ecosystem as ``Preparation`` names it."""
        return "other" if self.kind in OTHERS else self.kind


def find_projects(files: ProjectFiles) -> tuple[FoundProject, ...]:
    """The projects of a repository, outer ones first.

    A project inside of another of its kind counts only if it has a lock of its own, or if the outer one is
    neither a workspace, whose members its package manager installs, nor a package itself.
    """
    found: list[FoundProject] = []
    for folder in _walk(files.folder):
        place = folder.relative_to(files.folder)
        inner = files.at(str(place))
        for kind, recognise in KINDS.items():
            above = [p for p in found if p.kind == kind and place.is_relative_to(p.folder)]
            own = inner.has(*LOCKS.get(kind, ()))
            if recognise(inner) and (own or not above or _is_separate(files, inner, above[-1])):
                found.append(FoundProject(folder=str(place), kind=kind))
    main = [project for project in found if project.kind not in OTHERS]
    # A Makefile beside the manifest of a language is a shortcut to the language's own tools.
    rest = [project for project in found if project.kind in OTHERS and project.folder == "."]
    shortcuts = {"make", "just", "task"}
    return tuple([*main, *(p for p in rest if p.kind not in shortcuts or not main)][:MOST])


def _is_separate(root: ProjectFiles, inner: ProjectFiles, outer: FoundProject) -> bool:
    """Whether the project in ``inner`` is none of the parts of ``outer``, which is of its kind."""
    around = root.at(outer.folder)
    if outer.kind == "javascript":
        parts = "workspaces" in around.table("package.json")
        return not (parts or around.has("pnpm-workspace.yaml", "lerna.json"))
    if outer.kind == "python":
        tables = around.table("pyproject.toml")
        workspace = get_table(tables, "tool", "uv", "workspace")
        if workspace or "build-system" in tables or around.has("setup.py"):
            return False
        return inner.has("pyproject.toml", "setup.py", "setup.cfg")
    return outer.kind == "go"


def _walk(folder: Path, depth: int = 0) -> Iterator[Path]:
    yield folder
    if depth == DEPTH:
        return
    try:
        below = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return
    for path in below:
        if not path.name.startswith(".") and path.name not in SKIPPED:
            yield from _walk(path, depth + 1)


def _is_python(files: ProjectFiles) -> bool:
    names = ("setup.py", "setup.cfg", "Pipfile", "tox.ini", "noxfile.py", "manage.py", "pylock.toml")
    if files.has(*names) or files.glob("requirements*.txt"):
        return True
    tables = files.table("pyproject.toml")
    tools = get_table(tables, "tool")
    if any(name in tables for name in PYTHON_TABLES) or any(name in tools for name in PYTHON_TOOLS):
        return True
    return bool(files.glob("test_*.py", "tests/test_*.py", "test/test_*.py", "conftest.py"))


def _is_c(files: ProjectFiles) -> bool:
    if files.has("CMakeLists.txt", "meson.build", "configure", "configure.ac"):
        return True
    sources = (f"{place}*.{end}" for place in ("", "src/") for end in ("c", "cc", "cpp"))
    return files.has(*OTHERS["make"]) and bool(files.glob(*sources))


def _has_any(*names: str) -> Callable[[ProjectFiles], bool]:
    return lambda files: bool(files.glob(*names))


KINDS: dict[str, Callable[[ProjectFiles], bool]] = {
    "python": _is_python,
    "javascript": lambda files: not NODE_KEYS.isdisjoint(files.table("package.json")),
    "rust": lambda files: bool(files.find_line("Cargo.toml", r"^\[(package|workspace)\]")),
    "go": _has_any("go.mod", "go.work"),
    "java": _has_any("pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
    "c": _is_c,
    **{kind: _has_any(*names) for kind, names in OTHERS.items()},
}


README = re.compile(r"readme(\.md|\.markdown|\.rst|\.txt|)", re.IGNORECASE)


class Project(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What the project in a folder says of itself, read from its ``files``.

    Nothing in it is run. A part that is malformed is read as if it were empty; ``unreadable`` names its file.
    """

    files: ProjectFiles
    limits: Limits | None = None

    @cached_property
    def tree(self) -> Tree:
        """Its files by name, within ``limits``; raises ActionError if the folder cannot be read."""
        return read_tree(self.files.folder, self.limits)

    @cached_property
    def manifests(self) -> tuple[Manifest, ...]:
        """What its manifests declare."""
        return read_manifests(self.files, self.tree.files)

    @cached_property
    def licence(self) -> tuple[Statement, ...]:
        """What declares its licence; one statement that nothing does if so."""
        return tuple(read_licence(self.tree, self.manifests))

    @cached_property
    def docs(self) -> tuple[str, ...]:
        """The documents at its top that are named README, Markdown first."""
        found = {name: match[1].lower() for name in self.tree.files if (match := README.fullmatch(name))}
        order = {".md": 0, ".markdown": 0, ".rst": 1, "": 2, ".txt": 2}
        return tuple(sorted(found, key=lambda name: (order[found[name]], name)))

    @cached_property
    def parts(self) -> tuple[FoundProject, ...]:
        """The projects in it, by language: itself, and those in folders of their own."""
        return find_projects(self.files)

    @cached_property
    def locks(self) -> tuple[str, ...]:
        """The locks at its top."""
        return tuple(name for names in LOCKS.values() for name in names if self.files.has(name))

    @cached_property
    def ci(self) -> tuple[Script, ...]:
        """The scripts that its CI runs for a change."""
        return read_ci(self.files)

    @cached_property
    def scripts(self) -> dict[str, str]:
        """The scripts of package.json."""
        return read_scripts(self.files)

    @cached_property
    def tests(self) -> Discovery:
        """The commands that test it; raises ActionError if it states one that makes no sense."""
        return find_tests(self.files, self.ci)

    @property
    def unreadable(self) -> list[tuple[str, str]]:
        """Each of its manifests that cannot be read, and why."""
        return self.files.list_unreadable()


def read_project(folder: Path, limits: Limits | None = None) -> Project:
    """The project in ``folder``, of which nothing has been read yet."""
    return Project(files=ProjectFiles(folder), limits=limits)
