"""Forgetting for good in a whole office: what answers, letters, goals and files quoted is in no file."""

import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from shared import subjects
from shared.access.scopes import Scope
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import Email, Node, Question, Response, TaskStatus, decode
from shared.memory import Memory
from shared.trail.verification import verify_log
from tests.support.gateway import RunningGateway
from tests.support.office import Office
from tests.support.server import run_mailroom
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

TITLE = "The vault code of the Lisbon office is KESTREL-7741 and only Ines knows it"
BODY = """# Vault

- Ines keeps the spare key behind the blue café painting
- The alarm company is Sentinela Norte"""
TRACES = ("KESTREL-7741", "spare key behind", "caf\\u00e9 painting", "café painting", "Sentinela Norte")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    gateway = RunningGateway(tmp_path_factory.mktemp("office"), MAILROOM_LINKER_INTERVAL="3600")
    try:
        await gateway.open("memory", "nexus", "conductor", "cortex", "critic")
        yield gateway
    finally:
        await gateway.close()


def holders(office: Office, *traces: str) -> list[str]:
    """The files of the office, those of the server included, that hold one of the texts."""
    found, wanted = [], [text.encode() for text in traces]
    for path in (
        Path(folder, name) for folder, _, names in os.walk(office.config.state_dir) for name in names
    ):
        with contextlib.suppress(OSError):  # gone meanwhile
            data = path.read_bytes() if path.is_file() else b""
            found += [str(path)] if any(text in data for text in wanted) else []
    return found


async def ask(office: Office, text: str, session: str) -> str:
    """The front desk's answer to a person."""
    question = Question(sender="user", recipient="nexus", text=text, user_session_id=session)
    await office.user.commit([seal(subjects.mail("nexus", "user"), question)])

    async def answer() -> str:
        for _, _, data in await office.stored(subjects.mail("user", "nexus")):
            letter = decode(data)
            if isinstance(letter, Response) and letter.cause == question.id:
                return letter.text
        return ""

    return str(await eventually(answer, 20))


async def verify(bus: Bus) -> int:
    """How many messages were erased; both trails are whole."""
    found = await verify_log(bus)
    assert [problem for each in found for problem in each.problems] == []
    return sum(each.erased for each in found)


def command(office: Office, *arguments: str) -> str:
    done = run_mailroom({**office.environment, "NATS_URL": office.server.url}, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_nothing_that_quoted_a_memory_has_its_text_any_more(gateway: RunningGateway) -> None:
    office = gateway.office
    memory = Memory(office.user)
    other = Node(id="kept", title="Ships are counted at six")
    await memory.add(Node(id="vault", title=TITLE, body=BODY), other)
    assert "KESTREL" in await ask(office, "What is the vault code of the Lisbon office?", "one")
    assert "café" in await ask(office, "Where does Ines keep the spare key?", "one")
    task = {"assignee": "cortex", "action": "recall", "question": "vault code of the Lisbon office"}
    await office.submit({"text": "Recall what is known", "goal_id": "goal-vault", "context": task})
    assert (await office.finished("goal-vault")).status is TaskStatus.COMPLETED
    said = {"text": f"Say that {TITLE}", "goal_id": "goal-said", "context": {"assignee": "nobody"}}
    await office.submit(said)
    await office.finished("goal-said")
    escaped = json.dumps({"thought": json.dumps({"note": BODY})})
    email = Email(sender="user", recipient="cortex", subject="Hello", body=f"Say: {escaped}")
    await office.user.commit([seal(subjects.mail("cortex", "user"), email)])
    note = office.config.outputs / "notes" / "vault.md"
    note.parent.mkdir(parents=True)
    note.write_text("As told: Ines keeps the **spare key**\nbehind the blue café painting. More follows.\n")
    async with gateway.client(Scope.READ) as client:
        found = (await client.get("/api/v1/messages", params={"text": "KESTREL"})).json()
        assert found["messages"]
    await eventually(lambda: _is_idle(office), 20)
    assert len(holders(office, *TRACES)) >= 5

    plan = json.loads(command(office, "memory", "forget", "vault", "--dry-run", "--json"))
    assert sum(plan["messages"].values()) >= 8
    assert str(note) in plan["files"]
    assert holders(office, *TRACES)
    done = json.loads(command(office, "memory", "forget", "vault", "--yes", "--json"))
    assert done["remain"] == []
    assert done["erased"] >= sum(plan["messages"].values())
    assert str(note) in done["files"]
    assert note.read_text().endswith("More follows.\n")
    await eventually(lambda: not holders(office, *TRACES), 20)
    assert await verify(office.user) >= done["erased"]

    # Nobody acts again on what was replaced, and all of it can still be shown.
    answers = await office.stored(subjects.mail("user", "nexus"))
    assert len(answers) == 2
    assert all("[forgotten]" in decode(data).text for _, _, data in answers)
    goal = await office.goal("goal-vault")
    assert goal is not None
    assert goal.status is TaskStatus.COMPLETED
    assert "[forgotten]" in command(office, "show", "goal-vault", "--thoughts")
    async with gateway.client(Scope.READ) as client:
        assert (await client.get("/api/v1/goals/goal-vault")).status_code == 200
        assert (await client.get("/api/v1/messages", params={"text": "KESTREL"})).json()["messages"] == []
    assert "KESTREL" not in await ask(office, "What is the vault code of the Lisbon office?", "one")

    # Neither a rebuild nor a restart brings anything back.
    await memory.rebuild()
    await eventually(lambda: _is_rebuilt(memory), 60)
    for name in ("memory", "nexus", "gateway"):
        office.kill(name)
        office.start(name)
        await office.ready(name)
    assert holders(office, *TRACES) == []
    assert (await memory.get("kept"))[0].title == "Ships are counted at six"
    await verify(office.user)


async def _is_rebuilt(memory: Memory) -> bool:
    return "rebuilding" not in await memory.health()


async def _is_idle(office: Office) -> bool:
    """Whether nobody has a message in hand."""
    admin = await office.connect(subjects.ADMIN)
    try:
        answer = json.loads(await admin.request(f"$JS.API.CONSUMER.LIST.{subjects.OFFICE}"))
        return not any(each["num_ack_pending"] for each in answer["consumers"])
    finally:
        await admin.close()
