"""The office as processes: opened in order, kept running, closed in order, and nothing left behind."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from services.cli.roster import SERVICES, Member, load_roster
from services.cli.supervisor.child import Child, Program
from services.cli.supervisor.lock import OfficeLock, unusable
from services.cli.supervisor.logs import Follower, Line, rotate
from services.cli.supervisor.programs import (
    AGENT,
    MEMORY,
    SERVER,
    SERVER_NAME,
    agent_programs,
    choose_port,
    server_program,
)
from services.cli.supervisor.provisioning import provision_named, provision_office, write_config
from services.cli.supervisor.specialists import SpecialistWatch
from services.cli.supervisor.watchdog import Lifeline, end_leftovers
from shared.bus.discovery import RunningOffice
from shared.contracts import generate_iso_timestamp
from shared.settings import Settings
from shared.tasks.specialists import PREFIX

FULL = "no space left on device"
"""How nats-server says that it could not store a message."""
ENOUGH = 64 * 1024 * 1024
"""Bytes that have to be free before it is tried again: the least JetStream can work with."""
PAUSE = 30.0
"""Seconds between two tries."""


class Room:
    """Watches what the server says, and the disk of ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._missed = False
        self._next = 0.0

    def hear(self, line: Line) -> None:
        """A line of a log."""
        if line.name == SERVER_NAME and FULL in line.text:
            self._missed = True

    def is_back(self) -> bool:
        """Whether the server found no room and now there is some: True once, and not within PAUSE again."""
        if not self._missed or time.monotonic() < self._next:
            return False
        if shutil.disk_usage(self._folder).free < ENOUGH:
            return False
        self._missed = False
        self._next = time.monotonic() + PAUSE
        return True


MARGIN = 3.0
"""Seconds a process gets to end on top of the settings' drain_timeout."""
LISTEN_EVERY = 0.5
"""Seconds between looks into the logs."""
ROOM_AGAIN = "there is room on the disk again: the server starts anew, for until then it stores nothing"
MIN_FREE = 32 * 1024 * 1024
"""The least room an office opens with, in bytes."""


class Supervisor:
    """Runs the office of one state directory, whose lock the caller holds.

    ``tell`` gets a line for each event in the life of a process, and for each warning in a log.
    """

    def __init__(self, config: Settings, lock: OfficeLock, tell: Callable[[Line], None]) -> None:
        self.config = config
        self.url = config.nats_url
        self.children: list[Child] = []
        self._tell = tell
        self._grace = config.drain_timeout + MARGIN
        self._record = config.state_dir / "run" / "office.json"
        self._lifeline = Lifeline(lock, self._record, self._grace)
        self._followers: dict[str, Follower] = {}
        self._listener: asyncio.Task[None] | None = None
        self._specialists: SpecialistWatch | None = None
        self._room = Room(config.state_dir)

    async def open(self) -> RunningOffice:
        """Start everything, and return once all of it is ready.

        Raises MailroomError where something does not start; what did is for ``close`` to end.
        """
        members = load_roster(self.config)
        self._prepare_folders()
        self._specialists = SpecialistWatch(self, [member.name for member in members])
        agents = self._specialists.identities()
        write_config(self.config, agents)
        await self._lifeline.tie()
        self._listener = asyncio.create_task(self._listen())
        port = 0 if self.config.nats_url else choose_port(self.config)
        self.url = self.config.nats_url or f"nats://127.0.0.1:{port}"
        if not port:
            await provision_named(self.config, agents)
        programs = [each for member in members for each in agent_programs(self.config, member, self.url)]
        # Memory takes longest, most of it for imports: it starts before the server it will wait for.
        for program in programs:
            if program.stage == MEMORY:
                self._start(program)
        if port:
            await self._until_ready([self._start(server_program(self.config, port))])
            await provision_office(self.config, self.url, agents)
        self._specialists.begin(foreign=not port)
        # An agent cannot show itself before the streams are there.
        await self._start_in_turns(program for program in programs if program.stage == AGENT)
        await self._until_ready([child for child in self.children if not _is_specialist(child)])
        return self._write_record()

    async def close(self) -> None:
        """Stop agents, memory and the server in this order; each has a grace, then it is killed."""
        self._record.unlink(missing_ok=True)
        if self._specialists is not None:
            await self._specialists.end()
        for stage in (AGENT, MEMORY, SERVER):
            await asyncio.gather(
                *(child.stop(self._grace) for child in self.children if child.program.stage == stage)
            )
        if self._listener is not None:
            self._listener.cancel()
            self._read_logs()
        await self._lifeline.untie()

    def kill(self) -> None:
        """End every process at once."""
        for child in self.children:
            child.kill()

    # --- specialists -----------------------------------------------------------------------------

    def start_member(self, member: Member) -> Child:
        """Start and keep running an agent's process while the office is open."""
        return self._start(next(agent_programs(self.config, member, self.url)))

    async def stop_child(self, child: Child) -> None:
        """End a process for good, as at the close of the office."""
        await child.stop(self._grace)
        self.children.remove(child)
        self._read_logs()
        del self._followers[child.program.name]

    def reload_server(self) -> None:
        """Have the office's own server read its configuration again: nobody is disconnected by that."""
        self._signal_server(signal.SIGHUP)

    def _signal_server(self, number: int) -> None:
        for child in self.children:
            if child.program.stage == SERVER:
                child.signal(number)

    def tell(self, line: Line) -> None:
        """Tell whoever watches the office."""
        self._tell(line)

    # --- opening ---------------------------------------------------------------------------------

    def _prepare_folders(self) -> None:
        config, run = self.config, self._record.parent
        try:
            for folder in (run, config.logs, config.outputs, config.workspaces):
                folder.mkdir(parents=True, exist_ok=True)
            # Two servers on one store would spoil it.
            marks = (f"{SERVICES.name}.", "shared.agent.process", str(config.state_dir))
            end_leftovers(config.state_dir, marks, self._grace)
            for log in config.logs.glob("*.log"):
                rotate(log)
            free = shutil.disk_usage(run).free
        except OSError as error:
            raise unusable(config.state_dir, error.strerror) from None
        if free < MIN_FREE:
            raise unusable(config.state_dir, f"the disk is full, {free // 1024**2} MB are free")

    async def _start_in_turns(self, programs: Iterable[Program]) -> None:
        """Start as many at once as there are cores: more would only take memory's from it."""
        turns = asyncio.Semaphore(os.cpu_count() or 1)

        async def start(program: Program) -> None:
            async with turns:
                await asyncio.wait([self._start(program).opened])

        await asyncio.gather(*map(start, programs))

    def _start(self, program: Program) -> Child:
        self._followers[program.name] = Follower(program.name, program.log)
        child = Child(program, tell=self._tell, lifeline=self._lifeline)
        self.children.append(child)
        return child

    async def _until_ready(self, children: Sequence[Child]) -> None:
        done, _ = await asyncio.wait(
            [child.opened for child in children], return_when=asyncio.FIRST_EXCEPTION
        )
        for opened in done:
            opened.result()

    def _write_record(self) -> RunningOffice:
        office = RunningOffice(
            pid=os.getpid(),
            url=self.url,
            state_dir=str(self.config.state_dir),
            started_at=generate_iso_timestamp(),
            brain=self.config.brain,
        )
        temporary = self._record.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(office))
        temporary.replace(self._record)
        return office

    # --- telling ---------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            await asyncio.sleep(LISTEN_EVERY)
            self._read_logs()
            if self._room.is_back():
                self._tell(Line("office", "warning", ROOM_AGAIN))
                self._signal_server(signal.SIGTERM)

    def _read_logs(self) -> None:
        for follower in self._followers.values():
            for line in follower.read():
                self._room.hear(line)
                self._tell(line)


def _is_specialist(child: Child) -> bool:
    return child.program.name.startswith(PREFIX)
