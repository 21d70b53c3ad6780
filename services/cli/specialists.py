"""The specialists' part of the office: started when a profile appears, stopped when it goes."""

import asyncio
import os
from typing import Protocol

from services.cli.child import Child
from services.cli.logbook import Line
from services.cli.provisioning import provision_office, write_config
from services.cli.roster import Member, load_specialists
from shared import subjects
from shared.bus import Bus
from shared.contracts import generate_iso_timestamp
from shared.errors import BusError, MailroomError, StartError
from shared.settings import Settings
from shared.tasks.specialists import (
    Supervision,
    end_supervision,
    read_retired,
    read_specialists,
    refusal_path,
    write_supervision,
)

LOOK_EVERY = 0.25
"""Seconds between looks into the folder of the specialists."""
RELOAD_EVERY = 0.2
"""Seconds between two reloads of the server: one takes it some 30 ms."""
MOST_RELOADS = 40
FOREIGN = "The server that NATS_URL names is not the office's own, so that it cannot be told of new agents"


class Yard(Protocol):
    """The office, as far as specialists change it."""

    config: Settings
    url: str

    def start_member(self, member: Member) -> Child:
        """Start and keep running an agent's process."""

    async def stop_child(self, child: Child) -> None:
        """End a process for good."""

    def reload_server(self) -> None:
        """Have the server read its configuration again."""

    def tell(self, line: Line) -> None:
        """Tell whoever watches the office."""


class SpecialistWatch:
    """Keeps the specialists of an office in step with the profiles in their folder.

    It alone holds the admin's key: whoever writes a profile gets an agent only within the limits that are
    checked here again. ``agents`` are the names of the others.
    """

    def __init__(self, yard: Yard, agents: list[str]) -> None:
        self._yard = yard
        self._agents = agents
        self._children: dict[str, Child] = {}
        self._refused: dict[str, str] = {}
        self._seen: object = None
        self._task: asyncio.Task[None] | None = None

    def identities(self) -> list[str]:
        """Every name that needs a key and an account, the retired specialists' too."""
        good, _ = read_specialists(self._yard.config)
        return list(dict.fromkeys((*self._agents, *good, *read_retired(self._yard.config))))

    def begin(self, *, foreign: bool) -> None:
        """Watch until ``end``; where the server is a ``foreign`` one, only say why not."""
        write_supervision(self._yard.config, Supervision(pid=os.getpid(), refusal=FOREIGN if foreign else ""))
        if not foreign:
            self._task = asyncio.create_task(self._watch())

    async def end(self) -> None:
        """Watch no more; what runs is for the office to stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        end_supervision(self._yard.config)

    async def _watch(self) -> None:
        while True:
            try:
                await self._look()
            except (MailroomError, OSError) as error:
                self._tell("office", "warning", f"the specialists could not be looked after: {error}")
            await asyncio.sleep(LOOK_EVERY)

    async def _look(self) -> None:
        config = self._yard.config
        seen = await asyncio.to_thread(_footprint, config)
        if seen == self._seen:
            return
        members = {member.name: member for member in await asyncio.to_thread(load_specialists, config)}
        _, refused = await asyncio.to_thread(read_specialists, config)
        for name in self._children.keys() - members.keys():
            await self._dismiss(name)
        for name, reason in refused.items():
            self._refuse(name, reason)
        for name in members.keys() - self._children.keys():
            await self._try_to_admit(members[name])
        self._seen = seen

    async def _try_to_admit(self, member: Member) -> None:
        try:
            await self._admit(member)
        except (MailroomError, OSError) as error:
            self._refuse(member.name, str(error))

    async def _admit(self, member: Member) -> None:
        """Give it a key and an account, have the server know them, and start it."""
        yard, config = self._yard, self._yard.config
        agents = await asyncio.to_thread(self.identities)
        changed = await asyncio.to_thread(write_config, config, agents)
        if changed or await self._is_stranger(member.name):
            await self._introduce(member.name)
        await provision_office(config, yard.url, agents)
        self._children[member.name] = yard.start_member(member)

    async def _introduce(self, name: str) -> None:
        """Reload the server until it knows the name and its rights; raises StartError where it never does.

        Once is not enough: nats-server 2.15.1 wires what a new account imports at the reload after the one
        that brings it. Nobody is disconnected by either, and nothing that was stored is lost.
        """
        for _ in range(MOST_RELOADS):
            self._yard.reload_server()
            await asyncio.sleep(RELOAD_EVERY)
            reason = await self._is_stranger(name)
            if not reason:
                return
        raise StartError(f"The server does not take {name} in: {reason}", "See its log, logs/nats.log")

    async def _is_stranger(self, name: str) -> str:
        """Why the server does not let the name in, or to its own records; empty where it does."""
        key = self._yard.config.keys / f"{name}.nk"
        try:
            bus = await Bus.connect(name, self._yard.url, key, wait=0.1)
        except BusError as error:
            return str(error)
        try:
            await bus.last(subjects.OFFICE, subjects.record(name, "any", "any"))
        except BusError as error:
            return str(error)
        else:
            return ""
        finally:
            await bus.close()

    async def _dismiss(self, name: str) -> None:
        await self._yard.stop_child(self._children.pop(name))
        self._tell(name, "info", "retired")

    def _refuse(self, name: str, reason: str) -> None:
        if self._refused.get(name) == reason:
            return
        self._refused[name] = reason
        self._tell(name, "warning", f"not started: {reason}")
        path = refusal_path(self._yard.config, name)
        if path.parent.is_dir():
            path.write_text(f"{reason}\n{generate_iso_timestamp()}\n")

    def _tell(self, name: str, level: str, text: str) -> None:
        self._yard.tell(Line(name, level, text))


def _footprint(config: Settings) -> tuple[tuple[str, int], ...]:
    """What the profiles look like from outside: another one tells that something changed."""
    found = []
    for path in config.specialists.glob("*/profile.yaml"):
        try:
            found.append((path.parent.name, path.stat().st_mtime_ns))
        except OSError:
            continue
    return tuple(sorted(found))
