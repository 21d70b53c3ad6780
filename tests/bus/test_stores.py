"""The stores of hosts: who may fill and read them, and workspaces that travel through them."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from shared import subjects
from shared.agent.travelling import Travelling
from shared.bus import Bus, Entry, stores
from shared.bus.entry import seal
from shared.bus.objects import get_object, put_object
from shared.bus.records import read_record
from shared.contracts import ParcelsStored, StoredObject, Task
from shared.errors import ActionError, BusUnavailable
from shared.settings import Settings
from tests.bus.test_hosts import join
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="module")
HOSTS = ("lab", "den")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("stores")
    server = Server(folder, ["conductor", "critic", "engineer", "gateway", "nexus"])
    try:
        for name in HOSTS:
            join(server, folder, name, "engineer")
        await server.start()
        yield server
    finally:
        await server.close()


@pytest_asyncio.fixture(loop_scope="module")
async def buses(server: Server) -> AsyncIterator[dict[str, Bus]]:
    place = server.config.state_dir.parent
    found = {name: await Bus.connect("engineer", server.url, place / name / "engineer.nk") for name in HOSTS}
    yield found
    for bus in found.values():
        await bus.close()


async def put(bus: Bus, bucket: str, folder: Path, content: bytes) -> StoredObject:
    (folder / "content").write_bytes(content)
    with (folder / "content").open("rb") as file:
        return await put_object(bus, bucket, "name", file)


async def test_a_store_is_filled_and_emptied_by_its_host_alone(
    server: Server, buses: dict[str, Bus], tmp_path: Path
) -> None:
    bucket = stores.bucket_of("engineer", "lab")
    stored = await put(buses["lab"], bucket, tmp_path, b"of the lab")
    foes = {
        "den": buses["den"],
        "office": await server.connect("engineer"),
        "critic": await server.connect("critic"),
        "gateway": await server.connect("gateway"),
    }
    for name, foe in foes.items():
        for subject in (
            stores.chunks(bucket, stored.key),
            stores.meta(bucket, "bmFtZQ=="),
            stores.purge(bucket),
            f"$JS.API.STREAM.PURGE.{stores.stream_of(bucket)}",
        ):
            with pytest.raises(BusUnavailable):
                await foe.request(subject, b"{}", timeout=0.2)
        await get_object(foe, stored, tmp_path / f"read-by-{name}")
    nexus = await server.connect("nexus")
    with pytest.raises(BusUnavailable):
        await nexus.request(f"$JS.API.DIRECT.GET.{stores.stream_of(bucket)}", b"{}", timeout=0.2)


class Held:
    """A claim whose notes are stored without a step."""

    def __init__(self, bus: Bus, task: Task) -> None:
        self.bus, self.task = bus, task

    async def note(self, _: str, others: Sequence[Entry]) -> Sequence[int]:
        return await self.bus.commit(others)


class Site:
    """An engineer's process on a host, without the engineer."""

    def __init__(self, folder: Path, bus: Bus) -> None:
        self.settings = Settings(state_dir=folder / bus.host / "state")
        self.bus, self.travelling = bus, Travelling(self.settings, bus)

    def again(self) -> None:
        """As after a crash."""
        self.travelling = Travelling(self.settings, self.bus)

    def workspace(self, task: Task) -> Path:
        return self.settings.workspaces / task.goal_id / task.task_id

    async def store(self, task: Task) -> str:
        return await self.travelling.store(Held(self.bus, task))  # type: ignore[arg-type]


def make_task(goal: str, text: str = "work") -> Task:
    return Task(task_id=f"{goal}-1", goal_id=goal, text=text, assignee="engineer", requester="conductor")


async def parcel_of(bus: Bus, goal: str) -> ParcelsStored:
    known = await read_record(bus, subjects.record("engineer", subjects.PARCELS, goal), ParcelsStored)
    assert known is not None
    return known.value


async def test_a_workspace_goes_on_elsewhere(buses: dict[str, Bus], tmp_path: Path) -> None:
    lab, den = (Site(tmp_path, buses[name]) for name in HOSTS)
    task = make_task("g1", f"see {lab.settings.outputs}/g1/report.md")
    here = lab.workspace(task)
    bases = lab.settings.snapshots / "g1" / ".bases" / "0"
    (bases / "objects").mkdir(parents=True)
    (bases / "objects" / "one").write_text("object")
    info = here / "proj" / ".git" / "objects" / "info"
    info.mkdir(parents=True)
    (info / "alternates").write_text(f"{bases}/objects\n")
    (here / "proj" / "large").write_bytes(bytes(range(256)) * 40_000)
    (lab.settings.outputs / "g1").mkdir(parents=True)
    (lab.settings.outputs / "g1" / "report.md").write_text("all")
    (lab.settings.state_dir / "secret").write_text("not of the goal")
    assert await lab.store(task) == ""
    (here / "proj" / "small").write_text("added")
    assert await lab.store(task) == ""
    first, second = (await parcel_of(lab.bus, "g1")).parcels[0].objects
    assert second.size < 2_000 < first.size, "what is stored is not sent again"
    await lab.store(task)
    assert len((await parcel_of(lab.bus, "g1")).parcels[0].objects) == 2, "nothing changed"

    opened = await den.travelling.open_task(task)
    assert opened.text == f"see {den.settings.outputs}/g1/report.md"
    there = den.workspace(task)
    assert (there / "proj" / "small").read_text() == "added"
    assert (there / "proj" / "large").stat().st_size == 256 * 40_000
    assert (there / "proj" / ".git" / "objects" / "info" / "alternates").read_text() == (
        f"{den.settings.snapshots}/g1/.bases/0/objects\n"
    )
    assert (den.settings.outputs / "g1" / "report.md").read_text() == "all"
    assert not (den.settings.state_dir / "secret").exists()

    # What is done there since is not undone by another start
    (there / "proj" / "small").write_text("changed")
    den.again()
    await den.travelling.open_task(task)
    assert (there / "proj" / "small").read_text() == "changed"
    assert await den.store(task) == ""
    (parcel,) = (await parcel_of(den.bus, "g1")).parcels
    assert (parcel.host, {each.bucket for each in parcel.objects}) == ("den", {"engineer_den"})
    await lab.travelling.open_task(task)
    assert (here / "proj" / "small").read_text() == "changed", "and it comes back with what was done"


@pytest.mark.parametrize("change", [{"digest": "0" * 64}, {"key": "1-gone"}, {"size": 1}])
async def test_what_is_not_what_the_log_says_is_not_taken(
    buses: dict[str, Bus], tmp_path: Path, change: dict[str, str | int]
) -> None:
    lab, den = (Site(tmp_path, buses[name]) for name in HOSTS)
    goal = f"altered-{'-'.join(change)}"
    task = make_task(goal)
    (lab.workspace(task) / "proj").mkdir(parents=True)
    (lab.workspace(task) / "proj" / "file").write_text("content")
    await lab.store(task)
    known = await parcel_of(lab.bus, goal)
    (stored,) = known.parcels[0].objects
    altered = msgspec.structs.replace(known.parcels[0], objects=(msgspec.structs.replace(stored, **change),))
    listed = ParcelsStored(sender="engineer", parcels=(altered,))
    await lab.bus.commit([seal(subjects.record("engineer", subjects.PARCELS, goal), listed)])
    with pytest.raises(ActionError, match="not what was stored"):
        await den.travelling.open_task(task)
    assert not den.workspace(task).exists()
    assert not [*den.settings.snapshots.glob(".fetched-*")]


async def test_what_cannot_be_stored_stays(
    buses: dict[str, Bus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Site(tmp_path, buses["lab"])
    task = make_task("large")
    lab.workspace(task).mkdir(parents=True)
    (lab.workspace(task) / "file").write_bytes(bytes(10_000))
    monkeypatch.setattr(stores, "MAX_OBJECT", 20)
    assert "stay on the host lab" in await lab.store(task)
    assert await lab.travelling.open_task(task) == task
