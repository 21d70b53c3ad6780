"""The jailer: the process that starts commands in the jail; standard library alone, so that it forks quickly.

This module is what it shares with its client: the specification of a command, as JSON in a file in memory.
"""

import json
import os
from typing import NamedTuple

KILLED = "it was ended from outside"
"""Why a command ended that neither ended by itself nor was stopped: a person or the kernel killed it."""


class Mount(NamedTuple):
    """A folder or file of the machine, and where the command sees it; an empty folder without ``source``."""

    source: str
    target: str
    writable: bool


class JailSpec(NamedTuple):
    """One command, and the jail it is to run in.

    ``bubblewrap`` is its program with the options that come before those of the ``mounts``; ``late_options``
    come after them. ``limits`` are pairs of an RLIMIT number and its bound; ``memory`` are bytes of all
    processes together, 0 for no limit. ``program_folder`` is a folder that bubblewrap itself needs, empty if
    every user can reach it.
    """

    bubblewrap: list[str]
    mounts: list[Mount]
    late_options: list[str]
    command: list[str]
    environment: dict[str, str]
    limits: list[tuple[int, int]]
    memory: int
    stop_signal: int
    grace: float
    program_folder: str = ""


def write_spec(spec: JailSpec) -> int:
    """A file in memory that holds ``spec``: its descriptor."""
    fd = os.memfd_create("spec")
    with open(fd, "wb", closefd=False) as file:
        file.write(json.dumps(spec).encode("utf-8", "surrogateescape"))
    return fd


def read_spec(fd: int, place: str) -> JailSpec:
    """The specification in the file ``fd``, which is closed, with the /etc that lies in ``place``."""
    with open(fd, "rb") as file:
        file.seek(0)
        spec = JailSpec(*json.loads(file.read().decode("utf-8", "surrogateescape")))
    mounts = [Mount(*mount) for mount in spec.mounts]
    return spec._replace(mounts=[Mount(f"{place}/etc", "/etc", False), *mounts])
