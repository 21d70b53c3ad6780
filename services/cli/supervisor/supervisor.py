"""The supervisor of an instance: its processes are started in order, restarted, and stopped in order."""

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from services.cli.supervisor.child import Child, Program
from services.cli.supervisor.cluster import plan_servers, require_place, urls, write_cluster
from services.cli.supervisor.hosts import HostDesk
from services.cli.supervisor.lock import InstanceLock, unusable_state_dir
from services.cli.supervisor.logs import LogFollower, LogLine, rotate
from services.cli.supervisor.programs import (
    AGENT,
    MEMORY,
    SERVER,
    SERVER_NAME,
    agent_programs,
    server_program,
)
from services.cli.supervisor.provisioning import (
    OFFICES,
    PUBLIC_KEYS,
    carry_out_without_end,
    list_people,
    provision_named,
    provision_streams,
    read_in_hand,
    recover,
    write_servers,
)
from services.cli.supervisor.servers_watch import ServersWatch
from services.cli.supervisor.watchdog import Watchdog, end_orphans
from shared import subjects
from shared.bus import Bus
from shared.bus.connecting import RunningInstance
from shared.bus.hosts import Membership, read_membership
from shared.contracts import generate_iso_timestamp
from shared.errors import BusError, MailroomError, StartError
from shared.files import write_atomically
from shared.settings import Settings
from shared.tasks.installed_agents import SERVICES, InstalledAgent, load_specialists, read_agents
from shared.tasks.profiles import (
    PREFIX,
    Supervision,
    end_supervision,
    read_retired,
    read_specialists,
    refusal_path,
    write_supervision,
)

GRACE_MARGIN = 3.0  # Seconds a process gets to end on top of the settings' drain_timeout
ORPHAN_GRACE = 0.5
"""The same for processes whose supervisor was killed: what they do survives a kill, and the next office waits
for their end."""
OPEN_WAIT = 30.0  # Seconds after which the office opens without what is not ready
TURN = 5.0  # Seconds of its start for which a process keeps others from starting
LOG_INTERVAL, ROTATE_EVERY = 0.5, 20
"""Seconds between reads of the logs, and after how many of them they are rotated if they are long."""
MIN_FREE = 32 * 1024 * 1024  # The free bytes on the disk that a start needs
DISK_FULL = "no space left on device"
"""How nats-server logs that it could not store a message; it stores nothing more until a restart."""
RESTART_FREE = 64 * 1024 * 1024
"""The free bytes that a restart of the server needs: the least that JetStream works with."""
RESTART_INTERVAL = 30.0  # The least seconds between two such restarts


class Supervisor:
    """Runs the instance of one state directory, whose lock the caller holds.

    ``report`` gets the events of the processes, and the warnings and errors of their logs.
    """

    def __init__(self, config: Settings, lock: InstanceLock, report: Callable[[LogLine], None]) -> None:
        self.config = config
        self.url = config.nats_url
        self.children: list[Child] = []
        self.report = report
        self._grace = config.drain_timeout + GRACE_MARGIN
        self._record = config.state_dir / "run" / "office.json"
        self._watchdog = Watchdog(lock, self._record, ORPHAN_GRACE)
        self._followers: dict[str, LogFollower] = {}
        self._log_task: asyncio.Task[None] | None = None
        self._forgetting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._hosts: asyncio.Task[None] | None = None
        self._specialists: SpecialistSupervisor | None = None
        self._asked = b""
        self._disk = DiskMonitor(config.state_dir)

    async def start(self) -> RunningInstance:
        """Start all processes, and return once they are ready.

        One that does not start, or is not ready within OPEN_WAIT seconds, is reported, and the office opens
        without it: its start goes on, or is tried again. Raises MailroomError if the server does not start,
        or no agent does; ``stop`` then ends what runs.
        """
        opens_at = time.monotonic() + OPEN_WAIT
        installed, refused = read_agents(self.config)
        for name, reason in refused.items():
            self._report_missing(name, reason)
        self._prepare_folders()
        if (member := read_membership(self.config.keys)) is not None:
            return await self._start_on_host(member, installed, opens_at)
        self._specialists = SpecialistSupervisor(self, [agent.name for agent in installed])
        names = self._specialists.agent_names()
        if not self.config.nats_url:
            require_place(self.config)
        places = [] if self.config.nats_url else plan_servers(self.config)
        write_servers(self.config, names)
        if len(places) > 1:
            write_cluster(self.config, places)
        await self._watchdog.start()
        self._log_task = asyncio.create_task(self._follow_logs())
        self.url = self.config.nats_url or urls(places)
        if not places:
            await provision_named(self.config, names)
        programs = [each for agent in installed for each in agent_programs(self.config, agent, self.url)]
        # Memory takes longest, most of it for imports: it starts before the server it connects to. On several
        # servers the streams take longer than it waits for them.
        memory = [program for program in programs if program.stage == MEMORY]
        if len(places) < 2:
            for program in memory:
                self._start(program)
        if places:
            servers = [server_program(self.config, each.port, each.name, each.config) for each in places]
            await asyncio.gather(*(self._start(server).started for server in servers))
            begun = time.monotonic()
            await provision_streams(self.config, self.url, names)
            text = f"streams ready after {time.monotonic() - begun:.1f} s"
            self.report(LogLine("office", "info", text))
            if len(places) > 1:
                for program in memory:
                    self._start(program)
            for text in await recover(self.config, self.url):
                self.report(LogLine("office", "warning", f"after a power loss: {text}"))
        self._specialists.start(foreign=not places)
        self._forgetting = asyncio.create_task(carry_out_without_end(self.config, self.url, self.report))
        reload = self.reload_server if places else self._ask_to_reload
        desk = HostDesk(self.config, self.url, self._specialists.agent_names, reload, self.report)
        self._hosts = asyncio.create_task(desk.run())
        if len(places) > 1:
            watch = ServersWatch(self.config.state_dir, self.report, self._restart_server)
            self._watching = asyncio.create_task(watch.run(self.config, self.url))
        # An agent cannot register before the streams exist. Those that were killed at work go first.
        in_hand = await read_in_hand(self.config, self.url)
        agents = [program for program in programs if program.stage == AGENT]
        await self._start_in_parallel(sorted(agents, key=lambda each: -in_hand[each.name.partition(".")[0]]))
        await self._wait_until_open(opens_at)
        return self._write_record()

    async def _start_on_host(
        self, member: Membership, installed: Iterable[InstalledAgent], opens_at: float
    ) -> RunningInstance:
        """The same on a host that joined an office elsewhere: its roles, and nothing else."""
        roles = [agent for agent in installed if agent.name in member.roles]
        for name in sorted({*member.roles} - {agent.name for agent in roles}):
            self._report_missing(name, "it is not installed on this host")
        await self._watchdog.start()
        self._log_task = asyncio.create_task(self._follow_logs())
        self.url = self.config.nats_url or member.servers
        programs = [each for agent in roles for each in agent_programs(self.config, agent, self.url)]
        await self._start_in_parallel(programs)
        await self._wait_until_open(opens_at)
        return self._write_record()

    async def stop(self) -> None:
        """Stop agents, memory and the server in this order; each is killed after its grace."""
        self._record.unlink(missing_ok=True)
        if self._specialists is not None:
            await self._specialists.stop()
        for task in filter(None, (self._forgetting, self._watching, self._hosts)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for stage in (AGENT, MEMORY, SERVER):
            await asyncio.gather(
                *(child.stop(self._grace) for child in self.children if child.program.stage == stage)
            )
        if self._log_task is not None:
            self._log_task.cancel()
            self._read_logs()
        await self._watchdog.stop()

    def kill(self) -> None:
        """Kill every process."""
        for child in self.children:
            child.kill()

    # --- specialists -----------------------------------------------------------------------------

    def start_agent(self, agent: InstalledAgent) -> Child:
        """Start an agent's process and keep it running."""
        return self._start(next(agent_programs(self.config, agent, self.url)))

    async def stop_child(self, child: Child) -> None:
        """Stop a process for good."""
        await child.stop(self._grace)
        self.children.remove(child)
        self._read_logs()
        del self._followers[child.program.name]

    def reload_server(self) -> None:
        """Have the instance's own server reload its configuration; no client is disconnected by that."""
        self._signal_server(signal.SIGHUP)

    def _ask_to_reload(self) -> None:
        conf = self.config.state_dir / SERVER_NAME / "office.conf"
        if (wanted := conf.read_bytes()) == self._asked:
            return  # once for each change, though it is tried again each half a second
        self._asked = wanted
        self.report(LogLine("office", "warning", f"have your servers read {conf} again: hosts changed"))

    def _signal_server(self, number: int, name: str = "") -> None:
        for child in self.children:
            if child.program.stage == SERVER and name in ("", child.program.name):
                child.signal(number)

    def _restart_server(self, name: str) -> None:
        self._signal_server(signal.SIGKILL, name)

    # --- starting --------------------------------------------------------------------------------

    def _prepare_folders(self) -> None:
        config, run = self.config, self._record.parent
        try:
            for folder in (run, config.logs, config.outputs, config.workspaces):
                folder.mkdir(parents=True, exist_ok=True)
            # Two servers on one store would corrupt it.
            marks = (f"{SERVICES.name}.", "shared.agent.process", str(config.state_dir))
            end_orphans(config.state_dir, marks, ORPHAN_GRACE)
            free = shutil.disk_usage(run).free
        except OSError as error:
            raise unusable_state_dir(config.state_dir, error.strerror) from None
        if free < MIN_FREE:
            raise unusable_state_dir(config.state_dir, f"the disk is full, {free // 1024**2} MB are free")

    async def _start_in_parallel(self, programs: Iterable[Program]) -> None:
        """Start as many at once as there are cores: more would slow memory down. A slow one holds up no other
        for longer than TURN seconds.
        """
        slots = asyncio.Semaphore(os.cpu_count() or 1)

        async def start(program: Program) -> None:
            async with slots:
                await asyncio.wait([self._start(program).started], timeout=TURN)

        await asyncio.gather(*map(start, programs))

    def _start(self, program: Program) -> Child:
        self._followers[program.name] = LogFollower(program.name, program.log)
        child = Child(program, report=self.report, watchdog=self._watchdog)
        self.children.append(child)
        return child

    async def _wait_until_open(self, opens_at: float) -> None:
        """Wait for all but specialists until ``opens_at``, and longer for the first; report those not ready.

        Raises StartError if none of them starts.
        """
        waited = {
            child.started: child.program.name
            for child in self.children
            if child.program.stage != SERVER and not child.program.name.startswith(PREFIX)
        }
        _, left = await asyncio.wait(waited, timeout=max(0.0, opens_at - time.monotonic()))
        while left and not any(map(is_ready, waited)):
            _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        if not any(map(is_ready, waited)):
            next(iter(waited)).result()
        for started, name in waited.items():
            if not started.done():
                self.report(LogLine(name, "warning", "is still starting: the office opens without it"))
            elif (error := started.exception()) is not None:
                self._report_missing(name, str(error))

    def _report_missing(self, name: str, reason: str) -> None:
        self.report(LogLine("office", "error", f"the office runs without {name}: {reason}"))

    def _write_record(self) -> RunningInstance:
        instance = RunningInstance(
            pid=os.getpid(),
            url=self.url,
            nats_address=self.config.nats_address,
            state_dir=str(self.config.state_dir),
            started_at=generate_iso_timestamp(),
            brain=self.config.brain,
        )
        write_atomically(self._record, msgspec.json.encode(instance))
        return instance

    # --- logs ------------------------------------------------------------------------------------

    async def _follow_logs(self) -> None:
        for turn in itertools.count():
            await asyncio.sleep(LOG_INTERVAL)
            self._read_logs()
            if turn % ROTATE_EVERY == 0:
                with contextlib.suppress(OSError):  # a full disk: later
                    for log in self.config.logs.glob("*.log"):
                        rotate(log)
            if self._disk.has_recovered():
                text = (
                    "the disk has free space again: the server restarts, since it stores nothing until then"
                )
                self.report(LogLine("office", "warning", text))
                self._signal_server(signal.SIGTERM)

    def _read_logs(self) -> None:
        for follower in self._followers.values():
            for line in follower.read():
                self._disk.observe(line)
                if self.config.nats_replicas > 1 and DISK_FULL in line.text:
                    # It would answer from its old copy: started again, it does once it has caught up.
                    self._signal_server(signal.SIGKILL, line.name)
                self.report(line)


def is_ready(started: asyncio.Future[None]) -> bool:
    """Whether the process that ``started`` is about was ready once."""
    return started.done() and started.exception() is None


class DiskMonitor:
    """Says when the server, which stopped storing on a full disk, can be restarted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._full = False
        self._next = 0.0

    def observe(self, line: LogLine) -> None:
        """Note the server's message about a full disk."""
        if line.name.partition("-")[0] == SERVER_NAME and DISK_FULL in line.text:
            self._full = True

    def has_recovered(self) -> bool:
        """True once after the disk was full and has RESTART_FREE bytes, at most every RESTART_INTERVAL s."""
        if not self._full or time.monotonic() < self._next:
            return False
        if shutil.disk_usage(self._folder).free < RESTART_FREE:
            return False
        self._full = False
        self._next = time.monotonic() + RESTART_INTERVAL
        return True


POLL_INTERVAL = 0.5  # Seconds between checks of the specialists' folder
RELOAD_INTERVAL = 0.2  # Seconds between two reloads of the server; one takes about 30 ms
MAX_RELOADS = 40
FOREIGN_SERVER = "The server that NATS_URL names is not the office's own, so new agents cannot be added to it"


class SpecialistSupervisor:
    """Keeps the running specialists in line with the profiles in their folder.

    Only the supervisor has the admin's key, so the limits on profiles are checked here again. ``agents`` are
    the names of the other agents.
    """

    def __init__(self, supervisor: Supervisor, agents: list[str]) -> None:
        self._supervisor = supervisor
        self._agents = agents
        self._children: dict[str, Child] = {}
        self._rejected: dict[str, str] = {}
        self._seen: object = None
        self._task: asyncio.Task[None] | None = None

    def agent_names(self) -> list[str]:
        """The names that need a key and an account, those of retired specialists included."""
        valid, _ = read_specialists(self._supervisor.config)
        return list(dict.fromkeys((*self._agents, *valid, *read_retired(self._supervisor.config))))

    def start(self, *, foreign: bool) -> None:
        """Watch the folder until ``stop``; on a ``foreign`` server only publish the reason why not."""
        write_supervision(
            self._supervisor.config, Supervision(pid=os.getpid(), refusal=FOREIGN_SERVER if foreign else "")
        )
        if not foreign:
            self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop watching; the supervisor stops the processes."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        end_supervision(self._supervisor.config)

    async def _watch(self) -> None:
        while True:
            try:
                await self._sync()
            except (MailroomError, OSError) as error:
                self._report("office", "warning", f"the specialists could not be updated: {error}")
            await asyncio.sleep(POLL_INTERVAL)

    async def _sync(self) -> None:
        config = self._supervisor.config
        seen = await asyncio.to_thread(_modification_times, config)
        if seen == self._seen:
            return
        if self._seen is not None:  # at the start the server has them
            await self._admit_people()
        installed = {agent.name: agent for agent in await asyncio.to_thread(load_specialists, config)}
        _, rejected = await asyncio.to_thread(read_specialists, config)
        for name in self._children.keys() - installed.keys():
            await self._supervisor.stop_child(self._children.pop(name))
            self._report(name, "info", "retired")
        for name, reason in rejected.items():
            self._reject(name, reason)
        for name in installed.keys() - self._children.keys():
            await self._try_start(installed[name])
        self._seen = seen

    async def _admit_people(self) -> None:
        """Have the server know the people who got a key, and tenants, and those no more whose key is gone."""
        agents = await asyncio.to_thread(self.agent_names)
        if await asyncio.to_thread(write_servers, self._supervisor.config, agents):
            for _ in range(2):  # the first one adds an account, the second one connects its imports
                self._supervisor.reload_server()
                await asyncio.sleep(RELOAD_INTERVAL)

    async def _try_start(self, agent: InstalledAgent) -> None:
        try:
            await self._start(agent)
        except (MailroomError, OSError) as error:
            self._reject(agent.name, str(error))

    async def _start(self, agent: InstalledAgent) -> None:
        """Create its key and account, load them into the server, and start it."""
        supervisor, config = self._supervisor, self._supervisor.config
        agents = await asyncio.to_thread(self.agent_names)
        changed = await asyncio.to_thread(write_servers, config, agents)
        if changed or await self._check_access(agent.name):
            await self._reload_until_known(agent.name)
        await provision_streams(config, supervisor.url, agents)
        self._children[agent.name] = supervisor.start_agent(agent)

    async def _reload_until_known(self, name: str) -> None:
        """Reload the server until the agent can log in and read; raises StartError if it never can.

        One reload is not enough: nats-server 2.15.1 connects the imports of a new account only at the reload
        after the one that adds it. Reloads disconnect no client and lose no message.
        """
        for _ in range(MAX_RELOADS):
            self._supervisor.reload_server()
            await asyncio.sleep(RELOAD_INTERVAL)
            reason = await self._check_access(name)
            if not reason:
                return
        raise StartError(f"The server does not accept {name}: {reason}", "See its log, logs/nats.log")

    async def _check_access(self, name: str) -> str:
        """Why the agent cannot log in or read its own records; empty if it can."""
        key = self._supervisor.config.keys / f"{name}.nk"
        try:
            bus = await Bus.connect(name, self._supervisor.url, key, wait=0.1)
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

    def _reject(self, name: str, reason: str) -> None:
        if self._rejected.get(name) == reason:
            return
        self._rejected[name] = reason
        self._report(name, "warning", f"not started: {reason}")
        path = refusal_path(self._supervisor.config, name)
        if path.parent.is_dir():
            path.write_text(f"{reason}\n{generate_iso_timestamp()}\n")

    def _report(self, name: str, level: str, text: str) -> None:
        self._supervisor.report(LogLine(name, level, text))


def _modification_times(config: Settings) -> tuple[tuple[str, int], ...]:
    """The profiles, files of tenants and their modification times, and people's keys: whether one changed."""
    found = [(name, 0) for name in list_people(config)]
    offices = config.state_dir / OFFICES
    files = ("mailroom.toml", f"keys/{PUBLIC_KEYS}", f"keys/{subjects.PERSON}*.nk")
    tenants = [path for file in files for path in offices.glob(f"*/{file}")]
    for path in (*config.specialists.glob("*/profile.yaml"), *tenants):
        try:
            found.append((str(path), path.stat().st_mtime_ns))
        except OSError:
            continue
    return tuple(sorted(found))
