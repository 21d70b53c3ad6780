"""Archiving the log: what goes into bundles, what stays on the server, and what is read of both."""

import asyncio
import gzip
import json
import os
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from services.cli.supervisor.provisioning import carry_out
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import step_entry, submission_entry
from shared.contracts import (
    ArchiveOrder,
    DeadLetter,
    Email,
    Goal,
    MessagesArchived,
    OfficeState,
    StateChanged,
    Task,
    TaskChanged,
    TaskStatus,
    generate_iso_timestamp,
)
from shared.errors import ActionError, BusUnavailable, Conflict, Denied, NotFound
from shared.operations.erasure.orders import carry_out_archives, count_archives, count_orders
from shared.operations.forgetting import count_archived, count_messages
from shared.queries import checks
from shared.queries.checks import check_streams, read_growth
from shared.queries.records import call_server, last_sequence, scan
from shared.text.quotations import Quotations
from shared.text.times import seconds_between
from shared.trail import archives
from shared.trail.archives import (
    find_sealed_before,
    read_archives,
    read_log,
    read_message,
    scan_log,
    write_archive,
)
from shared.trail.bundle import prove, write_bundle
from shared.trail.verification import Verification, verify_stream
from shared.views.timeline import GoalTimeline
from tests.bus.conftest import AGENTS
from tests.bus.test_erasure import SECRET, TRACE, kill_before, order, take
from tests.bus.test_seals import all_sealed, fill, quick, sealed  # noqa: F401  # a fixture
from tests.support.indexing import read_timeline
from tests.support.server import Server

TASKS = 8
GOAL = "goal_1"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path, (*AGENTS, subjects.GATEWAY))
    try:
        await server.start()
        yield server
    finally:
        await server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "archive"
    found.mkdir()
    return found


def task(name: str, goal_id: str = "") -> Task:
    return Task(task_id=name, requester="conductor", assignee="engineer", text="Do it", goal_id=goal_id)


async def run_task(server: Server, mine: Task, *, ended: bool = True) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    (seq,) = await conductor.commit([submission_entry(mine)])
    claimed = TaskChanged(
        sender="engineer", task_id=mine.task_id, origin=seq, attempt=1, worker="w", goal_id=mine.goal_id
    )
    (seq,) = await engineer.commit([step_entry(mine, subjects.CLAIMED, claimed, seq)])
    if ended:
        result = mine.result("engineer", TaskStatus.COMPLETED, output="done", attempt=1)
        await engineer.commit([step_entry(mine, subjects.ENDED, result, seq)])


async def record_goal(server: Server, goal_id: str, *statuses: TaskStatus) -> None:
    conductor, begun = await server.connect("conductor"), generate_iso_timestamp()
    for status in statuses:
        last = await conductor.last(subjects.OFFICE, subjects.goal(goal_id))
        goal = Goal(goal_id=goal_id, text="Do it", requester="user", status=status, submitted_at=begun)
        change = StateChanged(sender="conductor", state=OfficeState.IDLE, goal=goal, goal_id=goal_id)
        await conductor.commit([seal(subjects.goal(goal_id), change, last.seq if last else 0)])


async def seal_all(server: Server) -> Verification:
    async with sealed(await server.connect(subjects.GATEWAY)):
        return await all_sealed(server)


async def handled(server: Server) -> None:
    await asyncio.gather(*(take(server, name) for name in AGENTS))


async def archive(server: Server, folder: Path, *, delete: bool = True) -> list[ArchiveOrder]:
    """Archive all that is sealed, and delete it on the server."""
    user = await server.connect(subjects.USER)
    seals = await find_sealed_before(user, datetime.now(UTC))
    orders = [each async for each in write_archive(user, folder, seals, lambda _: None)]
    if delete:
        await delete_all(server)
    return orders


async def delete_all(server: Server) -> list[MessagesArchived]:
    eraser = await server.connect(subjects.ERASER)
    while (await carry_out_archives(eraser)).done:
        pass
    return [
        MessagesArchived.from_json(each.data)
        async for each in scan(eraser, subjects.OFFICE, subjects.ARCHIVED)
    ]


async def on_server(bus: Bus, pattern: str = ">", until: int = 0) -> list[str]:
    return [each.subject async for each in scan(bus, subjects.OFFICE, pattern, until=until)]


async def verify(server: Server, folder: Path | None = None) -> Verification:
    return await verify_stream(await server.connect(subjects.USER), subjects.OFFICE, folder=folder)


@pytest.fixture
async def filled(server: Server, folder: Path) -> Path:
    """An office with 40 letters that were archived; the folder of the bundle."""
    await fill(server, 40)
    await handled(server)
    await seal_all(server)
    await archive(server, folder)
    return next(folder.glob("*.gz"))


async def test_what_is_archived_leaves_the_server_and_is_read_from_the_bundle(
    server: Server, folder: Path
) -> None:
    user = await server.connect(subjects.USER)
    await fill(server, 40)
    await handled(server)
    before = await seal_all(server)
    everything = [each async for each in scan(user, subjects.OFFICE)]
    (given,) = await archive(server, folder)
    assert (given.first, given.last, given.count) == (1, before.sealed, before.sealed)
    assert list(map(str, folder.iterdir())) == [str(folder / given.bundle)]
    assert await on_server(user, "mail.>") == ["mail.critic.engineer"]  # the last on its subject
    assert len(await on_server(user, "seal.*")) == before.seals
    found = await verify(server)
    assert (found.problems, found.away, found.bundles) == ([], [], [given.bundle])
    assert (found.archived, found.messages) == (before.sealed, found.last)
    read = [each async for each in scan_log(user, subjects.OFFICE, until=everything[-1].seq)]
    assert [(each.seq, each.time, each.subject, each.data) for each in read] == [
        (each.seq, each.time, each.subject, each.data) for each in everything
    ]
    mine = [each async for each in scan_log(user, subjects.OFFICE, "mail.*.engineer", seq=3, until=9)]
    assert [each.seq for each in mine] == list(range(3, 10))
    assert mine[0].headers["Salt"] == everything[2].headers["Salt"]
    one = await read_message(user, subjects.OFFICE, 7)
    assert one is not None
    assert one.data == everything[6].data
    pages = [page async for page in read_log(user, subjects.OFFICE, 1, 10)]
    assert [each.seq for page in pages for each in page] == list(range(1, 11))
    assert (await prove(user, subjects.OFFICE, 7)) is not None
    await server.restart()
    again = await verify(server)
    assert (again.problems, again.messages) == ([], again.last)


async def test_what_is_needed_stays(server: Server, folder: Path) -> None:
    """Open goals and tasks, the last step of each, last records, letters nobody took, dead letters."""
    user, engineer = await server.connect(subjects.USER), await server.connect("engineer")
    conductor = await server.connect("conductor")
    await record_goal(server, "ended", TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED)
    await record_goal(server, "open", TaskStatus.PENDING, TaskStatus.IN_PROGRESS)
    await run_task(server, task("ended-1", "ended"))
    await run_task(server, task("open-1", "open"))
    await run_task(server, task("alone"), ended=False)
    letter = Email(sender="engineer", recipient="critic", body="about it", goal_id="open")
    await engineer.commit([seal(subjects.mail("critic", "engineer"), letter)])
    for number in range(3):
        last = await user.last(subjects.OFFICE, subjects.record("engineer", "thread", "t"))
        body = json.dumps({"n": number}).encode()
        entry = Entry(subjects.record("engineer", "thread", "t"), body, f"r{number}", last.seq if last else 0)
        await engineer.commit([entry])
    refused = Email(sender="engineer", recipient="critic", body="refused")
    (broken,) = await engineer.commit([seal(subjects.mail("critic", "engineer"), refused)])
    dead = DeadLetter(
        sender="critic",
        reason="no",
        subject=subjects.mail("critic", "engineer"),
        stream=subjects.OFFICE,
        stream_seq=broken,
        deliveries=1,
        original="",
        original_size=1,
    )
    await (await server.connect("critic")).commit([seal(subjects.dead("critic"), dead)])
    await fill(server, 3)
    await handled(server)
    waiting = Email(sender="engineer", recipient="critic", body="nobody took it")
    await engineer.commit([seal(subjects.mail("critic", "engineer"), waiting)])
    await fill(server, 1)
    await seal_all(server)
    (given,) = await archive(server, folder)
    left = [each async for each in scan(user, subjects.OFFICE, until=given.last)]
    steps = [".".join(each.subject.split(".")[3:]) for each in left if each.subject.startswith("task.")]
    assert sorted(steps) == ["alone.claimed", "alone.new", "ended-1.ended"] + [
        f"open-1.{step}" for step in ("claimed", "ended", "new")
    ]
    states = [each.subject for each in left if each.subject.startswith("state.goal.")]
    assert sorted(states) == ["state.goal.ended", "state.goal.open", "state.goal.open"]
    assert [json.loads(each.data)["n"] for each in left if each.subject.startswith("record.")] == [2]
    bodies = [json.loads(each.data)["body"] for each in left if each.subject == "mail.critic.engineer"]
    assert bodies == ["about it", "refused", "nobody took it", "letter 0"]
    assert subjects.dead("critic") in [each.subject for each in left]
    assert (await verify(server)).problems == []
    # Ids that were used stay used.
    with pytest.raises(Conflict):
        await conductor.commit([submission_entry(task("ended-1", "ended"))])
    # What was open goes with the next order, once it has ended.
    mine = task("alone")
    last = await user.last(subjects.OFFICE, subjects.task("engineer", "conductor", "alone", "*"))
    assert last is not None
    result = mine.result("engineer", TaskStatus.COMPLETED, output="done", attempt=1)
    await engineer.commit([step_entry(mine, subjects.ENDED, result, last.seq)])
    await handled(server)
    await seal_all(server)
    await archive(server, folder)
    assert [each for each in await on_server(user, "task.>", given.last) if ".alone." in each] == []
    assert (await verify(server)).problems == []


async def test_a_goal_is_shown_from_its_bundle(server: Server, folder: Path) -> None:
    user = await server.connect(subjects.USER)
    await record_goal(server, GOAL, TaskStatus.PENDING)
    for number in range(TASKS):
        await run_task(server, task(f"{GOAL}-{number}", GOAL))
    await record_goal(server, GOAL, TaskStatus.COMPLETED)
    await handled(server)
    await seal_all(server)

    async def shown() -> list[tuple[str, str, int]]:
        timeline = await read_timeline(user, GOAL)
        assert isinstance(timeline, GoalTimeline)
        entries = [each for one in timeline.tasks for each in one.entries] + timeline.entries
        return [(each.subject, each.time, each.seq) for each in entries]

    before = await shown()
    assert len(before) == 3 * TASKS + 2
    await archive(server, folder)
    assert await shown() == before


async def test_a_bundle_that_is_away_is_named_and_what_is_left_is_compared(
    server: Server, filled: Path, tmp_path: Path
) -> None:
    user = await server.connect(subjects.USER)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    filled.rename(elsewhere / filled.name)
    found = await verify(server)
    assert found.problems == []
    (absence,) = found.away
    assert f"lie in the bundle {filled.name}, which is not in {filled.parent}" in absence
    assert (await verify(server, elsewhere)).archived == 40
    assert await read_message(user, subjects.OFFICE, 3) is None
    with pytest.raises(NotFound, match="lie in the bundle"):
        await prove(user, subjects.OFFICE, 3)
    with (tmp_path / "all").open("wb") as file, pytest.raises(NotFound, match="lie in the bundle"):
        await write_bundle(user, file)
    with (tmp_path / "all").open("wb") as file:
        written = await write_bundle(user, file, elsewhere)
    assert written.messages == await last_sequence(user, subjects.OFFICE)
    admin = await server.connect(subjects.ADMIN)
    last = [each.seq async for each in scan(user, subjects.OFFICE, "mail.>")][-1]
    await admin.call("STREAM.MSG.DELETE.OFFICE", {"seq": last})
    assert (await verify(server)).problems == []  # it may have been deleted by the order
    assert (await verify(server, elsewhere)).problems == []  # and nothing is lost


def change_line(path: Path, number: int, **changes: object) -> None:
    lines = gzip.decompress(path.read_bytes()).splitlines()
    lines[number] = json.dumps(json.loads(lines[number]) | changes).encode()
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))


async def test_a_bundle_that_was_changed_is_found_and_the_message_named(server: Server, filled: Path) -> None:
    change_line(filled, 6, time="1999-01-01T00:00:00Z")
    found = await verify(server)
    assert found.problems == [f"OFFICE 7 in {filled.name} is not what was sealed: it was changed"]


async def test_a_line_that_is_taken_out_is_found(server: Server, filled: Path) -> None:
    lines = gzip.decompress(filled.read_bytes()).splitlines(keepends=True)
    filled.write_bytes(gzip.compress(b"".join(lines[:6] + lines[7:])))
    found = await verify(server)
    assert found.problems == [f"OFFICE 7 is missing or damaged in {filled.name}, and no person ordered that"]


async def test_a_bundle_that_is_cut_off_or_damaged_is_found(server: Server, filled: Path) -> None:
    data = filled.read_bytes()
    filled.write_bytes(data[: len(data) // 2])
    found = await verify(server)
    assert f"The bundle {filled} cannot be read: it is damaged or cut off after message" in found.problems[0]
    assert f"are missing or damaged in {filled.name}" in found.problems[1]
    filled.write_bytes(b"nothing")
    assert "cannot be read" in (await verify(server)).problems[0]


async def test_bundles_that_are_swapped_are_found(server: Server, filled: Path, folder: Path) -> None:
    await fill(server, 20)
    await handled(server)
    await seal_all(server)
    await archive(server, folder)
    one, two = sorted(folder.glob("*.gz"))
    one.rename(folder / "x")
    two.rename(one)
    (folder / "x").rename(two)
    found = await verify(server)
    assert f"{one} is not the bundle of OFFICE 1 to" in found.problems[0]
    two.rename(folder / "x")
    one.rename(two)
    (folder / "x").rename(one)
    assert (await verify(server)).problems == []


async def test_a_kept_message_that_differs_from_the_bundle_is_found(server: Server, filled: Path) -> None:
    change_line(filled, 39, time="1999-01-01T00:00:00Z")  # the last letter, which the server has too
    found = await verify(server)
    assert found.problems == [
        "OFFICE 40 on the server is not what the bundle has",
        f"OFFICE 40 in {filled.name} is not what was sealed: it was changed",
    ]


async def test_nothing_is_deleted_that_the_bundle_does_not_have(server: Server, folder: Path) -> None:
    """A person's order alone makes nothing disappear: the eraser compares each message with the bundle."""
    user, eraser = await server.connect(subjects.USER), await server.connect(subjects.ERASER)
    await fill(server, 40)
    await handled(server)
    await seal_all(server)
    (given,) = await archive(server, folder, delete=False)
    there = await on_server(user)
    path = folder / given.bundle
    change_line(path, 6, body="")
    result = await carry_out_archives(eraser)
    assert f"{path} does not have message 7 as the server has it" in result.waiting[0]
    path.unlink()
    result = await carry_out_archives(eraser)
    assert (result.done, result.deleted) == (0, 0)
    assert "lie in the bundle" in result.waiting[0]
    assert (await on_server(user)) == there
    assert await count_archives(eraser) == 1


@pytest.mark.parametrize("name", ["engineer", "memory", "conductor", "gateway", "eraser"])
async def test_only_people_order_it_with_their_own_key(server: Server, name: str) -> None:
    bus = await server.connect(name)
    with pytest.raises((Denied, BusUnavailable)):
        await bus.store(subjects.archive(subjects.OFFICE), b"{}", timeout=0.2)
    assert await read_archives(await server.connect(subjects.USER)) == []


async def test_archived_twice_it_goes_on_where_it_ended(
    server: Server, filled: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = await server.connect(subjects.USER)
    assert await find_sealed_before(user, datetime(2020, 1, 1, tzinfo=UTC)) == []
    monkeypatch.setattr(archives, "MESSAGES", 700)
    await fill(server, 2_000)
    await handled(server)
    await seal_all(server)
    orders = await archive(server, folder)
    spans = [(each.order.first, each.order.last) for each in await read_archives(user)]
    assert len(orders) == 3
    assert all(one[1] + 1 == two[0] for one, two in pairwise(spans))
    found = await verify(server)
    assert (found.problems, len(found.bundles)) == ([], 4)


async def test_of_two_that_archive_at_once_one_goes_on(server: Server, folder: Path, tmp_path: Path) -> None:
    user = await server.connect(subjects.USER)
    await fill(server, 40)
    await handled(server)
    await seal_all(server)
    seals = await find_sealed_before(user, datetime.now(UTC))
    await archive(server, folder)
    with pytest.raises(Conflict):
        await anext(write_archive(user, tmp_path, seals, lambda _: None))
    assert len(await read_archives(user)) == 1
    assert (await verify(server)).problems == []


async def test_an_order_that_does_not_follow_the_one_before_counts_for_nothing(
    server: Server, filled: Path, folder: Path
) -> None:
    user, eraser = await server.connect(subjects.USER), await server.connect(subjects.ERASER)
    (one,) = await read_archives(user)
    await fill(server, 5)
    await handled(server)
    there = await on_server(user)
    for first, last in ((1, 43), (one.order.last + 2, one.order.last + 4), (41, 40)):
        other = ArchiveOrder(
            sender="user",
            first=first,
            last=last,
            count=1,
            since=one.order.since,
            until=one.order.until,
            bundle=filled.name,
            folder=str(folder),
        )
        await user.commit([seal(subjects.archive(subjects.OFFICE), other)])
    assert await read_archives(user) == [one]
    assert await count_archives(eraser) == 0
    assert await delete_all(server)
    assert [each for each in await on_server(user) if each != subjects.archive(subjects.OFFICE)] == [
        each for each in there if each != subjects.archive(subjects.OFFICE)
    ]
    await seal_all(server)
    await archive(server, folder)
    assert (await verify(server)).problems == []


KILLED = """
import asyncio, sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from shared import settings
from shared.bus import Bus
from shared.operations.erasure.orders import carry_out_archives
from shared.trail import archives

async def main(what, folder):
    config = settings.load()
    name = "eraser" if what == "delete" else "user"
    bus = await Bus.connect(name, sys.argv[1], config.keys / f"{name}.nk")
    print("begins", flush=True)
    if what == "delete":
        while (await carry_out_archives(bus)).done: pass
        return
    archives.MESSAGES = 1
    seals = await archives.find_sealed_before(bus, datetime.now(UTC))
    async for order in archives.write_archive(bus, folder, seals, lambda _: None): pass

asyncio.run(main(sys.argv[2], Path(sys.argv[3])))
"""


async def kill(server: Server, what: str, folder: Path, pause: float) -> None:
    command = [sys.executable, "-c", KILLED, server.url, what, str(folder)]
    with server.start_process(command) as process:
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)
        await asyncio.sleep(pause)
        process.kill()


async def test_killed_at_any_moment_the_next_goes_on(server: Server, folder: Path) -> None:
    """kill -9 while bundles are written, while the server deletes, and of the server."""
    user = await server.connect(subjects.USER)
    await fill(server, 2_500)
    await handled(server)
    await seal_all(server)
    for pause in (0.0, 0.1, 0.2, 0.4):
        await kill(server, "write", folder, pause)
        assert (await verify(server)).problems == []
    await archive(server, folder, delete=False)
    for pause in (0.0, 0.3, 0.6):
        await kill(server, "delete", folder, pause)
        found = await verify(server)
        assert (found.problems, found.messages) == ([], found.last)
    await server.restart()
    await delete_all(server)
    found = await verify(server)
    assert (found.problems, found.messages) == ([], found.last)
    assert len(await on_server(user, "mail.>")) == 1
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


async def test_a_folder_that_cannot_be_written_loses_nothing(server: Server, folder: Path) -> None:
    user = await server.connect(subjects.USER)
    await fill(server, 1_200)
    await handled(server)
    await seal_all(server)
    seals = await find_sealed_before(user, datetime.now(UTC))
    missing = folder / "missing"
    with pytest.raises(OSError, match="No such file"):
        await anext(write_archive(user, missing, seals, lambda _: None))
    assert await read_archives(user) == []
    (folder / "OFFICE-x").write_text("")
    other = folder / f"OFFICE-{seals[0].first:010d}-{seals[-1].last:010d}.jsonl.gz"
    other.write_bytes(gzip.compress(b"another office's"))
    with pytest.raises(ActionError):
        await anext(write_archive(user, folder, seals, lambda _: None))
    assert gzip.decompress(other.read_bytes()) == b"another office's"
    assert await read_archives(user) == []
    other.unlink()
    await archive(server, folder)
    assert (await verify(server)).problems == []


async def test_a_log_that_is_not_whole_is_not_archived(server: Server, folder: Path) -> None:
    admin = await server.connect(subjects.ADMIN)
    await fill(server, 40)
    await handled(server)
    await seal_all(server)
    await admin.call("STREAM.MSG.DELETE.OFFICE", {"seq": 7})
    with pytest.raises(ActionError, match="OFFICE 7 is missing or damaged"):
        await archive(server, folder)
    assert list(folder.iterdir()) == []


async def test_the_growth_of_the_log_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    user = await server.connect(subjects.USER)
    assert await read_growth(user, subjects.MEMORY) == 0
    await fill(server, 500)
    assert await read_growth(user, subjects.OFFICE) == 0  # too new
    assert "too new to say how fast" in (await check_streams(user, server.config, AGENTS)).finding
    monkeypatch.setattr(checks, "HOUR", 0.0)
    first = await read_message(user, subjects.OFFICE, 1)
    assert first is not None
    growth, seconds = await read_growth(user, subjects.OFFICE), seconds_between(first.time)
    state = (await call_server(user, "STREAM.INFO.OFFICE"))["state"]
    assert isinstance(state, dict)
    assert growth == pytest.approx(state["bytes"] * 86_400 / seconds, rel=0.2)
    found = await check_streams(user, server.config, AGENTS)
    assert (found.verdict, "a day, so there is room for" in found.finding) == ("warn", True)
    assert "mailroom audit archive" in found.fix


# --- forgetting -----------------------------------------------------------------------------------


def text_of(path: Path) -> bytes:
    data = gzip.decompress(path.read_bytes())
    lines = [json.loads(line) for line in data.splitlines()]
    import base64

    return data + b"".join(base64.b64decode(line.get("body", "")) for line in lines)


async def forget(server: Server) -> int:
    """Carry out the orders that there are, as ``mailroom up`` does; returns what is left."""
    return await carry_out(await server.connect(subjects.ERASER), server.config, lambda _: None)


async def test_what_is_forgotten_is_erased_in_bundles_too(server: Server, folder: Path) -> None:
    engineer = await server.connect("engineer")
    mail = subjects.mail("critic", "engineer")
    await engineer.commit([seal(mail, Email(sender="engineer", recipient="critic", body=f"So: {SECRET}"))])
    await engineer.commit([Entry(subjects.record("engineer", "thread", "t"), SECRET.encode(), "r", 0)])
    await fill(server, 40)
    await handled(server)
    await seal_all(server)
    (given,) = await archive(server, folder)
    path = folder / given.bundle
    assert text_of(path).count(TRACE.encode()) == 2
    await order(server)
    assert await forget(server) == 0
    assert TRACE.encode() not in text_of(path)
    assert TRACE.encode() not in path.read_bytes()
    assert await count_orders(await server.connect(subjects.ERASER)) == 0
    await seal_all(server)
    found = await verify(server)
    assert (found.problems, found.erased) == ([], 2)
    user = await server.connect(subjects.USER)
    assert [each.data async for each in scan(user, subjects.OFFICE, "record.>")] == [b"[forgotten]"]


@pytest.mark.parametrize(
    "step",
    [
        "operations.erasure.archiving.erase_in_bundle",
        "trail.bundle_file.sync_folder",
        "trail.bundle_file._overwrite",
    ],
)
async def test_killed_while_it_erases_in_a_bundle_the_next_leaves_nothing(
    server: Server, folder: Path, step: str
) -> None:
    """Also of the file that was the bundle before: it is overwritten."""
    engineer = await server.connect("engineer")
    mail = subjects.mail("critic", "engineer")
    await engineer.commit([seal(mail, Email(sender="engineer", recipient="critic", body=SECRET))])
    await fill(server, 40)
    await handled(server)
    await seal_all(server)
    (given,) = await archive(server, folder)
    await order(server)
    await kill_before(server, step)
    assert await forget(server) == 0
    assert list(folder.iterdir()) == [folder / given.bundle]
    assert TRACE.encode() not in text_of(folder / given.bundle)
    found = await verify(server)
    assert (found.problems, found.erased) == ([], 1)


async def test_a_plan_to_forget_counts_what_lies_in_bundles_too(
    server: Server, folder: Path, tmp_path: Path
) -> None:
    user, engineer = await server.connect(subjects.USER), await server.connect("engineer")
    mail = subjects.mail("critic", "engineer")
    for number in range(3):
        letter = Email(sender="engineer", recipient="critic", body=f"{number}: {SECRET}")
        await engineer.commit([seal(mail, letter)])
    await handled(server)
    await seal_all(server)
    (given,) = await archive(server, folder)
    texts = Quotations([SECRET], [])
    assert await count_messages(user, texts) == {"letters, questions and answers": 1}
    assert await count_archived(user, texts) == ({"letters, questions and answers": 2}, [])
    (folder / given.bundle).rename(tmp_path / "away")
    found, (away,) = await count_archived(user, texts)
    assert (found, f"lie in the bundle {given.bundle}, which is not in {folder}" in away) == ({}, True)
    (folder / given.bundle).write_bytes(b"nothing")
    found, (away,) = await count_archived(user, texts)
    assert (found, "cannot be read" in away) == ({}, True)


async def test_an_order_waits_for_a_bundle_that_is_away(server: Server, folder: Path, tmp_path: Path) -> None:
    engineer, eraser = await server.connect("engineer"), await server.connect(subjects.ERASER)
    mail = subjects.mail("critic", "engineer")
    await engineer.commit([seal(mail, Email(sender="engineer", recipient="critic", body=SECRET))])
    await fill(server, 40)
    await handled(server)
    await seal_all(server)
    (given,) = await archive(server, folder)
    path = folder / given.bundle
    path.rename(tmp_path / "away")
    await order(server)
    assert await forget(server) == 1
    assert await forget(server) == 1
    assert await count_orders(eraser) == 1
    (tmp_path / "away").rename(path)
    assert await forget(server) == 0
    assert await count_orders(eraser) == 0
    assert TRACE.encode() not in text_of(path)
    found = await verify(server)
    assert (found.problems, found.erased) == ([], 1)


async def test_what_is_forgotten_between_bundle_and_order_is_taken_out_before_anything_is_deleted(
    server: Server, folder: Path
) -> None:
    engineer = await server.connect("engineer")
    mail = subjects.mail("critic", "engineer")
    await engineer.commit([seal(mail, Email(sender="engineer", recipient="critic", body=SECRET))])
    await fill(server, 40)
    await handled(server)
    await seal_all(server)
    (given,) = await archive(server, folder, delete=False)
    path = folder / given.bundle
    whole = path.read_bytes()
    await order(server)
    await forget(server)
    path.write_bytes(whole)  # as it was, had the order to archive come after
    found = await verify(server)
    assert found.problems == [f"OFFICE 1 was erased, and {path.name} still has it"]


async def test_erased_messages_are_archived_as_what_is_left_of_them(server: Server, folder: Path) -> None:
    engineer = await server.connect("engineer")
    mail = subjects.mail("critic", "engineer")
    await engineer.commit([seal(mail, Email(sender="engineer", recipient="critic", body=SECRET))])
    await fill(server, 40)
    await handled(server)
    await seal_all(server)
    await order(server)
    await forget(server)
    await seal_all(server)
    (given,) = await archive(server, folder)
    assert TRACE.encode() not in text_of(folder / given.bundle)
    found = await verify(server)
    assert (found.problems, found.erased) == ([], 1)


async def test_a_bundle_with_another_byte_is_found_and_nothing_is_deleted(
    server: Server, folder: Path
) -> None:
    user, eraser = await server.connect(subjects.USER), await server.connect(subjects.ERASER)
    await fill(server, 40)
    await handled(server)
    await seal_all(server)
    (given,) = await archive(server, folder, delete=False)
    path, there = folder / given.bundle, await on_server(user)
    whole = path.read_bytes()
    for place in (1, len(whole) // 2, len(whole) - 6):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert (await carry_out_archives(eraser)).waiting
        assert await on_server(user) == there
        assert "cannot be read" in (await verify(server)).problems[0]
    path.write_bytes(whole)
    await delete_all(server)
    assert (await verify(server)).problems == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
async def test_a_folder_without_the_right_to_write_is_told(server: Server, folder: Path) -> None:
    await fill(server, 40)
    await seal_all(server)
    folder.chmod(0o500)
    with pytest.raises(OSError, match="Permission denied"):
        await archive(server, folder)
