"""Relative links of Markdown files."""

import re
from pathlib import Path
from typing import NamedTuple

LINK = re.compile(r"\]\(([^()\s#]+)[^()]*\)")


class Link(NamedTuple):
    """Where a link stands (file:line), and where it leads."""

    place: str
    target: str


def find_broken_links(folder: Path) -> list[Link]:
    """The links to files that do not exist, of all Markdown files beneath ``folder``."""
    return [
        Link(f"{path.relative_to(folder)}:{number}", target)
        for path in sorted(folder.rglob("*.md"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for target in LINK.findall(line)
        if "://" not in target and not (path.parent / target).exists()
    ]
