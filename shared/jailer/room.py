"""What a command must leave to the machine: room on the disks it can write to, and memory."""

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

LEAST_BYTES = 300 << 20
"""Bytes to be left on a disk: below 200 MB the office's own server can make no stream."""
LEAST_FILES = 10_000
"""Files that must still fit on it: a command that makes empty ones fills a disk too."""
LEAST_MEMORY = 256 << 20
"""Bytes of memory to be left: what lies in a socket or in a file in memory counts for no process."""
BYTES_A_SECOND = 8e9
"""About as fast as programs fill memory; what goes to a disk goes there first."""
FILES_A_SECOND = 1e6
LONGEST, SHORTEST = 0.25, 0.005
"""Seconds between two looks: the less is left, the sooner the next."""


class _Stock(NamedTuple):
    """Something of the machine: ``left`` measures it, at least ``least`` has to stay."""

    name: str
    left: Callable[[], int | None]
    least: int
    rate: float


class Room:
    """The disks at ``places`` and the machine's memory, as a command may use them from now on.

    Where one is short already, half of what is left has to stay, so that a command that takes little runs.
    """

    def __init__(self, places: Iterable[str]) -> None:
        wanted = [("the machine's memory", _memory, LEAST_MEMORY, BYTES_A_SECOND)]
        for place in dict.fromkeys(places):
            wanted.append(("the disk", functools.partial(_bytes, place), LEAST_BYTES, BYTES_A_SECOND))
            wanted.append(("the disk", functools.partial(_files, place), LEAST_FILES, FILES_A_SECOND))
        self._stocks = [
            _Stock(name, left, min(least, now // 2), rate)
            for name, left, least, rate in wanted
            if (now := left()) is not None
        ]

    def look(self) -> tuple[str, float]:
        """What there is too little of, empty for nothing, and the seconds until the next look."""
        pause = LONGEST
        for stock in self._stocks:
            left = stock.left()
            if left is None:
                continue
            if left < stock.least:
                return stock.name, SHORTEST
            pause = min(pause, (left - stock.least) / stock.rate)
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
