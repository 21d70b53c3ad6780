"""The life of one agent process: settings, connection, presence, signals, a clean end."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Coroutine
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shared import log, settings, subjects
from shared.agent.base import Agent
from shared.agent.composition import compose
from shared.agent.dispatcher import Dispatcher
from shared.agent.executor import TaskExecutor
from shared.agent.introduction import introduce
from shared.bus import Bus
from shared.bus.consumer import Consumer
from shared.contracts import Presence, generate_iso_timestamp
from shared.errors import BusError, BusUnavailable, MailroomError, StartError
from shared.settings import Settings
from shared.tasks.profile import Profile, load_profile

DEFAULT_URL = "nats://127.0.0.1:4222"
HEARTBEAT = subjects.PRESENCE_TTL / 3
"""Seconds between signs of life in the yellow pages: two may get lost."""
CONNECT_WAIT = 15.0
"""Seconds a starting process waits for the server."""

logger = log.logger(__name__)


def run(agent_class: type[Agent], file: str) -> None:
    """Run the agent of the profile.yaml beside ``file`` until SIGTERM or SIGINT; does not return."""
    main(agent_class, Path(file).resolve().parent / "profile.yaml")


def main(agent_class: type[Agent], profile_path: Path) -> None:
    """Run one agent until SIGTERM or SIGINT; a MailroomError ends it with its sentence and exit code 1."""
    try:
        config = settings.load()
        profile = load_profile(profile_path)
        log.configure(profile.name, level=config.log_level, form=config.log_format)
        _run_loop(_serve(compose(agent_class, profile), profile, config))
    except MailroomError as error:
        sys.exit(f"{profile_path.parent.name}: {error}")


def _run_loop(work: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


async def _serve(agent_class: type[Agent], profile: Profile, config: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    working = asyncio.create_task(_work(agent_class, profile, config))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not working.done():
        logger.info("stopping")
        working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


async def _work(agent_class: type[Agent], profile: Profile, config: Settings) -> None:
    """Connect, open, and stay at work until cancelled; a stop is heard at any point of it."""
    seed = config.keys / f"{profile.name}.nk"
    bus = await Bus.connect(profile.name, config.nats_url or DEFAULT_URL, seed, wait=CONNECT_WAIT)
    office = AgentProcess(agent_class(profile, config, bus), config)
    try:
        await office.open()
        await bus.closed.wait()
        raise BusUnavailable(
            "The server ended the connection for good", "See its log; the key may be revoked"
        )
    finally:
        await office.close()


class AgentProcess:
    """An agent at work on a connected bus: mailbox pulled, presence shown."""

    def __init__(self, agent: Agent, config: Settings) -> None:
        self.agent = agent
        self._config = config
        self._bus = agent.bus
        self._consumers: list[Consumer] = []
        self._workbench = TaskExecutor(agent)
        self._desk = Dispatcher(agent, self._workbench)
        self._begun = False
        self._heartbeat: asyncio.Task[None] | None = None
        self._alive = (
            config.state_dir / "run" / f"{agent.profile.name}-{socket.gethostname()}-{os.getpid()}.alive"
        )
        self._started_at = generate_iso_timestamp()

    @property
    def load(self) -> int:
        """How many messages are being handled."""
        return sum(consumer.load for consumer in self._consumers)

    async def open(self) -> None:
        """Start the agent: its own preparations, its service, its mailbox, its presence."""
        profile = self.agent.profile
        if profile.name != subjects.MEMORY_DAEMON:
            self.agent.mind.prepare()
        await self.agent.on_start()
        self._begun = True
        await self._bus.serve(
            profile.name,
            package_version(),
            profile.description,
            self.agent.endpoints(),
            self.agent.signed_endpoints(),
            {"instance": self._bus.instance, "actions": ",".join(self.agent.actions)},
        )
        await self._consume(subjects.OFFICE, profile.name)
        if profile.name in subjects.TIMED:
            await self._consume(subjects.TIMERS, subjects.timers_durable(profile.name))
        self.agent.spawn(self._workbench.watch_claims())
        if profile.name != subjects.MEMORY_DAEMON:
            self.agent.spawn(self._introduce())
        try:
            await self._show()
        except OSError as error:
            raise StartError(
                f"The state directory {self._config.state_dir} cannot be written: {error.strerror}",
                "Make it writable, or set MAILROOM_STATE_DIR to another folder",
            ) from None
        self._heartbeat = asyncio.create_task(self._beat())
        logger.info("ready", instance=self._bus.instance)

    async def close(self) -> None:
        """Drain: no new messages, a grace for running handlers, then off the yellow pages."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        if self._bus.connected:
            await self._bus.publish(self._presence_subject(), b"", headers={"KV-Operation": "DEL"})
        for consumer in self._consumers:
            await consumer.stop(self._config.drain_timeout)
        await self.agent.stop_background()
        if self._begun:
            await self.agent.on_stop()
        await self._bus.close()
        with contextlib.suppress(OSError):
            self._alive.unlink()

    async def _introduce(self) -> None:
        """Have memory know this agent; it applies the same introduction once, by its id."""
        write = introduce(self.agent.profile)
        try:
            await self._bus.store(
                subjects.memory_write(write.sender), write.to_json(), headers={"Nats-Msg-Id": write.id}
            )
        except BusError as error:
            logger.warning("not_introduced", reason=str(error))

    async def _consume(self, stream: str, durable: str) -> None:
        self._consumers.append(
            await self._bus.consume(
                stream,
                durable,
                self._desk.handle,
                self._desk.bury,
                concurrency=self.agent.profile.concurrency,
                ack_wait=self._config.task_ack_wait,
                max_attempts=self._config.max_attempts,
            )
        )

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            try:
                if self._bus.connected:
                    await self._show()
            except (BusError, OSError) as error:
                logger.warning("presence_unsent", error=str(error))

    async def _show(self) -> None:
        await self._bus.store(self._presence_subject(), self._presence().to_json())
        self._alive.parent.mkdir(parents=True, exist_ok=True)
        self._alive.touch()

    def _presence_subject(self) -> str:
        return subjects.presence(self.agent.profile.name, self._bus.instance)

    def _presence(self) -> Presence:
        profile = self.agent.profile
        return Presence(
            sender=profile.name,
            agent=profile.name,
            instance=self._bus.instance,
            version=package_version(),
            description=profile.description,
            instructions=profile.instructions,
            skills=profile.mixins,
            actions={name: action.description for name, action in self.agent.actions.items()},
            load=self.load,
            concurrency=profile.concurrency,
            handled=sum(consumer.handled for consumer in self._consumers),
            failed=sum(consumer.failed for consumer in self._consumers),
            pid=os.getpid(),
            host=socket.gethostname(),
            started_at=self._started_at,
            schemas={name: action.schema() for name, action in self.agent.actions.items()},
        )


def package_version() -> str:
    """The installed version of Mailroom."""
    try:
        return version("mailroom")
    except PackageNotFoundError:
        return "0.0.0"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m shared.agent.process PROFILE.yaml")
    main(Agent, Path(sys.argv[1]))
