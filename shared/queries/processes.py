"""The processes of an office on this machine, known without the bus: by kernel and by heartbeats."""

import contextlib
import re
import subprocess
from collections.abc import Iterable, Iterator

import msgspec

from shared import subjects
from shared.bus.connecting import lock_path, read_supervisor
from shared.bus.peers import Holder
from shared.contracts import Presence
from shared.heartbeat import UNRESPONSIVE, read_heartbeats
from shared.settings import Settings
from shared.text.times import seconds_between
from shared.views.status import Process, State

SERVER = "nats"
_COMMANDS = re.compile(r"-m services\.(\w+)|/([\w-]+)/profile\.yaml$|(nats)-server |python\S* /\S*?([\w-]+)$")
"""The command lines of an agent of Mailroom, of a profile alone, of the server, and of one's own agent."""


class _Row(msgspec.Struct, frozen=True):
    """A line of ``ps``."""

    pid: int
    parent: int
    stat: str
    seconds: float
    command: str


def read_processes(config: Settings) -> list[Process]:
    """The processes that the supervisor started or that beat here; itself only if it is stopped."""
    supervisor = read_supervisor(config.state_dir)
    beats = {process: (name, at) for name, process, at in read_heartbeats(config)}
    # Relative to the latest beat or touch by the supervisor, since all are old after the machine slept.
    times = [at for _, at in beats.values()]
    with contextlib.suppress(OSError):
        times.append(lock_path(config.state_dir).parent.stat().st_mtime)
    now = max(times, default=0.0)
    return sorted(
        filter(None, (_process_in(row, supervisor, beats, now) for row in _list_rows())),
        key=lambda process: (process.agent, process.pid),
    )


def find_troubled(config: Settings) -> list[Process]:
    """The processes on this machine that do not run as they should, or take long to start."""
    return [
        process
        for process in read_processes(config)
        if process.state in ("unresponsive", "stopped")
        or (process.state == "starting" and process.seconds >= UNRESPONSIVE)
    ]


def find_late(presences: Iterable[Presence]) -> list[Process]:
    """The processes on other machines whose presence is late."""
    here = Holder.this("")
    return [
        Process(agent=each.agent, pid=each.pid, host=each.host, state="unresponsive", seconds=silent)
        for each in presences
        if (each.host, each.space) != (here.host, here.space)
        and (silent := seconds_between(each.created_at)) > subjects.PRESENCE_INTERVAL + UNRESPONSIVE
    ]


def _process_in(
    row: _Row, supervisor: int, beats: dict[int, tuple[str, float]], now: float
) -> Process | None:
    stopped = row.stat.startswith("T")
    if row.pid == supervisor and stopped:
        return Process(agent="office", pid=row.pid, state="stopped", seconds=0.0)
    if row.pid in beats and "python" in row.command:
        name, at = beats[row.pid]
        if not stopped and now - at <= UNRESPONSIVE:
            return Process(agent=name, pid=row.pid, state="running", seconds=row.seconds)
        state: State = "stopped" if stopped else "unresponsive"
        return Process(agent=name, pid=row.pid, state=state, seconds=max(0.0, now - at))
    found = _COMMANDS.search(row.command)
    if row.parent != supervisor or found is None or row.stat.startswith("Z"):
        return None
    name = next(filter(None, found.groups()))
    if stopped:
        return Process(agent=name, pid=row.pid, state="stopped", seconds=0.0)
    state = "running" if name == SERVER else "starting"
    return Process(agent=name, pid=row.pid, state=state, seconds=row.seconds)


def _list_rows() -> Iterator[_Row]:
    """All processes; none where there is no ``ps``, as in some containers."""
    command = ["ps", "-ww", "-ax", "-o", "pid=,ppid=,stat=,etime=,command="]
    try:
        found = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout
    except OSError:
        return
    for line in found.splitlines():
        match line.split(None, 4):
            case [pid, parent, stat, elapsed, text]:
                yield _Row(int(pid), int(parent), stat, _seconds_of(elapsed), text)


def _seconds_of(elapsed: str) -> float:
    """The seconds of ``[[days-]hours:]minutes:seconds``."""
    days, _, rest = elapsed.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    return int(days or 0) * 86_400.0 + sum(part * 60.0**place for place, part in enumerate(reversed(parts)))
