"""Who works in the office: those at work now, and those with a profile on this machine."""

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path

from shared import subjects
from shared.bus import Bus
from shared.errors import ActionError, ConfigError
from shared.profile import load_profile
from shared.settings import Settings

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
            if not await self._is_at_work(name):
                self._known |= await asyncio.to_thread(_profiles, self._settings)
            else:
                self._known.add(name)
            if name not in self._known:
                there = ", ".join(sorted(self._known))
                raise ActionError(f"There is no agent {name!r}", f"There are {there}")

    async def _is_at_work(self, name: str) -> bool:
        pages = subjects.bucket_stream(subjects.AGENTS_BUCKET)
        return await self._bus.last(pages, subjects.presence(name, "*")) is not None


def _profiles(settings: Settings) -> set[str]:
    names = set()
    for folder in filter(None, (SERVICES, settings.agents_dir)):
        for path in folder.glob("*/profile.yaml"):
            with contextlib.suppress(ConfigError):
                names.add(load_profile(path).name)
    return names
