"""Git that reads a repository without letting the repository run anything, and the history it reads."""

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

from shared.contracts import HistoryReading, Statement
from shared.errors import ActionError
from shared.projects.reading.project_files import read_text
from shared.sandbox import CommandResult, remove_tree, run_command
from shared.skills.clones import ENVIRONMENT
from shared.skills.git import Repository, find_any

HARMLESS = frozenset(
    f"core.{name}"
    for name in (
        "autocrlf checkstat eol filemode ignorecase precomposeunicode repositoryformatversion sparsecheckout"
        " sparsecheckoutcone symlinks trustctime"
    ).split()
) | {"extensions.objectformat", "extensions.refstorage", "index.sparse"}
"""The settings of a repository that are copied: how to read its files; none names a program or a path."""
MOST_EDGES = 50  # The most commits at which a clone is cut off that are looked at
MAX_CHANGES = 200  # The most uncommitted changes that are listed one by one
CHANGES = {"M": "modified", "T": "type changed", "A": "added", "D": "deleted", "R": "renamed", "C": "copied"}


class Git:
    """Git over a repository's objects, index and work tree, but with a configuration of our own."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self.repository = repository
        self.folder = folder

    async def run(self, *arguments: str, cwd: Path, timeout: float = 60.0) -> CommandResult:
        """Run git with these arguments in ``cwd``; raises ActionError if git is not installed."""
        return await run_command(
            ["git", *arguments],
            cwd=cwd,
            timeout=timeout,
            writable=[self.folder],
            readable=self.repository.folders,
            env={**ENVIRONMENT, "GIT_DIR": str(self.folder), "GIT_WORK_TREE": str(self.repository.top)},
            output_limit=100_000_000,
            separate_errors=True,
        )

    async def read(self, *arguments: str, cwd: Path, timeout: float = 60.0) -> str:
        """git's output; raises ActionError with git's own message if it fails."""
        result = await self.run(*arguments, cwd=cwd, timeout=timeout)
        if result.timed_out:
            raise ActionError(
                f"git {_verb(arguments)} took longer than {timeout:.0f} seconds in {self.repository.top}"
            )
        if result.exit_code:
            words = result.errors.strip().splitlines() or [f"exit code {result.exit_code}"]
            raise ActionError(f"git {_verb(arguments)} failed in {self.repository.top}: {words[-1]}")
        return result.output


def _verb(arguments: tuple[str, ...]) -> str:
    return arguments[2] if arguments[0] == "-c" else arguments[0]


@contextlib.asynccontextmanager
async def read_only_git(repository: Repository) -> AsyncIterator[Git]:
    """A Git for ``repository`` that neither changes it nor runs anything it names.

    Hooks, file-system monitors, filters, text converters, pagers and helpers are all named in a repository's
    configuration, and every version of git adds some. So git gets another git folder, removed after use, with
    an allow-list of harmless settings; it refers to the repository's objects and has copies of HEAD and the
    index.
    """
    folder = Path(tempfile.mkdtemp(prefix="mailroom-git-"))
    try:
        git = Git(repository, folder)
        await asyncio.to_thread(_fill_git_folder, repository, folder)
        lines = []
        for config in (git.repository.common / "config", git.repository.private / "config.worktree"):
            if config.is_file():
                # Reading one file by name parses it and nothing else.
                listing = await git.read(
                    "config", "--file", str(config), "--no-includes", "-lz", cwd=git.folder
                )
                for name, _, value in (entry.partition("\n") for entry in listing.split("\0")):
                    section, _, key = name.partition(".")
                    quoted = (value or "true").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
                    lines += [f'[{section}]\n\t{key} = "{quoted}"\n'] if name in HARMLESS else []
        (git.folder / "config").write_text("".join(lines))
        yield git
    finally:
        await asyncio.to_thread(remove_tree, folder)


def _fill_git_folder(repository: Repository, folder: Path) -> None:
    (folder / "objects" / "info").mkdir(parents=True)
    (folder / "objects" / "info" / "alternates").write_bytes(
        os.fsencode(repository.common / "objects") + b"\n"
    )
    (folder / "info").mkdir()
    # The index keeps its time: git compares that with the files' to know which it must read.
    shared_parts = [path.name for path in repository.private.glob("sharedindex.*")]
    for name in ("HEAD", "index", "info/sparse-checkout", *shared_parts):
        _copy(repository.private / name, folder / name, repository)
    for name in ("packed-refs", "shallow", "info/exclude"):
        _copy(repository.common / name, folder / name, repository)
    for name in ("refs", "reftable"):
        if (repository.common / name).is_dir():
            (folder / name).symlink_to(repository.common / name)


def _copy(source: Path, target: Path, repository: Repository) -> None:
    # A link could lead to any file of this machine, and git quotes the lines that it cannot read.
    within = (repository.private.resolve(), repository.common.resolve())
    if source.is_file() and any(source.resolve().is_relative_to(folder) for folder in within):
        with contextlib.suppress(OSError):
            shutil.copy2(source, target)


async def read_history(
    folder: Path, limit: int = 10, *, since: str = "", until: str = "", author: str = ""
) -> HistoryReading:
    """The history of the repository ``folder`` lies in, with its latest ``limit`` commits (1 to 1000).

    ``since`` and ``until`` are dates, both included, or tags: what came after the one, up to the other;
    ``author`` is a part of a name or address. Then commits and files are those of that time and author.

    Nothing is written and nothing the repository names is run. If git cannot answer, ``problem`` says why; a
    repository without commits has 0 of them and no problem.
    """
    repository = find_any(folder)
    if repository is None:
        return HistoryReading(problem=f"{folder} is not in a git repository")
    try:
        async with read_only_git(repository) as git:
            period = await _read_period(git, folder, since, until)
            if author:
                period = ("--fixed-strings", "--regexp-ignore-case", f"--author={author}", *period)
            head = await git.run("rev-parse", "--quiet", "--verify", "HEAD", cwd=folder)
            counted = (
                "0" if head.exit_code else await git.read("rev-list", "--count", *period, "--", cwd=folder)
            )
            commits = int(counted)
            edges = await _list_edges(git, folder, repository)
            return HistoryReading(
                branch=await _read_branch(git, folder),
                commits=commits,
                changes=() if repository.bare else await _read_changes(git, folder),
                latest=await _read_log(git, folder, limit, period) if commits else (),
                since=since,
                until=until,
                author=author,
                files=await _read_files(git, folder, period, edges)
                if commits and (since or until or author)
                else (),
                cut=await _describe_cut(git, folder, edges) if edges else "",
            )
    except ActionError as error:
        return HistoryReading(problem=str(error))


async def _read_period(git: Git, folder: Path, since: str, until: str) -> tuple[str, ...]:
    """What names git the commits from one day or tag to another; raises ActionError for what is neither."""
    options, begin, end = [], [], "HEAD"
    for name, text, time in (("since", since, "00:00:00"), ("until", until, "23:59:59")):
        try:
            options += [f"--{name}={date.fromisoformat(text)}T{time}"] if text else []
        except ValueError:
            commit = await _find_tag(git, folder, text)
            if name == "since":
                begin = [f"^{commit}"]
            else:
                end = commit
    return (*options, *begin, end)


async def _find_tag(git: Git, folder: Path, text: str) -> str:
    """The commit of a tag, written with or without its v; raises ActionError with the last that there are."""
    if re.fullmatch(r"[\w][\w./+-]{0,100}", text):
        bare = text.removeprefix("v")
        for name in dict.fromkeys((text, f"v{bare}", bare)):
            tag = f"refs/tags/{name}^{{commit}}"
            found = await git.run("rev-parse", "--quiet", "--verify", "--end-of-options", tag, cwd=folder)
            if found.exit_code == 0:
                return found.output.split()[-1]
    listing = await git.read("tag", "--list", "--sort=-creatordate", cwd=folder)
    last = ", ".join(listing.split()[:5])
    there = f"the last ones are {last}" if last else "it has none (a shallow clone may lack them)"
    raise ActionError(f"{text[:40]!r} must be a date such as 2026-01-31, or a tag of the repository: {there}")


async def _read_branch(git: Git, folder: Path) -> str:
    named = await git.run("symbolic-ref", "--quiet", "--short", "HEAD", cwd=folder)
    if named.exit_code == 0:
        return named.output.strip()
    at = await git.run("rev-parse", "--short", "HEAD", cwd=folder)
    return f"detached at {at.output.strip()}" if at.exit_code == 0 else ""


async def _list_edges(git: Git, folder: Path, repository: Repository) -> frozenset[str]:
    """The commits whose parents a shallow clone lacks; none for a whole one."""
    names = await asyncio.to_thread(read_text, repository.common / "shallow")
    edges = re.findall(r"(?m)^[0-9a-f]{40,64}$", names)[:MOST_EDGES]
    # Git lists a first commit too, if it is as deep as was asked for.
    raw = {edge: await git.run("cat-file", "commit", edge, cwd=folder) for edge in edges}
    return frozenset(edge for edge, found in raw.items() if "\nparent " in found.output)


async def _describe_cut(git: Git, folder: Path, edges: frozenset[str]) -> str:
    dates = await git.read("log", "--format=%H %as", "HEAD", cwd=folder)
    known = [line.split(" ") for line in dates.splitlines()]
    first = min((date for commit, date in known if commit in edges), default="")
    since = f" begins on {first}" if first else " is not whole"
    return f"The clone is shallow: its history{since}, and what was before is not known"


async def _read_files(
    git: Git, folder: Path, period: tuple[str, ...], edges: frozenset[str]
) -> tuple[str, ...]:
    """The files that the commits of a period changed, with the lines added and removed, most first.

    What the commits in ``edges`` changed is not known: git shows all of their files as added.
    """
    form = ("-c", "core.quotePath=false", "log", "--numstat", "--no-renames", "--format=%H")
    log = await git.read(*form, *period, "--", cwd=folder)
    added, removed = Counter[str](), Counter[str]()
    commit = ""
    for line in log.splitlines():
        if line.count("\t") < 2:
            commit = line or commit
            continue
        if commit in edges:
            continue
        plus, minus, path = line.split("\t", 2)
        added[path] += int(plus) if plus.isdigit() else 0
        removed[path] += int(minus) if minus.isdigit() else 0
    ranked = sorted(filter(None, added), key=lambda path: (-added[path] - removed[path], path))
    return tuple(f"+{added[path]:,} -{removed[path]:,} {path}" for path in ranked[:MAX_CHANGES])


async def _read_changes(git: Git, folder: Path) -> tuple[str, ...]:
    # A submodule's own changes would be asked of a git that runs with the submodule's own configuration.
    listing = await git.read(
        *("-c", "core.quotePath=false", "status", "--porcelain", "--ignore-submodules=dirty", "--", "."),
        cwd=folder,
    )
    changes = [_format_change(line) for line in listing.splitlines()]
    more = len(changes) - MAX_CHANGES
    return (*changes[:MAX_CHANGES], *([f"and {more:,} more"] if more > 0 else []))


def _format_change(line: str) -> str:
    """``modified shared/errors.py`` for git's `` M shared/errors.py``."""
    code, path = line[:2], line[3:]
    if code == "??":
        return f"untracked {path}"
    if "U" in code or code in ("AA", "DD"):
        return f"in conflict {path}"
    return f"{CHANGES.get(code.strip()[:1], code.strip())} {path}"


async def _read_log(git: Git, folder: Path, limit: int, period: tuple[str, ...]) -> tuple[Statement, ...]:
    form = "%h%x1f%ad%x1f%an%x1f%s"
    log = await git.read(
        *(
            "log",
            *period,
            f"--max-count={limit}",
            "--no-show-signature",
            "--date=short",
            f"--format={form}",
            "--",
        ),
        cwd=folder,
    )
    commits = (line.split("\x1f", 3) for line in log.split("\n") if line.count("\x1f") >= 3)
    return tuple(
        Statement(text=f"{date} {subject[:200] or '(no message)'} ({author})", source=f"git:{commit}")
        for commit, date, author, subject in commits
    )
