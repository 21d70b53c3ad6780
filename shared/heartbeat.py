"""The heartbeat of a process: a file that its event loop touches, and the end of one whose loop is blocked.

A file, because its readers (the supervisor, the commands, the health check of a container) need neither the
bus nor free space on the disk. A second file, ``.pulling``, is touched only while the process also gets what
is sent to it. That one tells whether a container is healthy and a pod ready; no process is ended for it: the
server may be away. ``python -m shared.heartbeat`` ends processes that are stopped.
"""

import asyncio
import contextlib
import faulthandler
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from shared import settings
from shared.log import logger
from shared.settings import Settings

INTERVAL = 2.0
"""Seconds between two beats: each costs a touch of a file; a fifth of the limit if that is shorter."""
UNRESPONSIVE = 10.0
"""Seconds without a beat after which a process is named, and the stacks of its threads are in its log."""
PULLING = ".pulling"  # The suffix of the file of a process whose durables deliver
TICK = 1.0  # Seconds between two looks at whether the event loop beats
LAST_WORDS = 3
"""Seconds a process that ends itself has for its last log line: its log may be what it is blocked by."""

log = logger(__name__)


def heartbeat_path(config: Settings, name: str, process: int) -> Path:
    """The file that exists while the process of agent ``name`` on this machine is ready."""
    return config.state_dir / "run" / f"{name}-{socket.gethostname()}-{process}.alive"


def remove_heartbeat(path: Path) -> None:
    """Remove what a process that has ended touched; raises OSError."""
    for each in (path, path.with_suffix(PULLING)):
        each.unlink(missing_ok=True)


def read_heartbeats(config: Settings) -> Iterator[tuple[str, int, float]]:
    """The name, the process id and the time of the last beat of each ready process on this machine."""
    host = f"-{socket.gethostname()}-"
    for path in (config.state_dir / "run").glob(f"*{host}*.alive"):
        name, _, process = path.stem.rpartition(host)
        with contextlib.suppress(OSError):
            if process.isdecimal():
                yield name, int(process), path.stat().st_mtime


def end_stopped(config: Settings) -> list[str]:
    """Kill the processes here that are stopped by a signal and have not beaten for ``unresponsive_limit``.

    Returns a sentence for each. For the check of a container, where no supervisor does it: such a process
    cannot end itself, and the restart policy starts what ended again.
    """
    ended = []
    for name, process, at in read_heartbeats(config):
        seconds = time.time() - at
        with contextlib.suppress(OSError, IndexError):
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            if state in "Tt" and seconds >= config.unresponsive_limit:
                os.kill(process, signal.SIGKILL)
                ended.append(
                    f"{name} (process {process}) was stopped by a signal for {seconds:.0f} s: ended, to be "
                    "started again"
                )
    return ended


def limit_start(seconds: float) -> None:
    """End this process, with the stacks of its threads in its log, unless it beats within ``seconds``."""
    faulthandler.dump_traceback_later(seconds, exit=True)


class Silence:
    """The seconds for which nothing changed, of those in which this process itself ran.

    Time in which the machine slept or stood still counts for two ticks at most: what is observed could not
    change then either.
    """

    def __init__(self, tick: float = TICK) -> None:
        self._tick = tick
        self._seen: object = None
        self._at = time.monotonic()
        self.seconds = 0.0

    def observe(self, seen: object) -> float:
        """Note what is seen, once a tick; returns ``seconds``."""
        now = time.monotonic()
        passed, self._at = min(now - self._at, 2 * self._tick), now
        self.seconds = self.seconds + passed if seen == self._seen else 0.0
        self._seen = seen
        return self.seconds


class Heartbeat:
    """Beats on the running event loop, and watches from a thread that it does.

    A loop that is blocked for UNRESPONSIVE seconds has the stacks of all threads written to standard error;
    after ``limit`` seconds the process ends, and what keeps it running (the supervisor, the restart policy of
    a container) starts it again. Blocking work in threads does not count. Code that keeps the interpreter's
    lock, such as a regular expression, stops the thread too: then the kernel ends the process, after
    twice ``limit`` seconds of processor time. ``pulls`` tells whether the process gets what is sent to it.
    """

    def __init__(self, path: Path, limit: float, pulls: Callable[[], bool]) -> None:
        self._path = path
        self._limit = limit
        self._pulls = pulls
        self._interval = min(INTERVAL, limit / 5)
        self._beats = 0
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to beat; raises OSError if the file cannot be written."""
        self._touch()
        self._beat()
        threading.Thread(target=self._watch, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Stop watching and remove the file; a no-op unless started."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
            faulthandler.cancel_dump_traceback_later()
            signal.setitimer(signal.ITIMER_PROF, 0)
        with contextlib.suppress(OSError):
            remove_heartbeat(self._path)

    def _beat(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._beat)
        self._beats += 1
        signal.setitimer(signal.ITIMER_PROF, 2 * self._limit)
        # A disk, or a limit of threads, that is used up must not look like a blocked loop.
        with contextlib.suppress(OSError):
            self._touch()
        with contextlib.suppress(RuntimeError):
            # Its thread needs no lock of the interpreter.
            faulthandler.dump_traceback_later(min(UNRESPONSIVE, self._limit / 2), file=sys.stderr)

    def _touch(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch()
        if self._pulls():
            self._path.with_suffix(PULLING).touch()

    def _watch(self) -> None:
        tick = min(TICK, self._interval / 2)
        silence, named = Silence(tick), False
        while not self._stopped.wait(tick):
            before, seconds = silence.seconds, silence.observe(self._beats)
            if seconds >= self._limit:
                signal.alarm(LAST_WORDS)
                log.error("event_loop_blocked", seconds=round(seconds), next="ends, to be started again")
                os._exit(1)
            if seconds >= UNRESPONSIVE and not named:
                named = True
                log.warning("event_loop_blocked", seconds=round(seconds), stacks="above in this log")
            elif not seconds and named:
                named = False
                log.warning("event_loop_free_again", seconds=round(before))


if __name__ == "__main__":
    for sentence in end_stopped(settings.load()):
        with contextlib.suppress(OSError), Path("/proc/1/fd/2").open("w") as log_of_container:
            log_of_container.write(f"{sentence}\n")
        sys.stdout.write(f"{sentence}\n")
