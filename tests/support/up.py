"""``mailroom up`` as people run it."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from tests.support.server import ROOT, environment
from tests.support.waiting import wait_for

TIMEOUT = 60.0
CONDUCTOR_ALONE = {"MAILROOM_REPLICAS": "cortex=0,critic=0,engineer=0,frontier=0,nexus=0,scout=0"}
"""Settings of an office whose tasks are done by an agent of the test: each other one takes .5 s to start."""
CRITIC_TOO = {"MAILROOM_REPLICAS": "cortex=0,engineer=0,frontier=0,nexus=0,scout=0"}
"""The same where goals are to end: they are reviewed."""


class UpCommand:
    """A ``mailroom up --json`` in the foreground; ``events`` are the lines it printed."""

    def __init__(self, state_dir: Path, **more: str) -> None:
        self.state_dir = state_dir
        self.events: list[dict[str, Any]] = []
        self.times: list[float] = []
        """When each of them was printed, in seconds since the start."""
        self._begun = time.monotonic()
        self.up = subprocess.Popen(
            [sys.executable, "-m", "services.cli", "up", "--json"],
            cwd=ROOT,
            env=environment(state_dir, **more),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.up.stdout is not None
        with self.up.stdout:
            for line in self.up.stdout:
                self.times.append(time.monotonic() - self._begun)
                self.events.append(json.loads(line))

    def said(self, name: str, text: str) -> bool:
        """Whether it printed a line about ``name`` that contains ``text``."""
        return any(event.get("name") == name and text in event["text"] for event in list(self.events))

    def when(self, name: str, text: str) -> float:
        """The seconds until it printed a line about ``name`` that contains ``text``; 0 if it has not."""
        said = zip(list(self.events), self.times, strict=False)
        return next((at for event, at in said if event.get("name") == name and text in event["text"]), 0.0)

    def record(self) -> dict[str, Any]:
        """What it prints when everything is ready."""
        return wait_for(lambda: next((event for event in list(self.events) if "url" in event), {}))

    def process(self, part: str) -> int:
        """The one process whose command line contains ``part``; 0 if there is not exactly one."""
        found = [pid for pid, command in processes_of(self.state_dir).items() if part in command]
        return found[0] if len(found) == 1 else 0

    def signs_of_life(self) -> dict[str, int]:
        """The process of each agent that is ready."""
        paths = (self.state_dir / "run").glob("*.alive")
        return {path.stem.split("-")[0]: int(path.stem.rpartition("-")[2]) for path in paths}

    def close(self) -> None:
        if self.up.poll() is None:
            self.up.send_signal(signal.SIGINT)
        self.up.wait(TIMEOUT)
        self._reader.join()


def processes_of(state_dir: Path) -> dict[int, str]:
    """The processes that run on ``state_dir``, whatever started them, with their command lines."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            command = process.cmdline()
            mine = process.environ().get("MAILROOM_STATE_DIR") == str(state_dir)
            if process.status() != psutil.STATUS_ZOMBIE and (mine or str(state_dir) in " ".join(command)):
                found[process.pid] = " ".join(command)
    return found
