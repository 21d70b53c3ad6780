"""What git says about a repository: its branch, its uncommitted changes, its latest commits."""

from pathlib import Path

from services.engineer.git import Git, borrow
from shared.contracts import HistoryReading, Statement
from shared.errors import ActionError
from shared.skills.repository import find_any

MAX_CHANGES = 200
"""The most uncommitted changes that are listed one by one."""

CHANGES = {"M": "modified", "T": "type changed", "A": "added", "D": "deleted", "R": "renamed", "C": "copied"}


async def read_history(folder: Path, limit: int = 10) -> HistoryReading:
    """The history of the repository ``folder`` lies in, with its latest ``limit`` commits (1 to 1000).

    Nothing is written and nothing the repository names is run. What keeps git from answering is told in
    ``problem``; a repository without commits has 0 of them and no problem.
    """
    repository = find_any(folder)
    if repository is None:
        return HistoryReading(problem=f"{folder} is not in a git repository")
    try:
        async with borrow(repository) as git:
            branch = await _read_branch(git, folder)
            commits = await _count_commits(git, folder)
            return HistoryReading(
                branch=branch,
                commits=commits,
                changes=() if repository.bare else await _read_changes(git, folder),
                latest=await _read_log(git, folder, limit) if commits else (),
            )
    except ActionError as error:
        return HistoryReading(problem=str(error))


async def _read_branch(git: Git, folder: Path) -> str:
    named = await git.ask("symbolic-ref", "--quiet", "--short", "HEAD", cwd=folder)
    if named.exit_code == 0:
        return named.output.strip()
    at = await git.ask("rev-parse", "--short", "HEAD", cwd=folder)
    return f"detached at {at.output.strip()}" if at.exit_code == 0 else ""


async def _count_commits(git: Git, folder: Path) -> int:
    head = await git.ask("rev-parse", "--quiet", "--verify", "HEAD", cwd=folder)
    return int(await git.read("rev-list", "--count", "HEAD", "--", cwd=folder)) if head.exit_code == 0 else 0


async def _read_changes(git: Git, folder: Path) -> tuple[str, ...]:
    # A submodule's own changes would be asked of a git that runs with the submodule's own configuration.
    listing = await git.read(
        *("-c", "core.quotePath=false", "status", "--porcelain", "--ignore-submodules=dirty", "--", "."),
        cwd=folder,
    )
    changes = [_word_change(line) for line in listing.splitlines()]
    more = len(changes) - MAX_CHANGES
    return (*changes[:MAX_CHANGES], *([f"and {more:,} more"] if more > 0 else []))


def _word_change(line: str) -> str:
    """``modified shared/errors.py`` for git's `` M shared/errors.py``."""
    code, path = line[:2], line[3:]
    if code == "??":
        return f"untracked {path}"
    if "U" in code or code in ("AA", "DD"):
        return f"in conflict {path}"
    return f"{CHANGES.get(code.strip()[:1], code.strip())} {path}"


async def _read_log(git: Git, folder: Path, limit: int) -> tuple[Statement, ...]:
    form = "%h%x1f%ad%x1f%an%x1f%s"
    log = await git.read(
        *("log", f"--max-count={limit}", "--no-show-signature", "--date=short", f"--format={form}"),
        cwd=folder,
    )
    commits = (line.split("\x1f", 3) for line in log.split("\n") if line.count("\x1f") >= 3)
    return tuple(
        Statement(text=f"{date} {subject[:200] or '(no message)'} ({author})", source=f"git:{commit}")
        for commit, date, author, subject in commits
    )
