"""Virtual environments: one that is kept is shown to a working copy as if it had been made for that.

An editable installation names the folder it was made from. The view of an environment has links to what is
kept, and copies of the few files that name that folder, with the folder of the working copy in its place.
"""

import os
import stat
from pathlib import Path
from urllib.parse import quote

from shared.errors import ActionError
from shared.sandbox import remove_tree
from shared.sandbox.confined import ConfinedFolder

LARGEST = 1 << 20
"""The most bytes of a file that is copied: scripts and lists of paths are small."""


def make_view(kept: Path, view: Path, old: Path, new: Path) -> None:
    """Make ``view`` of the environment ``kept``, with ``new`` for ``old`` in the files that name that folder.

    Files of the environment are read without following links: code of a stranger made it.
    """
    if view.exists():
        remove_tree(view)
    view.mkdir(parents=True, mode=0o700)
    texts = {str(kept): str(view), str(old): str(new), quote(str(old)): quote(str(new))}
    changes = {was.encode(): now.encode() for was, now in texts.items()}
    with ConfinedFolder(kept) as folder:
        builder = _ViewBuilder(kept, view, folder, changes)
        for name, mode in folder.entries("."):
            if name == "bin" and stat.S_ISDIR(mode):
                builder.add_folder("bin", every=True)
            elif name == "lib" and stat.S_ISDIR(mode):
                builder.add_library()
            elif name == "pyvenv.cfg":
                builder.copy(name)
            elif name != "lib64":
                builder.link(name, mode)
    if (kept / "lib64").is_symlink():
        (view / "lib64").symlink_to("lib")


class _ViewBuilder:
    def __init__(self, kept: Path, view: Path, folder: ConfinedFolder, changes: dict[bytes, bytes]) -> None:
        self.kept = kept
        self.view = view
        self.folder = folder
        self.changes = changes

    def add_library(self) -> None:
        """The packages: links to them, and copies of the files that name a changed folder."""
        (self.view / "lib").mkdir()
        for python, _ in self.folder.entries("lib"):
            (self.view / "lib" / python).mkdir()
            for name, mode in self.folder.entries(f"lib/{python}"):
                if name == "site-packages" and stat.S_ISDIR(mode):
                    self.add_folder(f"lib/{python}/{name}", every=False)
                else:
                    self.link(f"lib/{python}/{name}", mode)

    def add_folder(self, place: str, *, every: bool) -> None:
        """A folder: its small files are copied, all or (not ``every``) those that name a changed folder."""
        (self.view / place).mkdir()
        for name, mode in self.folder.entries(place):
            path = f"{place}/{name}"
            if (
                stat.S_ISDIR(mode)
                and name.endswith(".dist-info")
                and self._names_folder(f"{path}/direct_url.json")
            ):
                self.add_folder(path, every=True)
            elif stat.S_ISREG(mode) and (every or name.endswith((".pth", ".py", ".egg-link"))):
                self.copy(path, only_changed=not every)
            else:
                self.link(path, mode)

    def link(self, path: str, mode: int) -> None:
        """A link to the kept file or folder; a link is repeated as it is."""
        target = os.readlink(self.kept / path) if stat.S_ISLNK(mode) else str(self.kept / path)  # noqa: PTH115
        (self.view / path).symlink_to(target)

    def copy(self, path: str, *, only_changed: bool = False) -> None:
        """A copy with the folders changed; of a large file, or one that names none, a link."""
        data = self._read(path)
        changed = self._change(data) if data is not None else None
        if changed is None or (only_changed and changed == data):
            self.link(path, 0)
            return
        target = self.view / path
        target.write_bytes(changed)
        target.chmod(0o755 if changed.startswith(b"#!") else 0o644)

    def _names_folder(self, path: str) -> bool:
        data = self._read(path)
        return data is not None and self._change(data) != data

    def _read(self, path: str) -> bytes | None:
        try:
            return self.folder.read(path, LARGEST)
        except ActionError:
            return None

    def _change(self, data: bytes) -> bytes:
        if b"\0" in data:
            return data
        for was, now in self.changes.items():
            data = data.replace(was, now)
        return data


def find_site_packages(environment: Path) -> Path | None:
    """The folder of its packages; None if it has none."""
    return next(iter(sorted(environment.glob("lib/python3*/site-packages"))), None)


def list_installed(environment: Path) -> dict[str, str]:
    """The installed packages by normalised name, with their versions."""
    from shared.projects.reading.python_manifest import normalise

    packages = find_site_packages(environment)
    found = {}
    for path in packages.glob("*.dist-info") if packages else ():
        name, _, version = path.name.removesuffix(".dist-info").partition("-")
        found[normalise(name)] = version
    return found
