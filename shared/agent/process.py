"""The life cycle of one agent process: settings, connection, presence, what people want, shutdown."""

import asyncio
import contextlib
import gc
import hashlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shared import log, settings, subjects
from shared.agent.base import Agent
from shared.agent.context import offer_modules
from shared.agent.dispatcher import Dispatcher
from shared.agent.executor import TaskExecutor
from shared.agent.placing import Placing
from shared.bus import Bus
from shared.bus.consumer import Consumer, ConsumerConfig
from shared.bus.peers import Holder, Peers
from shared.bus.records import read_record
from shared.contracts import AgentControl, MemoryWrite, Node, Presence, Source, generate_iso_timestamp
from shared.errors import BusError, BusUnavailable, MailroomError, StartError
from shared.heartbeat import Heartbeat, heartbeat_path, limit_start
from shared.settings import Settings
from shared.tasks.actions import unplanned_of
from shared.tasks.profiles import Profile, load_profile

DEFAULT_URL = "nats://127.0.0.1:4222"
GARBAGE = 20_000  # New objects after which cyclic garbage is looked for; Python's default is 700
TAKEOVER_WAIT = 1.0
"""Seconds a starting process gives the return of what a dead one had in hand before it takes new messages."""
CONNECT_WAIT = 15.0  # Seconds a starting process waits for the server

_log = log.logger(__name__)


def run(agent_class: type[Agent], file: str) -> None:
    """Run the agent of the profile.yaml beside ``file`` until SIGTERM or SIGINT; does not return."""
    main(agent_class, Path(file).resolve().parent / "profile.yaml")


def main(agent_class: type[Agent], profile_path: Path) -> None:
    """Run one agent until SIGTERM or SIGINT; a MailroomError ends it with its sentence and exit code 1."""
    try:
        config = settings.load()
        profile = load_profile(profile_path)
        log.configure(profile.name, level=config.log_level, form=config.log_format)
        limit_start(config.start_limit)
        if config.agents_dir and profile_path.resolve().parent.parent == config.agents_dir.resolve():
            offer_modules(profile_path.resolve().parent)
        run_loop: Any = asyncio.run
        with contextlib.suppress(ImportError):
            import uvloop

            run_loop = uvloop.run
        if run_loop(_serve(agent_class, profile, config)):
            sys.exit(RESTART_STATUS)
    except MailroomError as error:
        sys.exit(f"{profile_path.parent.name}: {error}")


async def _serve(agent_class: type[Agent], profile: Profile, config: Settings) -> bool:
    """Run until a signal or until people want a restart; whether it is the latter."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    working = asyncio.create_task(_work(agent_class, profile, config))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not working.done():
        _log.info("stopping")
        working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        return await working
    return False


async def _work(agent_class: type[Agent], profile: Profile, config: Settings) -> bool:
    """Connect, start the agent, and run until cancelled, which is possible at any point.

    Returns True once people want a restart.
    """
    seed = config.keys / f"{profile.name}.nk"
    bus = await Bus.connect(
        profile.name,
        config.nats_url or DEFAULT_URL,
        seed,
        wait=CONNECT_WAIT,
        synced=config.nats_sync == "always",
    )
    process = AgentProcess(agent_class(profile, config, bus), config)
    try:
        await process.open()
        closed, restart = (
            asyncio.ensure_future(each) for each in (bus.closed.wait(), process.control.restart.wait())
        )
        await asyncio.wait({closed, restart}, return_when=asyncio.FIRST_COMPLETED)
        if restart.done():
            _log.info("restarting")
            return True
        raise BusUnavailable(
            "The server ended the connection for good", "See its log; the key may be revoked"
        )
    finally:
        await process.close()


class AgentProcess:
    """An agent at work on a connected bus: it consumes its messages and publishes its presence."""

    def __init__(self, agent: Agent, config: Settings) -> None:
        self.agent = agent
        self._config = config
        self._bus = agent.context.bus
        self._consumers: list[Consumer] = []
        self._peers = Peers(self._bus, self._consumers)
        self._executor = TaskExecutor(agent)
        self._placing = Placing(agent.context, self._peers.offer)
        self._peers.fits = self._placing.fits
        self._dispatcher = Dispatcher(agent, self._executor, self._placing)
        self._started = self._paused = False
        self.control = ControlFollower(self._bus, agent.context.profile.name, self._apply)
        self._announcing: asyncio.Task[None] | None = None
        path = heartbeat_path(config, agent.context.profile.name, os.getpid())
        self._heartbeat = Heartbeat(path, config.unresponsive_limit, lambda: self._bus.pulling)
        self._here = Holder.this(self._bus.instance)
        self._started_at = generate_iso_timestamp()

    @property
    def load(self) -> int:
        """How many messages are being handled."""
        return sum(consumer.load for consumer in self._consumers)

    async def open(self) -> None:
        """Start the agent: its ``on_start``, its service, its consumers, its presence."""
        profile = self.agent.context.profile
        self.agent.context.require_tools()
        if profile.name != subjects.MEMORY_DAEMON:
            self.agent.context.models.prepare()
            self.agent.context.spawn(self.agent.context.models.learn_context())
        await self._peers.answer()
        await self.agent.on_start()
        self._started = True
        await self._bus.serve(
            profile.name,
            package_version(),
            profile.description,
            self.agent.endpoints(),
            self.agent.signed_endpoints(),
            {"instance": self._bus.instance, "actions": ",".join(self.agent.context.actions)},
        )
        self._consume(subjects.OFFICE, *subjects.mailboxes(profile.name))
        await self.control.start()
        # Before the first message: the presence tells the others whose messages to hand on if this ends.
        await self._store_presence()
        if profile.name in subjects.TIMED:
            self._consume(subjects.timers_stream(profile.name), subjects.timers_durable(profile.name))
        self.agent.context.spawn(self._peers.watch())
        # What was interrupted goes before what is new, if it is known soon enough.
        await self._peers.wait_until_checked(TAKEOVER_WAIT)
        for consumer in self._consumers:
            await self._bus.start(consumer)
        self.agent.context.spawn(self._executor.watch_claims())
        self.agent.context.spawn(self.control.follow())
        if profile.name != subjects.MEMORY_DAEMON:
            self.agent.context.spawn(self.agent.context.tools.follow())
            self.agent.context.spawn(self._write_agent_node())
            await self.agent.context.models.follow_memory()
        try:
            self._heartbeat.start()
        except OSError as error:
            raise StartError(
                f"The state directory {self._config.state_dir} cannot be written: {error.strerror}",
                "Make it writable, or set MAILROOM_STATE_DIR to another folder",
            ) from None
        self._announcing = asyncio.create_task(self._announce())
        # Look for cyclic garbage less often, and not in what was imported: a fifth of a worker's time
        gc.collect()
        gc.freeze()
        gc.set_threshold(GARBAGE, 20, 20)
        _log.info("ready", instance=self._bus.instance)

    async def close(self) -> None:
        """Drain: take no new messages, give running handlers ``drain_timeout``, then delete the presence.

        Until then the presence tells other processes of the agent that this one has messages in hand.
        """
        if self._announcing is not None:
            self._announcing.cancel()
        for consumer in self._consumers:
            await consumer.stop(self._config.drain_timeout)
        if self._bus.connected:
            with contextlib.suppress(BusError):
                await self._peers.return_lost()
            await self._bus.publish(self._presence_subject(), b"", headers={"KV-Operation": "DEL"})
        await self.agent.context.stop_background()
        await self.agent.context.tools.close()
        if self._started:
            await self.agent.on_stop()
        await self._bus.close()
        self._heartbeat.stop()

    async def _apply(self, control: AgentControl) -> None:
        """Pause or go on: a paused process takes no new tasks, and finishes those it has begun."""
        if control.paused == self._paused:
            return
        self._paused = control.paused
        _log.info("paused" if self._paused else "resumed", by=control.asked_by or subjects.USER)
        await self._consumers[0].pause(paused=self._paused)
        if self._announcing is not None:
            await self._store_presence()

    async def _write_agent_node(self) -> None:
        """Write the agent's own node to memory, which applies the same write once, by its id."""
        write = agent_node_write(self.agent.context.profile)
        try:
            await self._bus.store(
                subjects.memory_write(write.sender), write.to_json(), headers={"Nats-Msg-Id": write.id}
            )
        except BusError as error:
            _log.warning("agent_node_unwritten", reason=str(error))

    def _consume(self, stream: str, *durables: str) -> None:
        self._consumers.append(
            self._bus.consumer(
                ConsumerConfig(
                    stream=stream,
                    durables=durables,
                    concurrency=self.agent.context.profile.concurrency,
                    ack_wait=self._config.task_ack_wait,
                    max_attempts=self._config.max_attempts,
                ),
                self._dispatcher.handle,
                self._dispatcher.dead_letter,
            )
        )

    async def _announce(self) -> None:
        while True:
            await asyncio.sleep(subjects.PRESENCE_INTERVAL)
            try:
                if self._bus.connected:
                    await self._store_presence()
            except BusError as error:
                _log.warning("presence_unsent", error=str(error))

    def _presence_subject(self) -> str:
        return subjects.presence(self.agent.context.profile.name, self._bus.instance)

    async def _store_presence(self) -> None:
        profile = self.agent.context.profile
        presence = Presence(
            sender=profile.name,
            agent=profile.name,
            instance=self._bus.instance,
            version=package_version(),
            description=profile.description,
            instructions=profile.instructions,
            skills=profile.skills,
            actions={name: action.description for name, action in self.agent.context.actions.items()},
            load=self.load,
            concurrency=profile.concurrency,
            handled=sum(consumer.handled for consumer in self._consumers),
            failed=sum(consumer.failed for consumer in self._consumers),
            pid=self._here.pid,
            host=self._here.host,
            space=self._here.space,
            started_at=self._started_at,
            schemas={name: action.schema() for name, action in self.agent.context.actions.items()},
            unplanned=unplanned_of(dict(self.agent.context.actions.items())),
            paused=self._paused,
            servers=self.agent.context.tools.running,
        )
        await self._bus.store(self._presence_subject(), presence.to_json())


def agent_node_write(profile: Profile) -> MemoryWrite:
    """The memory node ``agent-<name>`` that its briefing begins with; writing it again changes nothing."""
    body = f"{profile.description}\n\n{profile.instructions}".strip()
    digest = hashlib.sha256(f"{profile.name}\n{body}".encode()).hexdigest()[:32]
    node = Node(
        id=f"agent-{profile.name}",
        kind="agent",
        title=profile.name,
        body=body,
        tags=(profile.name,),
        source=Source(agent=profile.name, channel="profile"),
    )
    return MemoryWrite(id=f"introduction-{digest}", sender=profile.name, nodes=(node,), insist=True)


def package_version() -> str:
    """The installed version of Mailroom."""
    try:
        return version("mailroom")
    except PackageNotFoundError:
        return "0.0.0"


# --- what people want of an agent: pause, resume, restart --------------------------------------------
RESTART_STATUS = 75  # The exit status of a process that ends because people want it to start again
LOOK_EVERY = 1.0  # Seconds between two looks at whether the connection was lost meanwhile
READ_EVERY = 15.0
"""Seconds after which the record is read although nothing was heard: live messages may get lost."""
UNPAUSABLE = {
    subjects.CONDUCTOR: "without it no goal begins, goes on or is stopped",
    subjects.MEMORY_DAEMON: "every agent waits for what it asks of memory",
    subjects.GATEWAY: "it takes no tasks, and people need it to have anything resumed",
}
"""The agents that cannot be paused, and why."""


async def read_control(bus: Bus, agent: str) -> AgentControl | None:
    """What people want of ``agent``; None if they never said, or if the record cannot be read."""
    try:
        record = await read_record(bus, subjects.control(agent), AgentControl)
    except ValueError as error:
        _log.warning("control_unreadable", agent=agent, reason=str(error))
        return None
    return record.value if record else None


class ControlFollower:
    """Follows the record of one agent, from the start of one of its processes.

    ``apply``, if it is given, gets what holds whenever that may have changed. ``restart`` is set when one is
    asked for that this process has not begun with. ``subject`` is where its live copies arrive, by default
    the record's own.
    """

    def __init__(
        self,
        bus: Bus,
        agent: str,
        apply: Callable[[AgentControl], Awaitable[None]] | None = None,
        *,
        subject: str = "",
    ) -> None:
        self.restart = asyncio.Event()
        self._bus, self._agent, self._apply = bus, agent, apply
        self._subject = subject or subjects.control(agent)
        self._restarts = 0
        self._heard = asyncio.Event()

    async def start(self) -> None:
        """Subscribe, then read what holds now: a restart asked for before is done. Raises BusError."""
        await self._bus.subscribe(self._subject, self._hear)
        control = await read_control(self._bus, self._agent)
        if control is not None:
            self._restarts = control.restarts
            if self._apply is not None:
                await self._apply(control)

    async def follow(self) -> None:
        """Read the record when it changes, after a lost connection, and now and then; until cancelled."""
        loop = asyncio.get_running_loop()
        connected_at, due = self._bus.reconnected_at, loop.time() + READ_EVERY
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._heard.wait()
            except TimeoutError:
                if self._bus.reconnected_at == connected_at and loop.time() < due:
                    continue
            self._heard.clear()
            try:
                at = self._bus.reconnected_at
                await self._read()
            except BusError as error:
                _log.warning("control_unread", reason=str(error))
                continue
            connected_at, due = at, loop.time() + READ_EVERY

    async def _hear(self, _: str, __: bytes, ___: dict[str, str]) -> None:
        self._heard.set()

    async def _read(self) -> None:
        control = await read_control(self._bus, self._agent)
        if control is None:
            return
        if self._apply is not None:
            await self._apply(control)
        if control.restarts > self._restarts:
            self._restarts = control.restarts
            self.restart.set()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m shared.agent.process PROFILE.yaml")
    main(Agent, Path(sys.argv[1]))
