"""Who works in the office: those at work now, and those with a profile on this machine."""

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path

from services.conductor.yellow_pages import read_presence
from shared.bus import Bus
from shared.errors import ActionError, ConfigError
from shared.settings import Settings
from shared.tasks.profile import load_profile
from shared.tasks.specialists import PREFIX, read_specialists

SERVICES = Path(__file__).resolve().parent.parent


class Roster:
    """Knows the agents by name, so that no task is handed to nobody."""

    def __init__(self, bus: Bus, settings: Settings) -> None:
        self._bus = bus
        self._settings = settings
        self._known: set[str] = set()

    async def require(self, names: Iterable[str]) -> None:
        """Raise ActionError, with who there is, where one of the names is no agent's.

        One that is at work counts wherever its profile lies. One with a profile here counts while it is
        down too: its tasks wait for it.
        """
        for name in set(names) - self._known:
            if await read_presence(self._bus, name) is None and name not in (known := await self.names()):
                raise ActionError(f"There is no agent {name!r}", f"There are {', '.join(sorted(known))}")
            if not name.startswith(PREFIX):
                # A specialist may be retired tomorrow.
                self._known.add(name)

    async def names(self) -> set[str]:
        """Everybody with a profile on this machine, the specialists included."""
        return await asyncio.to_thread(_profiles, self._settings)


def _profiles(settings: Settings) -> set[str]:
    names = set()
    for folder in filter(None, (SERVICES, settings.agents_dir)):
        for path in folder.glob("*/profile.yaml"):
            with contextlib.suppress(ConfigError):
                names.add(load_profile(path).name)
    return names | set(read_specialists(settings)[0])
