"""The gateway process and its life: connection, index, presence, HTTP server, shutdown."""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from importlib.metadata import version
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from services.gateway.app import build_app
from services.gateway.call import Gateway, SpokenWords, Thoughts
from services.gateway.delivery.service import MailboxSearch, deliver_for_ever
from services.gateway.duty import Duty
from services.gateway.hooks import Deliveries
from services.gateway.index.index import LogIndex
from services.gateway.index.store import Store
from services.gateway.metrics.exposition import Exposition
from services.gateway.personal import PersonalDoor
from services.gateway.sealing import Sealer, Witnesses
from services.gateway.security.authentication import AccessLog, Authenticator
from services.gateway.security.bucket import Bucket
from services.gateway.security.limits import PatientProtocol
from shared import log, settings, subjects
from shared.access.credentials import write_address
from shared.agent.process import RESTART_STATUS, ControlFollower
from shared.bus import Bus, Stored
from shared.bus.peers import Holder
from shared.bus.records import read_presences
from shared.contracts import Presence, generate_iso_timestamp
from shared.errors import BusError, MailroomError, StartError
from shared.heartbeat import Heartbeat, heartbeat_path, limit_start
from shared.settings import Settings
from shared.tasks.profiles import Profile, load_profile

DEFAULT_URL = "nats://127.0.0.1:4222"
CONNECT_WAIT = 15.0  # Seconds a starting process waits for the server
GRACE = 2  # Seconds that open requests have when the gateway stops; streams are ended at once
KEEP_ALIVE = 15
"""Seconds an unused connection stays open: longer than clients keep theirs (httpx: 5), so that none
sends a request on one that is being closed."""
BACKLOG = 512

logger = log.logger(__name__)


def main() -> None:
    """Run the gateway until SIGTERM or SIGINT; a MailroomError ends it with its sentence and exit code 1."""
    try:
        config = settings.load()
        profile = load_profile(Path(__file__).resolve().parent / "profile.yaml")
        log.configure(profile.name, level=config.log_level, form=config.log_format)
        limit_start(config.start_limit)
        import uvloop

        if uvloop.run(_run(config, profile)):
            sys.exit(RESTART_STATUS)
    except MailroomError as error:
        sys.exit(f"gateway: {error}")


async def _run(config: Settings, profile: Profile) -> bool:
    """Run until a signal, a closed connection, or a restart that people want; whether it is the last."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    bus = await Bus.connect(
        profile.name,
        config.nats_url or DEFAULT_URL,
        config.keys / f"{profile.name}.nk",
        wait=CONNECT_WAIT,
        synced=config.nats_sync == "always",
    )
    # It may read the audit's live copies and no others.
    copies = subjects.AUDIT_PREFIX + subjects.control(profile.name)
    control = ControlFollower(bus, profile.name, subject=copies)
    try:
        async with _serving(config, profile, bus):
            await control.start()
            ends = (bus.closed.wait(), stop.wait(), control.restart.wait(), control.follow())
            tasks = [asyncio.ensure_future(each) for each in ends]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return control.restart.is_set()
    finally:
        await bus.close()


@contextlib.asynccontextmanager
async def _serving(config: Settings, profile: Profile, bus: Bus) -> AsyncIterator[None]:
    place = take_place(config)
    listener = open_listener(config, place.number)
    url = _url_of(listener)
    store = Store(place.folder / "index.db")
    index = LogIndex(bus, store)
    access, bucket, duty = AccessLog(bus), Bucket(bus), Duty(bus)
    await bucket.refresh(whole=True)
    exposition = Exposition(bus, index)
    words, thoughts = SpokenWords(), Thoughts()
    gateway = Gateway(
        bus=bus,
        settings=config,
        index=index,
        url=url,
        duty=duty,
        access=access,
        bucket=bucket,
        authenticator=Authenticator(config, bucket),
        exposition=exposition,
        words=words,
        thoughts=thoughts,
    )
    server = _make_server(gateway)
    presence = _PresenceWriter(config, profile, bus, index)
    tasks = [asyncio.create_task(index.run()), asyncio.create_task(server.serve(sockets=[listener]))]
    try:
        write_address(place.folder, url)
        await asyncio.gather(words.listen(bus), thoughts.listen(bus))
        about = profile.name, version("mailroom"), profile.description
        mailbox, api = MailboxSearch(config), PersonalDoor(gateway)
        await bus.serve(*about, {"mailbox": mailbox.answer}, {"api": api.answer})
        await presence.begin()  # last: who sees it may ask for what is served above
        tasks.append(asyncio.create_task(access.run()))
        tasks.append(asyncio.create_task(bucket.run()))
        tasks.append(asyncio.create_task(duty.run(bucket.refresh, _make_work(gateway))))
        tasks.append(asyncio.create_task(presence.keep()))
        logger.info("ready", url=url, instance=bus.instance)
        yield
    finally:
        logger.info("stopping")
        server.should_exit = True
        await asyncio.wait({tasks[1]}, timeout=GRACE + 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await presence.remove()
        store.close()
        os.close(place.lock)


def _make_work(gateway: Gateway) -> Callable[[], list[Coroutine[Any, Any, None]]]:
    """Makes what one gateway does for all: tells people, calls hooks, and seals the log."""
    index, sealers = gateway.index, list[Sealer]()  # at most one: a new one each time the duty is taken

    def hear(stored: Stored) -> None:
        for each in sealers:
            each.hear(stored)

    def work() -> list[Coroutine[Any, Any, None]]:
        sealers[:] = [sealer := Sealer(gateway.bus, index.wait_for_change)]
        witnesses = Witnesses(gateway.settings, sealer)
        return [Deliveries(gateway).run(), deliver_for_ever(gateway), sealer.run(), witnesses.run()]

    index.listeners.append(hear)
    return work


def _make_server(gateway: Gateway) -> "_Server":
    return _Server(
        uvicorn.Config(
            build_app(gateway),
            http=PatientProtocol,
            log_config=None,
            access_log=False,  # addresses hold one-time links
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # anybody on this machine could name another address
            timeout_graceful_shutdown=GRACE,
            timeout_keep_alive=KEEP_ALIVE,
        )
    )


class _Server(uvicorn.Server):
    """The HTTP server, which leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


class Place(NamedTuple):
    """What one of several gateways of a state directory has for itself: a number from 1 on, and a folder."""

    number: int
    folder: Path
    lock: int


def take_place(config: Settings) -> Place:
    """The first place that no running process has; it is left with the process. Raises StartError."""
    for number in count(1):
        folder = config.gateway if number == 1 else config.gateway / str(number)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(folder / "gateway.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        except OSError as error:
            raise StartError(
                f"The gateway's folder {folder} cannot be used: {error.strerror}", "Make it writable"
            ) from None
        else:
            return Place(number, folder, lock)
    raise AssertionError


def open_listener(config: Settings, number: int = 1) -> socket.socket:
    """A socket that listens on the gateway's address; raises StartError if that is not possible.

    Gateway ``number`` of one machine has the port as many above the first. If another program has it, a free
    one is taken.
    """
    family = socket.AF_INET6 if ":" in config.gateway_address else socket.AF_INET
    wanted = config.gateway_port and config.gateway_port + number - 1
    for port in dict.fromkeys((wanted, 0)):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((config.gateway_address, port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            if port == 0 or error.errno not in (98, 48):
                raise StartError(
                    f"The gateway cannot listen on {config.gateway_address}:{port}: {error.strerror}",
                    "Set MAILROOM_GATEWAY_ADDRESS and MAILROOM_GATEWAY_PORT to what this machine has",
                ) from None
            logger.warning("its_port_is_in_use_so_it_takes_a_free_one", port=port)
            continue
        return listener
    raise AssertionError


def _url_of(listener: socket.socket) -> str:
    """Where commands on this machine reach it: by the loopback if it listens on all addresses."""
    host, port = listener.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _PresenceWriter:
    """Publishes that the gateway is there, and shows it to the process that started it."""

    def __init__(self, config: Settings, profile: Profile, bus: Bus, index: LogIndex) -> None:
        self._profile, self._bus = profile, bus
        self._subject = subjects.presence(profile.name, bus.instance)
        path = heartbeat_path(config, profile.name, os.getpid())
        self._heartbeat = Heartbeat(
            path, config.unresponsive_limit, lambda: bus.pulling and not index.problem
        )
        self._started_at = generate_iso_timestamp()

    async def begin(self) -> None:
        """Store the presence instead of those of gateways here that were killed, and begin the heartbeat."""
        here = Holder.this(self._bus.instance)
        for each in await read_presences(self._bus, self._profile.name):
            process = Holder(instance=each.instance, host=each.host, space=each.space, pid=each.pid)
            if process.is_running(here) is False:
                await self._take_back(each.instance)
        await self._write()
        self._heartbeat.start()

    async def _write(self) -> None:
        here = Holder.this(self._bus.instance)
        presence = Presence(
            sender=self._profile.name,
            agent=self._profile.name,
            instance=self._bus.instance,
            version=version("mailroom"),
            description=self._profile.description,
            pid=here.pid,
            host=here.host,
            space=here.space,
            started_at=self._started_at,
        )
        await self._bus.store(self._subject, presence.to_json())

    async def keep(self) -> None:
        """Write it again and again; runs until cancelled."""
        while True:
            await asyncio.sleep(subjects.PRESENCE_INTERVAL)
            try:
                if self._bus.connected:
                    await self._write()
            except BusError as error:
                logger.warning("presence_unsent", error=str(error))

    async def remove(self) -> None:
        """Take the presence back."""
        if self._bus.connected:
            with contextlib.suppress(BusError):
                await self._take_back(self._bus.instance)
        self._heartbeat.stop()

    async def _take_back(self, instance: str) -> None:
        subject = subjects.presence(self._profile.name, instance)
        await self._bus.publish(subject, b"", headers={"KV-Operation": "DEL"})


if __name__ == "__main__":
    main()
