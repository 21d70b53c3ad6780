"""What a jailed command sees of the machine's files."""

import functools
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from shared import settings
from shared.errors import ActionError, ConfigError
from shared.jailer import Mount

HOME = "/home/agent"
TEMPORARY = "/tmp"  # noqa: S108 - the jail's own
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
CLOSED = frozenset({"/", "/boot", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/var"})  # noqa: S108
"""Folders that are never shown whole; nor is a home."""
FORBIDDEN = ("/boot", "/dev", "/etc", "/proc", "/run", "/sys")
"""Folders of which nothing is shown but what the jail itself needs; /run has sockets of other programs."""

TOOLS = ("lib", "lib64", "libexec", "versions", "installs", "tools", "toolchains")
"""A folder with one of these beside its bin is a tool chain and shown whole; of others only the programs."""
PRIVATE = (".", ".local", ".cargo", ".config", ".docker")
"""Folders of a home that hold more than tools, perhaps passwords: only their programs are shown."""
MANAGERS = {
    "RUSTUP_HOME": ".rustup",
    "PYENV_ROOT": ".pyenv",
    "VOLTA_HOME": ".volta",
    "ASDF_DATA_DIR": ".asdf",
}
"""Where version managers keep what their shims on the PATH start: by default they look in HOME."""


def search_path() -> str:
    """The caller's PATH without relative entries: those would find programs in the command's own folder.

    It is no secret, and shows where a person's node or cargo is.
    """
    return os.pathsep.join(entry for entry in os.get_exec_path() if entry.startswith("/"))


def manager_homes() -> dict[str, str]:
    """The version managers' folders there are, by the variable that names them."""
    return _find_managers(str(Path.home()))


@functools.lru_cache
def _find_managers(home: str) -> dict[str, str]:
    places = {name: Path(home, place) for name, place in MANAGERS.items()}
    return {name: str(place) for name, place in places.items() if place.is_dir()}


def tool_folders() -> dict[str, Mount]:
    """The folders of this Python and of the tool chains on the PATH that the system's own do not hold."""
    return _find_tools(search_path(), str(Path.home()))


@functools.lru_cache
def _find_tools(search: str, home: str) -> dict[str, Mount]:
    found = [sys.prefix, sys.base_prefix, *_find_managers(home).values()]
    for entry in filter(os.path.isdir, search.split(os.pathsep)):
        above = os.path.dirname(os.path.normpath(entry))  # noqa: PTH120 - links stay as they are
        found.append(above if _is_tool_chain(above, home) else entry)
    shown = (path for path in dict.fromkeys(found) if not is_below(path, SYSTEM) and not is_closed(path))
    return {path: Mount(os.path.realpath(path), path, False) for path in shown}


def _is_tool_chain(folder: str, home: str) -> bool:
    private = {os.path.normpath(f"{home}/{name}") for name in PRIVATE}
    return (
        folder not in private and any(Path(folder, name).is_dir() for name in TOOLS) and not is_closed(folder)
    )


def is_closed(path: str) -> bool:
    """Whether ``path`` is too much, or the wrong thing, to be shown: a whole home, the system's settings."""
    return path in CLOSED or is_below(path, FORBIDDEN) or is_below(str(Path.home()), [path])


def is_below(path: str, tops: Iterable[str]) -> bool:
    """Whether ``path`` is one of ``tops`` or lies below one."""
    return any(f"{path}/".startswith(f"{top}/") for top in tops)


@functools.cache
def system_options() -> tuple[str, ...]:
    """bubblewrap's options for what every command sees."""
    # Everything that can be written has a size limit.
    shared_memory = ["--perms", "1777", "--size", str(1 << 28), "--tmpfs", "/dev/shm"]  # noqa: S108
    options = ["--proc", "/proc", "--dev", "/dev", *shared_memory]
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), str(path)]  # noqa: PTH115 - as it is written
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    options += ["--perms", "1777", "--size", str(1 << 30), "--tmpfs", TEMPORARY]
    options += ["--perms", "0700", "--size", str(1 << 30), "--tmpfs", HOME]
    return tuple(options)


def visible_mounts(
    cwd: Path, writable: Sequence[Path] = (), readable: Sequence[Path] = (), program: str = ""
) -> list[Mount]:
    """What is mounted for one command, outer folders before inner ones.

    ``program`` is shown if it is an absolute path, and nothing else with it. Raises ActionError if a folder
    does not exist or is never shown.
    """
    wanted = dict(tool_folders())
    for paths, is_writable in ((readable, False), (writable, True)):
        for path in paths:
            wanted |= _show(path, is_writable)
    for place in (os.path.abspath(cwd), program):  # noqa: PTH100 - without following links
        known = is_below(os.path.normpath(place), (*wanted, *SYSTEM))
        if place.startswith("/") and place != "/" and not known:
            wanted |= _show(Path(place), False)
    shown: list[Mount] = []
    wholly = [*wanted.values(), *_cover(wanted.values())]
    for folder in sorted(wholly, key=lambda folder: folder.target.count("/")):
        if not _is_shown(folder, shown):
            shown.append(folder)
    return shown


def _show(path: Path, is_writable: bool) -> dict[str, Mount]:
    real = os.path.realpath(path)
    if not os.path.lexists(real):
        raise ActionError(f"The folder {path} does not exist")
    if is_closed(real) or (is_writable and real in (*SYSTEM, *tool_folders())):
        raise ActionError(f"A command may not see all of {path}", "Name a folder inside it")
    targets = (os.path.abspath(path), real)  # noqa: PTH100 - where the caller says it is, and where it is
    return {target: Mount(real, target, is_writable) for target in targets}


def _is_shown(folder: Mount, shown: Sequence[Mount]) -> bool:
    """Whether the mounts so far show ``folder`` at the same place, with the same access."""
    if is_below(folder.target, SYSTEM):
        return not folder.writable
    for outer in reversed(shown):
        if is_below(folder.target, [outer.target]):
            same = folder.source == outer.source + folder.target.removeprefix(outer.target)
            return same and folder.writable == outer.writable
    return False


def _cover(shown: Iterable[Mount]) -> list[Mount]:
    """Empty folders over Mailroom's own state and keys, if they lie in what is shown."""
    return [
        Mount("", folder.target + own.removeprefix(folder.source), False)
        for own in _find_own()
        for folder in shown
        if is_below(own, [folder.source])
    ]


@functools.cache
def _find_own() -> tuple[str, ...]:
    try:
        config = settings.load()
    except ConfigError:
        return ()
    places = map(os.path.realpath, (config.state_dir, config.keys))
    return tuple(path for path in places if Path(path).is_dir())
