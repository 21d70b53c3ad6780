"""The files of a project: what belongs into a working copy of it."""

import asyncio
import codecs
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from services.engineer.git import read_only_git
from shared.skills.repository import Repository, find_repository

IGNORED = frozenset(
    ".git .hg .svn .venv venv __pycache__ .mypy_cache .pytest_cache .ruff_cache .hypothesis .tox .nox .gradle"
    " .next .DS_Store".split()
)
"""Left out in a folder without git: tools create it again; a virtual environment is used in its place."""


async def list_files(folder: Path, left_out: str = "") -> Iterable[str]:
    """The files that belong to ``folder``, relative to it.

    In a git repository those that are tracked or neither tracked nor ignored, submodules' included, and the
    installed node_modules, without which no JavaScript test runs; elsewhere all but IGNORED. Nothing beneath
    the folder ``left_out`` is listed.
    """
    repository = find_repository(folder)
    names = await _list_repository(repository, folder) if repository else []
    found = itertools.chain(names, _list_installed(folder, names)) if names else walk(folder)
    return (name for name in found if not left_out or not name.startswith(f"{left_out}/"))


async def _list_repository(repository: Repository, folder: Path, prefix: str = "") -> list[str]:
    async with read_only_git(repository) as git:
        listing = await git.read("ls-files", "--cached", "--others", "--exclude-standard", cwd=folder)
    files, folders = await asyncio.to_thread(_split, folder, listing)
    names = [prefix + name for name in files]
    for name in folders:
        # Git lists another repository inside this one, a submodule for one, as a single entry.
        inner = find_repository(folder / name)
        if inner and inner.top == folder / name:
            names += await _list_repository(inner, folder / name, f"{prefix}{name.rstrip('/')}/")
    return names


def _split(folder: Path, listing: str) -> tuple[list[str], list[str]]:
    names = dict.fromkeys(_unquote(line) for line in listing.splitlines())
    folders = [name for name in names if (folder / name).is_dir() and not (folder / name).is_symlink()]
    return [name for name in names if name not in set(folders)], folders


def _unquote(line: str) -> str:
    """A path as ``git ls-files`` writes it: in quotes and with C's escapes unless it is plain ASCII."""
    return os.fsdecode(codecs.escape_decode(line[1:-1].encode())[0]) if line.startswith('"') else line


def _list_installed(folder: Path, names: Iterable[str]) -> Iterator[str]:
    for package in (Path(name).parent for name in names if name.endswith("package.json")):
        modules = package / "node_modules"
        installed = folder / modules
        if "node_modules" not in package.parts and installed.is_dir() and not installed.is_symlink():
            yield from (str(modules / name) for name in walk(installed))


def walk(folder: Path) -> Iterator[str]:
    """Every file and link beneath ``folder`` but IGNORED, relative to it, sorted."""
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in IGNORED and name not in links)
        for name in sorted(files + links):
            if name not in IGNORED:
                yield str(Path(parent, name).relative_to(folder))
