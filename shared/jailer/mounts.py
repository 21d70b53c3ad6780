"""Mounts that only root needs: a command's folders shown to a throw-away user as its own, by idmapped mounts.

A user that owns nothing can neither pass through /root nor write to a working copy that root made. So the
folders a command may see are mounted a second time, in a folder that every user can reach and in a mount
namespace of its own, with their owner shown as that user. On the disk nothing changes, and what the user
writes belongs to the folder's owner.
"""

import contextlib
import errno
import functools
import os
import signal
import stat
from pathlib import Path

from shared.jailer import JailSpec, syscalls

USER = 0x70000000 + os.getpid()
"""The throw-away user, one for each process that starts commands; no account is that high."""


def prepare_user_namespace() -> None:
    """Make the user namespace for root's files, which forks inherit."""
    _map_owner(0, 0)


def enter_mount_namespace(place: str) -> str:
    """Enter a mount namespace that receives the machine's mounts but not the other way round.

    Returns why that cannot be done, empty if it was.
    """
    try:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount("none", "/", "none", syscalls.MS_REC | syscalls.MS_SLAVE)
        syscalls.mount("tmpfs", f"{place}/stage", "tmpfs", 0, "mode=755")
    except OSError as error:
        return f"this root may not make mounts of its own ({error.strerror})"
    return ""


def remap_owners(spec: JailSpec, place: str) -> JailSpec:
    """``spec`` with sources that USER can reach; raises OSError if this root may not mount."""
    wanted: dict[str, bool] = {}
    for mount in (mount for mount in spec.mounts if mount.source):
        wanted[mount.source] = mount.writable or wanted.get(mount.source, False)
    if spec.program_folder:
        wanted.setdefault(spec.program_folder, False)
    trees = {source: _open(source, writable) for source, writable in wanted.items()}
    places = {
        source: _place(f"{place}/stage/{number}", tree) for number, (source, tree) in enumerate(trees.items())
    }
    mounts = [mount._replace(source=places.get(mount.source, "")) for mount in spec.mounts]
    program, *options = spec.bubblewrap
    return spec._replace(bubblewrap=[_translate(program, places), *options], mounts=mounts)


def drop_root() -> None:
    """Become USER for good; raises OSError if this root may not."""
    try:
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    except OSError as error:
        raise OSError(error.errno, f"this root may not become another user ({error.strerror})") from None


def _open(source: str, writable: bool) -> int:
    try:
        tree = syscalls.open_tree(source)
    except OSError as error:
        raise OSError(error.errno, f"{source} cannot be shown ({error.strerror})") from None
    owner = os.fstat(tree)
    try:
        syscalls.change_owners(tree, _map_owner(owner.st_uid, owner.st_gid))
    except OSError as error:
        if writable:
            reason = f"its file system cannot show {source} as another user's ({error.strerror})"
            raise OSError(error.errno, reason) from None
    if not writable:
        syscalls.forbid_writing(tree)  # bubblewrap does so too, but is itself a file beneath one of them
    return tree


def _place(target: str, tree: int) -> str:
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.mkdir(target)  # noqa: PTH102
    else:
        Path(target).touch()
    syscalls.move_mount(tree, target)
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
            syscalls.unshare(syscalls.CLONE_NEWUSER)
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
