"""Snapshots of a workspace: what it held before a command, kept where no command reaches it."""

import contextlib
import fcntl
import itertools
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder
from shared.sandbox.restoring import (
    FileState,
    ObjectStore,
    Restorer,
    format_path,
    hold_lock,
    is_same,
    is_untouched,
    scan,
)

KEEP = 40  # How many snapshots a workspace keeps; the oldest go first
SLACK = 10  # How many more there may be until the oldest go: unneeded contents are searched for only then
MAX_BYTES = 2 << 30  # The most bytes the snapshots of one workspace take
MAX_FILE = 256 << 20  # Larger files are not kept: a restore reports which of them changed
MAX_FILES = 200_000
PATIENCE = 60.0
"""Seconds to wait for another process that takes a snapshot of the same workspace: it may be stopped."""
SHOWN = 1_000  # How many paths of each kind an undo names: they must fit into a message
FRESH_NS = 1_000_000_000
"""A file changed so shortly before a snapshot can change again with the same times: it is read again."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace at a moment, before ``label`` was done to it.

    ``lost`` names what is not kept, and why; ``shut`` are the folders among it, which could not be read;
    ``owners`` are those who changed the workspace since.
    """

    number: int
    taken_ns: int
    label: str
    entries: dict[bytes, FileState]
    lost: dict[str, str] = {}
    shut: tuple[bytes, ...] = ()
    owners: tuple[str, ...] = ()


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo did: the ``label`` of what it took back, how many paths it touched, the first of them."""

    label: str
    count: int = 0
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    lost: dict[str, str] = {}


class Snapshots:
    """The snapshots of the workspace ``root``, in the folder ``store``, which must lie outside of it.

    Taking and restoring hold a lock that a killed process releases. What such a process leaves half done is
    no snapshot yet, or an undo that can be asked for again.
    """

    def __init__(
        self,
        root: Path,
        store: Path,
        *,
        keep: int = KEEP,
        max_bytes: int = MAX_BYTES,
        max_file: int = MAX_FILE,
        max_files: int = MAX_FILES,
    ) -> None:
        if store.is_relative_to(root):
            raise ValueError(f"the snapshots in {store} would lie inside the workspace {root}")
        self.root = root
        self.store = store
        self.keep = keep
        self.max_bytes = max_bytes
        self.max_file = max_file
        self.max_files = max_files
        self._objects = ObjectStore(store / "objects")

    @contextlib.contextmanager
    def changing(self, label: str, owner: str) -> Iterator[None]:
        """Around a change of the workspace: a snapshot before it, and no undo meanwhile.

        Raises ActionError as ``take`` does.
        """
        with hold_lock(self.store / "changing", fcntl.LOCK_SH, PATIENCE, self._in_use()):
            taken = self.take(label, owner)
            try:
                yield
            finally:
                # Add ``owner`` to the snapshots others took meanwhile, which cannot tell its change from
                # theirs
                with self._locked():
                    try:
                        for number in self._numbers():
                            later = self._read(number) if number >= taken.number else None
                            if later and later.taken_ns > taken.taken_ns and owner not in later.owners:
                                self._write(msgspec.structs.replace(later, owners=(*later.owners, owner)))
                    except OSError as error:
                        raise ActionError(
                            f"Who changed the workspace cannot be noted: {error.strerror}",
                            "Free space on the disk; until then undo may take back more than one's own",
                        ) from None

    def take(self, label: str, owner: str = "") -> Snapshot:
        """A snapshot of the workspace as it is now, before ``owner`` does ``label`` to it.

        Files that have not changed since the last one are not read again. Raises ActionError if the
        workspace holds more than is kept, or the disk is full.
        """
        with self._locked(), self._open() as confined:
            latest = self._latest()
            try:
                return self._take(confined, latest, label, owner)
            except OSError as error:
                self._objects.remove_unfinished()
                raise ActionError(
                    f"No snapshot of the workspace can be made before it is changed: {error.strerror}",
                    "Free space on the disk, then try again",
                ) from None

    def _take(self, confined: ConfinedFolder, latest: Snapshot | None, label: str, owner: str) -> Snapshot:
        taken, found = time.time_ns(), scan(confined, self.max_files)
        size = sum(entry.size for entry in found.entries.values() if entry.size <= self.max_file)
        if size > self.max_bytes:
            raise ActionError(
                f"The workspace holds {size:,} bytes, more than the {self.max_bytes:,} a snapshot may have",
                "Take back with undo what made it so large",
            )
        lost = {format_path(path): reason for path, reason in found.lost.items()}
        entries = {}
        for path, entry in found.entries.items():
            kept = self._keep_content(confined, path, entry, latest, lost)
            if kept is not None:
                entries[path] = kept
        if latest is not None and is_same(latest.entries, entries) and latest.lost == lost:
            number = latest.number  # nothing changed since: only what comes next is another
        else:
            number = latest.number + 1 if latest else 1
        snapshot = Snapshot(
            number=number,
            taken_ns=taken,
            label=label[:2_000],
            entries=entries,
            lost=lost,
            shut=tuple(found.lost),
            owners=(owner,) if owner else (),
        )
        self._write(snapshot)
        self._prune()
        return snapshot

    def _keep_content(
        self,
        confined: ConfinedFolder,
        path: bytes,
        entry: FileState,
        latest: Snapshot | None,
        lost: dict[str, str],
    ) -> FileState | None:
        if not stat.S_ISREG(entry.mode):
            return entry
        before = latest.entries.get(path) if latest else None
        if before and latest and before.key == entry.key and before.ctime_ns < latest.taken_ns - FRESH_NS:
            return before
        if entry.size > self.max_file:
            lost[format_path(path)] = f"it has more than {self.max_file:,} bytes"
            return entry
        try:
            return msgspec.structs.replace(entry, digest=self._objects.keep(confined, os.fsdecode(path)))
        except FileNotFoundError:
            return None  # gone since it was listed
        except (PermissionError, ActionError) as error:
            lost[format_path(path)] = str(error)
            return entry

    def undo(self, owner: str = "") -> Restored:
        """Make the workspace what it was before the last thing that changed it.

        Called again, it takes back the change before. Raises ActionError if there is nothing to take back, if
        the workspace is being changed, and, if ``owner`` is named, if others changed it last.
        """
        busy = "The workspace is being changed just now"
        alone = hold_lock(self.store / "changing", fcntl.LOCK_EX, 0.0, busy)
        with alone, self._locked(), self._open() as confined:
            while (latest := self._latest()) is not None:
                if owner and set(latest.owners) - {owner} and self._is_touched(confined, latest):
                    raise ActionError(
                        f"What changed the workspace last was not this task's alone: {latest.label}",
                        "Leave it, or undo it anyway (of_others)",
                    )
                restorer = Restorer(confined, latest.entries, latest.shut, self._objects)
                try:
                    restorer.run(latest.taken_ns - FRESH_NS)
                except OSError as error:
                    raise ActionError(
                        f"The workspace cannot be brought back whole: {error.strerror}",
                        "Free space on the disk or correct the permissions, then undo again",
                    ) from None
                restored = Restored(
                    label=latest.label,
                    count=len(restorer.written) + len(restorer.removed),
                    written=tuple(restorer.written[:SHOWN]),
                    removed=tuple(restorer.removed[:SHOWN]),
                    lost=dict(itertools.islice(restorer.lost.items(), SHOWN)),
                )
                # Only now: killed before, the next undo finishes the work.
                self._path(latest.number).unlink()
                if restored.count or restored.lost:
                    return restored
        raise ActionError("There is nothing to undo: nothing has changed the workspace since it was made")

    def _is_touched(self, confined: ConfinedFolder, snapshot: Snapshot) -> bool:
        try:
            return not is_untouched(scan(confined, self.max_files).entries, snapshot.entries)
        except ActionError:
            return True  # there is more than any snapshot has

    def labels(self) -> list[str]:
        """What was done after each snapshot, the oldest first."""
        return [snapshot.label for number in self._numbers() if (snapshot := self._read(number))]

    def _open(self) -> ConfinedFolder:
        with contextlib.suppress(OSError):
            mode = self.root.lstat().st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
                # A command took the rights away, and undo could not give them back without them.
                self.root.chmod(stat.S_IRWXU)
        return ConfinedFolder(self.root)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with hold_lock(self.store / "lock", fcntl.LOCK_EX, PATIENCE, self._in_use()):
            try:
                self._objects.remove_unfinished()
                yield
            finally:
                self._objects.close()

    def _in_use(self) -> str:
        return f"The snapshots of {self.root} were in use for {PATIENCE:.0f} seconds"

    def _path(self, number: int) -> Path:
        return self.store / f"{number:08d}.tree"

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.store.glob("[0-9]*.tree"))

    def _latest(self) -> Snapshot | None:
        return next((found for number in reversed(self._numbers()) if (found := self._read(number))), None)

    def _read(self, number: int) -> Snapshot | None:
        path = self._path(number)
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=Snapshot)
        except msgspec.MsgspecError:
            path.unlink()  # cut short by a power cut: it is not synced to the disk
            return None

    def _write(self, snapshot: Snapshot) -> None:
        path = self._path(snapshot.number)
        temporary = path.with_suffix(".new")
        temporary.write_bytes(msgspec.msgpack.encode(snapshot))
        temporary.replace(path)

    def _prune(self) -> None:
        numbers = self._numbers()
        crowded = len(numbers) > self.keep + SLACK
        if not crowded and self._objects.size() <= self.max_bytes:
            return
        if crowded:
            for number in numbers[: -self.keep]:
                self._path(number).unlink()
        self._objects.remove_unneeded(self._digests())
        while self._objects.size() > self.max_bytes and len(numbers := self._numbers()) > 1:
            self._path(numbers[0]).unlink()
            self._objects.remove_unneeded(self._digests())

    def _digests(self) -> set[str]:
        found = (self._read(number) for number in self._numbers())
        return {entry.digest for each in found if each for entry in each.entries.values() if entry.digest}
