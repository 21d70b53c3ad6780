"""The version of a project whose build reads it from git's tags."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from packaging.version import InvalidVersion, Version

from shared.projects.manifests import read_text

UNKNOWN = "0.0.0"


def find_version(source: Path) -> str:
    """The latest version among the tags of the repository at ``source``, UNKNOWN if it has none."""
    found = []
    for tag in _list_tags(source):
        if match := re.search(r"(?:^|[^\w.])v?(\d+(?:\.\d+)+[\w.]*)$", f"/{tag}"):
            with contextlib.suppress(InvalidVersion):
                found.append(Version(match[1]))
    finished = [version for version in found if not version.is_prerelease] or found
    return str(max(finished)) if finished else UNKNOWN


def _list_tags(source: Path) -> Iterator[str]:
    folder = source / ".git"
    if folder.is_file():
        pointer = re.match(r"gitdir: (.+)", read_text(folder))
        folder = source / pointer[1].strip() if pointer else folder
        folder /= read_text(folder / "commondir").strip() or "."
    for line in read_text(folder / "packed-refs").splitlines():
        if match := re.match(r"[0-9a-f]+ refs/tags/(.+)", line):
            yield match[1]
    tags = folder / "refs/tags"
    yield from (str(path.relative_to(tags)) for path in tags.rglob("*") if path.is_file())
