"""Other people's source, read within bounds and never run: files of a folder, their kinds, texts parsed."""

import ast
import configparser
import json
import os
import re
import stat
import threading
import time
import tomllib
import warnings
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from shared.errors import ActionError

TEST_FOLDERS = frozenset("test tests __tests__ spec specs e2e testdata fixtures".split())
TEST_FILE = re.compile(
    r"test_.+\.(?:py|sh|c|cc|cpp)|.+_test\.(?:py|go|exs?|rb|dart|c|cc|cpp|sh)|conftest\.py"
    r"|tests?\.(?:py|rs|[cm]?[jt]sx?|rb|php|sh|c|cc|cpp)|test-.+\.(?:[cm]?[jt]sx?|sh)|.+-tests?\.(?:[cm]?[jt]sx?|sh)"
    r"|.+\.(?:test|spec)(?:-d)?\.[cm]?[jt]sx?|.+(?:Test|Tests|Spec)\.(?:java|kt|scala|cs|swift|php)|.+_spec\.rb|.+\.t|.+\.bats"
)
SHOWN_FOLDERS = frozenset("docs doc examples example samples sample demo demos tutorial tutorials".split())
SHOWN_FILE = re.compile(
    r".+\.(?:md|markdown|rst|txt|adoc|html)|.*(?:example|sample|template|dist)(?:\..*)?", re.IGNORECASE
)
_LISTED = """
    Python: .py .pyi .pyx; JavaScript: .js .mjs .cjs .jsx; TypeScript: .ts .mts .cts .tsx; Go: .go;
    Rust: .rs; C: .c .h; C++: .cc .cpp .cxx .hpp .hh .hxx; C#: .cs; Java: .java; Kotlin: .kt .kts;
    Scala: .scala; Swift: .swift; Objective-C: .m .mm; Ruby: .rb; PHP: .php; Perl: .pl .pm;
    Lua: .lua; R: .r; Julia: .jl; Haskell: .hs; OCaml: .ml .mli; Elixir: .ex .exs; Erlang: .erl;
    Clojure: .clj .cljs; Dart: .dart; Zig: .zig; Nim: .nim; Shell: .sh .bash .zsh .fish;
    PowerShell: .ps1 .psm1; SQL: .sql; HTML: .html .htm; CSS: .css .scss .less; Vue: .vue;
    Svelte: .svelte; Terraform: .tf; Protocol Buffers: .proto; Assembly: .s .asm;
    Markdown: .md .markdown; reStructuredText: .rst
"""
_ROWS = (entry.partition(":") for entry in _LISTED.split(";"))
LANGUAGES = {language.strip(): tuple(suffixes.split()) for language, _, suffixes in _ROWS}
"""The suffixes of files by their language."""
_WORDS = frozenset(("Markdown", "reStructuredText", "HTML", "CSS"))
CODE = tuple(suffix for language, ends in LANGUAGES.items() if language not in _WORDS for suffix in ends)
"""The suffixes of files that hold code."""
VENDORED = frozenset("vendor _vendor vendored third_party thirdparty extern externals".split())


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests, by its folder or its name."""
    *folders, name = path.split("/")
    return any(folder.lower() in TEST_FOLDERS for folder in folders) or bool(TEST_FILE.fullmatch(name))


def is_shown(path: str) -> bool:
    """Whether a file shows how something is done: documents, examples, templates."""
    *folders, name = path.split("/")
    return any(folder.lower() in SHOWN_FOLDERS for folder in folders) or bool(SHOWN_FILE.fullmatch(name))


def is_vendored(path: str) -> bool:
    """Whether a file is vendored third-party code."""
    *folders, name = path.split("/")
    return any(folder.lower() in VENDORED for folder in folders) or ".min." in name


T = TypeVar("T")

_quiet = threading.Lock()
MOST_VALUES = 1_000_000
"""The most values of a YAML file; references to an earlier part count as much as that part."""


def _parse(parser: Callable[[str], T], text: str) -> T:
    try:
        return parser(text)
    except ValueError:
        raise
    except Exception as error:
        # Seen: KeyError of "!!bool x", AttributeError of an INI file, RecursionError, MemoryError.
        raise ValueError(" ".join(str(error).split()) or "nested too deeply") from None


def parse_module(text: str) -> ast.Module:
    """The syntax tree of Python source; raises ValueError if this Python cannot parse it.

    Warnings of the parser are ignored. Warning filters are global to the process, hence the lock.
    """
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _parse(ast.parse, text)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML file."""
    return _parse(tomllib.loads, text)


def parse_json(text: str) -> Any:
    """The value in a JSON file."""
    return _parse(json.loads, text)


def parse_yaml(text: str, loader: Any = None) -> Any:
    """The value in a YAML file, by default read by the safe loader."""
    import yaml

    # The compiled one if there is one: a lock of 5 MB takes a minute with the other.
    loader = loader or getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    value = _parse(lambda text: yaml.load(text, Loader=loader), text)  # noqa: S506 - those named are safe
    _parse(lambda _: _count(value, {}), text)
    return value


def _count(value: object, sizes: dict[int, int]) -> int:
    """How many values there are in ``value``; ``sizes`` has those of its parts, 0 while one is counted."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in sizes:
        sizes[id(value)] = 0
        parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(_count(part, sizes) for part in parts)
    size = sizes[id(value)]
    if not 0 < size <= MOST_VALUES:
        raise ValueError("a part of it refers to itself" if not size else f"it has {size:,} values")
    return size


def parse_ini(text: str) -> dict[str, dict[str, str]]:
    """The sections of an INI file, names as they are written, values without interpolation."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, default_section="\0")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    _parse(parser.read_string, text)
    return {name: {key: value or "" for key, value in parser.items(name)} for name in parser.sections()}


def as_mapping(value: object) -> dict[str, Any]:
    """``value`` if it is a mapping, else an empty one: others may have put anything in its place."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """``value`` as a list, empty if it is none."""
    return list(value) if isinstance(value, list | tuple) else []


SKIPPED = frozenset(
    ".git .hg .svn .bzr .jj node_modules bower_components __pycache__ .tox .nox .eggs .mypy_cache "
    ".ruff_cache .pytest_cache .hypothesis .idea .gradle .terraform .next .nuxt .cache site-packages".split()
)
"""Folders with a tool's state or third-party code, which nobody maintains here."""

MAX_CHECKED = 2_000_000
"""Files of more bytes are given to no checker: they are generated or data, and could take any memory."""

NO_BREAKS = {ord(sign): " " for sign in "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
"""Line ends that Python knows and editors do not: line numbers have to be those of editors."""

Rules = tuple[tuple[str, Any], ...]
"""The .gitignore files above a place, outermost first: the folder of each, and its patterns."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on reading a folder; the defaults suit repositories of ordinary size."""

    files: int = 20_000
    depth: int = 30
    seconds: float = 10.0


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """The regular files beneath ``root`` as sorted relative paths; ``cut`` says why some are missing.

    ``unreadable`` are the folders that could not be listed, ``unnamed`` counts the files and folders left out
    because their names cannot be shown (line ends, bytes that are no UTF-8, more than 1,000 characters).
    """

    root: Path
    files: tuple[str, ...] = ()
    cut: str = ""
    unreadable: tuple[str, ...] = ()
    unnamed: int = 0


def read_tree(root: Path, limits: Limits | None = None) -> Tree:
    """List the files beneath ``root``, breadth first, so that a cut loses the deepest.

    Ignored files, links, sockets and folders of tools are left out. Raises ActionError unless
    ``root`` is the absolute path of a readable folder.
    """
    limits = limits or Limits()
    if not root.is_absolute():
        raise ActionError(
            f"{str(root)!r} is not an absolute path", "Give the whole path, such as /home/me/project"
        )
    if not root.is_dir():
        raise ActionError(f"{root} is not a folder that can be read", "Check the path and its permissions")
    root = root.resolve()
    files: list[str] = []
    unreadable: list[str] = []
    cut, unnamed = "", 0
    ends = time.monotonic() + limits.seconds
    waiting: deque[tuple[str, int, Rules]] = deque([("", 0, ())])
    while waiting and not cut:
        folder, depth, rules = waiting.popleft()
        rules = _rules_of(root, folder, rules)
        try:
            with os.scandir(root / folder) as found:
                entries = sorted(islice(found, limits.files + 1), key=lambda entry: entry.name)
        except OSError:
            entries = []
            unreadable.append(folder)
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if len(files) >= limits.files:
                cut = f"only the first {limits.files:,} files were read"
            elif time.monotonic() > ends:
                cut = f"only the {len(files):,} files found within {limits.seconds:g} s were read"
            if cut:
                break
            if not (len(path) <= 1_000 and path.isprintable()):
                unnamed += 1
            elif _is_ours(entry, path, rules):
                if not entry.is_dir(follow_symlinks=False):
                    files.append(path)
                elif depth < limits.depth:
                    waiting.append((path, depth + 1, rules))
    return Tree(
        root=root,
        files=tuple(sorted(files)),
        cut=cut,
        unreadable=tuple(sorted(unreadable)),
        unnamed=unnamed,
    )


def read_text(root: Path, path: str, limit: int = 512_000) -> str:
    """The first ``limit`` bytes of a file as text; empty if it is binary, a link or unreadable."""
    try:
        handle = os.open(root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        try:
            data = file.read(limit)
        except OSError:
            return ""
    if b"\0" in data[:8192]:
        return ""
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").translate(NO_BREAKS)


def _is_ours(entry: os.DirEntry[str], path: str, rules: Rules) -> bool:
    try:
        folder = entry.is_dir(follow_symlinks=False)
        if not folder:
            return entry.is_file(follow_symlinks=False) and not _is_ignored(path, False, rules)
    except OSError:
        return False
    if entry.name in SKIPPED or entry.name.endswith((".egg-info", ".dist-info")):
        return False
    is_environment = os.path.exists(f"{entry.path}/pyvenv.cfg")  # noqa: PTH110 - Path.exists raises if unreadable
    return not is_environment and not _is_ignored(path, True, rules)


def _rules_of(root: Path, folder: str, rules: Rules) -> Rules:
    text = read_text(root, f"{folder}/.gitignore" if folder else ".gitignore", 100_000)
    if not text.strip():
        return rules
    from pathspec import GitIgnoreSpec

    patterns = []
    for line in text.splitlines():
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        patterns.append(line)
    return (*rules, (folder, GitIgnoreSpec.from_lines(patterns)))


def _is_ignored(path: str, folder: bool, rules: Rules) -> bool:
    for base, spec in reversed(rules):
        below = path[len(base) + 1 :] if base else path
        included = spec.check_file(f"{below}/" if folder else below).include
        if included is not None:
            return bool(included)
    return False
