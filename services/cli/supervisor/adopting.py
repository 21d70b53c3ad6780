"""Moving the log of an office from one server to three, in place; it may be killed at any moment."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from services.cli.supervisor.cluster import MOVING, ServerPlace, folders, plan_servers, urls, write_cluster
from services.cli.supervisor.programs import find_server, is_listening, server_command
from services.cli.supervisor.provisioning import write_servers
from services.cli.supervisor.supervisor import ORPHAN_GRACE
from services.cli.supervisor.watchdog import end_orphans
from shared import subjects
from shared.bus import Bus
from shared.bus.provision import ask
from shared.bus.snapshots import CHUNK, Snapshots
from shared.errors import BusError, StartError
from shared.files import sync_folder, write_atomically
from shared.queries.replicas import read_replicas
from shared.settings import Settings
from shared.trail.verification import Verification, verify_log

READY_WAIT = 30.0  # Seconds until servers listen, or have ended
FOLLOW_WAIT = 120.0  # Seconds until the two others have what the first one has
ROOM = 5  # How many times the log needs its size: before, as snapshots, and on three servers

Report = Callable[[str], None]


class Move:
    """The steps of a move, each of which can be done again.

    Until the file MANIFEST is there the office is on one server, and as it was. From then on its log lies in
    synced snapshots, and as OLD. Once the manifest is gone it is on three servers, and OLD is a backup.
    """

    def __init__(self, settings: Settings, agents: Sequence[str], report: Report) -> None:
        self.one = msgspec.structs.replace(settings, nats_replicas=1, nats_port=0)
        self.three = msgspec.structs.replace(self.one, nats_replicas=3)
        self._agents, self._report = agents, report
        self._first = folders(settings, 1)[0]
        self._saved = self._first / "adopting"
        self._manifest = manifest_of(settings)
        self.old = self._first / "store.before"

    async def run(self) -> None:
        """Do what is left to do; raises MailroomError, and nothing is lost then."""
        end_orphans(self.one.state_dir, (str(self.one.state_dir),), ORPHAN_GRACE)
        if not self._manifest.exists():
            await self._save()
        await self._move()

    async def _save(self) -> None:
        store = self._first / "store"
        if self.old.exists():
            raise StartError(f"{self.old} is left of an earlier move", "Move it elsewhere, or delete it")
        self._require_room(store)
        shutil.rmtree(self._saved, ignore_errors=True)
        self._saved.mkdir(mode=0o700)
        manifest: dict[str, Any] = {"streams": {}}
        write_servers(self.one, self._agents)
        self._report("one server starts, without writers")
        async with running(self.one, plan_servers(self.one)) as (bus, server):
            manifest["verified"] = await verified(bus)
            for name in await server.names():
                manifest["streams"][name] = await save_stream(server, name, self._saved / f"{name}.snapshot")
                self._report(f"{name} is saved")
        write_atomically(self._manifest, json.dumps(manifest), mode=0o600)
        self._report("all is saved")

    async def _move(self) -> None:
        manifest = json.loads(self._manifest.read_bytes())
        if not self.old.exists():
            (self._first / "store").rename(self.old)
            sync_folder(self._first)
        self._report("the store is set aside")
        for folder in folders(self.three, 3):
            shutil.rmtree(folder / "store", ignore_errors=True)
        places = plan_servers(self.three)
        write_servers(self.three, self._agents)
        write_cluster(self.three, places)
        self._report("three servers start")
        async with running(self.three, places) as (bus, server):
            await ask(bus, "STREAM.NAMES")  # once they have chosen who leads them
            for name, saved in manifest["streams"].items():
                await restore_stream(server, saved, self._saved / f"{name}.snapshot")
                self._report(f"{name} is restored")
            await until_followed(bus)
            found = await verified(bus)
            if found != manifest["verified"]:
                raise BusError(f"The log verifies as {found}, and did as {manifest['verified']} before")
            self._report("the log is whole, as before")
        self._manifest.unlink()
        sync_folder(self._first)
        self._report("the move is done")
        shutil.rmtree(self._saved, ignore_errors=True)

    def _require_room(self, store: Path) -> None:
        size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        if (free := shutil.disk_usage(store).free) < ROOM * size:
            megabytes = f"{ROOM * size // 1024**2 + 1:,} MB are needed, and {free // 1024**2:,} are free"
            raise StartError(f"There is no room to move the log: {megabytes}", f"Free space for {store}")


def manifest_of(settings: Settings) -> Path:
    """The file that is there while a log is being moved."""
    return folders(settings, 1)[0] / MOVING


async def save_stream(server: Snapshots, stream: str, path: Path) -> dict[str, Any]:
    """Write a snapshot of a stream to ``path``, synced; returns its configuration, state and digest."""
    digest = hashlib.sha256()
    async with server.take(stream) as (taken, frames):
        with path.open("wb") as file:
            async for frame in frames:
                file.write(frame)
                digest.update(frame)
            file.flush()
            os.fsync(file.fileno())
    sync_folder(path.parent)
    return {"config": taken["config"], "state": taken["state"], "sha256": digest.hexdigest()}


async def restore_stream(server: Snapshots, saved: Mapping[str, Any], path: Path) -> None:
    """Make a stream from a snapshot, on three servers; raises BusError if it is not what was saved."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != saved["sha256"]:
            raise BusError(f"The snapshot {path} is damaged: its digest is another")
        file.seek(0)
        stream = saved["config"]["name"]
        state = await server.put(stream, saved, iter(lambda: file.read(CHUNK), b""), replicas=3)
    # What expires meanwhile is gone; and the first message of an empty stream is 0 or 1.
    keys = ("last_seq",) if saved["config"].get("max_age") else ("last_seq", "messages")
    if any(state[key] != saved["state"][key] for key in keys):
        raise BusError(f"{stream} came back as {state}, and was {saved['state']}")


async def verified(bus: Bus) -> list[list[int]]:
    """What verifying the log finds, stream by stream."""

    def figures(found: Verification) -> list[int]:
        return [found.messages, found.last, found.erased, found.seals, found.sealed, found.problem_count]

    return [figures(found) for found in await verify_log(bus)]


async def until_followed(bus: Bus) -> None:
    """Wait until no server lacks anything."""
    async with asyncio.timeout(FOLLOW_WAIT):
        while True:
            found = await read_replicas(bus)
            if len(found) == 3 and all(each.current and not each.lag for each in found):
                return
            await asyncio.sleep(0.2)


@asynccontextmanager
async def running(settings: Settings, places: Sequence[ServerPlace]) -> AsyncIterator[tuple[Bus, Snapshots]]:
    """Servers that run until the end of the block, and the admin's connections to them."""
    processes = [_launch(settings, place) for place in places]
    try:
        async with asyncio.timeout(READY_WAIT):
            while not all(is_listening(place.port) for place in places):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.05)
        seed = settings.keys / f"{subjects.ADMIN}.nk"
        bus = await Bus.connect(subjects.ADMIN, urls(places), seed, wait=READY_WAIT)
        try:
            async with Snapshots.connect(urls(places), seed) as server:
                yield bus, server
        finally:
            await bus.close()
    except TimeoutError:
        raise StartError("The servers did not get ready in time", f"See {settings.logs}") from None
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            await asyncio.to_thread(process.wait, READY_WAIT)


def _launch(settings: Settings, place: ServerPlace) -> "subprocess.Popen[bytes]":
    command = server_command(settings, find_server(settings), place.port, place.config)
    settings.logs.mkdir(parents=True, exist_ok=True)
    with (settings.logs / f"{place.name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
