"""What an agent does with its own key to harm others, tried on a live server."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from nats.aio.client import Client

from services.cli.commands.doctor import check_commits
from shared import subjects
from shared.bus import Bus
from shared.bus.entry import Entry
from shared.bus.records import MAX_PROCESSES, read_presences
from shared.contracts import Presence
from shared.errors import BatchesBlocked, BusError, BusUnavailable
from shared.queries.checks import check_rates
from shared.queries.flooding import find_open_batches
from shared.trail.seals import make_leaf
from tests.support.server import Server
from tests.support.waiting import eventually


def schedule(target: str, seconds: float = 0.1) -> dict[str, str]:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return {"Nats-Schedule": f"@at {moment:%Y-%m-%dT%H:%M:%S.%fZ}", "Nats-Schedule-Target": target}


async def last(bus: Bus, stream: str, subject: str) -> bytes | None:
    stored = await bus.last(stream, subject)
    return None if stored is None else stored.data


# --- timers --------------------------------------------------------------------------------------


async def test_a_timer_cannot_go_off_at_another_agent(server: Server) -> None:
    nexus, admin = await server.connect("nexus"), await server.connect(subjects.ADMIN)
    due = subjects.timer_due("conductor")
    with pytest.raises(BusError, match="target is invalid"):
        await nexus.store(subjects.timer("nexus", "x"), b"forged", headers=schedule(due))
    await nexus.store(subjects.timer("nexus", "y"), b"mine", headers=schedule(subjects.timer_due("nexus")))
    mine = subjects.timers_stream("nexus")
    async with asyncio.timeout(5):
        while await last(admin, mine, subjects.timer_due("nexus")) != b"mine":
            await asyncio.sleep(0.05)
    assert await last(admin, subjects.timers_stream("conductor"), due) is None


async def test_no_agent_removes_the_timers_of_another(server: Server) -> None:
    nexus, conductor = await server.connect("nexus"), await server.connect("conductor")
    admin = await server.connect(subjects.ADMIN)
    goal = subjects.timer("conductor", "g1")
    await conductor.store(goal, b"deadline", headers=schedule(subjects.timer_due("conductor"), 60))
    for extent in ("all", "sub"):
        await nexus.store(subjects.timer("nexus", "x"), b"", headers={"Nats-Rollup": extent})
    assert await last(admin, subjects.timers_stream("conductor"), goal) == b"deadline"


async def test_a_timer_that_is_set_again_replaces_the_first(server: Server) -> None:
    """Its subject has one message, as schedules have it without any rollup of ours."""
    nexus, admin = await server.connect("nexus"), await server.connect(subjects.ADMIN)
    due = subjects.timer_due("nexus")
    await nexus.store(subjects.timer("nexus", "x"), b"first", headers=schedule(due, 0.5))
    await nexus.store(subjects.timer("nexus", "x"), b"second", headers=schedule(due, 0.7))
    await asyncio.sleep(1.5)
    stream = subjects.timers_stream("nexus")
    request = {"seq": 1, "next_by_subj": ">", "batch": 10}
    assert [(each.subject, each.data) async for each in admin.read(stream, request)] == [(due, b"second")]


# --- the directory and leases --------------------------------------------------------------------


def presence(agent: str, instance: str = "i") -> bytes:
    return Presence(sender=agent, agent=agent, instance=instance, version="1").to_json()


@pytest.mark.parametrize(
    "headers",
    [
        {"Nats-Rollup": "all"},
        {"Nats-Rollup": "sub"},
        {"KV-Operation": "PURGE", "Nats-Rollup": "all"},
        {"Nats-TTL": "1s"},
        {"Nats-Incr": "+1"},
    ],
)
async def test_no_agent_empties_the_directory(server: Server, headers: dict[str, str]) -> None:
    engineer, critic = await server.connect("engineer"), await server.connect("critic")
    await critic.store(subjects.presence("critic", "i"), presence("critic"))
    with pytest.raises(BusError, match=r"not permitted|disabled"):
        await engineer.store(subjects.presence("engineer", "x"), b"", headers=headers)
    assert [each.agent for each in await read_presences(engineer)] == ["critic"]


async def test_an_agent_marks_no_entry_but_its_own_as_deleted(server: Server) -> None:
    """KV-Operation is a word among clients: the server takes the message for any other."""
    engineer, critic = await server.connect("engineer"), await server.connect("critic")
    await critic.store(subjects.presence("critic", "i"), presence("critic"))
    await engineer.store(subjects.presence("engineer", "x"), b"", headers={"KV-Operation": "PURGE"})
    await engineer.store(subjects.presence("engineer", "*"), b"", headers={"Nats-Marker-Reason": "Purge"})
    assert [each.agent for each in await read_presences(engineer)] == ["critic"]


async def test_nobody_stands_in_the_directory_under_anothers_name(server: Server) -> None:
    engineer, critic = await server.connect("engineer"), await server.connect("critic")
    await critic.store(subjects.presence("critic", "i"), presence("critic"))
    await engineer.store(subjects.presence("engineer", "x"), presence("critic", "x"))
    await engineer.store(subjects.presence("engineer", "y"), b"no presence at all")
    assert [(each.agent, each.instance) for each in await read_presences(critic)] == [("critic", "i")]
    assert await read_presences(critic, "engineer") == []


async def test_an_agent_with_countless_entries_hides_nobody(server: Server) -> None:
    critic = await server.connect("critic")

    async def announce_and_read() -> list[str]:
        async with server.raw_client("engineer") as client:
            for number in range(1_100):
                await client.publish(
                    subjects.presence("engineer", f"{number}"), presence("engineer", f"{number}")
                )
            await client.flush(60)
        await critic.store(subjects.presence("critic", "i"), presence("critic"))
        return [each.agent for each in await read_presences(critic)]

    async with asyncio.timeout(100):
        while True:
            begun = time.time()
            with contextlib.suppress(BusUnavailable):
                found = await announce_and_read()
                if time.time() - begun < subjects.PRESENCE_TTL / 2:  # else entries may have expired
                    break
    assert found.count("critic") == 1
    assert found.count("engineer") == MAX_PROCESSES


# --- headers -------------------------------------------------------------------------------------

REFUSED = [
    ({"Nats-Rollup": "all"}, "rollup not permitted"),
    ({"Nats-Rollup": "sub"}, "rollup not permitted"),
    ({"Nats-TTL": "1s"}, "per-message TTL is disabled"),
    ({"Nats-Incr": "+1"}, "message counters is disabled"),
    (schedule("mail.user.critic"), "message schedules is disabled"),
    (
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "mail.critic.engineer"},
        r"invalid scheduler|is disabled",
    ),
    ({"Nats-Stream-Source": "OFFICE 99999 > >"}, "source header is not allowed"),
]
"""What would remove, forge or delay messages; the streams that agents write to allow none of it."""
HARMLESS = [
    {"Nats-Schedule-Source": "mail.critic.engineer"},  # of a message that is no schedule
    {"Nats-Schedule-TTL": "1s"},
    {"Nats-Marker-Reason": "Purge"},  # a word of the server's for readers; it acts on none that it reads
    {"KV-Operation": "PURGE"},  # a word among clients
    {"Nats-Expected-Stream": "OFFICE"},  # each of these is a condition on the agent's own message
    {"Nats-Expected-Last-Subject-Sequence": "0"},
    {"Nats-Stream": "MEMORY", "Nats-Sequence": "1", "Nats-Time-Stamp": "2001-01-01T00:00:00Z"},
    {"Nats-Subject": "mail.user.critic"},
    {"Nats-Last-Sequence": "77"},  # these two would end the reading of what comes after
    {"Status": "204"},
    {"Status": "503"},
    {"Nats-Required-Api-Level": "99"},
]


@pytest.mark.parametrize(("headers", "reason"), REFUSED, ids=[str([*each[0]]) for each in REFUSED])
async def test_no_header_removes_or_forges_a_message(
    server: Server, headers: dict[str, str], reason: str
) -> None:
    engineer, critic = await server.connect("engineer"), await server.connect("critic")
    admin = await server.connect(subjects.ADMIN)
    await critic.store(subjects.mail("user", "critic"), b"first")
    for subject in (subjects.mail("critic", "engineer"), subjects.memory_write("engineer")):
        with pytest.raises(BusError, match=reason):
            await engineer.store(subject, b"", headers=headers)
    assert await last(admin, subjects.OFFICE, subjects.mail("user", "critic")) == b"first"


async def test_no_header_hides_a_message_or_says_another_wrote_it(server: Server) -> None:
    engineer, critic = await server.connect("engineer"), await server.connect("critic")
    user = await server.connect(subjects.USER)
    sent = []
    for number, headers in enumerate(HARMLESS):
        subject = subjects.task("engineer", "critic", f"t{number}", subjects.ENDED)
        await engineer.store(subject, subject.encode(), headers=headers)
        sent.append((subject, subject.encode()))
        assert await last(critic, subjects.OFFICE, subject) == subject.encode(), headers
    await critic.store(subjects.mail("user", "critic"), b"after them")
    sent.append((subjects.mail("user", "critic"), b"after them"))

    async def read(stream: str) -> list[tuple[str, bytes]]:
        request = {"seq": 1, "next_by_subj": ">", "batch": 100}
        return [(each.subject, each.data) async for each in user.read(stream, request)]

    assert await read(subjects.OFFICE) == sent


BLOCKS = (
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0\r\nA: b\r\n\r\n",
    b"NATS/1.0\r\nNats-Stream: OFFICE\r\nNats-Subject: other\r\nNats-Sequence: 9\r\n\r\n",
    b"NATS/1.0\r\nNats-Time-Stamp: 2020-01-01T00:00:00Z\r\nNats-Num-Pending: 0\r\nSalt: mine\r\n\r\n",
    b"NATS/1.0 204 End\r\nStatus: 204\r\n\r\n",
    b"NATS/1.0\r\nA: bXX",
    b"NATS/1.0 204XX",
    b"XX",
    b"N",
    b"NATS/1.0\r\n\xff\xfe: \x00\xff\r\n\r\n",
)


async def test_whatever_headers_say_their_bytes_are_read_as_they_are_stored(server: Server) -> None:
    """Direct get and republishing add headers of the server's, which a sender may write too."""
    user, eraser = await server.connect(subjects.USER), await server.connect(subjects.ERASER)
    heard: list[dict[str, str]] = []

    async def hear(_: str, __: bytes, headers: dict[str, str]) -> None:
        heard.append(headers)

    await user.subscribe(subjects.AUDIT_ALL, hear)
    async with server.raw_client("engineer") as client:
        for block in BLOCKS:
            size = len(block)
            await client._send_command(b"HPUB mail.user.engineer %d %d\r\n%bhi\r\n" % (size, size + 2, block))
        await client.flush()
    await eventually(lambda: len(heard) == len(BLOCKS))
    pages = [page async for page in user.read_all(subjects.OFFICE, 1, 100)]
    stored = [each for page in pages for each in page]
    assert [each.seq for each in stored] == [int(each["Nats-Sequence"]) for each in heard]
    # what is no block at all counts as text for the server
    assert {(each.subject, each.data[-2:]) for each in stored} == {("mail.user.engineer", b"hi")}
    for each, headers in zip(stored, heard, strict=True):
        assert (headers["Nats-Subject"], headers["Nats-Time-Stamp"]) == (each.subject, each.time)
        exact = await eraser.get_exactly(subjects.OFFICE, each.seq)
        assert exact is not None
        assert make_leaf(exact) == make_leaf(each)
        added = {name for name in headers if name in exact.headers and headers[name] != exact.headers[name]}
        assert added <= {"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"}
    assert [each.block for each in stored][:4] == [b"", *BLOCKS[1:4]]


async def test_a_subject_that_is_no_text_keeps_nobody_from_reading(server: Server) -> None:
    user, engineer = await server.connect(subjects.USER), await server.connect("engineer")
    heard: list[str] = []

    async def hear(subject: str, _: bytes, __: dict[str, str]) -> None:
        heard.append(subject)

    await user.subscribe(subjects.AUDIT_ALL, hear)
    async with server.raw_client("engineer") as client:
        await client._send_command(b"PUB mail.\xffu.engineer 2\r\nhi\r\n")
        await client.flush()
    await engineer.store(subjects.mail("user", "engineer"), b"after it")
    await eventually(lambda: len(heard) == 2)
    pages = [page async for page in user.read_all(subjects.OFFICE, 1, 100)]
    assert [each.subject for page in pages for each in page] == [
        "mail.\ufffdu.engineer",
        "mail.user.engineer",
    ]
    assert [m.seq async for m in user.read(subjects.OFFICE, {"seq": 1, "next_by_subj": ">", "batch": 9})] == [
        1,
        2,
    ]


async def test_a_trace_of_a_message_goes_nowhere_that_its_sender_may_not_write(server: Server) -> None:
    admin = await server.connect(subjects.ADMIN)
    async with server.raw_client("engineer") as client:
        for only in ({}, {"Nats-Trace-Only": "true"}):
            headers = {"Nats-Trace-Dest": subjects.mail("user", "critic"), **only}
            await client.publish(subjects.mail("critic", "engineer"), b"x", headers=headers)
        await client.flush()
    await asyncio.sleep(0.2)
    assert await last(admin, subjects.OFFICE, subjects.mail("user", "critic")) is None


async def test_a_subject_with_wildcards_names_no_others(server: Server) -> None:
    """The server takes them as plain words: a message on one reaches nobody's mailbox but its own."""
    engineer, critic = await server.connect("engineer"), await server.connect("critic")
    secret = subjects.record("critic", "thread", "t1")
    await critic.store(secret, b"secret")
    await engineer.store(subjects.mail("*", "engineer"), b"to all")
    request = "$JS.API.CONSUMER.MSG.NEXT.OFFICE.critic"
    async with server.raw_client("critic") as client:
        inbox = await client.subscribe("_INBOX.one")
        await client.publish(request, b'{"batch":1,"no_wait":true}', reply="_INBOX.one")
        assert (await inbox.next_msg(2)).headers == {"Status": "404", "Description": "No Messages"}
    async with server.raw_client("engineer") as client:
        for asked in ("record.*.*.*", "record.>", "record.engineer.>.>", "record.engineer.*.>"):
            inbox = await client.subscribe(f"_INBOX.{len(asked)}")
            await client.publish(f"$JS.API.DIRECT.GET.OFFICE.{asked}", reply=f"_INBOX.{len(asked)}")
            with contextlib.suppress(TimeoutError):
                assert (await inbox.next_msg(0.3)).data == b"", asked


# --- inboxes -------------------------------------------------------------------------------------


async def test_an_agent_neither_learns_nor_reaches_an_inbox_of_peoples(server: Server) -> None:
    """Who could write there could answer people's requests in the server's place."""
    async with server.raw_client("engineer") as agent, server.raw_client(subjects.USER) as people:
        asked = await agent.subscribe("$SRV.>")
        await agent.flush()
        inbox = people.new_inbox()
        answers = await people.subscribe(inbox)
        await people.publish("$SRV.PING", b"", reply=inbox)
        ping = await asked.next_msg(20)
        assert not ping.reply.startswith("_INBOX")
        await agent.publish(inbox, b"forged")
        await ping.respond(b"an answer")
        assert (await answers.next_msg(20)).data == b"an answer"
        with pytest.raises(TimeoutError):
            await answers.next_msg(0.3)


# --- atomic batches ------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def batches_left_open(server: Server, number: int, period: float) -> AsyncIterator[None]:
    """The engineer opens ``number`` batches every ``period`` seconds, and leaves them."""

    async def leave() -> None:
        async with server.raw_client("engineer") as client:
            for serial in itertools.count():
                for each in range(number):
                    headers = {"Nats-Batch-Id": f"{serial}-{each}", "Nats-Batch-Sequence": "1"}
                    await client.publish(subjects.mail("critic", "engineer"), b"", headers=headers)
                await client.flush()
                await asyncio.sleep(period)

    task = asyncio.create_task(leave())
    await asyncio.sleep(0.5)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pair(number: int) -> list[Entry]:
    return [Entry(subjects.mail(to, "critic"), b"%d" % number, f"{to}-{number}") for to in ("user", "nexus")]


async def test_batches_that_an_agent_leaves_open_do_not_stop_the_others(server: Server) -> None:
    critic = await server.connect("critic")
    async with batches_left_open(server, 60, 0.5), asyncio.timeout(20):
        for number in range(5):
            await critic.commit(pair(number))


@contextlib.asynccontextmanager
async def batches_held_open(server: Server, number: int) -> AsyncIterator[None]:
    """The engineer has ``number`` batches open, as the server confirmed, until the end of the block."""
    names = itertools.count()

    async def hold(client: Client, opened: asyncio.Event) -> None:
        # The server answers a message of an open batch with an empty one, the first as soon as the batch is
        # open, which takes a while on a slow disk. It gives up a batch after 500 ms of silence.
        while True:
            batch = f"held-{next(names)}"
            for sequence in itertools.count(1):
                headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(sequence)}
                answer = await client.request(subjects.mail("critic", "engineer"), headers=headers, timeout=9)
                if answer.data:
                    break
                opened.set()
                await asyncio.sleep(0.1)

    opened = [asyncio.Event() for _ in range(number)]
    async with server.raw_client("engineer") as client:
        holding = [asyncio.create_task(hold(client, each)) for each in opened]
        try:
            async with asyncio.timeout(20):
                await asyncio.gather(*(each.wait() for each in opened))
            yield
        finally:
            for task in holding:
                task.cancel()
            await asyncio.gather(*holding, return_exceptions=True)


async def test_a_commit_that_open_batches_block_says_so_and_passes_later(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    critic = await server.connect("critic")
    async with batches_held_open(server, 10):
        with monkeypatch.context() as patch:
            patch.setattr("shared.bus.commit.OPEN_TRIES", 2)
            patch.setattr("shared.bus.commit.OPEN_PAUSE", 0.01)
            with pytest.raises(BatchesBlocked, match=r"open at the server.*'mailroom doctor' names it"):
                await critic.commit(pair(1))
        await critic.commit([Entry(subjects.mail("user", "critic"), b"one message", "single")])
    await asyncio.sleep(0.7)
    await critic.commit(pair(2))


async def test_who_leaves_batches_open_is_named(server: Server) -> None:
    critic = await server.connect("critic")
    assert await find_open_batches(server.config, server.url, 0.5) == {}
    async with batches_left_open(server, 10, 0.3):
        watching = asyncio.create_task(find_open_batches(server.config, server.url))
        for number in range(3):
            with contextlib.suppress(BatchesBlocked):
                await critic.commit(pair(number))
        found = await watching
        check = await check_commits(await server.connect(subjects.USER), server.config)
    assert found is not None
    assert list(found) == ["engineer"]
    assert found["engineer"] >= 10
    assert check.verdict == "warn"
    assert "which keep others from committing: engineer " in check.finding


async def test_commits_of_many_processes_at_once_pass_within_the_limit(server: Server) -> None:
    """Thirty connections, more than an office has processes, with several batches each at the same time."""
    clients = [await server.connect("critic") for _ in range(30)]
    async with asyncio.timeout(20):
        await asyncio.gather(
            *(client.commit(pair(100 * n + each)) for each in range(5) for n, client in enumerate(clients))
        )


# --- floods --------------------------------------------------------------------------------------


async def test_doctor_names_who_publishes_without_end(server: Server) -> None:
    user = await server.connect(subjects.USER)
    assert (await check_rates(user)).verdict == "ok"
    async with server.raw_client("engineer") as engineer, server.raw_client("critic") as critic:
        for number in range(4_000):
            await engineer.publish(subjects.event("engineer", "looped"), b"{}")
            await engineer.publish(subjects.memory_write("engineer"), b"{}")
            if number < 100:
                await critic.publish(subjects.mail("nexus", "critic"), b"{}")
        await engineer.flush()
        await critic.flush()

    async def is_named() -> bool:
        return (await check_rates(user)).verdict == "warn"

    await eventually(is_named)  # what is published is stored a little later
    named = await check_rates(user)
    assert "engineer" in named.finding
    assert "critic" not in named.finding
