"""A backup of an office: what one holds, and how one is written, while the office runs or stands still."""

import asyncio
import contextlib
import hashlib
import io
import json
import os
import stat
import tarfile
import time
import zlib
from collections.abc import AsyncIterator, Callable, Container, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from services.cli.supervisor.child import Child
from services.cli.supervisor.lock import InstanceLock
from services.cli.supervisor.programs import free_port, server_program
from services.cli.supervisor.provisioning import write_config
from services.cli.supervisor.watchdog import Watchdog, end_orphans
from shared import subjects
from shared.agent.process import package_version
from shared.bus.connecting import find_url
from shared.bus.snapshots import Snapshots
from shared.contracts import StateChanged, generate_id, generate_iso_timestamp
from shared.contracts.base import TOKEN
from shared.errors import BusError, ConfigError, NotFound
from shared.settings import Settings, settings_file
from shared.tasks.installed_agents import load_agents
from shared.tasks.profiles import read_retired, read_specialists
from shared.text.display import count

FORMAT = 1
MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
"""The last two members of a backup: what it holds, and the SHA-256 of every other one."""
FIRST = ("gateway", "memory")
"""The folders that are saved before the streams: what the log does not have yet would be missing from it."""
LEFT_OUT = ("cache", "environments", "logs", "memory", "memory-copies", "nats", "offices", "run")
"""What is rebuilt, or saved as streams."""
REBUILT = ("index.db", "index.db-shm", "index.db-wal", "gateway.lock", "listening.json")
"""What of the gateway's folder is rebuilt at its start, besides the folders of further gateways."""
OF_GOALS = ("snapshots", "workspaces")  # Folders with one for each goal, saved of those that have not ended
TRIES = 3  # How often a backup is begun again because memories were forgotten meanwhile
BLOCK = 1024 * 1024
GRACE = 10.0  # Seconds that a server of our own has to end

Tell = Callable[[str], None]


class SavedStream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream: its messages ``first`` to ``last``, of which those after ``since`` are new in this backup.

    ``taken`` is its configuration and state as the server has them, ``floors`` how far each durable was
    before, ``frames`` the SHA-256 of the pieces of the snapshot.
    """

    name: str
    first: int
    last: int
    since: int
    taken: dict[str, Any]
    floors: dict[str, int]
    frames: list[str]


class SavedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with the SHA-256 ``digest`` of its content, a symbolic link to ``link``, or else a folder."""

    path: str
    mode: int
    size: int = 0
    changed: int = 0
    digest: str = ""
    link: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds. It is whole with those of ``chain``, by id and file name, the earliest first.

    ``unread`` are files that this user may not read, so they are not in it.
    """

    format: int
    id: str
    version: str
    made_at: str
    state_dir: str
    keys: bool
    memory: bool
    goals: list[str]
    chain: dict[str, str]
    streams: list[SavedStream]
    files: list[SavedFile]
    unread: list[str]


class _ForgottenMeanwhile(Exception):  # no error: the backup is begun again
    """Something was ordered to be forgotten between two streams, which would not fit each other."""


@asynccontextmanager
async def serve_alone(config: Settings, lock: InstanceLock) -> AsyncIterator[str]:
    """The address of a server on the files of an office that stands still, whose ``lock`` the caller has.

    Its configuration is written again: the folder may be a copy, and the old one names the store of another.
    """
    specialists, _ = read_specialists(config)
    write_config(
        config, [*(agent.name for agent in load_agents(config)), *specialists, *read_retired(config)]
    )
    end_orphans(config.state_dir, (str(config.state_dir),), GRACE)
    port = free_port()
    watchdog = Watchdog(lock, config.state_dir / "run" / "none", GRACE)
    config.logs.mkdir(parents=True, exist_ok=True)
    await watchdog.start()
    child = Child(server_program(config, port), report=lambda _: None, watchdog=watchdog)
    try:
        await child.started
        yield f"nats://127.0.0.1:{port}"
    finally:
        await child.stop(GRACE)
        await watchdog.stop()


class BackupWriter:
    """Writes one backup of the office of ``config`` to a file; ``since`` is the manifest of an earlier one.

    ``keys`` and ``memory`` are whether these are to be in it; ``tell`` is told what is being done.
    """

    def __init__(
        self, config: Settings, *, since: tuple[str, Manifest] | None, keys: bool, memory: bool, tell: Tell
    ) -> None:
        self._config, self._tell = config, tell
        self._keys, self._memory = keys, memory
        self._name = since[0] if since else ""
        self._earlier = earlier = since[1] if since else None
        self._known = {d for s in earlier.streams for d in s.frames} if earlier else set[str]()
        self._files = {each.path: each for each in earlier.files} if earlier else {}
        self._unread: list[str] = []
        self._ends = {each.name: each.last for each in earlier.streams} if earlier else {}

    def write(self, output: BinaryIO, lock: InstanceLock | None, *, gzip: bool = False) -> Manifest:
        """Write it; returns what it holds. ``lock`` is that of an office that stands still.

        Raises OSError if it cannot be written, BusError if the server breaks off.
        """
        for _ in range(TRIES):
            output.seek(0)
            output.truncate()
            mode: Literal["w|gz", "w|"] = "w|gz" if gzip else "w|"
            with tarfile.open(fileobj=output, mode=mode) as tar:
                self._tar, self._sums, self._written = tar, dict[str, str](), set(self._known)
                with contextlib.suppress(_ForgottenMeanwhile):
                    return self._write(lock)
        raise BusError("Memories are being forgotten all the time", "Make the backup when that is over")

    def _write(self, lock: InstanceLock | None) -> Manifest:
        folder = self._config.state_dir
        first = [name for name in FIRST if name != "memory" or self._memory]
        files = [each for name in first for each in self._save_folder(folder / name, name)]
        streams, board, at_work = asyncio.run(self._read_server(lock))
        goals = list(StateChanged.from_json(board).active) if board else []
        for path in sorted(folder.iterdir()):
            if path.name in (*LEFT_OUT, *FIRST, *OF_GOALS, "keys", "mailroom.toml") or path.name[0] == ".":
                continue
            files += self._save_folder(path, path.name)
        for kind in OF_GOALS:
            files += self._save_folder(folder / kind, kind, only=at_work)
        if self._keys:
            files += self._save_folder(self._config.keys, "keys")
        files += self._save_folder(settings_file(folder), "mailroom.toml")
        earlier = self._earlier
        manifest = Manifest(
            format=FORMAT,
            id=generate_id(),
            version=package_version(),
            made_at=generate_iso_timestamp(),
            state_dir=str(folder.absolute()),
            keys=self._keys,
            memory=self._memory,
            goals=goals,
            chain={**earlier.chain, earlier.id: self._name} if earlier else {},
            streams=streams,
            files=files,
            unread=self._unread,
        )
        # Not msgspec's encoder: file names may have bytes that are no UTF-8
        self._add(MANIFEST, json.dumps(msgspec.to_builtins(manifest)).encode())
        sums = "".join(f"{digest}  {name}\n" for name, digest in self._sums.items())
        self._add(SUMS, os.fsencode(sums))
        return manifest

    # --- streams ---------------------------------------------------------------------------------

    async def _read_server(
        self, lock: InstanceLock | None
    ) -> tuple[list[SavedStream], bytes | None, set[str]]:
        """The streams, the record of the open goals, and what has folders and has not ended.

        Parts of goals and tasks that belong to none have folders too, and are not in that record.
        """
        async with contextlib.AsyncExitStack() as stack:
            if lock is None:
                url = find_url(self._config)
            else:
                url = await stack.enter_async_context(serve_alone(self._config, lock))
            seed = self._config.keys / f"{subjects.ADMIN}.nk"
            server = await stack.enter_async_context(Snapshots.connect(url, seed))
            streams = await self._save_streams(server)
            at_work = {path.name for kind in OF_GOALS for path in (self._config.state_dir / kind).glob("*")}
            for name in list(at_work):
                known = TOKEN.fullmatch(name) and await server.last(subjects.OFFICE, subjects.goal(name))
                goal = StateChanged.from_json(known).goal if known else None
                if not TOKEN.fullmatch(name) or (goal and goal.status.final):
                    at_work.remove(name)
            return streams, await server.last(subjects.OFFICE, subjects.OFFICE_STATE), at_work

    async def _save_streams(self, server: Snapshots) -> list[SavedStream]:
        """Every stream, at a moment of its own, so that together they are as after a crash.

        First how far people were told, then OFFICE: what the others have more is done again, and its durables
        deliver again what was acknowledged since before. Orders to forget go last, and there must be none
        more than before.
        """
        shared = subjects.bucket_stream(subjects.GATEWAY_BUCKET)
        order = (shared, subjects.OFFICE, subjects.MEMORY, "", subjects.FORGETTING)
        names = sorted(await server.names(), key=lambda each: order.index(each if each in order else ""))
        floors = {name: await server.floors(name) for name in names}
        before = await server.state(subjects.FORGETTING)
        saved = [await self._save_stream(server, name, floors[name]) for name in names]
        if await server.state(subjects.FORGETTING) != before:
            raise _ForgottenMeanwhile
        return saved

    async def _save_stream(self, server: Snapshots, name: str, floors: dict[str, int]) -> SavedStream:
        frames: list[str] = []
        async with server.take(name) as (taken, pieces):
            state = taken["state"]
            self._tell(f"{name}: {count(state['messages'], 'message')}")
            async for piece in pieces:
                frames.append(digest := hashlib.sha256(piece).hexdigest())
                if digest not in self._written:
                    self._written.add(digest)
                    self._add(f"streams/{name}/{len(frames):06}.s2", piece)
        return SavedStream(
            name=name,
            first=state["first_seq"],
            last=state["last_seq"],
            since=min(self._ends.get(name, 0), state["last_seq"]),
            taken={"config": taken["config"], "state": state},
            floors=floors,
            frames=frames,
        )

    # --- files -----------------------------------------------------------------------------------

    def _save_folder(self, path: Path, name: str, only: Container[str] | None = None) -> Iterator[SavedFile]:
        """The file, link or folder ``path`` with all, or ``only`` some, that is in it; not what vanishes."""
        try:
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                yield SavedFile(path=name, mode=0, link=str(path.readlink()))
            elif stat.S_ISREG(found.st_mode):
                yield self._save_file(path, name)
            elif stat.S_ISDIR(found.st_mode):
                self._tell(name)
                yield SavedFile(path=name, mode=stat.S_IMODE(found.st_mode))
                for inner in sorted(path.iterdir()):
                    rebuilt = name == "gateway" and (inner.name in REBUILT or inner.name.isdecimal())
                    if not rebuilt and (only is None or inner.name in only):
                        yield from self._save_folder(inner, f"{name}/{inner.name}")
        except FileNotFoundError:
            return
        except PermissionError:
            self._unread.append(name)

    def _save_file(self, path: Path, name: str) -> SavedFile:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            mode, size, changed = stat.S_IMODE(found.st_mode), found.st_size, found.st_mtime_ns
            known = self._files.get(name)
            if known and (known.size, known.changed) == (size, changed) and known.digest:
                return msgspec.structs.replace(known, mode=mode)
            reader = _Reader(file, size)
            self._tar.addfile(_member(f"state/{name}", size, mode, changed), reader)
        digest = self._sums[f"state/{name}"] = reader.digest
        return SavedFile(path=name, mode=mode, size=size, changed=changed, digest=digest)

    def _add(self, name: str, data: bytes) -> None:
        self._tar.addfile(_member(name, len(data), 0o600, time.time_ns()), io.BytesIO(data))
        self._sums[name] = hashlib.sha256(data).hexdigest()


def _member(name: str, size: int, mode: int, changed: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, mode, changed // 1_000_000_000
    return member


class _Reader(io.RawIOBase):
    """The first ``size`` bytes of a file that may shrink or grow meanwhile, with their SHA-256."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left, self._hash = file, size, hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        data += bytes(wanted - len(data))
        self._left -= len(data)
        self._hash.update(data)
        return data


def read_manifest(path: Path) -> Manifest:
    """What the backup in ``path`` holds; raises NotFound, or ConfigError if it is none, broken or too new."""
    try:
        with tarfile.open(path) as tar:
            content = tar.extractfile(MANIFEST)
            assert content is not None
            data = json.load(content)
            made, version = data["format"], data["version"]
    except FileNotFoundError:
        raise NotFound(f"There is no backup {path}") from None
    except (*BROKEN, KeyError, TypeError, ValueError, AssertionError) as error:
        raise broken(path, str(error) or type(error).__name__) from None
    if made != FORMAT or _numbers(str(version)) > _numbers(package_version()):
        raise ConfigError(
            f"{path} was made by Mailroom {version}, later than this {package_version()}",
            "Restore it with that version",
        )
    try:
        return msgspec.convert(data, Manifest)
    except msgspec.ValidationError as error:
        raise broken(path, str(error)) from None


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdecimal()]


BROKEN = (tarfile.TarError, EOFError, OSError, zlib.error)
"""What reading a file that is no backup, or the beginning of one, raises."""


def broken(path: Path, reason: str) -> ConfigError:
    """The error that the backup in ``path`` cannot be used."""
    what = reason.partition("\n")[0].rstrip(":")  # tarfile tells one line for each form it tried
    return ConfigError(f"{path} is no whole backup: {what}", "Take another; nothing was changed")
