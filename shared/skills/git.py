"""Git in the workspace: clone repositories of this machine, show them, and commit."""

import asyncio
import os
import re
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from shared.agent.context import AgentContext
from shared.errors import ActionError
from shared.sandbox import CommandResult, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.skills.clones import AUTHOR, BASE, ENVIRONMENT
from shared.skills.origins import Origin, note_origin
from shared.skills.skill import Skill
from shared.skills.workspace import changing, open_workspace, require_source, shared_objects, slug
from shared.tasks.actions import Outcome, register_action

GIT_SECONDS = 300.0
SHOWN = 18_000  # The most characters of git's answer that are shown
FOLDER = {"folder": "The repository's folder, relative to the workspace"}


class GitSkill(Skill):
    """Works with git repositories in the workspace; those outside are only ever cloned from."""

    @register_action(
        "Clone a git repository of this machine into the workspace",
        {
            "repo": "Absolute path of the repository",
            "folder": "Name of its folder in the workspace; empty for the repository's own name",
        },
    )
    async def clone_repository(self, repo: str, folder: str = "") -> Outcome:
        """What is committed there; a clone shares nothing with the repository and never changes it."""
        origin = await require_source(self.context, repo)
        source = await asyncio.to_thread(find_any, origin)
        if source is None:
            raise ActionError(
                f"{origin} is not in a git repository", "Name the folder of one on this machine"
            )
        name = new_folder(await open_workspace(self.context), folder or slug(source.top.name))
        async with changing(self.context, f"clone {source.top} as {name}") as workspace:
            # Without --no-local git links the objects, and a change of them would reach the source.
            clone = ["clone", "--quiet", "--no-local", "--no-hardlinks", "--template=", "--", str(source.top)]
            await git(workspace, workspace, *clone, name, readable=source.folders)
            result = await git(workspace, workspace / name, "update-ref", BASE, "HEAD", required=False)
            settings, task = self.context.settings, self.context.task
            made = Origin(source=str(source.top), by=task.task_id)
            await asyncio.to_thread(note_origin, settings, task, name, made)
        note = "" if result.exit_code == 0 else "; it has no commits yet"
        return Outcome(output=f"Cloned {source.top} into {name}{note}", data={"folder": name})

    @register_action("Show what is changed in a repository of the workspace", FOLDER)
    async def show_status(self, folder: str) -> Outcome:
        """Git's short status with the branch."""
        return await _show(self.context, folder, "status", "--short", "--branch", "--ignore-submodules=dirty")

    @register_action(
        "Show the uncommitted changes of a repository of the workspace as a diff",
        {**FOLDER, "since": "A commit or branch to compare with; empty for the last commit"},
    )
    async def show_diff(self, folder: str, since: str = "") -> Outcome:
        """The diff of tracked files; new files are listed by show_status until they are committed."""
        since = since or "HEAD"
        if not re.fullmatch(r"[A-Za-z0-9][\w./~^@{}-]{0,200}", since):
            raise ActionError(f"{since[:80]!r} is not a commit or branch")
        return await _show(self.context, folder, "diff", "--no-ext-diff", "--no-textconv", since, "--")

    @register_action(
        "Show the latest commits of a repository of the workspace",
        {**FOLDER, "limit": "How many commits, 1 to 200"},
    )
    async def show_log(self, folder: str, limit: int = 20) -> Outcome:
        """One line a commit."""
        if not 1 <= limit <= 200:
            raise ActionError(f"limit must be between 1 and 200, not {limit}")
        return await _show(
            self.context, folder, "log", f"--max-count={limit}", "--date=short", "--format=%h %ad %an: %s"
        )

    @register_action(
        "Commit everything that is changed in a repository of the workspace, on a branch of its own",
        {**FOLDER, "message": "The commit's message", "branch": "The branch; created if it does not exist"},
    )
    async def commit_changes(self, folder: str, message: str, branch: str = "mailroom") -> Outcome:
        """Hooks do not run. Raises ActionError if nothing is changed."""
        if not message.strip() or "\0" in message:
            raise ActionError("A commit needs a message")
        if not re.fullmatch(r"[A-Za-z0-9][\w./-]{0,100}", branch):
            raise ActionError(f"{branch[:80]!r} cannot name a branch", "Use letters, digits, '-' and '/'")
        async with changing(self.context, f"commit in {folder} on {branch}: {message}") as workspace:
            place = await asyncio.to_thread(_require_clone, workspace, folder)
            run = partial(git, workspace, place, readable=shared_objects(self.context))
            known = await run("rev-parse", "--quiet", "--verify", f"refs/heads/{branch}", required=False)
            await run("checkout", "--quiet", *(["-b"] if known.exit_code else []), branch)
            await run("add", "--all")
            if (await run("diff", "--cached", "--quiet", required=False)).exit_code == 0:
                raise ActionError(f"Nothing is changed in {folder}", "show_status tells what is")
            await run("commit", "--quiet", "--no-verify", "--no-gpg-sign", "--message", message)
            commit = (await run("rev-parse", "--short", "HEAD")).output.strip()
        return Outcome(
            output=f"Committed {commit} on {branch} in {folder}",
            data={"commit": commit, "branch": branch},
            evidence_refs=(f"git:{commit}",),
        )


async def git(
    workspace: Path,
    folder: Path,
    *arguments: str,
    readable: Sequence[Path] = (),
    required: bool = True,
) -> CommandResult:
    """Run git in the jail; raises ActionError with git's own words if it fails and is ``required``."""
    result = await run_command(
        # Not in the folder: a program could put a link in its place, and it would be shown where that leads.
        ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", *arguments],
        cwd=workspace,
        timeout=GIT_SECONDS,
        writable=[workspace],
        readable=readable,
        env={**ENVIRONMENT, **AUTHOR, "GIT_CEILING_DIRECTORIES": str(workspace)},
        output_limit=2_000_000,
        separate_errors=True,
    )
    if required and result.timed_out:
        raise ActionError(f"git {arguments[0]} took longer than {GIT_SECONDS:.0f} seconds")
    if required and result.exit_code:
        words = result.errors.strip().splitlines() or [f"exit code {result.exit_code}"]
        raise ActionError(f"git {arguments[0]} failed: {words[-1].removeprefix('fatal: ')[:300]}")
    return result


def new_folder(workspace: Path, name: str) -> str:
    """``name``; raises ActionError if it cannot name a new folder of the workspace."""
    if not re.fullmatch(r"[A-Za-z0-9_][\w.-]{0,99}", name):
        raise ActionError(f"{name[:80]!r} cannot name a folder", "Use letters, digits, '-' and '_'")
    if os.path.lexists(workspace / name):
        raise ActionError(f"There is a {name!r} in the workspace already", "Choose another folder")
    return name


async def _show(context: AgentContext, folder: str, *arguments: str) -> Outcome:
    workspace = await open_workspace(context)
    place = await asyncio.to_thread(_require_clone, workspace, folder)
    options, shared = ("-c", "core.quotePath=false"), shared_objects(context)
    result = await git(workspace, place, *options, *arguments, readable=shared)
    shown = result.output.rstrip("\n")
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]}\n[cut: {len(shown):,} characters in all; git diff -- FILE shows a part]"
    return Outcome(output=shown or "Nothing", data={"folder": folder})


def _require_clone(workspace: Path, folder: str) -> Path:
    with ConfinedFolder(workspace) as confined:
        name = confined.relative(folder)
        info = confined.stat(str(Path(name, ".git")))
    if info is None or not stat.S_ISDIR(info.st_mode):
        raise ActionError(
            f"{folder[:200]!r} is no git repository in the workspace", "clone_repository makes one"
        )
    return workspace / name


# --- finding repositories without running git: their own configuration could run programs ------------
class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """Where a repository lies: its work tree, its git folder, and the one it shares with other work trees.

    All three are the same if it is ``bare``.
    """

    top: Path
    private: Path
    common: Path

    @property
    def bare(self) -> bool:
        """Whether it has no work tree."""
        return self.top == self.private

    @property
    def folders(self) -> list[Path]:
        """What git must be able to read of it."""
        return list(dict.fromkeys((self.top, self.private, self.common)))


def find_repository(folder: Path) -> Repository | None:
    """The repository whose work tree holds ``folder``, or None."""
    for top in (folder, *folder.parents):
        private = top / ".git"
        if private.is_file():
            private = _follow(private, "gitdir:")
        if private.is_dir() and (private / "HEAD").exists():
            common = _follow(private / "commondir") if (private / "commondir").is_file() else private
            # The pointers are the repository's own words: they must not make any folder readable.
            if (common / "objects").is_dir() and (common / "HEAD").exists():
                return Repository(top=top, private=private, common=common)
    return None


def find_any(folder: Path) -> Repository | None:
    """The bare repository that ``folder`` is, else the one whose work tree holds it, or None."""
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir():
        return Repository(top=folder, private=folder, common=folder)
    return find_repository(folder)


def _follow(pointer: Path, prefix: str = "") -> Path:
    with pointer.open("rb") as file:
        text = file.read(4096).decode("utf-8", "surrogateescape")
    return (pointer.parent / text.removeprefix(prefix).strip("\n ")).resolve()
