"""Source: the lines of a file of a repository, as a reviewer reads and cites them."""

from pathlib import Path

from shared.errors import ActionError
from shared.sandbox.beneath import Beneath
from shared.tasks.actions import Outcome

LARGEST = 2_000_000
"""The most bytes of a file that is read."""
MOST_LINES = 500
LONGEST = 400
"""The most characters of a line that are shown."""


def read_source(repo: Path, path: str, start: int = 1, end: int = 0) -> Outcome:
    """Lines ``start`` to ``end`` (0: the last) of the file ``path`` beneath ``repo``, with their numbers.

    Raises ActionError for what is no text file beneath that folder, and for lines it does not have.
    """
    if not repo.is_absolute() or not repo.is_dir():
        raise ActionError(f"{str(repo)!r} is not an absolute path of a folder", "Give the whole path")
    with Beneath(repo.resolve()) as folder:
        data = folder.read(path, LARGEST)
    if b"\0" in data[:8192]:
        raise ActionError(f"{path} is not a text file")
    lines = data.decode("utf-8", "replace").splitlines()
    if not 1 <= start <= max(1, len(lines)) or (end and end < start):
        raise ActionError(f"{path} has no lines {start} to {end or 'its end'}: it has {len(lines)}")
    last = min(end or len(lines), start + MOST_LINES - 1, len(lines))
    shown = [f"{number}: {lines[number - 1][:LONGEST]}" for number in range(start, last + 1)]
    return Outcome(
        output="\n".join(shown) or f"{path} is empty.",
        data={"path": path, "start": start, "end": last, "lines": len(lines)},
        evidence_refs=(f"{path}:{start}",),
    )
