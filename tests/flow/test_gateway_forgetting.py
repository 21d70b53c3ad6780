"""Forgetting over HTTP: what is told first, who may, what the linker merged, a backup that is restored."""

import shutil
from pathlib import Path

import httpx2

from shared import subjects
from shared.access.scopes import Scope
from shared.bus import Bus
from shared.contracts import MemoryWrite, Node
from shared.memory import Memory
from shared.operations.erasure.orders import carry_out_orders
from shared.settings import Settings
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

NODES = "/api/v1/memory/nodes"
SECRET = "The safe in the harbour office opens with the numbers 7 and 31"
AGAIN = "The safe in the harbour office opens with the numbers 7 and 31."
OTHER = "Ships are counted every evening at the northern quay"


def holders(folder: Path) -> list[str]:
    """The files below a folder that hold the secret."""
    texts = (SECRET.encode(), b"harbour office")
    paths = (path for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in paths if any(text in path.read_bytes() for text in texts)]


async def forgotten(client: httpx2.AsyncClient, node_id: str, admin: Bus, config: Settings) -> list[str]:
    """Order what the plan of a node says, and wait until its text is erased."""
    path = f"{NODES}/{node_id}/forgetting"
    planned = (await client.get(path)).json()
    ids = [node["id"] for node in planned["nodes"]]
    ordered = await client.post(path, json={"nodes": ids})
    assert ordered.status_code == 202, ordered.text

    async def is_done() -> bool:
        await carry_out_orders(admin, config)  # as 'mailroom up' does
        progress = (await client.get("/api/v1/memory/forgetting")).json()
        assert not progress["problem"]
        return not progress["under_way"]

    await eventually(is_done, 25)
    return ids


async def test_forgetting_over_http_and_from_a_restored_backup(tmp_path: Path) -> None:
    gateway = RunningGateway(tmp_path, MAILROOM_LINKER_INTERVAL="3600")
    try:
        await gateway.open("memory")
        memory = Memory(gateway.office.user)
        await memory.add(Node(id="a", title=SECRET), Node(id="other", title=OTHER), insist=True)
        await memory.add(Node(id="b", title=AGAIN), insist=True)
        await memory.linker_trigger()
        merged = [node for node in await memory.get("a", "b") if node.metadata.get("merged_from")]
        assert len(merged) == 1
        await memory.add(
            Node(id="quoting", title="Heard at the quay", body=f"They say: {SECRET}"), insist=True
        )
    finally:
        await gateway.close()
    backup = tmp_path / "backup"
    shutil.copytree(gateway.config.state_dir, backup)
    shutil.rmtree(backup / "run", ignore_errors=True)

    await forget_through_a_gateway(tmp_path, merged[0].id)
    assert holders(gateway.config.state_dir) == []  # of a stopped office, the server's files included

    shutil.rmtree(gateway.config.state_dir)
    shutil.copytree(backup, gateway.config.state_dir)
    assert holders(gateway.config.state_dir)  # a backup brings it back
    await forget_through_a_gateway(tmp_path, merged[0].id)
    assert holders(gateway.config.state_dir) == []


async def forget_through_a_gateway(folder: Path, node_id: str) -> None:
    """Start an office, have a node forgotten by a person with a token, and stop it."""
    gateway = RunningGateway(folder, MAILROOM_LINKER_INTERVAL="3600")
    try:
        await gateway.open("memory")
        path = f"{NODES}/{node_id}/forgetting"
        async with gateway.client(Scope.APPROVE) as client:
            assert (await client.get(path)).status_code == 403
            assert (await client.post(path, json={"nodes": [node_id]})).status_code == 403
        async with gateway.client(Scope.ADMIN, "ana") as client:
            assert (await client.get(f"{NODES}/nowhere/forgetting")).status_code == 404
            planned = (await client.get(path)).json()
            assert planned["sharing"] == ["quoting"]
            assert {node["id"] for node in planned["nodes"]} == {"a", "b"}
            part = await client.post(path, json={"nodes": [node_id]})
            assert part.status_code == 409
            assert (await client.post(path, json={"nodes": "all"})).status_code == 422
            assert (await client.get(f"{NODES}/{node_id}")).json()["node"]["title"] in (SECRET, AGAIN)
            admin = await gateway.office.connect(subjects.ADMIN)
            ids = await forgotten(client, node_id, admin, gateway.config)
            for each in ids:
                node = (await client.get(f"{NODES}/{each}")).json()["node"]
                assert (node["title"], node["body"]) == ("[forgotten]", "")
            quoting = (await client.get(f"{NODES}/quoting")).json()["node"]
            assert quoting["body"] == "They say: [forgotten]"
        orders = await gateway.office.stored(subjects.memory_write(subjects.USER), subjects.MEMORY)
        order = next(write for _, _, data in orders if (write := MemoryWrite.from_json(data)).forget)
        assert (order.person, set(order.forget)) == ("ana", {"a", "b"})
    finally:
        await gateway.close()
