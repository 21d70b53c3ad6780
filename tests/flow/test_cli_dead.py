"""What an operator does with dead letters, against a real server."""

import asyncio
import json
import re
import subprocess
from typing import Any

import msgspec
import pytest

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.records import read_task, submission_entry
from shared.contracts import Email, Task, TaskStatus, generate_task_id
from tests.support.conductor import claim_task, result_of, write_dead_letter
from tests.support.server import Server

pytestmark = pytest.mark.usefixtures("office_gateway")

STATES = (TaskStatus.COMPLETED, TaskStatus.IN_PROGRESS)


async def run(office: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(office.mailroom, *arguments)


async def letters(office: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await run(office, "dead", "list", "--json")).stdout)
    return found


async def number_of(office: Server, stream_seq: int) -> str:
    (letter,) = [letter for letter in await letters(office) if letter["stream_seq"] == stream_seq]
    return str(letter["number"])


async def read(office: Server, seq: int) -> Stored:
    async with office.connection() as user:
        (stored,) = [m async for m in user.read("OFFICE", {"seq": seq, "next_by_subj": ">", "batch": 1})]
    return stored


async def send(bus: Bus, recipient: str, body: str) -> tuple[int, bytes]:
    email = Email(sender=bus.name, recipient=recipient, body=body)
    stored = await bus.store(
        subjects.mail(recipient, bus.name), email.to_json(), headers={"Nats-Msg-Id": email.id}
    )
    return int(stored["seq"]), email.to_json()


async def hand_out(conductor: Bus) -> tuple[Task, int]:
    task = Task(
        task_id=generate_task_id(), text="Do it", assignee="scout", requester="conductor", goal_id="g1"
    )
    return task, (await conductor.commit([submission_entry(task)]))[0]


async def test_a_letter_is_listed_shown_and_sent_again(office_server: Server) -> None:
    async with office_server.connection("scout") as scout, office_server.connection("nexus") as nexus:
        seq, data = await send(nexus, "scout", "Please \x1b[31mread")
        await write_dead_letter(
            scout, "mail.scout.nexus", seq, data, "gave up after 5 attempts: ValueError: boom " + "m" * 200
        )
        number = await number_of(office_server, seq)
        listed = await run(office_server, "dead", "list", "--agent", "scout")
        shown = await run(office_server, "dead", "show", number)
        again = await run(office_server, "dead", "retry", number, "--json")
        ((_, resent),) = [(entry["number"], entry["resent_as"]) for entry in json.loads(again.stdout)]
        copy = await read(office_server, resent)
    assert re.search(
        rf"^{number}  scout  mail\.scout\.nexus  .* ago\n    gave up after", listed.stdout, re.MULTILINE
    )
    # Elsewhere than on a terminal a reason is one line.
    assert f"    gave up after 5 attempts: ValueError: boom {'m' * 200}" in listed.stdout.splitlines()
    assert "reason: gave up after 5 attempts" in shown.stdout
    assert f"message: mail.scout.nexus, number {seq} of OFFICE" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert (copy.subject, copy.data) == ("mail.scout.nexus", data)
    assert copy.headers["Mailroom-Resent"] == number
    assert copy.headers["Nats-Msg-Id"] != json.loads(data)["id"]
    assert number not in {str(letter["number"]) for letter in await letters(office_server)}
    assert (await run(office_server, "dead", "retry", number)).returncode == 1


async def test_a_task_that_was_buried_is_sent_again_and_begins_anew(office_server: Server) -> None:
    async with office_server.connection("conductor") as conductor, office_server.connection("scout") as scout:
        task, seq = await hand_out(conductor)
        await write_dead_letter(
            scout, submission_entry(task).subject, seq, task.to_json(), "it would not", task
        )
        done = await run(office_server, "dead", "retry", await number_of(office_server, seq), "--json")
        assert done.returncode == 0, done.stderr
        resent = json.loads(done.stdout)[0]["resent_as"]
        copy = await read(office_server, resent)
        state = await read_task(conductor, task)
        assert state is not None
        assert (state.seq, state.origin) == (resent, resent)
        assert (state.status, state.attempt, state.result) == (TaskStatus.PENDING, 0, None)
        assert Task.from_json(copy.data) == task
        claim = await claim_task(scout, task)
        await claim.finish(result_of(task, "scout", "done after all"))
    shown = await run(office_server, "show", task.task_id)
    assert "admin" not in shown.stdout.partition("since")[0]
    assert "sent again by a person" in shown.stdout
    assert "scout → conductor result completed: done after all" in shown.stdout


@pytest.mark.parametrize("status", STATES)
async def test_a_task_that_goes_on_or_is_done_is_not_sent_again(
    office_server: Server, status: TaskStatus
) -> None:
    async with office_server.connection("conductor") as conductor, office_server.connection("scout") as scout:
        task, seq = await hand_out(conductor)
        await write_dead_letter(
            scout, submission_entry(task).subject, seq, task.to_json(), "a replica gave up"
        )
        claim = await claim_task(scout, task)
        if status is TaskStatus.COMPLETED:
            await claim.finish(result_of(task, "scout", "done"))
        number = await number_of(office_server, seq)
        done = await run(office_server, "dead", "retry", number)
        state = await read_task(conductor, task)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: Dead letter {number}: the task {task.task_id} ")
    assert state is not None
    assert state.status is status
    assert await number_of(office_server, seq) == number


async def test_a_forged_task_that_is_sent_again_is_no_task(office_server: Server) -> None:
    """It is only sent again: whoever handles it refuses it again."""
    async with office_server.connection("nexus") as nexus, office_server.connection("scout") as scout:
        task = Task(task_id=generate_task_id(), text="Do it", assignee="scout", requester="conductor")
        subject = subjects.task("scout", "nexus", task.task_id, subjects.NEW["MEDIUM"])
        stored = await nexus.store(subject, task.to_json(), headers={"Nats-Msg-Id": task.id})
        await write_dead_letter(scout, subject, stored["seq"], task.to_json(), "it says it is from conductor")
        done = await run(office_server, "dead", "retry", await number_of(office_server, stored["seq"]))
        assert done.returncode == 0, done.stderr
        assert await read_task(scout, task) is None


async def test_what_the_server_gave_up_on_is_sent_again_on_its_own_subject(
    office_server: Server,
) -> None:
    async with office_server.connection("scout") as scout, office_server.connection("nexus") as nexus:
        seq, data = await send(nexus, "scout", "Nobody took me")
        advisory = subjects.max_deliveries("OFFICE", "scout")
        await write_dead_letter(scout, advisory, seq, b"{}", "the server gave up after 15 deliveries")
        done = await run(office_server, "dead", "retry", await number_of(office_server, seq), "--json")
    copy = await read(office_server, json.loads(done.stdout)[0]["resent_as"])
    assert (copy.subject, copy.data) == ("mail.scout.nexus", data)


async def test_an_original_that_is_gone_cannot_be_sent_again(office_server: Server) -> None:
    async with office_server.connection("scout") as scout, office_server.connection("nexus") as nexus:
        seq, data = await send(nexus, "scout", "Soon gone")
        await write_dead_letter(scout, "mail.scout.nexus", seq, data, "no")
        async with office_server.connection("admin") as admin:
            await admin.request("$JS.API.STREAM.MSG.DELETE.OFFICE", msgspec.json.encode({"seq": seq}))
    number = await number_of(office_server, seq)
    done = await run(office_server, "dead", "retry", number)
    assert done.returncode == 1
    assert f"message {seq} of OFFICE is not stored any more" in done.stderr
    assert (
        json.loads((await run(office_server, "dead", "show", number, "--json")).stdout)["original"]
        == data.decode()
    )


async def test_dropping_takes_letters_and_nothing_else(fresh_office_server: Server) -> None:
    office = fresh_office_server
    office.start_gateway()
    async with office.connection("scout") as scout, office.connection("nexus") as nexus:
        seqs = [await send(nexus, "scout", str(number)) for number in range(3)]
        for seq, data in seqs:
            await write_dead_letter(scout, "mail.scout.nexus", seq, data, "no")
    first, *rest = [letter["number"] for letter in await letters(office)]
    wrong = await run(office, "dead", "drop", str(first), str(seqs[0][0]))
    assert wrong.returncode == 1
    assert f"There is no dead letter {seqs[0][0]}" in wrong.stderr
    assert len(await letters(office)) == 3
    assert (await run(office, "dead", "drop", str(first))).stdout == f"Dropped: {first}\n"
    assert [letter["number"] for letter in await letters(office)] == rest
    assert json.loads((await run(office, "dead", "drop", "--all", "--json")).stdout) == rest
    assert (await run(office, "dead", "list")).stdout == "There are no dead letters.\n"
    verified = await run(office, "audit", "verify")
    assert verified.returncode == 0
    assert verified.stdout.startswith("OFFICE: whole, 8 messages")
    assert json.loads((await run(office, "status", "--json")).stdout)["dead_letters"] == {}


async def test_the_user_alone_cannot_drop_or_resend(office_server: Server) -> None:
    """It takes the admin's key, which the user's machine need not have."""
    async with office_server.connection("scout") as scout, office_server.connection("nexus") as nexus:
        seq, data = await send(nexus, "scout", "x")
        await write_dead_letter(scout, "mail.scout.nexus", seq, data, "no")
    number = await number_of(office_server, seq)
    key = office_server.config.keys / "admin.nk"
    hidden = key.rename(key.with_suffix(".hidden"))
    try:
        done = await run(office_server, "dead", "drop", number)
    finally:
        hidden.rename(key)
    assert done.returncode == 1
    assert "The key of 'admin' cannot be read" in done.stderr
    assert await number_of(office_server, seq) == number
