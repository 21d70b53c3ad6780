"""Git that reads a repository without letting the repository run anything."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from shared.errors import ActionError
from shared.sandbox import CommandResult, remove_tree, run_command
from shared.skills.repository import ENVIRONMENT, Repository

HARMLESS = frozenset(
    {
        "core.autocrlf",
        "core.checkstat",
        "core.eol",
        "core.filemode",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.repositoryformatversion",
        "core.sparsecheckout",
        "core.sparsecheckoutcone",
        "core.symlinks",
        "core.trustctime",
        "extensions.objectformat",
        "extensions.refstorage",
        "index.sparse",
    }
)
"""What is taken over of a repository's settings: what its files mean, no program and no path."""


class Git:
    """Git over a repository's objects, index and work tree, but with a configuration of our own."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self.repository = repository
        self.folder = folder

    async def ask(self, *arguments: str, cwd: Path, timeout: float = 60.0) -> CommandResult:
        """Run git with these arguments in ``cwd``; raises ActionError where git is not installed."""
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
        """What git answers; raises ActionError with git's own words where it fails."""
        result = await self.ask(*arguments, cwd=cwd, timeout=timeout)
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
async def borrow(repository: Repository) -> AsyncIterator[Git]:
    """A Git for ``repository`` that neither changes it nor runs anything it names.

    Hooks, file-system monitors, filters, text converters, pagers and helpers are all named in a repository's
    configuration, and there are ever more of them. So git gets another git folder, thrown away after use,
    with an allow-list of harmless settings; it borrows the objects, and has copies of HEAD and the index.
    """
    folder = Path(tempfile.mkdtemp(prefix="mailroom-git-"))
    try:
        git = Git(repository, folder)
        await asyncio.to_thread(_furnish, repository, folder)
        await _take_settings(git)
        yield git
    finally:
        await asyncio.to_thread(remove_tree, folder)


def _furnish(repository: Repository, folder: Path) -> None:
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


async def _take_settings(git: Git) -> None:
    lines = []
    for config in (git.repository.common / "config", git.repository.private / "config.worktree"):
        if config.is_file():
            # Reading one file by name parses it and nothing else.
            listing = await git.read("config", "--file", str(config), "--no-includes", "-lz", cwd=git.folder)
            lines += [_setting(*entry.partition("\n")[::2]) for entry in listing.split("\0")]
    (git.folder / "config").write_text("".join(lines))


def _setting(name: str, value: str) -> str:
    if name not in HARMLESS:
        return ""
    section, _, key = name.partition(".")
    quoted = (value or "true").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'[{section}]\n\t{key} = "{quoted}"\n'
