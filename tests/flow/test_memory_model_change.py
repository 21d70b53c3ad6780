"""Another embedding model: what is there is embedded anew in the background, and vectors are never mixed."""

import time
from pathlib import Path

import pytest

from services.memory.engine import MemoryEngine
from services.memory.writes.change import LoggedWrite
from shared.contracts import MemoryQuery, MemoryWrite, Node
from tests.flow.test_memory_embedders import EmbeddingServer, configure
from tests.support.once import find_models

NOTES = tuple(Node(id=f"n{index}", title=f"Note {index}, the weather in town {index}") for index in range(70))


async def test_a_change_of_model_embeds_all_anew(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    models = find_models()
    server = EmbeddingServer()
    try:
        own = configure(tmp_path, "")
        own = type(own)(state_dir=own.state_dir, model_dir=models)
        memory = await MemoryEngine.open(own)
        write = MemoryWrite(sender="scout", nodes=NOTES, insist=True)
        await memory.write([LoggedWrite(seq=1, stored_at=time.time(), write=write)])
        before = await memory.search(MemoryQuery(text="the weather in town 7"))
        await memory.close()

        served = configure(tmp_path, "openai:tiny", server.root + "/v1")
        memory = await MemoryEngine.open(served)
        assert memory.stats()["model"] != "bge-small-en-v1.5-int8"
        (hit, *_) = await memory.search(MemoryQuery(text="weather in town 7"))
        assert hit.why.get("vector", 0) == 0  # found by its words alone meanwhile
        await memory.embed_missing()
        assert memory.unembedded == 0
        hits = await memory.search(MemoryQuery(text="Note 7, the weather in town 7"))
        assert hits[0].node.id == "n7"
        assert hits[0].why["vector"] > 0
        assert memory.version == 1
        await memory.close()

        memory = await MemoryEngine.open(own)
        await memory.embed_missing()
        assert await memory.search(MemoryQuery(text="the weather in town 7")) == before
        await memory.close()
    finally:
        server.close()
