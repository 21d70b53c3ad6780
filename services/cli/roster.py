"""Which agents there are: the folders with a profile.yaml."""

import difflib
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from shared import subjects
from shared.errors import ConfigError
from shared.settings import Settings
from shared.tasks.profile import Profile, load_profile
from shared.tasks.specialists import read_specialists

SERVICES = Path(__file__).resolve().parent.parent


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of the roster: its profile, and the command that starts one process of it.

    ``built_in`` tells those that come with Mailroom from those of ``agents_dir``.
    """

    profile: Profile
    command: tuple[str, ...]
    built_in: bool

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.profile.name


def load_specialists(settings: Settings) -> list[Member]:
    """The specialists there are: each runs as what its profile says, and no code beside it."""
    taken = {member.name for member in load_roster(settings)}
    profiles, _ = read_specialists(settings)
    return [
        Member(profile=profile, command=_bare(settings.specialists / name), built_in=True)
        for name, profile in profiles.items()
        if name not in taken
    ]


def load_roster(settings: Settings) -> list[Member]:
    """Every agent, memory first.

    Raises ConfigError where a profile is wrong, a name is taken twice, or ``replicas`` cannot be.
    """
    members: dict[str, Member] = {}
    for folder in [*_folders(SERVICES), *(_folders(settings.agents_dir) if settings.agents_dir else ())]:
        member = Member(
            profile=load_profile(folder / "profile.yaml"),
            command=_command(folder),
            built_in=folder.parent == SERVICES,
        )
        if member.name in members:
            raise ConfigError(
                f"Two profiles are named {member.name!r}; one of them is {folder / 'profile.yaml'}"
            )
        members[member.name] = member
    for name, count in settings.replicas.items():
        _require_possible(name, count, members)
    return sorted(members.values(), key=lambda member: (member.name != subjects.MEMORY_DAEMON, member.name))


def _require_possible(name: str, count: int, members: Iterable[str]) -> None:
    if name not in members:
        near = difflib.get_close_matches(name, members, n=1)
        cure = f"Did you mean {near[0]!r}?" if near else f"The agents are {', '.join(members)}"
        raise ConfigError(f"MAILROOM_REPLICAS names {name!r}, which is no agent", cure)
    if count > 1 and name == subjects.MEMORY_DAEMON:
        raise ConfigError(f"MAILROOM_REPLICAS wants {count} processes of {name!r}", "There can be one")


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(folder for folder in parent.iterdir() if (folder / "profile.yaml").is_file())
    except OSError as error:
        raise ConfigError(
            f"The agents' folder {parent} cannot be read: {error.strerror}",
            "Correct MAILROOM_AGENTS_DIR, or unset it",
        ) from None


def _command(folder: Path) -> tuple[str, ...]:
    if not (folder / "__main__.py").is_file():
        return _bare(folder)
    if folder.parent == SERVICES:
        return (sys.executable, "-m", f"services.{folder.name}")
    return (sys.executable, str(folder))


def _bare(folder: Path) -> tuple[str, ...]:
    return (sys.executable, "-m", "shared.agent.process", str(folder / "profile.yaml"))
