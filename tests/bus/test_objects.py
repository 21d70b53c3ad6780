"""The object store: whole files, their digests, bounds, what is left of killed writers, and whose it is."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from shared import subjects
from shared.bus import Bus, stores
from shared.bus.objects import get_object, put_object, remove_object, sweep
from shared.contracts import StoredObject
from shared.errors import BusError, BusUnavailable, Refused
from tests.support.server import Server

BUCKET = subjects.GATEWAY


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path, ("conductor", "engineer", "gateway", "nexus"))
    try:
        await server.start()
        yield server
    finally:
        await server.close()


async def put(bus: Bus, name: str, content: bytes, folder: Path) -> StoredObject:
    path = folder / "source"
    path.write_bytes(content)
    with path.open("rb") as file:
        return await put_object(bus, BUCKET, name, file)


async def test_objects(server: Server, tmp_path: Path) -> None:
    bus, engineer = await server.connect(subjects.GATEWAY), await server.connect("engineer")
    content = os.urandom(3 * stores.CHUNK + 17)
    stored = await put(bus, "a/b", content, tmp_path)
    await get_object(engineer, stored, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content
    empty = await put(bus, "empty", b"", tmp_path)
    await get_object(engineer, empty, tmp_path / "nothing")
    assert (tmp_path / "nothing").read_bytes() == b""

    # What takes a name takes the room of what had it
    other = await put(bus, "a/b", b"other", tmp_path)
    with pytest.raises(BusError, match="not what was stored"):
        await get_object(engineer, stored, tmp_path / "old")
    assert not (tmp_path / "old").exists()

    # A swapped or altered object has another digest
    for wrong in (
        msgspec.structs.replace(other, digest="0" * 64),
        msgspec.structs.replace(other, size=4),
        msgspec.structs.replace(other, size=6),
        msgspec.structs.replace(other, key=empty.key),
    ):
        with pytest.raises(BusError, match="not what was stored"):
            await get_object(engineer, wrong, tmp_path / "wrong")
        assert not (tmp_path / "wrong").exists()

    # What a killed writer left is removed when it is old, and what is not kept
    await bus.store(stores.chunks(BUCKET, "1-killed"), b"half")
    await bus.store(stores.chunks(BUCKET, "7fffffff-writing"), b"half")
    assert await sweep(bus, BUCKET, lambda _: True) == 1
    assert await sweep(bus, BUCKET, {"a/b"}.__contains__) == 0, "it is young"
    assert await sweep(bus, BUCKET, {"a/b"}.__contains__, age=-9.0) == 1
    await get_object(engineer, other, tmp_path / "kept")
    await remove_object(bus, BUCKET, "a/b")
    with pytest.raises(BusError):
        await get_object(engineer, other, tmp_path / "gone")
    admin = await server.connect(subjects.ADMIN)
    info = json.loads(await admin.request("$JS.API.STREAM.INFO.OBJ_gateway", b'{"subjects_filter": ">"}'))
    assert list(info["state"]["subjects"]) == [stores.chunks(BUCKET, "7fffffff-writing")]


async def test_only_the_owner_fills_and_empties_a_store(server: Server, tmp_path: Path) -> None:
    bus, foe = await server.connect(subjects.GATEWAY), await server.connect("engineer")
    stored = await put(bus, "mine", b"content", tmp_path)
    chunks = stores.chunks(BUCKET, stored.key)
    purge = "$JS.API.STREAM.PURGE.OBJ_gateway"
    for subject in (chunks, stores.meta(BUCKET, "bWluZQ=="), purge, stores.purge(BUCKET)):
        with pytest.raises(BusUnavailable):
            await asyncio.wait_for(foe.request(subject, b"{}", timeout=0.4), 5)
    nexus = await server.connect("nexus")  # which needs nothing of it
    with pytest.raises(BusUnavailable):
        await anext(nexus.read("OBJ_gateway", {"seq": 1, "next_by_subj": ">", "batch": 9}, timeout=0.4))
    await get_object(foe, stored, tmp_path / "copy")
    # Its own store is all that the gateway can purge.
    with pytest.raises(BusUnavailable):
        await bus.request("$JS.API.STREAM.PURGE.OFFICE", b"{}", timeout=0.4)


async def test_a_full_store_refuses(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bus, admin = await server.connect(subjects.GATEWAY), await server.connect(subjects.ADMIN)
    info = json.loads(await admin.request("$JS.API.STREAM.INFO.OBJ_gateway"))
    config = info["config"] | {"max_msgs": 4}
    await admin.request("$JS.API.STREAM.UPDATE.OBJ_gateway", json.dumps(config).encode())
    first = await put(bus, "first", os.urandom(2 * stores.CHUNK), tmp_path)
    with pytest.raises(Refused, match="takes no more"):
        await put(bus, "second", os.urandom(3 * stores.CHUNK), tmp_path)
    await get_object(bus, first, tmp_path / "whole")
    info = json.loads(await admin.request("$JS.API.STREAM.INFO.OBJ_gateway"))
    assert info["state"]["messages"] == 3, "what did not fit is gone"
    monkeypatch.setattr(stores, "MAX_OBJECT", 10)
    with pytest.raises(Refused, match="11 bytes"):
        await put(bus, "large", b"12345678901", tmp_path)
