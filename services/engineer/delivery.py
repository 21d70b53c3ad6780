"""What the engineer delivers: a patch for each project it worked on, and the files it made."""

import asyncio
import stat
import tempfile
from pathlib import Path, PurePosixPath

import msgspec

from shared.errors import ActionError
from shared.files import write_atomically
from shared.sandbox import remove_tree, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.skills.git import BASE
from shared.skills.repository import AUTHOR, ENVIRONMENT

MAX_PATCH = 50_000_000
"""The most bytes of a patch."""
MAX_FILE = 10_000_000
"""The most bytes of a file that is delivered."""
MAX_FILES = 100
"""The most files that are delivered beside the patches."""
PATCH_SECONDS = 120.0

MAKE_PATCH = (
    'cd "$3" && export GIT_INDEX_FILE=/tmp/mailroom-index && git read-tree "$1" && git add --all . && '
    'git diff --cached --binary --no-ext-diff --no-textconv --no-color --output="$2" "$1"'
)
"""The difference to the commit the copy began with, new files included, whatever was committed since."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of the ``patches`` and ``files`` that were delivered; ``missing`` says what was not, and why."""

    patches: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


async def deliver(workspace: Path, outputs: Path) -> Delivery:
    """Put the changes in the ``workspace`` into the folder ``outputs``."""
    projects, loose, missing = await asyncio.to_thread(_survey, workspace)
    patches = []
    for project in projects:
        try:
            patch = await make_patch(workspace, project)
        except ActionError as error:
            missing.append(f"the changes of {project}: {error}")
            continue
        if patch:
            path = outputs / f"{project}.patch"
            await asyncio.to_thread(_write, path, patch)
            patches.append(str(path))
    files, left = await asyncio.to_thread(_copy, workspace, loose, outputs / "files")
    return Delivery(patches=tuple(patches), files=tuple(files), missing=(*missing, *left))


async def make_patch(workspace: Path, project: str) -> bytes:
    """How the copy ``project`` differs from what it was copied from, as a patch; empty if it does not.

    Raises ActionError with git's reason if there is nothing to compare with.
    """
    aside = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="mailroom-patch-"))
    try:
        result = await run_command(
            ["bash", "-c", MAKE_PATCH, "patch", BASE, str(aside / "change.patch"), f"./{project}"],
            cwd=workspace,
            timeout=PATCH_SECONDS,
            writable=[workspace, aside],
            env={**ENVIRONMENT, **AUTHOR, "GIT_CEILING_DIRECTORIES": str(workspace)},
        )
        if result.exit_code:
            words = result.output.strip().splitlines() or [f"exit code {result.exit_code}"]
            raise ActionError(f"No patch can be made: {words[-1].removeprefix('fatal: ')[:300]}")
        # Programs that the copy's own git settings name could have put a link there.
        with ConfinedFolder(aside) as confined:
            return confined.read("change.patch", MAX_PATCH)
    finally:
        await asyncio.to_thread(remove_tree, aside)


def _survey(workspace: Path) -> tuple[list[str], list[str], list[str]]:
    """The folders with a git history of their own, the files in no such folder, and why others are unread."""
    projects: list[str] = []
    loose: list[str] = []
    unread: list[str] = []
    waiting = ["."]
    with ConfinedFolder(workspace) as confined:
        while waiting and len(loose) <= MAX_FILES:
            folder = waiting.pop(0)
            try:
                entries = confined.entries(folder)
            except ActionError as error:
                unread.append(str(error))
                continue
            for name, mode in entries:
                path = str(PurePosixPath(folder, name))
                if not path.isprintable():
                    continue  # neither JSON nor a person could carry such a name
                if stat.S_ISREG(mode):
                    loose.append(path)
                elif stat.S_ISDIR(mode) and not name.startswith((".", "__")) and name != "node_modules":
                    has_history = folder == "." and _has_history(confined, path)
                    (projects if has_history else waiting).append(path)
    return projects, loose, unread


def _has_history(confined: ConfinedFolder, folder: str) -> bool:
    try:
        inside = confined.stat(f"{folder}/.git")
    except ActionError:
        return False  # it cannot be read, which is reported when it is listed
    return inside is not None and stat.S_ISDIR(inside.st_mode)


def _copy(workspace: Path, paths: list[str], target: Path) -> tuple[list[str], list[str]]:
    copied, left = [], []
    with ConfinedFolder(workspace) as confined:
        for path in paths[:MAX_FILES]:
            try:
                _write(target / path, confined.read(path, MAX_FILE))
            except ActionError as error:
                left.append(str(error))
            else:
                copied.append(str(target / path))
    if len(paths) > MAX_FILES:
        left.append(f"only the first {MAX_FILES} files are handed over, the others are in the workspace")
    return copied, left


def _write(path: Path, data: bytes) -> None:
    try:
        write_atomically(path, data)
    except OSError as error:
        raise ActionError(f"{path} cannot be written: {error.strerror}") from None
