"""The audit trail as people see it: tailed, exported, verified."""

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.records import submission_entry
from shared.contracts import Email, MemoryWrite, Node, Task, generate_id, generate_task_id
from shared.queries.audit_log import AuditFollower, Gap
from tests.support.server import ROOT, Server, mailroom_command

WAITING = "Waiting for matching messages"


async def write(bus: Bus, recipient: str, body: str, **fields: str) -> int:
    """Have ``bus`` send a letter; its sequence in OFFICE."""
    email = Email(sender=bus.name, recipient=recipient, body=body, **fields)
    stored = await bus.store(
        subjects.mail(recipient, bus.name), email.to_json(), headers={"Nats-Msg-Id": email.id}
    )
    return int(stored["seq"])


async def run(office: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(office.mailroom, *arguments)


@asynccontextmanager
async def tailing(office: Server, *arguments: str) -> AsyncIterator[Callable[[], Any]]:
    """A running ``mailroom tail``: wait for its next line."""
    process = await asyncio.create_subprocess_exec(
        *mailroom_command("tail", *arguments),
        cwd=ROOT,
        env=office.environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    output = process.stdout

    async def following() -> str:
        return (await asyncio.wait_for(output.readline(), 20)).decode().rstrip("\n")

    try:
        yield following
        process.send_signal(signal.SIGINT)
        _, errors = await asyncio.wait_for(process.communicate(), 20)
        said = [line for line in errors.decode().splitlines() if line and not line.startswith(WAITING)]
        assert (process.returncode, said) == (0, [])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_tail_shows_what_was_and_what_comes_without_a_break(office_server: Server) -> None:
    token = generate_task_id("letter")
    async with office_server.connection("scout") as scout:
        await write(scout, "user", f"{token} 1")
        async with tailing(office_server, "--since", "1h", "--agent", "scout") as following:
            while token not in (line := await following()):
                pass
            assert re.fullmatch(rf"\d\d:\d\d:\d\d\.\d{{3}} scout → user +email +{token} 1", line)
            for number in range(2, 6):
                await write(scout, "user", f"{token} {number}")
                assert (await following()).endswith(f"{token} {number}")


def test_a_tail_that_shows_nothing_says_that_it_waits(office_server: Server) -> None:
    process = office_server.start_mailroom("tail", "--agent", "nobody-at-all")
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == f"{WAITING}; --since 1h shows earlier ones. Ctrl-C ends it.\n"
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=20)
        assert (process.returncode, shown) == (0, "")
    finally:
        process.kill()
        process.wait()


async def test_the_tail_can_be_narrowed(office_server: Server) -> None:
    goal_id, task_id = generate_task_id("goal"), generate_task_id()
    task = Task(task_id=task_id, goal_id=goal_id, text="Do it", assignee="scout", requester="conductor")
    async with office_server.connection("conductor") as conductor, office_server.connection("scout") as scout:
        await write(scout, "conductor", "Good morning")
        await write(scout, "conductor", "About the goal", goal_id=goal_id)
        (seq,) = await conductor.commit([submission_entry(task)])
    stored = ("--since", "1h", "--no-follow", "--json")
    by_task = await _lines(office_server, *stored, "--task", task_id)
    by_goal = await _lines(office_server, *stored, "--goal", goal_id)
    by_agent = await _lines(office_server, *stored, "--agent", "scout")
    neither = await _lines(office_server, *stored, "--goal", goal_id, "--agent", "critic")
    assert [line["kind"] for line in by_task] == ["task"]
    assert [line["kind"] for line in by_goal] == ["email", "task"]
    assert {line["sender"] for line in by_agent} == {"scout", "conductor"}
    assert len(by_agent) >= 3
    assert neither == []
    assert (await run(office_server, "tail", *stored, "--agent", "nobody")).stderr.startswith("No matching")
    subject = f"task.scout.conductor.{task_id}.new"
    assert by_task[0] | {"stream": "OFFICE", "seq": seq, "subject": subject} == by_task[0]


async def _lines(office: Server, *arguments: str) -> list[dict[str, Any]]:
    done = await run(office, "tail", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class LossyBus:
    """A connection on which every message but each third is lost before it arrives."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def subscribe(self, subject: str, handler: Any) -> None:
        async def lose(name: str, payload: bytes, headers: dict[str, str]) -> None:
            if int(headers["Nats-Sequence"]) % 3 == 0:
                await handler(name, payload, headers)

        await self._bus.subscribe(subject, lose)


async def test_what_was_missed_live_is_said_and_read_from_the_stream(
    fresh_office_server: Server,
) -> None:
    office = fresh_office_server
    items: list[Stored | Gap] = []
    async with office.connection() as user, office.connection("scout") as scout:
        tail = AuditFollower(LossyBus(user)).follow()  # type: ignore[arg-type]
        first = asyncio.ensure_future(anext(tail))
        await asyncio.sleep(0.3)
        for number in range(1, 7):
            await write(scout, "user", str(number))
        items.append(await first)
        while len(items) < 8:
            items.append(await asyncio.wait_for(anext(tail), 10))
        await tail.aclose()
    assert [item for item in items if isinstance(item, Gap)] == [Gap("OFFICE", 1, 2), Gap("OFFICE", 4, 5)]
    shown = [json.loads(item.data)["body"] for item in items if isinstance(item, Stored)]
    assert shown == ["1", "2", "3", "4", "5", "6"]


class SlowBus(LossyBus):
    """A connection that is slow to return: letters arrive, live, before the history is asked for."""

    def __init__(self, bus: Bus, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(bus)
        self._meanwhile = meanwhile

    async def subscribe(self, subject: str, handler: Any) -> None:
        await self._bus.subscribe(subject, handler)
        await self._meanwhile()


async def test_what_is_heard_live_and_in_the_history_is_shown_once(fresh_office_server: Server) -> None:
    office = fresh_office_server
    async with office.connection() as user, office.connection("scout") as scout:

        async def meanwhile() -> None:
            for number in (1, 2):
                await write(scout, "user", str(number))
            await asyncio.sleep(0.1)

        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        tail = AuditFollower(SlowBus(user, meanwhile)).follow(hour_ago)  # type: ignore[arg-type]
        items = [await asyncio.wait_for(anext(tail), 10) for _ in range(2)]
        await write(scout, "user", "3")
        items.append(await asyncio.wait_for(anext(tail), 10))
        await tail.aclose()
    assert [json.loads(item.data)["body"] for item in items if isinstance(item, Stored)] == ["1", "2", "3"]


@pytest.mark.usefixtures("office_gateway")
async def test_a_reader_that_goes_away_is_no_error(office_server: Server) -> None:
    async with office_server.connection("scout") as scout:
        for number in range(300):
            await write(scout, "user", f"{number} " + "x" * 2_000)
    for arguments in (("audit", "export"), ("tail", "--since", "1h"), ("tasks",), ("status",)):
        command = " ".join(mailroom_command(*arguments)) + " | head -c 10"
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-c", command],
            cwd=ROOT,
            env=office_server.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stderr == "", (arguments, done.stderr)


# --- export --------------------------------------------------------------------------------------


async def test_the_export_holds_every_message_of_both_streams_in_order(office_server: Server) -> None:
    async with office_server.connection("scout") as scout, office_server.connection() as user:
        letter = await write(scout, "user", "Ünï\u0000code")
        broken = await user.store(subjects.SUBMIT, b"\xff no json", headers={"Nats-Msg-Id": generate_id()})
        write_ = MemoryWrite(sender="scout", nodes=(Node(title="A thing"),))
        memory = await scout.store(
            subjects.memory_write("scout"), write_.to_json(), headers={"Nats-Msg-Id": write_.id}
        )
        end = {name: broken["seq"] if name == subjects.OFFICE else memory["seq"] for name in subjects.LOG}
    done = await run(office_server, "audit", "export")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for stream, last in end.items():
        assert [line["seq"] for line in lines if line["stream"] == stream] == list(range(1, int(last) + 1))
    found = {(line["stream"], line["seq"]): line for line in lines}
    assert found["OFFICE", letter]["envelope"]["body"] == "Ünï\u0000code"
    assert found["OFFICE", letter]["headers"]["Nats-Msg-Id"] == found["OFFICE", letter]["envelope"]["id"]
    assert found["OFFICE", broken["seq"]]["envelope"] is None
    assert base64.b64decode(found["OFFICE", broken["seq"]]["payload"]) == b"\xff no json"
    assert found["MEMORY", memory["seq"]]["subject"] == "memory.write.scout"
    nothing = await run(office_server, "audit", "export", "--since", "0s")
    assert nothing.stdout == ""


async def test_a_header_hides_nothing_from_the_readers_of_the_trail(
    fresh_office_server: Server,
) -> None:
    """A status in a stored header is what somebody wrote, and no word of the server."""
    office = fresh_office_server
    async with office.connection("scout") as scout:
        await write(scout, "user", "before")
        trick = {
            "Nats-Msg-Id": generate_id(),
            "Status": "204",
            "Nats-Last-Sequence": "9",
            "Nats-Sequence": "9",
        }
        await scout.store(subjects.mail("user", "scout"), b"hidden?", headers=trick)
        await write(scout, "user", "after")
    exported = (await run(office, "audit", "export")).stdout.splitlines()
    assert [json.loads(line)["seq"] for line in exported] == [1, 2, 3]
    assert len(await _lines(office, "--since", "1h", "--no-follow", "--json")) == 3
    assert (await run(office, "audit", "verify")).returncode == 0


# --- verify --------------------------------------------------------------------------------------


async def _fill(office: Server, count: int) -> None:
    async with office.connection("scout") as scout:
        for number in range(count):
            await write(scout, "user", f"letter {number}")


async def test_a_whole_log_is_verified(fresh_office_server: Server) -> None:
    await _fill(fresh_office_server, 5)
    done = await run(fresh_office_server, "audit", "verify")
    assert done.returncode == 0, done.stdout
    assert done.stdout == (
        "OFFICE: whole, 5 messages, 0 seals\n"
        "  5 messages are not proven yet: no seal covers what is so new\n"
        "MEMORY: whole, 0 messages, 0 seals\n"
    )


async def test_a_message_that_was_taken_out_is_named(fresh_office_server: Server) -> None:
    office = fresh_office_server
    await _fill(office, 6)
    async with office.connection("admin") as admin:
        for seq in (2, 3, 6):
            await admin.request("$JS.API.STREAM.MSG.DELETE.OFFICE", json.dumps({"seq": seq}).encode())
    done = await run(office, "audit", "verify")
    assert done.returncode == 1
    assert done.stdout.splitlines()[:3] == [
        "OFFICE: not whole, 3 messages, 0 seals",
        "  OFFICE 2 to 3 are missing or damaged, and no person ordered that",
        "  OFFICE 6 is missing or damaged, and no person ordered that",
    ]


async def test_a_stream_that_may_lose_messages_is_a_problem(fresh_office_server: Server) -> None:
    office = fresh_office_server
    async with office.connection("admin") as admin:
        config = json.loads(await admin.request("$JS.API.STREAM.INFO.OFFICE"))["config"]
        changed = {**config, "max_msgs": 100_000, "max_age": 10**18}
        await admin.request("$JS.API.STREAM.UPDATE.OFFICE", json.dumps(changed).encode())
    (finding, _) = json.loads((await run(office, "audit", "verify", "--json")).stdout)
    assert finding["problems"] == [
        "OFFICE may lose messages: its max_msgs is 100000",
        "OFFICE may lose messages: its max_age is 1000000000000000000",
    ]


@contextmanager
def started_tail(office: Server, *before: str, **pipes: Any) -> "Iterator[subprocess.Popen[bytes]]":
    """A tail that follows; ``before`` is the program that starts it."""
    command = [*before, *mailroom_command("tail")]
    environment = {**office.environment, "NATS_URL": office.url}
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **pipes}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, **given) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline().decode().startswith(WAITING)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("way", ["SIGTERM", "stdout", "stdin"])
def test_a_tail_ends_with_its_client(office_server: Server, way: str) -> None:
    with started_tail(office_server, **({"stdin": subprocess.PIPE} if way == "stdin" else {})) as process:
        assert process.poll() is None
        if way == "SIGTERM":
            process.terminate()
        else:
            stream = process.stdin if way == "stdin" else process.stdout
            assert stream is not None
            stream.close()
        assert process.wait(20) == 0


def test_a_tail_without_an_input_goes_on(office_server: Server) -> None:
    with started_tail(office_server) as process, pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)


def test_a_tail_that_is_the_first_process_of_a_container_ends_at_sigterm(office_server: Server) -> None:
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets no process make a namespace of processes")
    with started_tail(office_server, *unshare) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        process.wait(20)
