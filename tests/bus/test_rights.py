"""What the broker lets an agent do, tried with the engineer's own credentials."""

import asyncio
import json

import pytest

from shared import subjects
from shared.bus import Bus, connection
from shared.bus.entry import Entry, seal
from shared.bus.identity import rights_of
from shared.bus.records import read_task, step_entry, submission_entry
from shared.contracts import Email, Task, TaskChanged, TaskStatus
from shared.errors import BusError, BusUnavailable, Denied
from shared.trail.verification import verify_stream
from tests.support.logs import capture_log
from tests.support.server import Server
from tests.support.waiting import eventually


def letter(sender: str, recipient: str, body: str = "hello") -> Email:
    return Email(sender=sender, recipient=recipient, body=body)


async def messages(server: Server, subject: str = ">") -> dict[str, int]:
    admin = await server.connect(subjects.ADMIN)
    info = json.loads(
        await admin.request("$JS.API.STREAM.INFO.OFFICE", json.dumps({"subjects_filter": subject}).encode())
    )
    return dict(info["state"].get("subjects") or {})


async def logged(server: Server) -> list[bytes]:
    """What OFFICE holds."""
    user = await server.connect(subjects.USER)
    return [m.data async for m in user.read(subjects.OFFICE, {"seq": 1, "batch": 9, "next_by_subj": ">"})]


async def test_agents_write_under_their_own_name(server: Server) -> None:
    engineer = await server.connect("engineer")
    await engineer.commit([seal(subjects.mail("critic", "engineer"), letter("engineer", "critic"))])
    assert await messages(server, "mail.>") == {"mail.critic.engineer": 1}


@pytest.mark.parametrize(
    "subject",
    [
        "mail.user.critic",
        "task.critic.conductor.t1.new",
        "task.critic.conductor.t1.claimed",
        "task.critic.conductor.t1.ended",
        "task.engineer.conductor.t1.new",  # its own task, a step of the requester's
        "task.engineer.conductor.t1.cancelled",
        "task.critic.engineer.t1.claimed",  # a task it gave, a step of the assignee's
        "task.critic.engineer.t1.ended",
        "state.goal.g1",
        "event.critic.approved",
        "dead.critic",
        "memory.write.critic",
        "tasks.submit",
        "audit.task.critic.conductor.t1.new",
        "timer.set.conductor.g1",
        "$KV.agents.critic.1",
        "$KV.agents.engineer.lab.1",  # another host
        "$KV.leases.memory",
        "$KV.identities.engineer",  # a key is what the admin says it is
    ],
)
async def test_publishing_as_somebody_else_is_refused_loudly(
    server: Server, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = capture_log(monkeypatch, connection)
    engineer = await server.connect("engineer")
    with pytest.raises(Denied, match="does not allow"):
        await engineer.commit([Entry(subject, b"forged", "forged-1")])
    assert subject not in await messages(server)
    assert [(event["event"], event["subject"]) for event in logged] == [("denied_by_broker", subject.lower())]


async def test_denied_commit_does_not_take_its_neighbours_with_it(server: Server) -> None:
    engineer = await server.connect("engineer")
    mine = seal(subjects.mail("critic", "engineer"), letter("engineer", "critic"))
    results = await asyncio.gather(
        engineer.commit([mine]),
        engineer.commit([Entry("mail.user.critic", b"forged", "forged-1")]),
        engineer.commit([seal(subjects.mail("scout", "engineer"), letter("engineer", "scout"))]),
        return_exceptions=True,
    )
    assert isinstance(results[1], Denied)
    assert await messages(server, "mail.>") == {"mail.critic.engineer": 1, "mail.scout.engineer": 1}


@pytest.mark.parametrize(
    "request_subject",
    [
        "$JS.API.STREAM.PURGE.OFFICE",
        "$JS.API.STREAM.DELETE.OFFICE",
        "$JS.API.STREAM.UPDATE.OFFICE",
        "$JS.API.STREAM.DELETE.MEMORY",
        "$JS.API.STREAM.MSG.DELETE.MEMORY",
        "$JS.API.STREAM.MSG.DELETE.OFFICE",
        "$JS.API.STREAM.MSG.GET.OFFICE",
        "$JS.API.DIRECT.GET.OFFICE",
        "$JS.API.DIRECT.GET.OFFICE.task.critic.conductor.t1.new",
        "$JS.API.DIRECT.GET.OFFICE.task.critic.conductor.t1.*",
        "$JS.API.DIRECT.GET.OFFICE.task.*.conductor.t1.*",
        "$JS.API.DIRECT.GET.OFFICE.task.>",
        "$JS.API.DIRECT.GET.OFFICE.mail.critic.conductor",
        "$JS.API.CONSUMER.MSG.NEXT.OFFICE.critic",
        "$JS.API.CONSUMER.CREATE.OFFICE.spy",
        "$JS.API.CONSUMER.DURABLE.CREATE.OFFICE.critic",
        "$JS.API.CONSUMER.DELETE.OFFICE.critic",
    ],
)
async def test_no_right_beyond_the_own_mailbox(server: Server, request_subject: str) -> None:
    critic_mail = seal(subjects.mail("critic", "conductor"), letter("conductor", "critic", "secret"))
    await (await server.connect("conductor")).commit([critic_mail])
    engineer = await server.connect("engineer")
    with pytest.raises(BusUnavailable):
        await engineer.request(request_subject, b'{"seq":1,"batch":1}', timeout=0.3)
    assert "mail.critic.conductor" in await messages(server)


@pytest.mark.parametrize("listen", ["mail.critic.>", "task.>", ">", "audit.>", "_INBOX.>", "$JS.>"])
async def test_listening_in_shows_nothing_of_others(server: Server, listen: str) -> None:
    engineer = await server.connect("engineer")
    heard: list[str] = []

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.append(subject)

    await engineer.subscribe(listen, hear)
    conductor = await server.connect("conductor")
    await conductor.commit([seal(subjects.mail("critic", "conductor"), letter("conductor", "critic"))])
    await asyncio.sleep(0.1)
    assert heard == []


async def test_reply_subjects_cannot_carry_a_forgery(server: Server) -> None:
    """The server sends an answer wherever a request says, whatever the asker may publish itself."""
    engineer, conductor = await server.connect("engineer"), await server.connect("conductor")
    forged = Task(task_id="t9", text="delete everything", assignee="critic", requester="conductor")
    mine = subjects.task("engineer", "conductor", "t1", subjects.NOTED)
    await engineer.commit([Entry(mine, forged.to_json(), "planted")])
    await conductor.commit(
        [submission_entry(Task(task_id="t2", text="real", assignee="engineer", requester="conductor"))]
    )
    async with server.raw_client("engineer") as client:
        for request, payload in [
            (f"$JS.API.DIRECT.GET.OFFICE.{mine}", b""),
            ("$JS.API.CONSUMER.MSG.NEXT.OFFICE.engineer", b'{"batch":5,"no_wait":true}'),
            ("event.engineer.noticed", b"{}"),
        ]:
            for target in (
                "task.critic.conductor.t9.new",
                "task.critic.conductor.t9.ended",
                "state.goal.g1",
                "audit.mail.user.critic",
            ):
                await client.publish(request, payload, reply=target)
        await client.flush()
    await asyncio.sleep(0.2)
    stored = await messages(server)
    assert {subject for subject in stored if not subject.startswith("task.engineer.")} == {
        "event.engineer.noticed"
    }


async def test_two_parties_share_a_task_and_nobody_else_touches_it(server: Server) -> None:
    conductor, engineer, critic = [await server.connect(name) for name in ("conductor", "engineer", "critic")]
    task = Task(task_id="t1", text="work", assignee="engineer", requester="conductor")
    await conductor.commit([submission_entry(task)])
    state = await read_task(engineer, task)
    assert state is not None
    assert await read_task(conductor, task) == state
    with pytest.raises(BusUnavailable):
        await read_task(critic, task)
    begun = TaskChanged(task_id="t1", origin=state.seq, attempt=1, worker="w")
    for step, payload in (
        (subjects.CLAIMED, begun),
        (subjects.ENDED, task.result("critic", TaskStatus.COMPLETED, output="")),
    ):
        with pytest.raises(Denied):
            await critic.commit([step_entry(task, step, payload, state.seq)])
    assert await read_task(conductor, task) == state


async def test_the_id_of_a_memory_write_cannot_hide_a_message_of_the_office(server: Server) -> None:
    engineer = await server.connect("engineer")
    await engineer.store("memory.write.engineer", b"decoy", headers={"Nats-Msg-Id": "same"})
    await engineer.store("mail.critic.engineer", b"not for the records", headers={"Nats-Msg-Id": "same"})
    assert await logged(server) == [b"not for the records"]


async def test_nobody_can_empty_the_log_not_even_the_admin(server: Server) -> None:
    admin = await server.connect(subjects.ADMIN)
    for stream in subjects.LOG:
        answer = json.loads(await admin.request(f"$JS.API.STREAM.PURGE.{stream}", b"{}"))
        assert "purge not permitted" in answer["error"]["description"]


async def test_admin_and_eraser_alone_erase_and_without_an_order_it_is_found(server: Server) -> None:
    admin, user = await server.connect(subjects.ADMIN), await server.connect(subjects.USER)
    for number in range(2):
        await admin.store("mail.critic.engineer", b"%d" % number)
    for name in (*server.agents, subjects.USER):
        bus = await server.connect(name)
        for stream in (*subjects.LOG, subjects.FORGETTING):
            with pytest.raises(BusUnavailable):
                await bus.request(f"$JS.API.STREAM.MSG.DELETE.{stream}", b'{"seq": 1}', timeout=0.05)
    assert len(await logged(server)) == 2
    await admin.request("$JS.API.STREAM.MSG.DELETE.OFFICE", b'{"seq": 1}')
    found = await verify_stream(user, subjects.OFFICE)
    assert found.problems == ["OFFICE 1 is missing or damaged, and no person ordered that"]
    await admin.request("$JS.API.STREAM.MSG.DELETE.OFFICE", b'{"seq": 2}')
    found = await verify_stream(user, subjects.OFFICE)
    assert found.problems == ["OFFICE 1 to 2 are missing or damaged, and no person ordered that"]


@pytest.mark.parametrize(
    "subject",
    [
        *(f"$JS.API.STREAM.{verb}.OFFICE" for verb in ("PURGE", "DELETE", "UPDATE", "SNAPSHOT")),
        "$JS.API.STREAM.CREATE.MINE",
        "$JS.API.STREAM.MSG.DELETE.KV_identities",
        "$JS.API.CONSUMER.DELETE.OFFICE.engineer",
        "$JS.API.CONSUMER.CREATE.OFFICE.mine",
        "$JS.API.CONSUMER.MSG.NEXT.OFFICE.engineer",
        "$KV.identities.engineer",
        "$KV.leases.memory",
        subjects.memory_write(subjects.USER),
        subjects.memory_write(subjects.MEMORY_DAEMON),
        subjects.forgetting("order"),
        subjects.seal(subjects.OFFICE),
        subjects.AUDIT_PREFIX + "mail.user.engineer",
    ],
)
async def test_the_eraser_has_no_other_right(server: Server, subject: str) -> None:
    eraser = await server.connect(subjects.ERASER)
    with pytest.raises(BusUnavailable):
        await eraser.request(subject, b"{}", timeout=0.1)


@pytest.mark.parametrize("listen", [">", "audit.>", "_INBOX.>", "mail.>", "$JS.>"])
async def test_the_eraser_hears_nothing_but_its_answers(server: Server, listen: str) -> None:
    eraser, admin = await server.connect(subjects.ERASER), await server.connect(subjects.ADMIN)
    heard: list[str] = []

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.append(subject)

    await eraser.subscribe(listen, hear)
    await admin.store("mail.critic.engineer", b"{}")
    await asyncio.sleep(0.1)
    assert heard == []


@pytest.mark.parametrize("name", ["engineer", "memory", "user", "eraser"])
async def test_only_the_gateway_seals(server: Server, name: str) -> None:
    bus = await server.connect(name)
    for stream in subjects.LOG:
        with pytest.raises((Denied, BusUnavailable)):
            await bus.store(subjects.seal(stream), b"{}", timeout=0.2)
    assert await messages(server, "seal.*") == {}


@pytest.mark.parametrize("name", ["engineer", "memory", "nexus"])
async def test_no_agent_orders_records_or_reads_what_is_to_be_forgotten(server: Server, name: str) -> None:
    bus, user = await server.connect(name), await server.connect(subjects.USER)
    await user.store(subjects.forgetting("order"), b'"the secret"')
    for subject in (subjects.forgetting("mine"), subjects.ERASED, subjects.memory_write(subjects.USER)):
        with pytest.raises((Denied, BusUnavailable)):
            await bus.store(subject, b"{}", timeout=0.2)
    for request in ("STREAM.INFO", "DIRECT.GET", "STREAM.MSG.GET"):
        for reader in (bus, user):
            if (reader, request) == (user, "STREAM.INFO"):
                continue
            with pytest.raises(BusUnavailable):
                await reader.request(f"$JS.API.{request}.FORGETTING", b'{"seq": 1}', timeout=0.1)


async def test_people_read_everything_and_write_only_as_themselves(server: Server) -> None:
    user = await server.connect(subjects.USER)
    heard: list[str] = []

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.append(subject)

    await user.subscribe(subjects.AUDIT_ALL, hear)
    await user.store(subjects.SUBMIT, b'{"text":"hi"}')
    await user.commit([seal(subjects.mail("nexus", "user"), letter("user", "nexus"))])
    await eventually(lambda: len(heard) == 2)
    assert heard == ["audit.tasks.submit", "audit.mail.nexus.user"]
    with pytest.raises(Denied):
        await user.commit([Entry("mail.nexus.critic", b"forged", "f1")])
    with pytest.raises(BusError):
        await user.request("$JS.API.STREAM.PURGE.OFFICE", b"", timeout=0.3)


def test_goals_are_submitted_by_people_and_by_those_who_take_their_wishes() -> None:
    names = ("user", "conductor", "cortex", "critic", "engineer", "frontier", "memory", "nexus", "scout")
    may = {name for name in names if subjects.SUBMIT in rights_of(name, names[1:]).publish}
    assert may == {"user", "nexus", "cortex"}


async def test_a_stranger_is_turned_away(server: Server, tmp_path) -> None:
    import nkeys

    seed = tmp_path / "stranger.nk"
    seed.write_bytes(nkeys.encode_seed(b"s" * 32, nkeys.PREFIX_BYTE_USER))
    with pytest.raises(Denied, match="does not know the key"):
        await Bus.connect("engineer", server.url, seed, wait=1)


def test_seeds_are_readable_by_their_owner_alone(server: Server) -> None:
    for seed in server.config.keys.iterdir():
        assert seed.stat().st_mode & 0o777 == 0o600


async def test_what_memory_announces_is_heard_by_agents_and_people(server: Server) -> None:
    memory, engineer, user = [await server.connect(name) for name in ("memory", "engineer", "user")]
    heard: dict[str, list[str]] = {"engineer": [], "user": []}

    for bus in (engineer, user):

        async def hear(subject: str, data: bytes, headers: dict[str, str], name: str = bus.name) -> None:
            heard[name].append(subject)

        await bus.subscribe(subjects.GRAPH_VERSION, hear)
    await memory.commit([Entry(subjects.GRAPH_VERSION, b"{}", "version-1")])
    await eventually(lambda: heard == {name: [subjects.GRAPH_VERSION] for name in ("engineer", "user")})
