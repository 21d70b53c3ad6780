"""Root's part: folders shown to a throw-away user as its own, in a mount namespace nobody else sees.

A user that owns nothing can neither pass through /root nor write a working copy that root made. So the
folders a command may see are mounted once more, in a place that is open to all, with their owner shown as
that user; on the disk nothing changes, and what the user writes belongs to the folder's owner.
"""

import contextlib
import errno
import functools
import os
import signal
import stat
from pathlib import Path

from shared.jailer import kernel
from shared.jailer.order import Order

USER = 0x70000000 + os.getpid()
"""The throw-away user, one for each process that starts commands; no account is that high."""


def prepare() -> None:
    """Do once what every command of root needs: forks have it too."""
    _map_owner(0, 0)


def enter_own_mounts(place: str) -> str:
    """Leave the machine's mounts for a copy that follows them but not the other way round, with a stage.

    Returns why that cannot be done, empty where it was.
    """
    try:
        kernel.unshare(kernel.CLONE_NEWNS)
        kernel.mount("none", "/", "none", kernel.MS_REC | kernel.MS_SLAVE)
        kernel.mount("tmpfs", f"{place}/stage", "tmpfs", 0, "mode=755")
    except OSError as error:
        return f"this root may not make mounts of its own ({error.strerror})"
    return ""


def set_the_stage(order: Order, place: str) -> Order:
    """``order`` with sources that USER can reach; raises OSError where this root may not mount."""
    wanted: dict[str, bool] = {}
    for folder in (folder for folder in order.folders if folder.source):
        wanted[folder.source] = folder.writable or wanted.get(folder.source, False)
    if order.staged:
        wanted.setdefault(order.staged, False)
    trees = {source: _open(source, writable) for source, writable in wanted.items()}
    places = {
        source: _place(f"{place}/stage/{number}", tree) for number, (source, tree) in enumerate(trees.items())
    }
    folders = [folder._replace(source=places.get(folder.source, "")) for folder in order.folders]
    return order._replace(jail=[_translate(order.jail[0], places), *order.jail[1:]], folders=folders)


def step_down() -> None:
    """Become USER for good; raises OSError where this root may not."""
    try:
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    except OSError as error:
        raise OSError(error.errno, f"this root may not become another user ({error.strerror})") from None


def _open(source: str, writable: bool) -> int:
    try:
        tree = kernel.open_tree(source)
    except OSError as error:
        raise OSError(error.errno, f"{source} cannot be shown ({error.strerror})") from None
    owner = os.fstat(tree)
    try:
        kernel.change_owners(tree, _map_owner(owner.st_uid, owner.st_gid))
    except OSError as error:
        if writable:
            reason = f"its file system cannot show {source} as another user's ({error.strerror})"
            raise OSError(error.errno, reason) from None
    if not writable:
        kernel.forbid_writing(tree)  # bubblewrap does so too, but is itself a file beneath one of them
    return tree


def _place(target: str, tree: int) -> str:
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.mkdir(target)  # noqa: PTH102
    else:
        Path(target).touch()
    kernel.move_mount(tree, target)
    os.close(tree)
    return target


def _translate(program: str, places: dict[str, str]) -> str:
    for source, place in places.items():
        if Path(program).is_relative_to(source):
            return str(place / Path(program).relative_to(source))
    return program


@functools.cache
def _map_owner(uid: int, gid: int) -> int:
    """A user namespace that shows the files of ``uid`` and ``gid`` as USER's."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            kernel.unshare(kernel.CLONE_NEWUSER)
            os.write(theirs, b".")
            signal.pause()
        os._exit(0)
    os.close(theirs)
    try:
        if not os.read(ours, 1):
            raise OSError(errno.EPERM, "no user namespace can be made")
        _write_map(child, "uid_map", uid)
        _write_map(child, "gid_map", gid)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ours)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _write_map(pid: int, name: str, owner: int) -> None:
    rows = [(owner, USER, 1), (owner + 1, owner + 1, USER - owner - 1)]
    if owner:
        rows.insert(0, (0, 0, owner))
    lines = "\n".join(" ".join(map(str, row)) for row in rows if row[2] > 0)
    Path(f"/proc/{pid}/{name}").write_text(lines)
