"""What was no job: files that were put aside, each with its reason beside it."""

import os
from pathlib import Path

from services.cortex.files import write_whole

LONGEST = 200
"""Bytes of a name that are kept: a file beside it has a longer one, and 255 are the most."""


class Refused:
    """The folder failed/ of the queue."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, path: Path, reason: str) -> None:
        """Move what lies at ``path`` here, under a name of its own, and say why."""
        stem = os.fsdecode(os.fsencode(path.stem)[:LONGEST])
        target = self._folder / f"{stem}{path.suffix}"
        for count in range(1, 1_000):
            if not os.path.lexists(target):
                break
            target = self._folder / f"{stem}-{count}{path.suffix}"
        # The reason first: a crash in between leaves the file where it is found again.
        note = target.with_name(f"{target.name}.reason")
        write_whole(note, f"{path.name}: {reason}\n".encode(errors="replace"))
        try:
            path.rename(target)
        except FileNotFoundError:  # another process was quicker
            if not os.path.lexists(target):
                note.unlink(missing_ok=True)

    def reasons(self) -> list[str]:
        """Why they were no jobs, the latest first."""
        notes = sorted(self._folder.glob("*.reason"), key=lambda note: -note.stat().st_mtime)
        return [note.read_text().strip() for note in notes]

    def prune(self, limit: float) -> int:
        """Delete what was put here before ``limit``, seconds since the epoch; returns how many.

        Folders are left.
        """
        notes = [note for note in self._folder.glob("*.reason") if note.stat().st_mtime < limit]
        for note in notes:
            path = note.with_suffix("")
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
            note.unlink(missing_ok=True)
        return len(notes)
