"""A project as it is read: each part once, when it is first asked for."""

import re
from functools import cached_property
from pathlib import Path

import msgspec

from shared.contracts.checkup import Statement
from shared.projects.reading.ci import Script, read_ci
from shared.projects.reading.discovery import Discovery, find_tests
from shared.projects.reading.manifests import Manifest, read_licence, read_manifests
from shared.projects.reading.node_scripts import read_scripts
from shared.projects.reading.project_files import ProjectFiles
from shared.projects.reading.recognition import LOCKS, FoundProject, find_projects
from shared.source import Limits, Tree, read_tree

README = re.compile(r"readme(\.md|\.markdown|\.rst|\.txt|)", re.IGNORECASE)


class Project(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What the project in a folder says of itself, read from its ``files``.

    Nothing in it is run. A part that is malformed is read as if it were empty; ``unreadable`` names its file.
    """

    files: ProjectFiles
    limits: Limits | None = None

    @cached_property
    def tree(self) -> Tree:
        """Its files by name, within ``limits``; raises ActionError if the folder cannot be read."""
        return read_tree(self.files.folder, self.limits)

    @cached_property
    def manifests(self) -> tuple[Manifest, ...]:
        """What its manifests declare."""
        return read_manifests(self.files, self.tree.files)

    @cached_property
    def licence(self) -> tuple[Statement, ...]:
        """What declares its licence; one statement that nothing does if so."""
        return tuple(read_licence(self.tree, self.manifests))

    @cached_property
    def docs(self) -> tuple[str, ...]:
        """The documents at its top that are named README, Markdown first."""
        found = {name: match[1].lower() for name in self.tree.files if (match := README.fullmatch(name))}
        order = {".md": 0, ".markdown": 0, ".rst": 1, "": 2, ".txt": 2}
        return tuple(sorted(found, key=lambda name: (order[found[name]], name)))

    @cached_property
    def parts(self) -> tuple[FoundProject, ...]:
        """The projects in it, by language: itself, and those in folders of their own."""
        return find_projects(self.files)

    @cached_property
    def locks(self) -> tuple[str, ...]:
        """The locks at its top."""
        return tuple(name for names in LOCKS.values() for name in names if self.files.has(name))

    @cached_property
    def ci(self) -> tuple[Script, ...]:
        """The scripts that its CI runs for a change."""
        return read_ci(self.files)

    @cached_property
    def scripts(self) -> dict[str, str]:
        """The scripts of package.json."""
        return read_scripts(self.files)

    @cached_property
    def tests(self) -> Discovery:
        """The commands that test it; raises ActionError if it states one that makes no sense."""
        return find_tests(self.files, self.ci)

    @property
    def unreadable(self) -> list[tuple[str, str]]:
        """Each of its manifests that cannot be read, and why."""
        return self.files.list_unreadable()


def read_project(folder: Path, limits: Limits | None = None) -> Project:
    """The project in ``folder``, of which nothing has been read yet."""
    return Project(files=ProjectFiles(folder), limits=limits)
