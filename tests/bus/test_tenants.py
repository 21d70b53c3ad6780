"""Two offices on one server: what the keys of one can do to the other, tried on a live server."""

import asyncio
import contextlib
import json
import subprocess
from pathlib import Path

import pytest
from nats.aio.client import Client

from services.cli.supervisor.programs import find_server, free_port
from services.cli.supervisor.provisioning import PUBLIC_KEYS, provision_named, read_tenants, write_servers
from shared import subjects
from shared.bus import Bus
from shared.bus.client import BusClient
from shared.bus.connecting import ensure_keys
from shared.bus.identity import rights_of
from shared.bus.joining import is_key
from shared.errors import BusError
from shared.settings import Settings
from tests.bus.conftest import AGENTS
from tests.support.server import Server

LIMIT = 64 << 20
SYSTEM = (
    "$SYS.REQ.SERVER.PING.STATSZ",
    "$SYS.REQ.SERVER.PING.CONNZ",
    "$SYS.REQ.SERVER.PING.JSZ",
    "$SYS.REQ.ACCOUNT.OFFICE.JSZ",
    "$SYS.REQ.ACCOUNT.OFFICE.CONNZ",
    "$SYS.REQ.ACCOUNT.lab.OFFICE.CONNZ",
    "$SYS.REQ.ACCOUNT.PING.CONNZ",
    subjects.SERVER_STATISTICS,
)
READS = (
    "STREAM.NAMES",
    "STREAM.LIST",
    "STREAM.INFO.OFFICE",
    "STREAM.MSG.GET.OFFICE",
    "DIRECT.GET.OFFICE",
    "CONSUMER.LIST.OFFICE",
    "CONSUMER.INFO.OFFICE.engineer",
    "CONSUMER.MSG.NEXT.OFFICE.engineer",
    "INFO",
)
HARMS = ("STREAM.PURGE.OFFICE", "STREAM.DELETE.OFFICE", "CONSUMER.DELETE.OFFICE.engineer")


def add(server: Server, name: str, *more: str) -> dict[str, object]:
    done = server.mailroom("office", "add", name, "--max-store", str(LIMIT), "--json", *more)
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


def refusal(server: Server, *arguments: str) -> str:
    done = server.mailroom("office", *arguments)
    assert done.returncode, done.stdout
    return done.stderr


@pytest.fixture
def closed(tmp_path: Path) -> Server:
    """An office that was open once."""
    server = Server(tmp_path, (*AGENTS, subjects.GATEWAY), MAILROOM_NATS_PORT=str(free_port()))
    write_servers(server.config, server.agents)
    return server


async def start(server: Server) -> Settings:
    """Start the server with the tenant lab, provisioned."""
    add(server, "lab")
    await server.start()
    (tenant,) = read_tenants(server.config)
    await provision_named(tenant, server.agents)
    return tenant


async def connect(config: Settings, name: str, url: str) -> Client:
    async def ignore(_: Exception) -> None:
        """Violations are what is tried."""

    client = BusClient()
    seed = (config.keys / f"{name}.nk").read_text().strip()
    await client.connect(url, nkeys_seed_str=seed, error_cb=ignore)
    return client


def every_subject(agents: list[str]) -> list[str]:
    """What any identity of an office may use."""
    found: dict[str, None] = {}
    for name in (*agents, subjects.USER):
        rights = rights_of(name, agents)
        for each in (*rights.publish, *rights.subscribe, *rights.request, *rights.serve, *rights.tell):
            found[each.replace("*", "x").replace(">", "x")] = None
    return [*found, "_INBOX.x.y", "$SRV.PING", *SYSTEM, *(f"$JS.API.{verb}" for verb in READS)]


async def test_no_key_of_one_reaches_the_other(closed: Server) -> None:
    """Each key publishes on each subject and asks for it; the admins, who may read all, listen to all."""
    server = closed
    try:
        tenant = await start(server)
        configs = {"first": server.config, "lab": tenant}
        heard: dict[str, list[bytes]] = {"first": [], "lab": []}
        admins = {name: await connect(each, subjects.ADMIN, server.url) for name, each in configs.items()}
        for name, admin in admins.items():

            async def hear(message, into=heard[name]):  # type: ignore[no-untyped-def]
                into.append(message.subject.encode() + b" " + message.data)

            await admin.subscribe(">", cb=hear)
            await admin.flush()
            await admin.publish(subjects.mail("critic", subjects.USER), f"secret of {name}".encode())
        everything = every_subject(server.agents)
        assert len(everything) > 100
        for name, config in configs.items():
            names = [subjects.USER, subjects.ERASER, subjects.ADMIN, *server.agents]
            clients = [await connect(config, each, server.url) for each in names]
            for client in clients:
                answers: list[bytes] = []

                async def note(message, into=answers):  # type: ignore[no-untyped-def]
                    into.append(message.data)

                await client.subscribe("_INBOX.>", cb=note)
                for subject in ("$SYS.>", "_INBOX.>", "_R_.>", *everything[:40]):
                    await client.subscribe(subject, cb=note)
                for subject in everything:
                    body = b"{}" if subject.startswith("$") else f"from {name}".encode()
                    await client.publish(subject, body, reply="_INBOX.mine.1")
                await client.flush()
                other = b"secret of first" if name == "lab" else b"secret of lab"
                assert not any(other in each for each in answers)
            await asyncio.gather(*(client.close() for client in clients))
        await asyncio.gather(*(admin.flush() for admin in admins.values()))
        assert any(b"from lab" in each for each in heard["lab"])
        assert any(b"from first" in each for each in heard["first"])
        assert not any(b"from lab" in each or b"of lab" in each for each in heard["first"])
        assert not any(b"from first" in each or b"of first" in each for each in heard["lab"])
        # What an operator of the tenant destroys is its own
        first = await server.connect(subjects.ADMIN)
        before = await first.call("STREAM.INFO.OFFICE")
        for verb in HARMS:
            with contextlib.suppress(Exception):
                await admins["lab"].request(f"$JS.API.{verb}", b"", timeout=2)
        after = await first.call("STREAM.INFO.OFFICE")
        assert after["state"]["last_seq"] >= before["state"]["last_seq"] > 0
        assert after["state"]["consumer_count"] == before["state"]["consumer_count"]
        await asyncio.gather(*(admin.close() for admin in admins.values()))
        # Statistics of the server are for the first office's gateway alone
        for config, known in ((server.config, True), (tenant, False)):
            gateway = await Bus.connect(subjects.GATEWAY, server.url, config.keys / f"{subjects.GATEWAY}.nk")
            try:
                answer = await gateway.request(subjects.SERVER_STATISTICS, timeout=2)
                assert known
                assert b"statsz" in answer
            except BusError:
                assert not known
            finally:
                await gateway.close()
    finally:
        await server.close()


def test_a_tenant_of_few_agents_and_people_with_keys_is_taken(closed: Server) -> None:
    conf = closed.config.state_dir / "nats" / "office.conf"
    add(closed, "lab")
    (tenant,) = read_tenants(closed.config)
    keys = json.loads((tenant.keys / PUBLIC_KEYS).read_bytes())
    ensure_keys(tenant.keys, ["user-ada"])
    written = []
    for kept in ((subjects.GATEWAY,), ()):
        chosen = {name: keys[name] for name in (subjects.USER, subjects.ADMIN, subjects.ERASER, *kept)}
        (tenant.keys / PUBLIC_KEYS).write_text(json.dumps(chosen))
        write_servers(closed.config, closed.agents)
        command = [str(find_server(closed.config)), "-t", "-c", str(conf)]
        assert not subprocess.run(command, capture_output=True, check=False).returncode
        written.append(conf.read_bytes())
    assert [b"lab.A_user-ada" in each for each in written] == [True, False]
    (tenant.keys / "user-ada.nk").unlink()
    (tenant.keys / PUBLIC_KEYS).write_text(json.dumps(keys))
    write_servers(closed.config, closed.agents)
    assert b"lab.A_gateway" in conf.read_bytes()
    assert b"user-ada" not in conf.read_bytes()


async def test_a_full_tenant_stops_alone_and_both_survive_a_restart(closed: Server) -> None:
    server = closed
    try:
        tenant = await start(server)
        goal = subjects.goal("same")
        first = await server.connect(subjects.ADMIN)
        lab = await Bus.connect(subjects.ADMIN, server.url, tenant.keys / f"{subjects.ADMIN}.nk")
        await first.store(goal, b"of first")
        await lab.store(goal, b"of lab")
        refused = ""
        raw = await connect(tenant, subjects.ADMIN, server.url)
        for at in range(2 * LIMIT // 900_000):
            answer = json.loads((await raw.request(f"state.goal.f{at}", b"x" * 900_000, timeout=10)).data)
            if refused := answer.get("error", {}).get("description", ""):
                break
        assert "limits exceeded" in refused
        await raw.close()
        for bus, body in ((first, b"of first"), (lab, b"of lab")):
            stored = await bus.last(subjects.OFFICE, goal)
            assert stored.data == body if stored else False
        await first.store(subjects.goal("more"), b"goes on")
        await lab.close()
        await server.restart()
        lab = await Bus.connect(subjects.ADMIN, server.url, tenant.keys / f"{subjects.ADMIN}.nk")
        try:
            stored = await lab.last(subjects.OFFICE, goal)
            assert stored.data == b"of lab" if stored else False
            stored = await first.last(subjects.OFFICE, subjects.goal("more"))
            assert stored.data == b"goes on" if stored else False
        finally:
            await lab.close()
    finally:
        await server.close()


def test_adding_goes_on_wherever_it_was_killed(closed: Server) -> None:
    folder = closed.config.state_dir / "offices" / "lab"
    folder.mkdir(parents=True)
    (folder / ".mailroom.toml-1234.part").write_text("half")
    assert add(closed, "lab")["in_force"] is False
    written, keys = (folder / "mailroom.toml").read_text(), (folder / "keys" / PUBLIC_KEYS).read_bytes()
    (folder / "keys" / PUBLIC_KEYS).unlink()
    (folder / "keys" / "critic.nk").unlink()
    (folder / "mailroom.toml").write_text(f'brain = "openai:x"\n{written}')
    add(closed, "lab")
    again = json.loads((folder / "keys" / PUBLIC_KEYS).read_bytes())
    before = json.loads(keys)
    assert {name for name in again if again[name] != before[name]} == {"critic"}
    assert (folder / "mailroom.toml").read_text() == f'brain = "openai:x"\n{written}'
    done = closed.mailroom("office", "add", "lab", "--max-store", str(2 * LIMIT))
    assert not done.returncode
    (tenant,) = read_tenants(closed.config)
    assert (tenant.nats_max_store, tenant.brain) == (2 * LIMIT, "openai:x")


def test_names_and_sizes_that_are_refused(closed: Server) -> None:
    for name in ("../x", "office"):
        assert "no name for an office" in refusal(closed, "add", "--", name)
    (closed.config.state_dir / "offices" / "mine").mkdir(parents=True)
    (closed.config.state_dir / "offices" / "mine" / "notes").write_text("x")
    assert "is there already" in refusal(closed, "add", "mine")
    assert "may store" in refusal(closed, "add", "big", "--max-store", str(1 << 40))
    assert not (closed.config.state_dir / "offices" / "big").exists()
    assert "no office 'none'" in refusal(closed, "remove", "none")
    add(closed, "lab")
    assert "does not run" in refusal(closed, "remove", "lab", "--yes")
    inside = {"MAILROOM_STATE_DIR": str(closed.config.state_dir / "offices" / "lab")}
    for command in (("office", "add", "x"), ("hosts", "invite", "x", "--role", "engineer")):
        assert closed.mailroom(*command, **inside).returncode
    assert closed.mailroom("cluster", "adopt").returncode
    assert closed.mailroom("restore", __file__).returncode


@pytest.mark.parametrize("forged", ["broken", "name", "key", "theirs", "missing", "size"])
def test_files_of_a_tenant_that_somebody_altered_leave_the_server_as_it_was(
    closed: Server, forged: str
) -> None:
    conf = closed.config.state_dir / "nats" / "office.conf"
    alone = conf.read_bytes()
    add(closed, "lab")
    (tenant,) = read_tenants(closed.config)
    path = tenant.keys / PUBLIC_KEYS
    keys = json.loads(path.read_bytes())
    write_servers(closed.config, closed.agents)
    assert b"lab.OFFICE" in conf.read_bytes()
    admin = json.loads((closed.config.keys / PUBLIC_KEYS).read_bytes())[subjects.ADMIN]
    text = {
        "broken": "{",
        "name": json.dumps({**keys, "x } } accounts {": keys["critic"]}),
        "key": json.dumps({**keys, "critic": "U} ] }"}),
        "theirs": json.dumps({**keys, "critic": admin}),
        "missing": json.dumps({"critic": keys["critic"]}),
    }.get(forged)
    if text is None:
        toml = tenant.state_dir / "mailroom.toml"
        toml.write_text(toml.read_text().replace(str(LIMIT), str(1 << 50)))
    else:
        path.write_text(text)
    write_servers(closed.config, closed.agents)
    assert conf.read_bytes() == alone
    server = str(find_server(closed.config))
    assert not subprocess.run([server, "-t", "-c", str(conf)], capture_output=True, check=False).returncode
    assert not any(map(is_key, ("U} ] }", "U" * 56, "u" * 56)))
