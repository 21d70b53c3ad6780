"""What the office asks of the jailer, as JSON in a file that only lives in memory."""

import json
import os
from typing import NamedTuple

KILLED = "it was ended from outside"
"""Why a command ended that neither ended by itself nor was to end: somebody, or the kernel, killed it."""


class Folder(NamedTuple):
    """A folder or file of the machine, and where the command sees it; without ``source`` an empty folder."""

    source: str
    target: str
    writable: bool


class Order(NamedTuple):
    """One command, and the jail it is to run in.

    ``jail`` is bubblewrap with its options up to the ``folders``, ``rest`` those after them. ``limits`` are
    pairs of an RLIMIT number and its bound; ``memory`` are bytes of all processes together, 0 for no limit.
    ``staged`` is a folder that bubblewrap itself needs, empty where everybody can reach it.
    """

    jail: list[str]
    folders: list[Folder]
    rest: list[str]
    command: list[str]
    environment: dict[str, str]
    limits: list[tuple[int, int]]
    memory: int
    stop_signal: int
    grace: float
    staged: str = ""


def write(order: Order) -> int:
    """A file that holds ``order``: its descriptor."""
    fd = os.memfd_create("order")
    with open(fd, "wb", closefd=False) as file:
        file.write(json.dumps(order).encode("utf-8", "surrogateescape"))
    return fd


def read(fd: int, place: str) -> Order:
    """The order in the file ``fd``, which is closed, with what lies in ``place`` as the command's /etc."""
    with open(fd, "rb") as file:
        file.seek(0)
        order = Order(*json.loads(file.read().decode("utf-8", "surrogateescape")))
    folders = [Folder(*folder) for folder in order.folders]
    return order._replace(folders=[Folder(f"{place}/etc", "/etc", False), *folders])
