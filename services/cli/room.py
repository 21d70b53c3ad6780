"""Room on the disk: a server that once found none stores nothing more until it is started again."""

import shutil
import time
from pathlib import Path

from services.cli.logbook import Line
from services.cli.programs import SERVER_NAME

FULL = "no space left on device"
"""How nats-server says that it could not store a message."""
ENOUGH = 64 * 1024 * 1024
"""Bytes that have to be free before it is tried again: the least JetStream can work with."""
PAUSE = 30.0
"""Seconds between two tries."""


class Room:
    """Watches what the server says, and the disk of ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._missed = False
        self._next = 0.0

    def hear(self, line: Line) -> None:
        """A line of a log."""
        if line.name == SERVER_NAME and FULL in line.text:
            self._missed = True

    def is_back(self) -> bool:
        """Whether the server found no room and now there is some: True once, and not within PAUSE again."""
        if not self._missed or time.monotonic() < self._next:
            return False
        if shutil.disk_usage(self._folder).free < ENOUGH:
            return False
        self._missed = False
        self._next = time.monotonic() + PAUSE
        return True
