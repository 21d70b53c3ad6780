"""The files of a project, each read and parsed once: bounded, because a stranger wrote them."""

import ast
import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from shared import source
from shared.source import NO_BREAKS, as_mapping, parse_json, parse_toml, parse_yaml

LARGEST = 2_000_000  # bytes of a file that is read: people wrote it, and patterns are matched against it
LARGEST_LOCK = 20_000_000  # the same of a lock; that of a large monorepo has about 5 MB
KEPT = 64_000_000  # characters of all files of a project that are kept; those beyond are read each time
LOCK = re.compile(r".*lock.*|.*\.sum|npm-shrinkwrap\.json")
UNFORESEEN = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
"""What a reader raises that meets a file of a form nobody thought of: it ends no run, and is logged."""
MANIFESTS = """
    pyproject.toml tox.toml uv.toml uv.lock poetry.lock pdm.lock pylock.toml Pipfile Cargo.toml Cargo.lock
    package.json package-lock.json Pipfile.lock composer.json tox.ini setup.cfg pytest.ini setup.py noxfile.py
    .gitlab-ci.yml .travis.yml .circleci/config.yml .mailroom.yaml pnpm-workspace.yaml pnpm-lock.yaml
    .yarnrc.yml requirements.txt Makefile go.mod pom.xml build.gradle CMakeLists.txt meson.build Gemfile
""".split()
"""The files that are named if they cannot be read, beside the workflows of GitHub."""
PARSERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys((".toml", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile", "Cargo.lock"), parse_toml),
    **dict.fromkeys((".json", "Pipfile.lock"), parse_json),
    **dict.fromkeys((".yml", ".yaml"), parse_yaml),
    **dict.fromkeys((".ini", ".cfg", ".importlinter"), source.parse_ini),
    ".py": source.parse_module,
}
"""How a file is parsed, by its name or its suffix; any other is text."""


class ProjectFiles:
    """The files of ``folder`` and the folders beneath it, each read and parsed once.

    What is missing or cannot be read is empty, and readers go on; ``list_unreadable`` says why. A link is
    followed within ``top``, the outermost of the folders that are read together.
    """

    def __init__(self, folder: Path, top: Path | None = None, room: list[int] | None = None) -> None:
        self.folder = folder
        self._top = Path(os.path.realpath(top or folder))
        self._room = room or [KEPT]  # characters that may still be kept, here and in the folders beneath
        self._texts: dict[str, tuple[str, str]] = {}
        self._parsed: dict[str, tuple[Any, str]] = {}
        self._inner: dict[str, ProjectFiles] = {}

    def at(self, place: str) -> "ProjectFiles":
        """The files of a folder beneath this one, by its relative path."""
        place = os.path.normpath(place)
        if place == ".":
            return self
        if place not in self._inner:
            self._inner[place] = ProjectFiles(self.folder / place, self._top, self._room)
        return self._inner[place]

    def has(self, *names: str) -> bool:
        """Whether one of the files is there."""
        return any((self.folder / name).is_file() for name in names)

    def first(self, *names: str) -> str:
        """The first of the files that is there; empty if none is."""
        return next((name for name in names if self.has(name)), "")

    def glob(self, *patterns: str) -> list[str]:
        """The names of the files that match, those of one pattern sorted."""
        found = [path for pattern in patterns for path in sorted(self.folder.glob(pattern)) if path.is_file()]
        return [str(path.relative_to(self.folder)) for path in found]

    def text(self, name: str) -> str:
        """The text of a file, its line ends those of Unix."""
        return self._load(name)[0]

    def parse(self, name: str) -> Any:
        """The value in a file, None if it is malformed: parsed as its name says."""
        return self._load_value(name)[0]

    def explain(self, name: str) -> str:
        """Why a file cannot be read; empty if it can, or is not there."""
        return self._load(name)[1] or self._load_value(name)[1]

    def _load(self, name: str) -> tuple[str, str]:
        if name in self._texts:
            return self._texts[name]
        try:
            found = _read(self.folder / name, self._top), ""
        except (OSError, ValueError, RuntimeError) as error:
            found = "", _explain(error)
        if len(found[0]) <= self._room[0]:
            self._room[0] -= len(found[0])
            self._texts[name] = found
        return found

    def _load_value(self, name: str) -> tuple[Any, str]:
        if name in self._parsed:
            return self._parsed[name]
        known = PurePosixPath(name)
        parser = PARSERS.get(known.name) or PARSERS.get(known.suffix) or str
        text = self.text(name)
        try:
            found = parser(text) if text.strip() else None, ""
        except ValueError as error:
            found = None, _explain(error)
        if name in self._texts:
            self._parsed[name] = found
        return found

    def table(self, name: str, *keys: str) -> dict[str, Any]:
        """The table at ``keys`` in a TOML, JSON or YAML file; empty if there is none."""
        return get_table(self.parse(name), *keys)

    def sections(self, name: str) -> dict[str, dict[str, str]]:
        """The sections of an INI file, names as they are written."""
        return as_mapping(self.parse(name))

    def module(self, name: str) -> ast.Module:
        """The syntax tree of a Python file, which is never run; that of an empty one if it is malformed."""
        found = self.parse(name)
        return found if isinstance(found, ast.Module) else ast.Module(body=[], type_ignores=[])

    def find_line(self, name: str, pattern: str) -> int:
        """The 1-based line on which ``pattern`` first matches in a file, 0 for none."""
        return find_line(self.text(name), pattern)

    def list_unreadable(self) -> list[tuple[str, str]]:
        """Each manifest that cannot be read, and why."""
        workflows = (str(path.relative_to(self.folder)) for path in list_workflows(self.folder))
        return [(name, why) for name in (*MANIFESTS, *workflows) if (why := self.explain(name))]


def list_workflows(folder: Path) -> list[Path]:
    """The workflows of GitHub, sorted by name."""
    return sorted((folder / ".github/workflows").glob("*.y*ml"))


CI = re.compile(
    r"\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.circleci/config\.yml|azure-pipelines\.yml|\.travis\.yml|\.ci/[^/]+"
    r"|\.woodpecker(?:/[^/]+)?\.ya?ml|Jenkinsfile|\.buildkite/pipeline\.yml|appveyor\.yml|\.appveyor\.yml|bitbucket-pipelines\.yml"
)


def ci_files(paths: Iterable[str]) -> list[str]:
    """The files among ``paths`` that configure continuous integration of any kind."""
    return [path for path in paths if CI.fullmatch(path)]


def _read(path: Path, top: Path | None) -> str:
    if not path.is_symlink() and not path.exists():
        return ""
    if top is not None and not Path(os.path.realpath(path)).is_relative_to(top):
        raise ValueError("it leads out of the project")
    # Without waiting: a pipe in its place never ends.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise ValueError("it is no file")
        largest = LARGEST_LOCK if LOCK.fullmatch(path.name) else LARGEST
        if info.st_size > largest:
            raise ValueError(f"it is larger than {largest:,} bytes")
        data = file.read(largest)
    if b"\0" in data:
        raise ValueError("it is not text")
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").translate(NO_BREAKS)


def _explain(error: Exception) -> str:
    return " ".join((getattr(error, "strerror", "") or str(error)).split())[:160] or type(error).__name__


def read_text(path: Path) -> str:
    """The text of a file of this machine, which is no project's; empty if there is none."""
    with contextlib.suppress(OSError, ValueError):
        return _read(path, None)
    return ""


def parse_ini(text: str) -> dict[str, dict[str, str]]:
    """The sections of INI text that stands in another file; empty if it is malformed."""
    with contextlib.suppress(ValueError):
        return source.parse_ini(text)
    return {}


def find_line(text: str, pattern: str) -> int:
    """The 1-based line on which ``pattern`` first matches, 0 for none."""
    match = re.search(pattern, text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else 0


def get_table(tables: Mapping[str, Any] | object, *names: str) -> dict[str, Any]:
    """The table at ``names``, empty if there is none."""
    value: object = tables
    for name in names:
        value = as_mapping(value).get(name)
    return as_mapping(value)


def list_texts(value: object) -> tuple[str, ...]:
    """The texts in a list, or one text as a list; empty for anything else."""
    if isinstance(value, str):
        return (value,)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def read_hatch(files: ProjectFiles) -> dict[str, Any]:
    """The settings of Hatch, which may have a file of their own."""
    return files.table("hatch.toml") or files.table("pyproject.toml", "tool", "hatch")


def read_pixi(files: ProjectFiles) -> dict[str, Any]:
    """The settings of pixi, which may have a file of their own."""
    return files.table("pixi.toml") or files.table("pyproject.toml", "tool", "pixi")


# --- registries that a project names ----------------------------------------------------------------

OWN_FILES = tuple(
    ".npmrc .yarnrc.yml bunfig.toml requirements.txt requirements-dev.txt pyproject.toml uv.toml Pipfile "
    "pip.conf .cargo/config.toml".split()
)
"""Files of a repository that may name a registry."""
NAMED = re.compile(
    r"""(?:@[\w.-]+:)?(?:registry|npmRegistryServer|-i|(?:--)?(?:extra-)?index-url|url|index)"""
    r"""\s*[=: ]\s*["']?((?:sparse\+)?https?://[^\s"']+)"""
)
"""A line there that does."""


def list_registries(files: ProjectFiles) -> tuple[str, ...]:
    """The addresses of registries that the project's own files name."""
    lines = (line.strip() for name in OWN_FILES for line in files.text(name).splitlines())
    return tuple(match[1] for line in lines if line[:1] not in "#;" and (match := NAMED.match(line)))
