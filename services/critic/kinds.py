"""The kinds of files that checkers look at, and which of them are small enough to be looked at."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from shared.contracts.checkup import NotChecked
from shared.source import MAX_CHECKED, Tree, is_vendored, read_text
from shared.text.display import count, format_list

ANY = "any"  # The kind of every file


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of files: told by the end of a name, by a pattern of the path, or by its ``#!`` line."""

    noun: str
    plural: str = ""
    suffixes: tuple[str, ...] = ()
    path: re.Pattern[str] | None = None
    program: re.Pattern[str] | None = None

    def count(self, number: int) -> str:
        """``12 Go files``."""
        return count(number, self.noun, self.plural)


def _code(name: str, suffixes: str, program: str = "") -> Kind:
    shebang = re.compile(program) if program else None
    return Kind(noun=f"{name} file", suffixes=tuple(suffixes.split()), program=shebang)


KINDS = {
    "Python": _code("Python", ".py .pyi", r"python[\d.]*"),
    "JavaScript": _code("JavaScript", ".js .mjs .cjs .jsx", "node|bun|deno"),
    "TypeScript": _code("TypeScript", ".ts .mts .cts .tsx"),
    "Go": _code("Go", ".go"),
    "Rust": _code("Rust", ".rs"),
    "Java": _code("Java", ".java"),
    "Kotlin": _code("Kotlin", ".kt .kts"),
    "Scala": _code("Scala", ".scala"),
    "C and C++": _code("C or C++", ".c .h .cc .cpp .cxx .hpp .hh"),
    "C#": _code("C#", ".cs"),
    "Ruby": _code("Ruby", ".rb", "ruby"),
    "PHP": _code("PHP", ".php", "php"),
    "Swift": _code("Swift", ".swift"),
    "Lua": _code("Lua", ".lua", "lua[\\d.]*"),
    "Perl": _code("Perl", ".pl .pm", "perl"),
    "Elixir": _code("Elixir", ".ex .exs", "elixir"),
    "Dart": _code("Dart", ".dart"),
    "shell": Kind(
        noun="shell script",
        suffixes=(".sh", ".bash", ".ksh", ".bats"),
        program=re.compile(r"(?:ba|da|k)?sh|bats"),
    ),
    "Dockerfile": Kind(
        noun="Dockerfile",
        path=re.compile(
            r"(?:.*/)?(?:(?:Dockerfile|Containerfile)(?:\.(?!dockerignore$)[\w-]+)?|[\w.-]+\.[Dd]ockerfile)"
        ),
    ),
    "workflow": Kind(
        noun="workflow file",
        path=re.compile(r"\.github/workflows/[^/]+\.ya?ml|(?:.*/)?action\.ya?ml"),
    ),
}
"""Kinds by name, in the order in which they are told."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a repository that can be checked, by their kind, and what no checker can be given."""

    tree: Tree
    kinds: dict[str, tuple[str, ...]]
    gaps: tuple[NotChecked, ...] = ()

    def files(self, names: Iterable[str]) -> list[str]:
        """The files of the kinds called ``names``."""
        return [path for name in names for path in self.kinds.get(name, ())]


def sort_files(tree: Tree) -> Sources:
    """Sort the files of ``tree``, vendored ones left out, by kind; Sources.tree has what can be checked."""
    closed = _closed_folders(tree)
    sizes = {path: -1 if path.startswith(closed) else _size(tree.root / path) for path in tree.files}
    small = tuple(path for path, size in sizes.items() if 0 <= size <= MAX_CHECKED)
    kinds: dict[str, list[str]] = {}
    for path in small:
        if not is_vendored(path):
            kinds.setdefault(ANY, []).append(path)
            if kind := find_kind(tree.root, path):
                kinds.setdefault(kind, []).append(path)
    ordered = {name: tuple(kinds[name]) for name in (ANY, *KINDS) if name in kinds}
    kept = msgspec.structs.replace(tree, files=small)
    return Sources(tree=kept, kinds=ordered, gaps=tuple(_gaps(tree, sizes)))


def _gaps(tree: Tree, sizes: dict[str, int]) -> Iterator[NotChecked]:
    """What of a tree no checker can be given, and why."""
    large = [path for path, size in sizes.items() if size > MAX_CHECKED and _is_text(tree.root, path)]
    shown = [f"{path}, {sizes[path] / 1e6:,.1f} MB" for path in large]
    if large:
        why = f"no checker is given more than {MAX_CHECKED / 1e6:g} MB"
        yield NotChecked(what=_few(len(large), "large file", shown), why=why)
    closed = [f"{path or '.'}/" for path in tree.unreadable]
    closed += [path for path, size in sizes.items() if size < 0]
    if closed:
        cure = "Check the permissions of what is meant to be looked at"
        yield NotChecked(what=format_list(closed, 3)[:500], why="checkers may not read it", cure=cure)
    if tree.unnamed:
        why = "names with line ends, or that are no UTF-8, cannot be told"
        yield NotChecked(what=count(tree.unnamed, "file"), why=why, cure="Rename them")
    if tree.cut:
        yield NotChecked(what="the other files", why=tree.cut, cure="Name a folder within it")


def _few(number: int, noun: str, shown: list[str]) -> str:
    return f"{count(number, noun)} ({format_list(shown, 3)})"[:500]


def find_kind(root: Path, path: str) -> str:
    """The kind of the file ``path`` beneath ``root``; empty for none that is known."""
    suffix = PurePosixPath(path).suffix.lower()
    for name, kind in KINDS.items():
        if suffix in kind.suffixes or (kind.path and kind.path.fullmatch(path)):
            return name
    return "" if suffix else _find_by_program(root / path)


def _find_by_program(path: Path) -> str:
    """The kind that the first line of a file without a suffix names: ``#!/usr/bin/env python3``."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        try:
            first = file.read(200).split(b"\n")[0].decode("utf-8", "replace")
        except OSError:
            return ""
    match = re.match(r"#!\s*\S*?(?:/env\s+(?:-S\s+)?)?([\w.]+)(?:\s|$)", first)
    if match is None:
        return ""
    named = (name for name, kind in KINDS.items() if kind.program and kind.program.fullmatch(match[1]))
    return next(named, "")


def _is_text(root: Path, path: str) -> bool:
    """Whether a file may be read by a checker: images and archives are not missed."""
    return bool(find_kind(root, path) or read_text(root, path, 8192))


def _closed_folders(tree: Tree) -> tuple[str, ...]:
    """The folders that Mailroom can enter because it is root, and a command in the jail cannot."""
    if os.geteuid():
        return ()
    folders = {str(above) for path in tree.files for above in PurePosixPath(path).parents} - {"."}
    return tuple(f"{folder}/" for folder in folders if not _mode(tree.root / folder) & stat.S_IXOTH)


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:  # it is gone
        return 0


def _size(path: Path) -> int:
    """The size of a file; -1 if a command in the jail (nobody if Mailroom is root) cannot read it."""
    try:
        status = path.lstat()
    except OSError:
        return -1
    readable = os.access(path, os.R_OK) if os.geteuid() else status.st_mode & stat.S_IROTH
    return status.st_size if readable else -1
