"""Folders that people send from their own machines, piece by piece, for agents that do not have them."""

import asyncio
import contextlib
import os
import time
from hashlib import sha256
from pathlib import Path

from services.gateway.call import Call
from services.gateway.problems import Failure
from services.gateway.routing import API, Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.objects import put_object
from shared.bus.records import read_record
from shared.bus.stores import MAX_OBJECT
from shared.contracts import Parcel, ParcelsStored
from shared.settings import Settings
from shared.tasks.context import INPUT, inputs_path, sent_name
from shared.views.listed import SentFolder, SentPiece

MAX_UPLOADS = 1 << 30  # The most bytes of folders that are not complete yet, of all people
ABANDONED = 3_600.0  # Seconds without a piece after which a folder is given up


async def send_folder(call: Call, body: SentPiece) -> SentFolder:
    """Take the next piece of a folder that is packed as `mailroom submit` packs it.

    With the last one it is stored, in the place of what was sent of this folder before, and a goal may name
    it by the path in the answer. The same pieces may be sent again from the beginning.
    """
    if body.size > MAX_OBJECT:
        cure = "Leave out large files with .gitignore, or name a folder of the office's machine"
        raise Failure(413, f"It has {body.size:,} bytes, and {MAX_OBJECT:,} may be sent", cure)
    settings, bus = call.gateway.settings, call.gateway.bus
    upload = sha256(f"{call.person.name}\0{body.upload}".encode()).hexdigest()[:32]
    path = settings.gateway / "uploads" / upload
    received = await asyncio.to_thread(_append, path, body)
    if received < body.size:
        return SentFolder(received=received)
    key = sha256(f"{call.person.name}\0{body.host}\0{body.source}".encode()).hexdigest()[:16]
    try:
        with path.open("rb") as file:
            if await asyncio.to_thread(_digest, file.fileno()) != body.digest:
                raise Failure(422, "What arrived is not what was sent: its digest differs", "Send it again")
            stored = await put_object(bus, subjects.GATEWAY, key, file)
        parcel = Parcel(host=body.host, source=body.source, objects=(stored,))
        sent = ParcelsStored(sender=subjects.GATEWAY, person=call.person.name, parcels=(parcel,))
        await bus.commit([seal(subjects.record(subjects.GATEWAY, subjects.PARCELS, key), sent)])
    finally:
        path.unlink(missing_ok=True)
    return SentFolder(received=received, folder=str(inputs_path(settings) / key / sent_name(body.source)))


def _append(path: Path, piece: SentPiece) -> int:
    """Add a piece to what arrived; returns how much that is. Raises Failure for one that does not follow."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileNotFoundError):
        held = [each.stat() for each in path.parent.iterdir()]
        if piece.offset == 0 and sum(each.st_size for each in held) > MAX_UPLOADS:
            raise Failure(503, "Too many folders are being sent at the moment", "Send it again in a minute")
    if piece.offset == 0:
        for each in path.parent.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if each == path or each.stat().st_mtime < time.time() - ABANDONED:
                    each.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        there = file.seek(0, os.SEEK_END)
        if there != piece.offset or there + len(piece.data) > piece.size:
            raise Failure(409, f"{there:,} bytes arrived so far", "Send the folder again from its beginning")
        file.write(piece.data)
    return there + len(piece.data)


def _digest(fd: int) -> str:
    digest, at = sha256(), 0
    while data := os.pread(fd, 1 << 20, at):
        digest.update(data)
        at += len(data)
    return digest.hexdigest()


async def find_source(bus: Bus, settings: Settings, folder: str) -> str:
    """Where ``folder`` was sent from, on the machine of the person who sent it; itself if nobody did."""
    found = INPUT.search(folder)
    if found is None or not folder.startswith(str(inputs_path(settings))):
        return folder
    record = subjects.record(subjects.GATEWAY, subjects.PARCELS, found[1])
    known = await read_record(bus, record, ParcelsStored)
    if known is None or not known.value.parcels:
        return folder
    source = Path(known.value.parcels[0].source)
    return str(source.joinpath(*Path(folder[found.end() :]).parts[1:]))


ENDPOINTS = (Endpoint("POST", f"{API}/inputs", send_folder, scope=Scope.SUBMIT, tag="goals"),)
