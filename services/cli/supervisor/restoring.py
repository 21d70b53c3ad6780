"""Making an office of a backup: beside what is there, then in its place, so that a kill leaves either."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tarfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from services.cli.supervisor.backup import (
    BLOCK,
    BROKEN,
    SUMS,
    Manifest,
    Tell,
    broken,
    read_manifest,
    serve_alone,
)
from services.cli.supervisor.lock import InstanceLock
from shared import settings, subjects
from shared.bus.snapshots import Snapshots
from shared.errors import BusError, ConfigError, NotFound
from shared.files import sync_folder, write_atomically
from shared.sandbox.confined import remove_tree
from shared.settings import Settings
from shared.text.display import count

DRAFT = ".restoring"  # The folder of the state folder in which the new office is made
READY = "ready.json"  # In there, as soon as it is whole: what lay beside it, and is to make way
ALTERNATES = "objects/info/alternates"  # Where git writes the folder whose objects a clone shares


def occupied_by(state_dir: Path) -> list[str]:
    """What lies in a state folder and is an office's."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(
            p.name for p in state_dir.iterdir() if p.name not in ("run", "logs") and p.name[0] != "."
        )
    return []


async def restore(config: Settings, lock: InstanceLock, path: Path, tell: Tell) -> Manifest:
    """Make the office of the backup ``path``, in place of what is in the state folder; returns what it holds.

    The caller holds ``lock``. Until all of it is there and checked nothing is touched; what was there is kept
    in ``.replaced-TIME``. Raises ConfigError if the backup is not whole, BusError, OSError.
    """
    draft = config.state_dir / DRAFT
    _remove(draft)
    manifest = read_manifest(path)
    chain = [_earlier(path, name, backup) for backup, name in manifest.chain.items()]
    office = draft / "office"
    try:
        parts = draft / "parts"
        parts.mkdir(parents=True, mode=0o700)
        for each in (*chain, path):
            tell(f"reading {each.name}")
            _unpack(each, parts, _digests_of(manifest))
        if missing := _digests_of(manifest) - {part.name for part in parts.iterdir()}:
            raise broken(path, f"{len(missing)} parts of it are missing")
        tell("files")
        _write_files(manifest, parts, office, config.state_dir)
        # All of it is synced at the end: the server would sync each 32 KiB
        folders = {"state_dir": office, "key_dir": office / "keys"}
        own = settings.load(settings.environment(None, **folders, nats_sync="2m"))
        await _write_streams(own, lock, manifest, parts, tell)
        _remove(parts)
    except BaseException:
        _remove(draft)
        raise
    # What is open is looked for at the next start, as after a power loss
    write_atomically(config.state_dir / "run" / "place", f"restored from {manifest.id}")
    os.sync()
    write_atomically(draft / READY, json.dumps(occupied_by(config.state_dir)))
    finish_restore(config.state_dir)
    return manifest


def finish_restore(state_dir: Path) -> None:
    """Put a restored office in its place, if that was begun; the caller holds the lock of the office."""
    draft = state_dir / DRAFT
    if not (draft / READY).exists():
        return
    made = datetime.fromtimestamp((draft / READY).stat().st_mtime, UTC)
    replaced = state_dir / f".replaced-{made:%Y%m%dT%H%M%SZ}"
    for name in json.loads((draft / READY).read_text()):
        if not (
            replaced / name
        ).exists():  # else what bears the name is the new one, or was moved before a kill
            replaced.mkdir(mode=0o700, exist_ok=True)
            (state_dir / name).rename(replaced / name)
    for path in list((draft / "office").iterdir()):
        path.rename(state_dir / path.name)
    sync_folder(state_dir)
    _remove(draft)


def _earlier(path: Path, name: str, backup: str) -> Path:
    """The backup ``backup`` that ``path`` continues, which lies beside it as ``name``."""
    beside = path.parent / name
    if not beside.exists() or read_manifest(beside).id != backup:
        raise NotFound(f"{path} continues {name}, which is not beside it", "Put that backup into its folder")
    return beside


def _digests_of(manifest: Manifest) -> set[str]:
    streams = {digest for stream in manifest.streams for digest in stream.frames}
    return streams | {each.digest for each in manifest.files if each.digest}


def _unpack(path: Path, parts: Path, wanted: set[str]) -> None:
    """Write what is ``wanted`` of a backup to ``parts``, each named by its SHA-256; all of it is checked."""
    found: dict[str, str] = {}
    noted = ""
    draft = parts / "draft"
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is None:
                    continue
                if member.name == SUMS:
                    noted = os.fsdecode(content.read())
                    continue
                digest = hashlib.sha256()
                with draft.open("wb") as file:
                    while data := content.read(BLOCK):
                        digest.update(data)
                        file.write(data)
                found[member.name] = name = digest.hexdigest()
                if name in wanted:
                    draft.replace(parts / name)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise broken(path, str(error)) from None
    except BROKEN as error:
        raise broken(path, str(error)) from None
    draft.unlink(missing_ok=True)
    if noted != "".join(f"{digest}  {name}\n" for name, digest in found.items()):
        raise broken(path, "what it holds is not what its SHA256SUMS says")


def _write_files(manifest: Manifest, parts: Path, office: Path, state_dir: Path) -> None:
    office.mkdir(mode=0o700)
    left = Counter(each.digest for each in manifest.files)
    for each in manifest.files:
        target = office / each.path
        inside = target.parent.resolve().is_relative_to(office.resolve())
        if not inside or ".." in PurePosixPath(each.path).parts or target == office or target.is_symlink():
            raise ConfigError(f"The backup names the file {each.path!r}, which is outside of the office")
        if each.link:
            target.symlink_to(each.link)
        elif not each.digest:
            target.mkdir(mode=0o700)
        elif each.path.endswith(ALTERNATES):
            old = (parts / each.digest).read_bytes()
            target.write_bytes(
                old.replace(os.fsencode(manifest.state_dir), os.fsencode(state_dir.absolute()))
            )
        else:
            left[each.digest] -= 1
            move = shutil.copyfile if left[each.digest] else os.replace
            move(parts / each.digest, target)
            target.chmod(each.mode)
            os.utime(target, ns=(each.changed, each.changed))
    for each in reversed(manifest.files):
        if not each.link and not each.digest:
            (office / each.path).chmod(each.mode)


async def _write_streams(
    own: Settings, lock: InstanceLock, manifest: Manifest, parts: Path, tell: Tell
) -> None:
    """Give the streams to a server of our own, which writes the files of the office ``own``."""
    async with (
        serve_alone(own, lock) as url,
        Snapshots.connect(url, own.keys / f"{subjects.ADMIN}.nk") as server,
    ):
        for stream in manifest.streams:
            tell(f"{stream.name}: {count(stream.taken['state']['messages'], 'message')}")
            state = await server.put(
                stream.name, stream.taken, ((parts / digest).read_bytes() for digest in stream.frames)
            )
            if state["last_seq"] < stream.last:
                raise BusError(f"{stream.name} ends with message {state['last_seq']}, not {stream.last}")
            now = await server.floors(stream.name)
            for durable, floor in stream.floors.items():
                if (
                    now[durable] != floor
                ):  # the server counts through the stream for each: seconds if it is long
                    await server.set_back(stream.name, durable, floor)
    for name in ("logs", "run"):
        _remove(own.state_dir / name)


def _remove(folder: Path) -> None:
    """Remove a folder, also what cannot be written in it."""
    if folder.exists():
        remove_tree(folder)
