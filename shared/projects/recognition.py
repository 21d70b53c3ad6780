"""Which projects a repository holds, recognised by their manifests."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from shared.projects.manifests import get_table, read_json, read_text, read_toml

DEPTH = 3
"""How many folders deep projects are looked for."""
MOST = 24
"""The most projects of a repository."""
SKIPPED = frozenset(
    "node_modules vendor third_party third-party external examples example samples demo demos docs doc bench"
    " benchmark benchmarks website fuzz fixtures testdata test-data templates template __fixtures__ build"
    " dist target venv env".split()
)
"""Folders whose manifests belong to other people's code or to material of the tests."""
LOCKS = {
    "python": ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"),
    "javascript": (
        "package-lock.json",
        "npm-shrinkwrap.json",
        "pnpm-lock.yaml",
        "yarn.lock",
        "bun.lock",
        "bun.lockb",
    ),
    "rust": ("Cargo.lock",),
    "go": ("go.sum",),
}
"""A folder with one of these is a project of its own, even inside of another."""
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


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A project in ``folder``, relative to the repository; ``kind`` is its ecosystem, or a key of OTHERS."""

    folder: str
    kind: str

    @property
    def ecosystem(self) -> str:
        """The ecosystem as ``Preparation`` names it."""
        return "other" if self.kind in OTHERS else self.kind


def find_projects(root: Path) -> tuple[Project, ...]:
    """The projects beneath ``root``, outer ones first.

    A project inside of another of its kind counts only if it has a lock of its own, or if the outer one is
    neither a workspace, whose members its package manager installs, nor a package itself.
    """
    found: list[Project] = []
    for folder in _walk(root):
        place = folder.relative_to(root)
        for kind, recognise in KINDS.items():
            above = [p for p in found if p.kind == kind and place.is_relative_to(p.folder)]
            own = any((folder / lock).is_file() for lock in LOCKS.get(kind, ()))
            if recognise(folder) and (own or not above or _is_separate(root, folder, above[-1])):
                found.append(Project(folder=str(place), kind=kind))
    main = [project for project in found if project.kind not in OTHERS]
    # A Makefile beside the manifest of a language is a shortcut to the language's own tools.
    rest = [project for project in found if project.kind in OTHERS and project.folder == "."]
    shortcuts = {"make", "just", "task"}
    return tuple([*main, *(p for p in rest if p.kind not in shortcuts or not main)][:MOST])


def _is_separate(root: Path, inner: Path, outer: Project) -> bool:
    """Whether the project in ``inner`` is none of the parts of ``outer``, which is of its kind."""
    folder = root / outer.folder
    if outer.kind == "javascript":
        names = ("pnpm-workspace.yaml", "lerna.json")
        parts = "workspaces" in read_json(folder / "package.json")
        return not (parts or any((folder / name).is_file() for name in names))
    if outer.kind == "python":
        tables = read_toml(folder / "pyproject.toml")
        workspace = get_table(tables, "tool", "uv", "workspace")
        if workspace or "build-system" in tables or (folder / "setup.py").is_file():
            return False
        return any((inner / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg"))
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


def _is_python(folder: Path) -> bool:
    names = ("setup.py", "setup.cfg", "Pipfile", "tox.ini", "noxfile.py", "manage.py", "pylock.toml")
    if any((folder / name).is_file() for name in names) or any(folder.glob("requirements*.txt")):
        return True
    tables = read_toml(folder / "pyproject.toml")
    tools = get_table(tables, "tool")
    if any(name in tables for name in PYTHON_TABLES) or any(name in tools for name in PYTHON_TOOLS):
        return True
    tests = (*folder.glob("test_*.py"), *folder.glob("tests/test_*.py"), *folder.glob("test/test_*.py"))
    return bool(tests or any(folder.glob("conftest.py")))


def _is_javascript(folder: Path) -> bool:
    manifest = read_json(folder / "package.json")
    names = ("dependencies", "devDependencies", "workspaces", "packageManager", "scripts")
    return any(name in manifest for name in names)


def _is_c(folder: Path) -> bool:
    names = ("CMakeLists.txt", "meson.build", "configure", "configure.ac")
    if any((folder / name).is_file() for name in names):
        return True
    makes = any((folder / name).is_file() for name in OTHERS["make"])
    return makes and any(
        any(folder.glob(f"{place}*.{end}")) for place in ("", "src/") for end in ("c", "cc", "cpp")
    )


def _has_any(*names: str) -> Callable[[Path], bool]:
    return lambda folder: any(any(folder.glob(name)) for name in names)


def _is_rust(folder: Path) -> bool:
    return bool(re.search(r"(?m)^\[(package|workspace)\]", read_text(folder / "Cargo.toml")))


KINDS: dict[str, Callable[[Path], bool]] = {
    "python": _is_python,
    "javascript": _is_javascript,
    "rust": _is_rust,
    "go": _has_any("go.mod", "go.work"),
    "java": _has_any("pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
    "c": _is_c,
    **{kind: _has_any(*names) for kind, names in OTHERS.items()},
}
