"""The jail's /etc: little, nothing secret, put together once because each mount costs a command time."""

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from shared.errors import ActionError
from shared.sandbox.removal import remove_tree

OWN = {
    "passwd": (
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
        "agent:x:1000:1000:agent:/home/agent:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nprotocols: files\nservices: files\n",
    # Who owns a repository does not matter where nothing its settings name can do harm.
    "gitconfig": "[safe]\n\tdirectory = *\n",
}
PREFIX = "mailroom-jailer-"
PLACE = "/tmp"  # noqa: S108 - whom root steps down to must get there, and bubblewrap needs it too
SHARED = (
    *(
        "ld.so.cache ld.so.conf ld.so.conf.d alternatives localtime mime.types magic protocols services"
    ).split(),
    *("ssl/openssl.cnf crypto-policies debian_version os-release java* maven/m2.conf maven/logging").split(),
)
"""What programs need of the machine's own /etc, as patterns; no certificates, for there is no network."""


def furnish() -> str:
    """A new folder, open to everybody, with the jail's /etc in ``etc`` and an empty ``stage``.

    The one to whom it is given removes it. What processes left that were killed is removed first. Raises
    ActionError where it cannot be made.
    """
    _remove_orphans()
    try:
        return _make_folder()
    except OSError as error:
        raise ActionError(
            f"The jail cannot be furnished in {PLACE}: {error.strerror or error}",
            f"See that everybody may write to {PLACE} (chmod 1777 {PLACE}), and that its disk has room",
        ) from None


def _make_folder() -> str:
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=PLACE))
    etc = folder / "etc"
    for made in (etc, folder / "stage"):
        made.mkdir()
    for path in (path for pattern in SHARED for path in Path("/etc").glob(pattern)):
        with contextlib.suppress(OSError, shutil.Error):
            _copy(path, etc / path.relative_to("/etc"))
    for name, text in OWN.items():
        (etc / name).write_text(text)
        (etc / name).chmod(0o644)
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    return str(folder.resolve())


def _remove_orphans() -> None:
    for folder in Path(PLACE).glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.geteuid() and not Path("/proc", owner).exists():
                remove_tree(folder)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=_find_private)
    elif _is_public(source):
        # Where it is a link, that may lead to what a command does not see.
        shutil.copyfile(source, target)
        target.chmod(0o644)


def _find_private(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not _is_public(Path(folder, name))]


def _is_public(path: Path) -> bool:
    """Whether everybody may read it: of what root alone may, the copy would be open."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False
