"""Which agents there are: the folders with a profile.yaml."""

import sys
from pathlib import Path

import msgspec

from shared import subjects
from shared.errors import ConfigError
from shared.profile import Profile, load_profile
from shared.settings import Settings

SERVICES = Path(__file__).resolve().parent.parent


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of the roster: its profile, and the command that starts one process of it."""

    profile: Profile
    command: tuple[str, ...]

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.profile.name


def load_roster(settings: Settings) -> list[Member]:
    """Every agent, memory first; raises ConfigError where a profile is wrong or a name is taken twice."""
    folders = [*SERVICES.iterdir(), *(settings.agents_dir.iterdir() if settings.agents_dir else ())]
    members: dict[str, Member] = {}
    for folder in sorted(folder for folder in folders if (folder / "profile.yaml").is_file()):
        member = Member(profile=load_profile(folder / "profile.yaml"), command=_command(folder))
        if member.name in members:
            raise ConfigError(f"Two profiles are named {member.name!r}; one of them is {folder / 'profile.yaml'}")
        members[member.name] = member
    return sorted(members.values(), key=lambda member: (member.name != subjects.MEMORY_DAEMON, member.name))


def _command(folder: Path) -> tuple[str, ...]:
    if folder.parent == SERVICES:
        return (sys.executable, "-m", f"services.{folder.name}")
    if (folder / "__main__.py").is_file():
        return (sys.executable, str(folder))
    return (sys.executable, "-m", "shared.process", str(folder / "profile.yaml"))
