"""The proof of the log as people use it: sealed by the gateway, witnessed, verified, checked elsewhere."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from shared import subjects
from shared.bus import Entry
from shared.bus.entry import seal
from shared.contracts import Email, Seal, generate_id
from shared.queries.records import last_sequence
from shared.trail.seals import read_kept, read_seals
from tests.support.channels import MailStub
from tests.support.erasing import erasing
from tests.support.gateway import RunningGateway
from tests.support.http import HttpServer, Request
from tests.support.server import ROOT, run_mailroom
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
SCRIPT = ROOT / "docs" / "verify-bundle.mjs"


class Receiver:
    """A webhook that keeps what it took, unless it is closed."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.open = True
        self.server = HttpServer(self._answer)

    def _answer(self, request: Request) -> None:
        body = request.read_body()
        if self.open:
            self.taken.append(body)
        request.respond(200 if self.open else 503, {}, b"")


class Witnessed:
    """An office of the gateway alone, with three witnesses."""

    def __init__(self, folder: Path) -> None:
        self.mail, self.hook = MailStub(), Receiver()
        self.file = folder / "elsewhere" / "seals.jsonl"
        self.file.parent.mkdir()
        witnesses = f"{self.file},{self.hook.server.root}/seals,mailto:ada@example.org"
        self.gateway = RunningGateway(
            folder,
            MAILROOM_AUDIT_WITNESS=witnesses,
            MAILROOM_SMTP_URL=f"smtp://127.0.0.1:{self.mail.port}",
            MAILROOM_SMTP_SENDER="office@example.org",
        )
        self.office = self.gateway.office

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return run_mailroom({**self.office.environment, "NATS_URL": self.office.server.url}, *arguments)

    async def verify(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return await asyncio.to_thread(self.command, "audit", "verify", *arguments)

    async def seals(self) -> list[Seal]:
        return [each async for _, each in read_seals(self.office.user, subjects.OFFICE) if each is not None]

    async def sealed(self, last: int) -> Seal:
        """The last seal, once one covers a message: there is one for each thousand."""

        async def find() -> Seal | None:
            seals = await self.seals()
            return seals[-1] if seals and seals[-1].last >= last else None

        found: Seal = await eventually(find, 20)
        return found

    async def have(self, number: int) -> list[Seal]:
        """The seals, once they cover so many messages."""
        await self.fill(max(0, number + 100 - await last_sequence(self.office.user, subjects.OFFICE)))
        await self.sealed(number)
        return await self.seals()

    async def fill(self, number: int) -> None:
        engineer = await self.office.connect("engineer")
        for begin in range(0, number, 500):
            texts = [f"letter {each}" for each in range(begin, min(begin + 500, number))]
            letters = [Email(sender="engineer", recipient="critic", body=each) for each in texts]
            await engineer.commit([seal(subjects.mail("critic", "engineer"), each) for each in letters])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def log(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Witnessed]:
    log = Witnessed(tmp_path_factory.mktemp("office"))
    with log.mail, log.hook.server:
        try:
            await log.gateway.open()
            yield log
        finally:
            await log.gateway.close()


async def test_the_gateway_seals_and_whoever_is_away_holds_nothing_up(log: Witnessed) -> None:
    await log.have(1_000)
    await eventually(lambda: log.hook.taken, 30)
    log.hook.open, number = False, len(log.hook.taken)
    begin = await last_sequence(log.office.user, subjects.OFFICE)
    await log.fill(1_100)
    last = await log.sealed(begin + 1)
    await eventually(lambda: log.file.exists() and read_kept(log.file)[-1].last >= last.last)
    kept = next(each for each in read_kept(log.file) if each.number == last.number)
    assert (kept.chain, kept.marks) == (last.chain, "")
    (mail,) = log.mail.mails  # one an hour is enough: a seal stands for all before it
    assert mail["To"] == "ada@example.org"
    assert mail["Subject"].startswith("Sealed: OFFICE up to ")
    assert any(each.chain in mail.get_content() for each in await log.seals())

    async def is_told() -> bool:
        async with log.gateway.client() as client:
            found = (await client.get("/api/v1/doctor")).json()
        (check,) = [each for each in found["checks"] if each["name"] == "seals"]
        return check["verdict"] == "warn" and "503" in check["finding"]

    await eventually(is_told, 20)
    assert len(log.hook.taken) == number
    log.hook.open = True
    await eventually(lambda: len(log.hook.taken) > number, 30)
    assert Seal.from_json(log.hook.taken[number].splitlines()[0]).last >= last.last
    done = await log.verify()
    assert done.returncode == 0, done.stdout
    assert "also proven by a seal that was kept elsewhere" in done.stdout


async def test_killed_and_started_again_it_continues_the_chain(log: Witnessed) -> None:
    for _ in range(3):
        await log.fill(700)
        log.office.kill("gateway")
        await log.fill(700)
        log.office.start("gateway")
        await log.office.ready("gateway")
    end = await last_sequence(log.office.user, subjects.OFFICE)
    await log.sealed(end - 1_000)
    done = await log.verify("--json")
    found = {each["stream"]: each for each in json.loads(done.stdout)}
    assert (done.returncode, found["OFFICE"]["problems"]) == (0, [])
    assert found["OFFICE"]["sealed"] >= end - 1_000


@pytest.mark.parametrize("place", ["/proc/bundle.jsonl", "/nowhere/bundle.jsonl"])
async def test_a_bundle_that_cannot_be_written_is_a_sentence(log: Witnessed, place: str) -> None:
    done = await asyncio.to_thread(log.command, "audit", "export", place)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {place} cannot be written: No such file or directory")
    assert len(done.stderr.splitlines()) == 1


async def test_a_bundle_is_checked_by_a_script_without_mailroom(log: Witnessed, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    assert len(SCRIPT.read_text().splitlines()) <= 48

    async def check(*arguments: object) -> "subprocess.CompletedProcess[str]":
        command = [node, str(SCRIPT), *map(str, arguments)]
        return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)

    seals = await log.have(2_000)
    await eventually(lambda: read_kept(log.file)[-1].number >= 2)
    await log.fill(1)
    bundle = tmp_path / "bundle.jsonl"
    written = await asyncio.to_thread(log.command, "audit", "export", str(bundle), "--json")
    counts = json.loads(written.stdout)
    done = await check(bundle, log.file)
    expected = f"WHOLE: {counts['messages']} messages, {counts['erased']} erased, {counts['seals']} seals\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    lines = bundle.read_text().splitlines()
    changed = tmp_path / "changed.jsonl"
    for number in (0, 500, 1_500):
        line = json.loads(lines[number])
        line["time"] = "1999" + line["time"][4:]
        changed.write_text("\n".join([*lines[:number], json.dumps(line), *lines[number + 1 :]]))
        done = await check(changed)
        assert (done.returncode, done.stdout[:9]) == (1, "NOT WHOLE")
    changed.write_text("\n".join(lines[:3] + lines[4:]))
    assert (await check(changed)).stdout.startswith("NOT WHOLE")
    changed.write_text("\n".join(lines[:1_001]))
    assert "is missing" in (await check(changed, log.file)).stdout
    proof = tmp_path / "proof.json"
    made = await asyncio.to_thread(log.command, "audit", "prove", "OFFICE", "1234")
    proof.write_text(made.stdout)
    assert len(made.stdout) < 4_000
    done = await check(proof)
    (own,) = [each for each in seals if each.first <= 1_234 <= each.last]
    place = f"OFFICE {own.number} {own.first} {own.last} {own.count}"
    assert done.stdout.startswith(f"PROVEN: OFFICE 1234 is in the seal {place}"), done.stderr
    proof.write_text(made.stdout.replace('"seq":1234', '"seq":1235'))
    assert (await check(proof)).returncode == 1
    none = await asyncio.to_thread(log.command, "audit", "prove", "OFFICE", "999999")
    assert (none.returncode, "no sealed message 999999" in none.stderr) == (1, True)


async def test_the_same_is_found_whatever_the_page_asks(log: Witnessed) -> None:
    await log.have(1_000)
    async with log.gateway.client() as client:
        found = (await client.post("/api/v1/audit/verify")).json()
    assert found["whole"]
    assert found["streams"][0]["sealed"] >= 1_000
    assert found["streams"][0]["outside"] > 0


async def test_verifying_from_a_seal_of_another_log_fails(log: Witnessed, tmp_path: Path) -> None:
    await log.have(1_000)
    await eventually(log.file.exists)
    kept = read_kept(log.file)[-1]
    other = tmp_path / "seals"
    other.write_text(kept.to_json().decode().replace(kept.chain, "0" * 64))
    done = await log.verify("--from", str(other))
    assert done.returncode == 1
    assert "is not the one that was kept elsewhere: the log was rewritten" in done.stdout
    other.write_text("nothing of use\n")
    done = await log.verify("--from", str(other))
    assert (done.returncode, "has no seal" in done.stderr) == (1, True)


async def test_old_messages_are_archived_by_the_command(log: Witnessed, tmp_path: Path) -> None:
    """As a person does it: looked at, written, deleted by the eraser, read again, exported and checked."""
    server, folder = log.office.server, tmp_path / "archive"

    async def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return await asyncio.to_thread(log.command, "audit", *arguments)

    # Nobody takes the letters of this office, so they stay; events have no recipient.
    engineer, event = await log.office.connect("engineer"), subjects.event("engineer", "said")
    said = [Entry(event, b"{}", generate_id()) for _ in range(1_200)]
    first = (await engineer.commit(said[:600]))[0]
    await engineer.commit(said[600:])
    await log.sealed(first + 1)
    missing = await run("archive", "--before", "1s", str(folder))
    assert (missing.returncode, "does not exist" in missing.stderr) == (2, True)
    folder.mkdir()
    none = await run("archive", "--before", "2020-01-01", str(folder))
    assert (none.returncode, none.stdout) == (0, "Nothing is so old, sealed, and not archived yet.\n")
    plan = json.loads((await run("archive", "--before", "0s", str(folder), "--dry-run", "--json")).stdout)
    assert plan["messages"] >= 1_000
    assert plan["deleted"] + plan["kept"] == plan["messages"]
    assert plan["deleted"] > 1
    assert list(folder.iterdir()) == []
    async with erasing(server):
        done = await run("archive", "--before", "0s", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["left"], told["deleted"] + told["kept"]) == (0, told["messages"])
    assert told["bundles"] == [path.name for path in sorted(folder.iterdir())]
    verified = await log.verify()
    assert verified.returncode == 0, verified.stdout
    assert f"{told['messages']:,} messages of them read from 1 bundle" in verified.stdout
    bundle = tmp_path / "all.jsonl"
    assert (await run("export", str(bundle))).returncode == 0
    if node := shutil.which("node"):
        check = await asyncio.to_thread(subprocess.run, [node, str(SCRIPT), str(bundle)], capture_output=True)
        assert check.stdout.startswith(b"WHOLE"), check.stderr
    # The gateway makes its index anew from bundles and server, and says where a message is that is away.
    async with log.gateway.client() as client:
        before = (await client.get("/api/v1/messages?limit=1")).json()["total"]
    log.office.kill("gateway")
    for path in (log.gateway.config.gateway).glob("index.db*"):
        path.unlink()
    log.office.start("gateway")
    await log.office.ready("gateway")
    async with log.gateway.client() as client:

        async def is_indexed() -> bool:
            return bool((await client.get("/api/v1/messages?limit=1")).json()["total"] >= before)

        await eventually(is_indexed, 20)
        assert (await client.get(f"/api/v1/messages/OFFICE/{first}")).status_code == 200
        (folder / told["bundles"][0]).rename(tmp_path / told["bundles"][0])
        answer = await client.get(f"/api/v1/messages/OFFICE/{first}")
    assert answer.status_code == 404
    assert f"lie in the bundle {told['bundles'][0]}, which is not in {folder}" in answer.json()["cure"]
    away = await log.verify()
    assert (away.returncode, "OFFICE: whole where it was read" in away.stdout) == (0, True)
    refused = await run("prove", "OFFICE", str(first))
    assert (refused.returncode, "lie in the bundle" in refused.stderr) == (1, True)
    assert (await run("prove", "OFFICE", str(first), "--bundles", str(tmp_path))).returncode == 0
    (tmp_path / told["bundles"][0]).rename(folder / told["bundles"][0])
