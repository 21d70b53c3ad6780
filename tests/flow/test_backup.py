"""Backups: of an office that runs or stands still, restored elsewhere, spoilt, killed at each step."""

import asyncio
import hashlib
import io
import json
import shutil
import signal
import subprocess
import tarfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.cli.supervisor.backup import serve_alone
from services.cli.supervisor.lock import InstanceLock
from services.cli.supervisor.restoring import DRAFT, finish_restore
from shared import settings, subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import submission_entry
from shared.contracts import Goal, OfficeState, StateChanged, Task, TaskStatus, generate_iso_timestamp
from shared.queries.records import scan
from shared.trail.verification import verify_stream
from tests.bus.conftest import AGENTS
from tests.bus.test_archive import seal_all
from tests.bus.test_seals import fill, quick  # noqa: F401  # a fixture
from tests.support.server import Server, environment, mailroom_command, run_mailroom
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.up import UpCommand
from tests.support.waiting import eventually

LETTERS = 1_200
SECONDS = (0.1, 0.5, 1.0, 2.0, 4.0, 20.0)  # the last one is at work while two backups are made
WITHOUT_OTHERS = {"MAILROOM_REPLICAS": "cortex=0,engineer=0,frontier=0,scout=0"}


# --- an office with agents ---------------------------------------------------------------------------


async def connect(office: UpCommand) -> Bus:
    record = await asyncio.to_thread(office.record)
    return await Bus.connect(subjects.USER, record["url"], office.state_dir / "keys" / f"{subjects.USER}.nk")


async def ends_of(bus: Bus) -> Counter[str]:
    """How often each goal ended: by its records, and by what its requester was told."""
    ended: Counter[str] = Counter()
    before: set[str] = set()
    async for stored in scan(bus, subjects.OFFICE, subjects.goal("*")):
        goal = StateChanged.from_json(stored.data).goal
        if isinstance(goal, Goal) and goal.status.final and goal.goal_id not in before:
            before.add(goal.goal_id)
            ended[goal.goal_id] += 1
    return ended


async def letters(bus: Bus, sender: str) -> Counter[str]:
    found = [
        json.loads(each.data) async for each in scan(bus, subjects.OFFICE, subjects.mail("user", sender))
    ]
    return Counter(each.get("goal_id") or each.get("subject", "") for each in found)


@pytest.fixture
def office(tmp_path: Path) -> Iterator[UpCommand]:
    running = UpCommand(tmp_path / "state", **WITHOUT_OTHERS, **install_slow_agent(tmp_path))
    yield running
    running.close()


async def test_a_backup_of_a_running_office_goes_on_elsewhere_and_all_ends_once(
    tmp_path: Path, office: UpCommand
) -> None:
    agents = tmp_path / "agents"
    more = {"MAILROOM_AGENTS_DIR": str(agents), "PYTHONPATH": str(Path.cwd()), **WITHOUT_OTHERS}
    bus = await connect(office)
    due = datetime.now(UTC) + timedelta(seconds=6)
    reminder = Task(
        task_id="wish",
        text="remind me",
        assignee="nexus",
        requester="user",
        context={"action": "set_reminder", "params": {"text": "call Ana", "when": due.isoformat()}},
    )
    await bus.commit([submission_entry(reminder)])
    for number, seconds in enumerate(SECONDS):
        await bus.store(subjects.SUBMIT, msgspec.json.encode(slow_goal(f"g{number}", seconds)))
    claimed = subjects.task("slow", "*", "*", subjects.CLAIMED)
    await eventually(lambda: bus.last(subjects.OFFICE, claimed))
    workspace = office.state_dir / "workspaces" / "g5"
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "half.txt").write_text("begun")
    files = [tmp_path / "whole.tar", tmp_path / "since.tar.gz"]
    for file, since in ((files[0], []), (files[1], ["--since", str(files[0])])):
        arguments = ("backup", str(file), *since, "--json")
        done = await asyncio.to_thread(run_mailroom, environment(office.state_dir), *arguments)
        assert done.returncode == 0, done.stderr
        assert "g5" in json.loads(done.stdout)["goals"]
        assert file.stat().st_mode & 0o777 == 0o600
    await bus.close()
    office.close()
    code = agents / "slow" / "__main__.py"
    code.write_text(code.read_text().replace("sleep(seconds)", "sleep(seconds / 10)"))
    for number, file in enumerate(files):
        state = tmp_path / f"there{number}" / "state"
        done = await asyncio.to_thread(run_mailroom, environment(state), "restore", str(file))
        assert done.returncode == 0, done.stderr
        assert (state / "workspaces" / "g5" / "half.txt").read_text() == "begun"
        again = UpCommand(state, **more)
        try:
            bus = await connect(again)
            goals = {f"g{each}": 1 for each in range(len(SECONDS))}

            async def all_ended(bus: Bus = bus, goals: dict[str, int] = goals) -> bool:
                return await ends_of(bus) == goals and bool(await letters(bus, "nexus"))

            await eventually(all_ended, 60)
            assert await ends_of(bus) == goals
            assert set((await letters(bus, "conductor")).values()) == {1}
            assert sum((await letters(bus, "nexus")).values()) == 1
            for stream in subjects.LOG:
                assert (await verify_stream(bus, stream)).problems == []
            await bus.close()
        finally:
            again.close()


# --- a server alone ----------------------------------------------------------------------------------


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path, (*AGENTS, subjects.GATEWAY))
    try:
        await server.start()
        await fill(server, LETTERS)
        await seal_all(server)
        server.announce()
        outputs = server.config.outputs
        outputs.mkdir()
        (outputs / "report.md").write_text("old")
        (outputs / "link").symlink_to("report.md")
        yield server
    finally:
        await server.close()


async def run(
    server: Server, *arguments: str, state: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    more = {"MAILROOM_STATE_DIR": str(state)} if state else {}
    return await asyncio.to_thread(server.mailroom, *arguments, **more)


async def backup(server: Server, file: Path, *more: str) -> dict[str, object]:
    done = await run(server, "backup", str(file), "--json", *more)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


async def letters_in(state: Path) -> int:
    """How many letters a restored office has; its log has to be whole."""
    config = settings.load(environment(state))
    lock = InstanceLock.acquire(state)
    assert lock is not None
    async with serve_alone(config, lock) as url:
        user = await Bus.connect(subjects.USER, url, config.keys / f"{subjects.USER}.nk")
        found = await verify_stream(user, subjects.OFFICE)
        assert found.problems == []
        assert found.sealed > LETTERS / 2
        number = len([each async for each in scan(user, subjects.OFFICE, subjects.mail("critic", "*"))])
        await user.close()
    lock.release()
    return number


async def stop(server: Server) -> None:
    """The office stands still, as after a kill."""
    await server.close()
    (server.config.state_dir / "run" / "office.json").unlink()


async def test_running_and_still_give_the_same_office_and_tools_can_check_it(
    server: Server, tmp_path: Path
) -> None:
    running = await backup(server, tmp_path / "running.tgz")
    keys = {path.name: path.read_bytes() for path in server.config.keys.glob("*.nk")}
    await stop(server)
    still = await backup(server, tmp_path / "still.tar")
    assert running["streams"]["OFFICE"] == still["streams"]["OFFICE"]  # type: ignore[index]
    for name in ("running.tgz", "still.tar"):
        state = tmp_path / name[:5]
        assert (await run(server, "restore", str(tmp_path / name), state=state)).returncode == 0
        assert await letters_in(state) == LETTERS
        assert (state / "outputs" / "link").readlink() == Path("report.md")
        for key, secret in keys.items():
            assert (state / "keys" / key).read_bytes() == secret
            assert (state / "keys" / key).stat().st_mode & 0o077 == 0
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    commands = (["tar", "xf", str(tmp_path / "still.tar")], ["sha256sum", "--check", "--quiet", "SHA256SUMS"])
    for command in commands:
        assert await asyncio.to_thread(subprocess.call, command, cwd=unpacked) == 0


async def test_workspaces_are_saved_of_what_has_not_ended(server: Server, tmp_path: Path) -> None:
    conductor = await server.connect(subjects.CONDUCTOR)
    for status in (TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED):
        at = generate_iso_timestamp()
        goal = Goal(
            goal_id=status.value, text="x", requester="user", status=status, part_of="whole", submitted_at=at
        )
        record = StateChanged(sender="conductor", state=OfficeState.EXECUTING, goal=goal)
        await conductor.commit([seal(subjects.goal(goal.goal_id), record)])
    for name in ("in_progress", "completed", "a_task", "a_task.copies"):
        (server.config.workspaces / name).mkdir(parents=True)
        (server.config.workspaces / name / "file").write_text(name)
    (server.config.workspaces / "a_task" / "file").chmod(0o600)
    await backup(server, tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as tar:
        saved = {name for name in tar.getnames() if "workspaces" in name}
    assert saved == {f"state/workspaces/{name}/file" for name in ("in_progress", "a_task")}


async def test_what_a_later_backup_adds_is_small_and_needs_the_earlier_one(
    server: Server, tmp_path: Path
) -> None:
    await fill(server, 6_000, "x" * 3_000)  # two blocks of the server's files
    whole = await backup(server, tmp_path / "whole.tar")
    await fill(server, 10, "later")
    later = await backup(server, tmp_path / "later.tar", "--since", str(tmp_path / "whole.tar"))
    last = await backup(server, tmp_path / "last.tar", "--since", str(tmp_path / "later.tar"))
    assert later["continues"] == ["whole.tar"]
    assert last["continues"] == ["whole.tar", "later.tar"]
    of = [each["streams"]["OFFICE"] for each in (whole, later)]  # type: ignore[index]
    assert (of[1]["since"], of[1]["last"]) == (of[0]["last"], of[0]["last"] + 10)
    assert (await run(server, "restore", str(tmp_path / "last.tar"), state=tmp_path / "new")).returncode == 0
    assert await letters_in(tmp_path / "new") == LETTERS + 6_010
    (tmp_path / "whole.tar").rename(tmp_path / "renamed.tar")
    refused = await run(server, "restore", str(tmp_path / "last.tar"), state=tmp_path / "other")
    assert refused.returncode == 1
    assert "continues whole.tar, which is not beside it" in " ".join(refused.stderr.split())
    assert not (tmp_path / "other" / DRAFT).exists()


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-12_000],
    "a bit of a stream": lambda data: _flip(data, b"streams/OFFICE/000002.s2", 4_000),
    "a bit of the manifest": lambda data: _flip(data, b"manifest.json", 700),
    "a bit of the sums": lambda data: _flip(data, b"SHA256SUMS", 600),
    "a bit": lambda data: _flip(data, b"", -len(data) // 2),
    "no backup": lambda _: b"something else" * 100,
    "empty": lambda _: b"",
}


def _flip(data: bytes, name: bytes, after: int) -> bytes:
    place = (data.rindex(name + b"\0") if name else len(data)) + after
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


async def test_what_is_spoilt_is_refused_and_nothing_is_touched(server: Server, tmp_path: Path) -> None:
    await backup(server, tmp_path / "good.tar")
    await backup(server, tmp_path / "good.tgz")
    state = tmp_path / "other"
    good = [(what, spoil, "good.tar") for what, spoil in SPOILT.items()]
    for what, spoil, name in [*good, *((what, SPOILT[what], "good.tgz") for what in ("cut short", "a bit"))]:
        (tmp_path / "bad.tar").write_bytes(spoil((tmp_path / name).read_bytes()))
        done = await run(server, "restore", str(tmp_path / "bad.tar"), state=state)
        assert done.returncode == 1, what
        assert "no whole backup" in " ".join(done.stderr.split()), (what, done.stderr)
        assert "Traceback" not in done.stderr
        assert [path.name for path in state.iterdir()] == ["run"], what
    with tarfile.open(tmp_path / "good.tar") as tar, tarfile.open(tmp_path / "new.tar", "w") as new:
        content = tar.extractfile("manifest.json")
        assert content is not None
        data = content.read().replace(b'"version": "0', b'"version": "7')
        member = tar.getmember("manifest.json")
        member.size = len(data)
        (tmp_path / "manifest").write_bytes(data)
        with (tmp_path / "manifest").open("rb") as file:
            new.addfile(member, file)
    done = await run(server, "restore", str(tmp_path / "new.tar"), state=state)
    assert "was made by Mailroom 7.1.0, later than this 0.1.0" in " ".join(done.stderr.split())


def forge(good: Path, target: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """A backup whose manifest says something else, with sums that fit it."""
    sums = ""
    with tarfile.open(good) as tar, tarfile.open(target, "w") as new:
        for member in tar:
            content = tar.extractfile(member)
            data = content.read() if content else b""
            if member.name == "manifest.json":
                manifest = json.loads(data)
                data = json.dumps(change(manifest) or manifest).encode()
            if member.name == "SHA256SUMS":
                data = sums.encode()
            elif content:
                sums += f"{hashlib.sha256(data).hexdigest()}  {member.name}\n"
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))


async def test_a_forged_backup_writes_nothing_outside(server: Server, tmp_path: Path) -> None:
    canary, state = tmp_path / "canary", tmp_path / "other"
    canary.write_text("alive")
    await backup(server, tmp_path / "good.tar")

    def write_through(manifest: dict[str, Any]) -> None:
        link = {"path": "outputs/trap", "mode": 0o777, "link": str(canary)}
        file = next(each for each in manifest["files"] if each["path"] == "outputs/report.md")
        manifest["files"] += [link, {**file, "path": "outputs/trap"}, {**file, "path": "outputs/copy.md"}]

    def climb(manifest: dict[str, Any]) -> None:
        file = next(each for each in manifest["files"] if each["path"] == "outputs/report.md")
        manifest["files"].append({**file, "path": "outputs/../../canary"})

    for change, told in (
        (write_through, "outside of the office"),
        (climb, "outside of the office"),
        (lambda manifest: [manifest], "no whole backup"),
        (lambda manifest: manifest.pop("version") and None, "no whole backup"),
    ):
        forge(tmp_path / "good.tar", tmp_path / "bad.tar", change)
        done = await run(server, "restore", str(tmp_path / "bad.tar"), state=state)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
        assert told in " ".join(done.stderr.split()), done.stderr
        assert canary.read_text() == "alive"


async def test_keys_are_left_out_and_memory_is_taken_along_if_that_is_asked(
    server: Server, tmp_path: Path
) -> None:
    (server.config.state_dir / "memory").mkdir()
    (server.config.state_dir / "memory" / "table").write_text("rows")
    told = await backup(server, tmp_path / "b.tar", "--without-keys", "--with-memory")
    assert told["keys"] is False
    with tarfile.open(tmp_path / "b.tar") as tar:
        seeds = [path.read_bytes() for path in server.config.keys.glob("*.nk")]
        parts = [content.read() for each in tar if (content := tar.extractfile(each))]
    assert seeds
    assert not [seed for seed in seeds if any(seed.strip() in part for part in parts)]
    state = tmp_path / "there"
    done = await run(server, "restore", str(tmp_path / "b.tar"), state=state)
    assert done.returncode == 0, done.stderr
    assert (state / "memory" / "table").read_text() == "rows"
    assert await letters_in(state) == LETTERS  # with keys of its own


async def test_an_office_is_replaced_only_if_it_is_named_and_kept(server: Server, tmp_path: Path) -> None:
    file, own = tmp_path / "good.tar", server.config.state_dir
    await backup(server, file)
    assert "is open" in (await run(server, "restore", str(file))).stderr
    await stop(server)
    (own / "outputs" / "report.md").write_text("new")
    for more in ([], ["--force", str(tmp_path)]):
        done = await run(server, "restore", str(file), *more)
        assert done.returncode == 1
        assert f"--force {own}" in " ".join(done.stderr.split())
        assert (own / "outputs" / "report.md").read_text() == "new"
    assert "exists already" in (await run(server, "backup", str(file))).stderr
    done = await run(server, "restore", str(file), "--force", str(own), "--json")
    assert done.returncode == 0, done.stderr
    assert (own / "outputs" / "report.md").read_text() == "old"
    assert (Path(json.loads(done.stdout)["replaced"]) / "outputs" / "report.md").read_text() == "new"
    assert await letters_in(own) == LETTERS


async def test_killed_at_any_moment_it_can_be_done_again(server: Server, tmp_path: Path) -> None:
    file, state = tmp_path / "good.tar", tmp_path / "there"
    whole = await backup(server, file)
    variables = {**server.environment, "MAILROOM_STATE_DIR": str(state)}
    begun = time.monotonic()
    command = mailroom_command("restore", str(file))
    await asyncio.to_thread(subprocess.run, command, env=variables, check=True, capture_output=True)
    lasts = time.monotonic() - begun
    assert await letters_in(state) == LETTERS
    killed = 0
    for step in range(6):
        await asyncio.to_thread(shutil.rmtree, state)
        process = server.start_process(["env", "-u", "NATS_URL", f"MAILROOM_STATE_DIR={state}", *command])
        await asyncio.sleep(lasts * (step + 1) / 6)
        process.kill()
        await asyncio.to_thread(process.communicate)
        again = await run(server, "restore", str(file), state=state)
        killed += process.returncode == -signal.SIGKILL
        if again.returncode:  # it had been done
            assert "There is an office in" in again.stderr
        assert await letters_in(state) == LETTERS
        assert not (state / DRAFT).exists()
    assert killed  # on a machine that is less busy than at first the later ones had ended
    for step in range(3):
        target = tmp_path / f"killed{step}.tar"
        process = server.start_process(mailroom_command("backup", str(target)))
        await asyncio.sleep(0.3 + 0.3 * step)
        process.kill()
        await asyncio.to_thread(process.communicate)
        if not target.exists():
            assert (await backup(server, target))["streams"]["OFFICE"] == whole["streams"]["OFFICE"]  # type: ignore[index]
        assert not target.with_name(f".{target.name}.part").exists()


@pytest.mark.parametrize("steps", range(8))
def test_putting_it_in_place_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Killed before any of the renames: the next start of the office goes on."""
    draft = tmp_path / DRAFT
    names = ["keys", "nats", "outputs"]
    for folder, text in ((tmp_path, "old"), (draft / "office", "new")):
        for name in names:
            (folder / name).mkdir(parents=True)
            (folder / name / "which").write_text(text)
    (draft / "ready.json").write_text(json.dumps(names))
    rename, done = Path.rename, []

    def rename_some(path: Path, target: Path) -> Path:
        done.append(path)
        if len(done) > steps:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", rename_some)
    try:
        finish_restore(tmp_path)
    except KeyboardInterrupt:
        assert steps < 2 * len(names)
    monkeypatch.undo()
    finish_restore(tmp_path)
    assert {(tmp_path / name / "which").read_text() for name in names} == {"new"}
    (replaced,) = tmp_path.glob(".replaced-*")
    assert {(replaced / name / "which").read_text() for name in names} == {"old"}
    assert not draft.exists()


async def test_a_full_disk_and_ctrl_c_leave_no_half_file(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    command = mailroom_command("backup", str(folder / "b.tar"))
    process = server.start_process(["prlimit", "--fsize=20000", *command])
    _, error = await asyncio.to_thread(process.communicate, timeout=40)
    assert process.returncode == 1
    assert "cannot be written: File too large" in " ".join(error.split())
    assert "Traceback" not in error
    assert list(folder.iterdir()) == []
    for step in range(5):
        process = server.start_process(command)
        await asyncio.sleep(0.3 + 0.2 * step)
        process.send_signal(signal.SIGINT)
        _, error = await asyncio.to_thread(process.communicate, timeout=40)
        assert "Traceback" not in error
        assert [path.name for path in folder.iterdir()] in ([], ["b.tar"])
        (folder / "b.tar").unlink(missing_ok=True)
