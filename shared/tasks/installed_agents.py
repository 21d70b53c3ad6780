"""The installed agents: folders with a profile.yaml."""

import difflib
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from shared import subjects
from shared.errors import ConfigError
from shared.settings import Settings
from shared.tasks.profiles import Profile, load_profile, read_specialists

SERVICES = Path(__file__).resolve().parents[2] / "services"


class InstalledAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent: its profile, and the command that starts a process of it.

    ``built_in`` is false for those in ``agents_dir``.
    """

    profile: Profile
    command: tuple[str, ...]
    built_in: bool

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.profile.name


def load_specialists(settings: Settings) -> list[InstalledAgent]:
    """The specialists: agents that consist of a profile, without code of their own."""
    taken = {agent.name for agent in load_agents(settings)}
    profiles, _ = read_specialists(settings)
    return [
        InstalledAgent(profile=profile, command=_profile_command(settings.specialists / name), built_in=True)
        for name, profile in profiles.items()
        if name not in taken
    ]


def load_agents(settings: Settings) -> list[InstalledAgent]:
    """Every agent but specialists and those that ``read_agents`` refuses, memory first."""
    return read_agents(settings)[0]


def read_agents(settings: Settings) -> tuple[list[InstalledAgent], dict[str, str]]:
    """Every agent but specialists, memory first, and why folders of ``agents_dir`` are refused, by name.

    Raises ConfigError if ``agents_dir`` cannot be read, or ``replicas`` is invalid.
    """
    agents = {folder.name: _read_agent(folder) for folder in _folders(SERVICES)}
    refused: dict[str, str] = {}
    for folder in _folders(settings.agents_dir) if settings.agents_dir else ():
        try:
            agent = _read_agent(folder)
            if agent.name in agents:
                raise ConfigError(
                    f"Two profiles are named {agent.name!r}; one of them is {folder / 'profile.yaml'}",
                    "Give it a name of its own",
                )
        except ConfigError as error:
            refused[folder.name] = str(error)
        else:
            agents[agent.name] = agent
    for name in settings.replicas:
        _require_known(name, [*agents, *refused])
    return sorted(
        agents.values(), key=lambda agent: (agent.name != subjects.MEMORY_DAEMON, agent.name)
    ), refused


def _read_agent(folder: Path) -> InstalledAgent:
    return InstalledAgent(
        profile=load_profile(folder / "profile.yaml"),
        command=_command(folder),
        built_in=folder.parent == SERVICES,
    )


def _require_known(name: str, agents: Iterable[str]) -> None:
    agents = [*agents, subjects.MEMORY_READER]
    if name not in agents:
        near = difflib.get_close_matches(name, agents, n=1)
        cure = f"Did you mean {near[0]!r}?" if near else f"The agents are {', '.join(agents)}"
        raise ConfigError(f"MAILROOM_REPLICAS names {name!r}, which is no agent", cure)


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
        return _profile_command(folder)
    if folder.parent == SERVICES:
        return (sys.executable, "-m", f"services.{folder.name}")
    return (sys.executable, str(folder))


def _profile_command(folder: Path) -> tuple[str, ...]:
    return (sys.executable, "-m", "shared.agent.process", str(folder / "profile.yaml"))
