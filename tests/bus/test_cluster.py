"""A log on three servers: while one leads, dies, hangs or comes back, nothing that was answered is lost."""

import asyncio
import contextlib
import itertools
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from services.cli.supervisor import servers_watch
from services.cli.supervisor.cluster import CERTIFICATES, format_cluster, make_certificates, plan_servers
from services.cli.supervisor.programs import find_server, free_port
from services.cli.supervisor.provisioning import provision_streams
from services.cli.supervisor.servers_watch import ServersWatch
from services.gateway import sealing
from shared import subjects
from shared.bus import Bus, Delivery, Entry
from shared.errors import BusError, BusUnavailable, StartError
from shared.queries.checks import check_replicas
from shared.queries.records import call_server, last_sequence
from shared.queries.replicas import read_replicas
from shared.queries.status import read_alarms
from shared.trail.verification import verify_here, verify_replicas
from tests.bus.conftest import AGENTS, consume
from tests.bus.test_seals import all_sealed, fill, sealed
from tests.support.block_files import Record, change_blocks
from tests.support.cluster import LEAVES_OPEN, Cluster
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    LEAVES_OPEN,
]
numbers = itertools.count()
ELECTION = 10.5
"""Seconds: a server that follows waits 4 to 9 s by chance before it wants to lead; then come votes."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), (*AGENTS, "gateway"), MAILROOM_TASK_ACK_WAIT="1")
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.close()


class Writer:
    """Commits one event after the other, and notes what was answered, and the longest time without."""

    def __init__(self, bus: Bus) -> None:
        self.stored: dict[int, bytes] = {}
        self.gap = 0.0
        self._bus = bus
        self._task = asyncio.create_task(self._write())

    async def _write(self) -> None:
        last = time.monotonic()
        for number in numbers:
            body = b'{"number": %d}' % number
            subject = subjects.event("engineer", "tried")
            (seq,) = await self._bus.commit([Entry(subject=subject, payload=body, id=f"w{number}")])
            self.stored[seq] = body
            self.gap, last = max(self.gap, time.monotonic() - last), time.monotonic()
            await asyncio.sleep(0.01)

    async def more(self, timeout: float = 40.0) -> None:
        """Wait until twenty more were answered."""
        wanted = len(self.stored) + 20
        await eventually(lambda: len(self.stored) >= wanted, timeout)

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def followed(admin: Bus) -> None:
    """Wait until two servers follow the one that leads, and lack nothing."""

    async def current() -> bool:
        found = await read_replicas(admin)
        return len(found) == 3 and all(each.current and not each.lag for each in found)

    await eventually(current, 40)


async def check_nothing_lost(cluster: Cluster, writer: Writer) -> None:
    """What was answered is there, once, on every server; and none of them lacks anything."""
    async with cluster.connection("admin") as admin:
        await followed(admin)
    for place in cluster.places:
        key = cluster.config.keys / "user.nk"
        bus = await Bus.connect("user", f"nats://127.0.0.1:{place.port}", key)
        try:
            end = await last_sequence(bus, subjects.OFFICE)
            found = [one async for page in bus.read_all(subjects.OFFICE, 1, end) for one in page]
            bodies = {one.seq: one.data for one in found}
            assert {seq: bodies.get(seq) for seq in writer.stored} == writer.stored
            tried = [one.data for one in found if one.subject == subjects.event("engineer", "tried")]
            assert len(set(tried)) == len(tried)
        finally:
            await bus.close()


async def test_all_streams_and_buckets_lie_on_three_servers(cluster: Cluster) -> None:
    async with cluster.connection("admin") as admin:
        names = (await call_server(admin, "STREAM.NAMES"))["streams"]
        for name in names:
            info = await call_server(admin, f"STREAM.INFO.{name}")
            assert info["config"]["num_replicas"] == 3, name
        assert len(names) == 12


async def test_it_never_lies_on_fewer_servers_again(cluster: Cluster) -> None:
    fewer = msgspec.structs.replace(cluster.config, nats_replicas=1)
    with pytest.raises(BusError, match="lies on 3 servers, and the settings name 1"):
        await provision_streams(fewer, cluster.url, cluster.agents)
    late = msgspec.structs.replace(cluster.config, nats_sync="2m")
    with pytest.raises(StartError, match="needs nats_sync"):
        plan_servers(late)


async def test_a_killed_leader(cluster: Cluster) -> None:
    async with cluster.connection("engineer") as bus, cluster.connection("admin") as admin:
        writer = Writer(bus)
        await writer.more()
        leader = await cluster.leader(admin)
        cluster.kill_one(leader)
        await writer.more()
        await cluster.start_one(leader)
        await writer.more()
        await writer.end()
    print(f"gap of a killed leader: {writer.gap:.1f} s")
    await check_nothing_lost(cluster, writer)
    assert writer.gap <= ELECTION


async def test_a_frozen_leader(cluster: Cluster) -> None:
    async with cluster.connection("engineer") as bus, cluster.connection("admin") as admin:
        writer = Writer(bus)
        await writer.more()
        leader = await cluster.leader(admin)
        cluster.signal(leader, signal.SIGSTOP)
        await writer.more()
        cluster.signal(leader, signal.SIGCONT)
        await writer.more()
        await writer.end()
    print(f"gap of a frozen leader: {writer.gap:.1f} s")
    await check_nothing_lost(cluster, writer)
    assert writer.gap <= 12


async def test_two_of_three_killed(cluster: Cluster) -> None:
    async with cluster.connection("engineer") as bus, cluster.connection("admin") as admin:
        writer = Writer(bus)
        await writer.more()
        leader = await cluster.leader(admin)
        pair = (leader, (leader + 1) % 3)
        for at in pair:
            cluster.kill_one(at)
        await asyncio.sleep(2)
        before = len(writer.stored)
        for at in pair:
            await cluster.start_one(at)
        back = time.monotonic()
        await eventually(lambda: len(writer.stored) > before, 40)
        print(f"writes after the return of two of three: {(took := time.monotonic() - back):.1f} s")
        await writer.more()
        await writer.end()
    await check_nothing_lost(cluster, writer)
    assert took <= ELECTION


# --- who watches the servers -----------------------------------------------------------------------


@asynccontextmanager
async def watching(cluster: Cluster) -> AsyncIterator[tuple[ServersWatch, list[str]]]:
    """A watch of the servers, and those that it wants to have started again."""
    restarted: list[str] = []
    watch = ServersWatch(cluster.config.state_dir, lambda _: None, restarted.append)
    task = asyncio.create_task(watch.run(cluster.config, cluster.url))
    try:
        yield watch, restarted
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_writes_without_answer_are_told_until_they_are_answered(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers_watch, "UNANSWERED", 3.0)
    monkeypatch.setattr(servers_watch, "RESTART_AFTER", 2.0)
    async with cluster.connection("admin") as admin:
        leader = await cluster.leader(admin)
        name = cluster.places[leader].name
        others = [at for at in range(3) if at != leader]
        (cluster.config.state_dir / "run").mkdir(exist_ok=True)
        async with watching(cluster) as (watch, _):
            await eventually(lambda: not watch.alarms, 10)
            try:
                for at in others:
                    cluster.signal(at, signal.SIGSTOP)
                await eventually(lambda: "OFFICE" in watch.alarms, 30)
                # The one that leads notices after ten seconds, until then it says that all is well.
                told = (f"{name} leads OFFICE and answers no write", "no server leads OFFICE")
                assert watch.alarms["OFFICE"].startswith(told)
                assert watch.alarms["OFFICE"] in read_alarms(cluster.config)
            finally:
                for at in others:
                    cluster.signal(at, signal.SIGCONT)
            await eventually(lambda: not watch.alarms, 30)
            await eventually(lambda: read_alarms(cluster.config) == (), 5)


async def test_who_leads_and_who_follows_is_told(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers_watch, "BEHIND", 2.0)
    async with cluster.connection("user") as user, watching(cluster) as (watch, _):
        leader = await cluster.leader(user)
        found = {each.server: each for each in await read_replicas(user)}
        assert set(found) == {place.name for place in cluster.places}
        assert subjects.OFFICE in found[cluster.places[leader].name].leads
        follower = (leader + 1) % 3
        name = cluster.places[follower].name
        cluster.kill_one(follower)
        await eventually(lambda: f"OFFICE {name}" in watch.alarms, 20)
        assert (await check_replicas(user, cluster.config)).verdict == "warn"
        await cluster.start_one(follower)
        await eventually(lambda: not watch.alarms, 20)


async def test_a_durable_that_does_not_deliver_is_asked_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers_watch, "STALLED", 2.0)
    path = f"{subjects.OFFICE}.critic"

    async def leads() -> str:
        return str((await admin.call(f"CONSUMER.INFO.{path}")).get("cluster", {}).get("leader", ""))

    async with cluster.connection("critic") as critic, cluster.connection("admin") as admin:
        got: list[int] = []

        async def handle(delivery: Delivery) -> None:
            got.append(delivery.seq)

        await consume(critic, handle)
        first = await leads()
        await admin.call(f"CONSUMER.PAUSE.{path}", {"pause_until": "2999-01-01T00:00:00Z"})
        async with cluster.connection("user") as user:
            await user.commit([Entry(subject=subjects.mail("critic", "user"), payload=b"{}", id="m1")])
        async with watching(cluster) as (watch, _):
            await eventually(lambda: "and gets none" in watch.alarms.get("durable critic", ""), 30)

            async def moved() -> bool:
                return await leads() not in ("", first)

            await eventually(moved, 30)
            monkeypatch.setattr(servers_watch, "STALLED", 60.0)  # moved again and again it delivers late
            await admin.call(f"CONSUMER.PAUSE.{path}", {})
            await eventually(lambda: got, 30)
            await eventually(lambda: not watch.alarms, 30)


# --- certificates ----------------------------------------------------------------------------------


async def test_certificates_are_made_once_and_rotated_while_the_servers_run(cluster: Cluster) -> None:
    folder = cluster.config.state_dir / "nats" / CERTIFICATES
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert not make_certificates(folder)
    async with cluster.connection("engineer") as bus, cluster.connection("admin") as admin:
        writer = Writer(bus)
        await writer.more()
        done = cluster.mailroom("cluster", "rotate")
        assert "3 servers read them" in done.stdout, done.stderr
        assert all(path.read_bytes() != before[path.name] for path in folder.iterdir())
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        await writer.more()
        follower = (await cluster.leader(admin) + 1) % 3
        cluster.kill_one(follower)  # it comes back with the new ones alone
        await cluster.start_one(follower)
        await writer.more()
        await writer.end()
    await check_nothing_lost(cluster, writer)


async def test_a_server_with_certificates_of_others_stays_outside(cluster: Cluster, tmp_path: Path) -> None:
    make_certificates(tmp_path)
    route = f"nats-route://127.0.0.1:{cluster.places[0].route}"
    text = format_cluster("nats-2", f"127.0.0.1:{free_port()}", [route], tmp_path)
    (tmp_path / "stranger.conf").write_text(text.replace("include nats-server.conf", ""))
    log = tmp_path / "stranger.log"
    files = ["--config", str(tmp_path / "stranger.conf"), "--log", str(log)]
    command = [str(find_server(cluster.config)), *files, "--addr", "127.0.0.1", "--port", str(free_port())]
    stranger = await asyncio.create_subprocess_exec(*command)
    try:
        await eventually(lambda: log.exists() and "TLS route handshake error" in log.read_text(), 15)
        assert "Remote: nats" not in log.read_text()
    finally:
        stranger.kill()
        await stranger.wait()


async def test_the_configuration_for_containers_is_valid(cluster: Cluster, tmp_path: Path) -> None:
    done = cluster.mailroom(
        "provision", "--only", "keys", "--config-dir", str(tmp_path), "--store", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    for at in (1, 2, 3):
        command = [str(find_server(cluster.config)), "-t", "--config", str(tmp_path / f"{at}-container.conf")]
        checked = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=20)
        assert checked.returncode == 0, checked.stderr


# --- the copy of each server -----------------------------------------------------------------------


async def test_each_copy_is_verified_for_itself(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that one server alone has changed is found there, and the others are whole."""
    monkeypatch.setattr(sealing, "INTERVAL", 0.3)
    name, config = cluster.places[1].name, cluster.config

    def change(records: list[Record]) -> list[Record]:
        return [each._replace(body=each.body.replace(b"letter 7", b"letter 8")) for each in records]

    async def verify() -> dict[tuple[str, str], int]:
        found = await verify_replicas(
            config, cluster.url.split(","), "all", lambda bus: verify_here(bus, config)
        )
        return {(each.replica, each.stream): each.problem_count for each in found}

    async with cluster.connection("admin") as admin:
        await fill(cluster, 20)
        async with sealed(await cluster.connect("gateway")):
            await all_sealed(cluster)
        await followed(admin)
        assert set((await verify()).values()) == {0}
        # Stopped in order: one that was killed restores its copy from the log of the group.
        cluster.signal(1, signal.SIGTERM)
        cluster.processes[1].wait(20)
        (folder,) = cluster.places[1].folder.rglob("streams/OFFICE/msgs")
        change_blocks(folder, subjects.OFFICE, change)
        await cluster.start_one(1)
        await followed(admin)

        async def found() -> bool:
            with contextlib.suppress(BusUnavailable):  # it has just started, and others answer for it
                return {key for key, problems in (await verify()).items() if problems} == {(name, "OFFICE")}
            return False

        await eventually(found, 40)
