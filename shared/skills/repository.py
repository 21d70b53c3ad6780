"""Finds git repositories without running git: a repository's own configuration could run programs."""

from pathlib import Path

import msgspec

ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    # In the jail all files seem to have a foreign owner; there is no other user to be protected from.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
"""Runs git without the settings of this machine and its users, and without prompts."""

AUTHOR = {
    "GIT_AUTHOR_NAME": "Mailroom",
    "GIT_AUTHOR_EMAIL": "mailroom@localhost",
    "GIT_COMMITTER_NAME": "Mailroom",
    "GIT_COMMITTER_EMAIL": "mailroom@localhost",
}
"""Who commits in working copies."""


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """Where a repository lies: its work tree, its git folder, and the one it shares with other work trees.

    All three are the same if it is ``bare``.
    """

    top: Path
    private: Path
    common: Path

    @property
    def bare(self) -> bool:
        """Whether it has no work tree."""
        return self.top == self.private

    @property
    def folders(self) -> list[Path]:
        """What git must be able to read of it."""
        return list(dict.fromkeys((self.top, self.private, self.common)))


def find_repository(folder: Path) -> Repository | None:
    """The repository whose work tree holds ``folder``, or None."""
    for top in (folder, *folder.parents):
        private = top / ".git"
        if private.is_file():
            private = _follow(private, "gitdir:")
        if private.is_dir() and (private / "HEAD").exists():
            common = _follow(private / "commondir") if (private / "commondir").is_file() else private
            # The pointers are the repository's own words: they must not make any folder readable.
            if (common / "objects").is_dir() and (common / "HEAD").exists():
                return Repository(top=top, private=private, common=common)
    return None


def find_any(folder: Path) -> Repository | None:
    """The bare repository that ``folder`` is, else the one whose work tree holds it, or None."""
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir():
        return Repository(top=folder, private=folder, common=folder)
    return find_repository(folder)


def _follow(pointer: Path, prefix: str = "") -> Path:
    with pointer.open("rb") as file:
        text = file.read(4096).decode("utf-8", "surrogateescape")
    return (pointer.parent / text.removeprefix(prefix).strip("\n ")).resolve()
