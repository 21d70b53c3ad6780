"""Memory's tables in an object store: the server dies amid a commit, two write at once, a rebuild."""

import asyncio
import shutil
import signal
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from services.memory.engine import MemoryEngine
from services.memory.storage import tables
from services.memory.storage.commit_table import Disk
from services.memory.writes.change import LoggedWrite
from shared.contracts import ListQuery, MemoryWrite, Node
from shared.errors import ActionError
from shared.settings import Settings
from tests.support.object_store import BUCKET, ObjectStore
from tests.support.once import find_models

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUICK = {"timeout": "1s", "client_max_retries": "0", "client_retry_timeout": "1"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def objects(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ObjectStore]:
    """A local S3 server, for all tests."""
    server = ObjectStore(tmp_path_factory.mktemp("objects") / "log")
    await server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        patch.setattr(tables, "OPTIONS", QUICK)
        yield server
    server.close()


@pytest.fixture
def settings(objects: ObjectStore, tmp_path: Path) -> Settings:
    address = f"s3://{BUCKET}/{tmp_path.name}/"
    return Settings(state_dir=tmp_path / "state", model_dir=find_models(), memory_tables=address)


async def write(memory: MemoryEngine, *ids: str) -> None:
    for node_id in ids:
        sent = MemoryWrite(sender="user", insist=True, nodes=(Node(id=node_id, title=f"About {node_id}"),))
        (answer,) = (
            await memory.write([LoggedWrite(seq=memory.version + 1, stored_at=time.time(), write=sent)])
        ).answers
        assert not answer.error, answer.error


async def ids(memory: MemoryEngine) -> set[str]:
    return {node.id for node in (await memory.list_nodes(ListQuery(limit=100))).nodes}


async def flush(memory: MemoryEngine) -> None:
    await memory.ask_store(lambda store: store.flush())


def keys(objects: ObjectStore, folder: str) -> set[str]:
    """The stores that have files below a folder."""
    address = f"http://127.0.0.1:{objects.port}/{BUCKET}?list-type=2&max-keys=1000&prefix={folder}/"
    with urllib.request.urlopen(address) as answer:
        text = answer.read().decode()
    return {part.partition("<")[0].split("/")[1] for part in text.split("<Key>")[1:]}


async def test_what_was_committed_is_there_and_what_a_crash_left_beyond_it_is_not(
    settings: Settings, objects: ObjectStore, tmp_path: Path
) -> None:
    memory = await MemoryEngine.open(settings)
    await write(memory, "a", "b")
    await flush(memory)
    committed = tmp_path / "committed"
    shutil.copytree(settings.state_dir / "memory", committed)
    await write(memory, "c")
    await memory.close()
    assert not list((settings.state_dir / "memory").glob("*.lance"))
    memory = await MemoryEngine.open(settings)
    assert await ids(memory) == {"a", "b", "c"}
    await memory.close()
    # As a crash before the commit table was written leaves it
    shutil.rmtree(settings.state_dir / "memory")
    shutil.copytree(committed, settings.state_dir / "memory")
    memory = await MemoryEngine.open(settings)
    assert (await ids(memory), memory.version) == ({"a", "b"}, 2)
    await write(memory, "d")
    await memory.reindex()
    assert await ids(memory) == {"a", "b", "d"}
    assert len(keys(objects, tmp_path.name)) == 1
    await memory.close()


async def test_a_server_that_dies_in_the_middle_of_a_commit_loses_nothing(
    settings: Settings, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await MemoryEngine.open(settings)
    await write(memory, "a")
    await flush(memory)
    run, left = Disk.run, 1

    def die(self: Disk, step: str, work: object, *arguments: object, **options: object) -> object:
        nonlocal left
        found = run(self, step, work, *arguments, **options)  # type: ignore[arg-type]
        if step == "add":
            left -= 1
            if not left:
                objects.process.send_signal(signal.SIGSTOP)
        return found

    monkeypatch.setattr(Disk, "run", die)
    await write(memory, "b")
    try:
        with pytest.raises(ActionError, match="Memory cannot be written"):
            await flush(memory)
        assert await ids(memory) == {"a", "b"}
    finally:
        objects.process.send_signal(signal.SIGCONT)
    await write(memory, "c")
    await flush(memory)
    await memory.close()
    memory = await MemoryEngine.open(settings)
    assert await ids(memory) == {"a", "b", "c"}
    count = await memory.ask_store(lambda store: store.read_node("b").num_rows)
    assert count == 1
    await memory.close()


async def test_of_two_that_write_to_the_same_tables_neither_gets_what_the_other_wrote(
    settings: Settings, tmp_path: Path
) -> None:
    """A folder that was copied to another machine while its process ran."""
    memory = await MemoryEngine.open(settings)
    await write(memory, "a")
    await flush(memory)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(settings.state_dir / "memory", elsewhere / "memory")
    twin = await MemoryEngine.open(Settings(state_dir=elsewhere, model_dir=settings.model_dir))
    await write(twin, "mine")
    await write(memory, "yours")
    await flush(twin)
    with pytest.raises(ActionError, match="another process writes to s3://"):
        await flush(memory)
    await memory.close()
    assert await ids(twin) == {"a", "mine"}
    await twin.close()


async def test_a_rebuilt_store_leaves_nothing_of_the_one_before(
    settings: Settings, objects: ObjectStore, tmp_path: Path
) -> None:
    memory = await MemoryEngine.open(settings)
    await write(memory, "a")
    await flush(memory)
    before = keys(objects, tmp_path.name)
    rebuilt = await memory.begin_rebuild()
    await rebuilt.write(
        [
            LoggedWrite(
                seq=1,
                stored_at=time.time(),
                write=MemoryWrite(sender="user", nodes=(Node(id="z", title="About z"),)),
            )
        ]
    )
    await memory.adopt(rebuilt)
    await asyncio.to_thread(rebuilt.discard)
    assert await ids(memory) == {"z"}
    after = keys(objects, tmp_path.name)
    assert len(after) == 1
    assert not after & before
    dropped = await memory.begin_rebuild()
    await asyncio.to_thread(dropped.discard)
    assert keys(objects, tmp_path.name) == after
    await memory.close()
