"""What the workspace of a task begins with, and where the folders in it come from."""

import asyncio
import contextlib
import os
import secrets
import stat
from collections.abc import Collection
from pathlib import Path

import msgspec

from shared.contracts import Task
from shared.errors import ActionError
from shared.files import write_atomically
from shared.log import logger
from shared.sandbox import remove_tree
from shared.sandbox.confined import ConfinedFolder
from shared.sandbox.restoring import FileState, scan
from shared.sandbox.snapshots import MAX_BYTES, MAX_FILES
from shared.settings import Settings
from shared.skills.clones import Base
from shared.tasks.context import goal_of, workspace_name

log = logger(__name__)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a folder of a workspace comes from: a copy of ``source`` that the task ``by`` made.

    If it is a clone of the goal's base, ``start`` is the commit it began with, ``joined`` are others that
    were merged into it then, ``conflicts`` the files in which they disagree. ``unfinished`` while it is made.
    """

    source: str
    by: str = ""
    start: str = ""
    joined: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    unfinished: bool = False


class Origins(msgspec.Struct, frozen=True, kw_only=True):
    """The origins of a workspace's folders by name, and the workspaces that it ``starts_from``."""

    folders: dict[str, Origin] = {}
    starts_from: tuple[str, ...] = ()


def snapshots_path(settings: Settings, task: Task) -> Path:
    """The folder of the snapshots of a task's workspace: outside of it, where no command can write."""
    return settings.snapshots / goal_of(task) / workspace_name(task)


def bases_path(settings: Settings, task: Task) -> Path:
    """The folder of the bases of a task's goal, which commands may read; no workspace's name has a dot."""
    return settings.snapshots.absolute() / goal_of(task) / ".bases"


def read_origins(settings: Settings, task: Task) -> Origins:
    """The origins of the folders of a task's workspace."""
    return _read(snapshots_path(settings, task))


def note_origin(settings: Settings, task: Task, folder: str, origin: Origin | None) -> None:
    """Record the origin of a folder where no command can change it; None if the folder is gone."""
    known = read_origins(settings, task)
    folders = {name: each for name, each in known.folders.items() if name != folder}
    if origin is not None:
        folders[folder] = origin
    _write(snapshots_path(settings, task), msgspec.structs.replace(known, folders=folders))


def _read(place: Path) -> Origins:
    try:
        return msgspec.json.decode((place / "origins.json").read_bytes(), type=Origins)
    except (OSError, msgspec.MsgspecError):
        return Origins()


def _write(place: Path, origins: Origins) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(place / "origins.json", msgspec.json.encode(origins))
    except OSError as error:
        raise ActionError(f"Where folders come from cannot be noted: {error.strerror}") from None


async def begin_workspace(settings: Settings, task: Task, path: Path) -> None:
    """Make the workspace at ``path`` with what those hold that it starts from: whole, or not at all.

    Of two that hold the same file, that of the later in the plan counts; what they changed of one project is
    merged. Raises ActionError, also if there is more than a workspace may hold.
    """
    names = [name for name in reversed(task.starts_from) if name != path.name]
    places = {name: path.parent / name for name in names}
    there = [name for name, place in places.items() if place.is_dir() and not place.is_symlink()]
    notes = {name: _read(settings.snapshots / goal_of(task) / name) for name in there}
    held = {other for each in notes.values() for other in each.starts_from}
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir(mode=0o700)
        begun = _Begun(draft, bases_path(settings, task))
        for name in there:
            if name not in held:
                await begun.take_over(places[name], notes[name])
        if there:
            origins = Origins(folders=begun.origins, starts_from=task.starts_from)
            _write(snapshots_path(settings, task), origins)
        with contextlib.suppress(FileExistsError):  # begun by another call meanwhile
            draft.rename(path)
    except OSError as error:
        if not path.is_dir():
            raise ActionError(f"The workspace {path} cannot be made: {error.strerror}") from None
    finally:
        await asyncio.to_thread(remove_tree, draft)


class _Begun:
    """A workspace that is being begun in ``draft``."""

    def __init__(self, draft: Path, bases: Path) -> None:
        self.draft = draft
        self.bases = bases
        self.origins: dict[str, Origin] = {}
        self.joined: set[str] = set()
        self.size = 0

    async def take_over(self, place: Path, notes: Origins) -> None:
        """Take over what the workspace ``place`` holds, but nothing in place of what is there already."""
        clones = {name: each for name, each in notes.folders.items() if each.start and not each.unfinished}
        tips = {}
        for name, origin in clones.items():
            with contextlib.suppress(ActionError):  # a program removed the folder, or spoiled it
                base = Base.of(self.bases, Path(origin.source))
                tips[name], _ = await base.record(place / name, origin.start, joined=origin.joined)
        known = {each.source: name for name, each in self.origins.items() if each.start}
        both = {name: known[clones[name].source] for name in tips if clones[name].source in known}
        copying = asyncio.ensure_future(asyncio.to_thread(self._copy, place, {*both, *self.origins}))
        try:
            await asyncio.shield(copying)
        finally:
            await asyncio.wait({copying})
        for name, origin in notes.folders.items():
            if name in both and tips[name] not in self.joined:
                await self._join(both[name], tips[name])
            elif name not in both and name not in self.origins:
                start = tips.get(name, "")
                self.origins[name] = msgspec.structs.replace(origin, start=start, joined=(), conflicts=())
            self.joined |= {*origin.joined, *([tips[name]] if name in tips else [])}

    async def _join(self, name: str, tip: str) -> None:
        origin = self.origins[name]
        base, target = Base.of(self.bases, Path(origin.source)), self.draft / name
        await asyncio.to_thread(remove_tree, target)
        await base.check_out(origin.start, target)
        if (await base.merge(target, [tip])).conflicts:
            log.warning("changes_left_out", workspace=str(self.draft), folder=name, commit=tip)
            await asyncio.to_thread(remove_tree, target)
            await base.check_out(origin.start, target)
            return
        start, _ = await base.record(target, origin.start, joined=[tip])
        self.origins[name] = msgspec.structs.replace(origin, start=start)

    def _copy(self, place: Path, without: Collection[str]) -> None:
        with ConfinedFolder(place) as confined:
            for raw, entry in scan(confined, MAX_FILES).entries.items():
                path = os.fsdecode(raw)
                if path.partition("/")[0] not in without and not os.path.lexists(self.draft / path):
                    with contextlib.suppress(FileExistsError):
                        self._copy_entry(confined, path, entry)

    def _copy_entry(self, confined: ConfinedFolder, path: str, entry: FileState) -> None:
        target = self.draft / path
        if stat.S_ISDIR(entry.mode):
            target.mkdir(parents=True, exist_ok=True)
        elif stat.S_ISLNK(entry.mode):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(os.fsdecode(entry.target))
        elif stat.S_ISREG(entry.mode):
            self.size += confined.copy_out(path, target, MAX_BYTES - self.size)
            if self.size > MAX_BYTES:
                raise ActionError(
                    f"{confined.root} holds more than the {MAX_BYTES:,} bytes that a workspace begins with",
                    "Remove what is not needed from it",
                )
