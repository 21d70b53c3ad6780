"""What a command must leave free on the machine: space on the disks it can write to, and memory."""

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

LEAST_BYTES = 300 << 20
"""Bytes to be left on a disk: below 200 MB Mailroom's own server cannot create a stream."""
LEAST_FILES = 10_000  # Files that must still fit on it: a command that makes empty ones fills a disk too
LEAST_MEMORY = 256 << 20
"""Bytes of memory to be left: data in a socket or in a file in memory count for no process."""
BYTES_A_SECOND = 8e9  # About as fast as programs fill memory; what goes to a disk goes there first
FILES_A_SECOND = 1e6
LONGEST, SHORTEST = 0.25, 0.005  # Seconds between two checks: the less is left, the sooner the next


class _Resource(NamedTuple):
    """A resource of the machine: ``left`` measures it, at least ``least`` must stay free."""

    name: str
    left: Callable[[], int | None]
    least: int
    rate: float


class ResourceWatch:
    """The disks at ``places`` and the machine's memory, as a command may use them from now on.

    If one is short already, half of what is left must stay, so that a command that needs little can run.
    """

    def __init__(self, places: Iterable[str]) -> None:
        wanted = [("the machine's memory", _memory, LEAST_MEMORY, BYTES_A_SECOND)]
        for place in dict.fromkeys(places):
            wanted.append(("the disk", functools.partial(_bytes, place), LEAST_BYTES, BYTES_A_SECOND))
            wanted.append(("the disk", functools.partial(_files, place), LEAST_FILES, FILES_A_SECOND))
        self._resources = [
            _Resource(name, left, min(least, now // 2), rate)
            for name, left, least, rate in wanted
            if (now := left()) is not None
        ]

    def check(self) -> tuple[str, float]:
        """The resource that is short, empty if none is, and the seconds until the next check."""
        pause = LONGEST
        for resource in self._resources:
            left = resource.left()
            if left is None:
                continue
            if left < resource.least:
                return resource.name, SHORTEST
            pause = min(pause, (left - resource.least) / resource.rate)
        return "", max(pause, SHORTEST)


def _bytes(place: str) -> int | None:
    disk = _statvfs(place)
    return disk.f_bavail * disk.f_frsize if disk else None


def _files(place: str) -> int | None:
    disk = _statvfs(place)
    return disk.f_favail if disk and disk.f_files else None  # some file systems count none


def _statvfs(place: str) -> os.statvfs_result | None:
    try:
        return os.statvfs(place)
    except OSError:
        return None


def _memory() -> int | None:
    try:
        with Path("/proc/meminfo").open("rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return None
