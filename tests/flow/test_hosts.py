"""Agents on other hosts: they join with a token, work, vanish, are revoked and leave."""

import asyncio
import base64
import contextlib
import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from services.cli.commands.hosts import OFFICE_ROLES, is_host_name
from services.cli.supervisor.hosts import is_in_force
from shared import subjects
from shared.bus.hosts import changing_hosts, read_hosts, read_membership
from shared.bus.records import read_presences
from shared.contracts import AccessChanged, TaskStatus
from tests.support.cluster import may_divide
from tests.support.hosts import AGENT, Cable, Hosts
from tests.support.up import UpCommand
from tests.support.waiting import eventually

in_module = pytest.mark.asyncio(loop_scope="module")
SOON = 10.0  # Seconds within which a task of a host that vanished has to be done elsewhere


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hosts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hosts]:
    running = Hosts(tmp_path_factory.mktemp("hosts"))
    try:
        await running.open()
        joined = await running.join("first")
        assert joined == {"host": "first", "office": running.office.server.url, "roles": [AGENT]}
        yield running
    finally:
        await running.close()


async def acts(hosts: Hosts, name: str) -> list[str]:
    """What the log says was done about a host."""
    stored = await hosts.office.stored(subjects.event(subjects.ADMIN, "*"))
    events = [AccessChanged.from_json(data) for _, _, data in stored]
    return [event.act.value for event in events if event.about == name]


# --- joining -------------------------------------------------------------------------------------


@in_module
async def test_a_host_joins_with_keys_of_its_own(hosts: Hosts) -> None:
    keys = Path(hosts.environment("first")["MAILROOM_STATE_DIR"]) / "keys"
    assert {path.name for path in keys.glob("*.nk")} == {"@host.nk", f"{AGENT}.nk"}
    assert (keys / f"{AGENT}.nk").read_bytes() != (hosts.config.keys / f"{AGENT}.nk").read_bytes()
    member = read_membership(keys)
    assert member is not None
    assert list(member.ids) == [AGENT]
    assert await acts(hosts, "first") == ["host_invited", "host_joined"]


@in_module
async def test_a_token_counts_once(hosts: Hosts) -> None:
    token = await hosts.invite("once")
    assert isinstance(await hosts.join("once", token=token), dict)
    refused = await hosts.join("twice", token=token)
    assert isinstance(refused, str)
    assert "used already" in refused
    assert "twice" not in read_hosts(hosts.config.keys).joined
    assert (await acts(hosts, "once"))[-1] == "host_refused"


@in_module
async def test_an_expired_token_does_not_count(hosts: Hosts) -> None:
    token = await hosts.invite("late")
    with changing_hosts(hosts.config.keys) as listed:
        listed.invited["late"] = msgspec.structs.replace(listed.invited["late"], until=time.time() - 1)
    await eventually(lambda: "late" not in read_hosts(hosts.config.keys).invited)
    refused = await hosts.join("late", token=token)
    assert isinstance(refused, str)
    assert "expired" in refused


@in_module
async def test_an_altered_token_does_not_count(hosts: Hosts) -> None:
    token = await hosts.invite("mine")
    fields = json.loads(base64.urlsafe_b64decode(token[4:] + "=" * (-len(token[4:]) % 4)))
    for change in ({"host": "first"}, {"roles": [AGENT, "conductor"]}):
        altered = "mrj_" + base64.urlsafe_b64encode(json.dumps(fields | change).encode()).decode().rstrip("=")
        roles = ",".join(change.get("roles", [AGENT]))
        refused = await hosts.join("mine", roles, token=altered)
        assert isinstance(refused, str), change
    assert isinstance(await hosts.join("mine", token=token[:-9]), str)
    assert "mine" not in read_hosts(hosts.config.keys).joined
    assert read_hosts(hosts.config.keys).joined["first"].roles.keys() == {AGENT}


@in_module
async def test_no_two_hosts_have_one_name(hosts: Hosts) -> None:
    refused = await hosts.run("", "hosts", "invite", "first", "--role", AGENT)
    assert isinstance(refused, str)
    assert "already" in refused


@pytest.mark.parametrize("name", ["office", "taken", "a.b", "*", "-x", "x-", "x" * 41, "A", ""])
def test_some_names_are_no_hosts(name: str) -> None:
    assert not is_host_name(name)


@in_module
async def test_what_signs_for_people_stays_in_the_office(hosts: Hosts) -> None:
    assert {"conductor", "nexus", "cortex", "memory", "gateway"} == OFFICE_ROLES
    refused = await hosts.run("", "hosts", "invite", "new", "--role", f"{AGENT},nexus")
    assert isinstance(refused, str)
    assert "stays in the office" in refused


@in_module
async def test_a_host_joins_while_the_server_is_restarted(hosts: Hosts) -> None:
    token = await hosts.invite("patient")
    await hosts.stop_desk()
    hosts.office.server.kill()
    joining = asyncio.create_task(hosts.join("patient", token=token))
    await asyncio.sleep(1)
    await hosts.office.server.restart()
    hosts.start_desk()
    assert isinstance(await joining, dict)


# --- work ----------------------------------------------------------------------------------------


@in_module
async def test_presence_and_claim_name_the_host(hosts: Hosts, tmp_path: Path) -> None:
    worker = await hosts.start("first")
    try:
        (presence,) = await read_presences(hosts.office.user, AGENT)
        assert presence.host == "first"
        await hosts.give("named", seconds=0, effects=str(tmp_path / "effects"))
        result = await hosts.office.result(AGENT, "named")
        assert result.status is TaskStatus.COMPLETED, result.error_message
        assert subjects.host_of(result.worker) == "first"
        (row,) = [each for each in await hosts.run("", "hosts") if each["name"] == "first"]
        assert (row["state"], row["processes"]) == ("working", 1)
    finally:
        hosts.office.kill(worker)


@in_module
@pytest.mark.parametrize("way", ["killed", "frozen", "cut off"])
async def test_a_task_of_a_host_that_vanished_is_soon_elsewhere(
    hosts: Hosts, tmp_path: Path, way: str
) -> None:
    if way == "cut off" and not may_divide():
        pytest.skip("network namespaces cannot be made here")
    with Cable() if way == "cut off" else contextlib.nullcontext() as cable:
        effects = tmp_path / "effects"
        hosts.log("first", clear=True)
        lost = await hosts.start("first", cable=cable)
        names = [f"{way[:3]}-{at}" for at in range(3)]
        for name in names:
            await hosts.give(name, seconds=20, effects=str(effects), first="first")
        await eventually(lambda: all_claimed(hosts, names))
        other = await hosts.start()
        begun = time.monotonic()
        if cable is not None:
            cable.cut()
        else:
            hosts.office.signal(lost, signal.SIGKILL if way == "killed" else signal.SIGSTOP)
        names.append(f"{way[:3]}-later")  # which the server may still give to the one that is gone
        await hosts.give(names[-1], seconds=0, effects=str(effects))
        results = [await hosts.office.result(AGENT, name) for name in names]
        assert time.monotonic() - begun < SOON
        assert {result.output for result in results} == {"office"}
        if way != "killed":
            if cable is not None:
                cable.cut(whole=True)
            hosts.office.signal(lost, signal.SIGCONT)
            await eventually(lambda: hosts.log("first").count("claim_lost") >= 3, 20)
        assert effects.read_text().split() == ["office"] * len(names)
        for name in (lost, other):
            hosts.office.kill(name)


async def hosts_at_work(hosts: Hosts) -> set[str]:
    return {subjects.host_of(each.instance) for each in await read_presences(hosts.office.user, AGENT)}


async def all_claimed(hosts: Hosts, names: list[str]) -> bool:
    return {*names} <= {*await hosts.office.claimed(AGENT)}


@in_module
async def test_up_starts_the_roles_of_a_host_and_nothing_else(hosts: Hosts) -> None:
    await hosts.join("whole")
    variables = hosts.environment("whole")
    state_dir = Path(variables["MAILROOM_STATE_DIR"])
    up = await asyncio.to_thread(UpCommand, state_dir, **variables)
    try:
        await asyncio.to_thread(up.record)
        assert up.signs_of_life().keys() == {AGENT}
        assert up.process("nats-server") == 0
        assert "whole" in await hosts_at_work(hosts)
        assert isinstance(await hosts.run("whole", "leave"), dict)
        assert await asyncio.to_thread(up.up.wait, 30) == 0
        assert "whole" not in await hosts_at_work(hosts)
    finally:
        await asyncio.to_thread(up.close)


@in_module
@pytest.mark.parametrize("command", [["status"], ["backup", "FILE"], ["cluster", "adopt"], ["provision"]])
async def test_what_the_office_does_is_refused_on_a_host(hosts: Hosts, command: list[str]) -> None:
    await hosts.join("quiet") if "quiet" not in read_hosts(hosts.config.keys).joined else None
    refused = await hosts.run("quiet", *command)
    assert "This is the host quiet of " in str(refused)
    keys = Path(hosts.environment("quiet")["MAILROOM_STATE_DIR"]) / "keys"
    assert {path.stem for path in keys.glob("*.nk")} == {"@host", AGENT}  # it has not become an office


# --- revoking and leaving ------------------------------------------------------------------------


@in_module
@pytest.mark.parametrize("way", ["revoke", "leave"])
async def test_the_work_of_a_host_that_is_gone_for_good_is_done_elsewhere(
    hosts: Hosts, tmp_path: Path, way: str
) -> None:
    effects = tmp_path / "effects"
    await hosts.join(way)
    gone = await hosts.start(way)
    names = [f"{way}-{at}" for at in range(12)]  # more than it takes at a time
    for name in names:
        await hosts.give(name, seconds=60, effects=str(effects), first=way)
    await eventually(lambda: all_claimed(hosts, names[:8]))
    other = await hosts.start()
    begun = time.monotonic()
    done = await (hosts.run("", "hosts", "revoke", way) if way == "revoke" else hosts.run(way, "leave"))
    assert isinstance(done, dict), done
    results = [await hosts.office.result(AGENT, name) for name in names]
    assert time.monotonic() - begun < SOON + 5
    assert {result.output for result in results} == {"office"}
    await asyncio.to_thread(hosts.office.processes[gone].wait, 30)  # the server lets it in no more
    assert effects.read_text().split() == ["office"] * len(names)
    hosts.office.kill(other)
    assert (await acts(hosts, way))[-1] == ("host_revoked" if way == "revoke" else "host_left")
    assert way not in read_hosts(hosts.config.keys).joined
    assert "server ended the connection for good" in hosts.log(way)
    if way == "leave":
        assert not list((Path(hosts.environment(way)["MAILROOM_STATE_DIR"]) / "keys").glob("*.nk"))
        assert isinstance(await hosts.join(way), dict)  # it can come back with another token


@in_module
async def test_a_host_that_was_revoked_leaves_all_the_same(hosts: Hosts) -> None:
    await hosts.join("remote")
    await hosts.stop_desk()
    try:
        with changing_hosts(hosts.config.keys) as listed:
            del listed.joined["remote"]
    finally:
        hosts.start_desk()
    await eventually(lambda: is_in_force(hosts.config))
    assert isinstance(await hosts.run("remote", "leave"), dict)  # it was revoked meanwhile
    refused = await hosts.run("remote", "leave")
    assert isinstance(refused, str)
    assert "has joined no office" in refused
