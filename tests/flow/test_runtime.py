"""The runtime across processes: presence, services, replicas, delegation, ends that are sudden or orderly."""

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shared import subjects
from shared.agent.process import CONNECT_WAIT, package_version
from shared.bus import Bus
from shared.bus.connecting import ensure_keys
from shared.bus.entry import seal
from shared.bus.records import TaskState, submission_entry
from shared.contracts import Presence, Task, TaskResult, TaskStatus
from tests.support.office import Office
from tests.support.server import ROOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

ACTIONS = """
import asyncio, os
from shared.tasks.actions import Outcome, register_action
from shared.agent.base import Agent
from shared.agent.process import run
"""

CLERK = f'''"""An agent for tests: does what it is told, slowly if need be."""
{ACTIONS}
class Clerk(Agent):
    """Does simple things."""

    @register_action("Say something", {{"text": "what", "seconds": "after how long"}})
    async def say(self, text: str, seconds: float = 0.0) -> Outcome:
        await asyncio.sleep(seconds)
        return Outcome(output=text, data={{"pid": os.getpid(), "attempt": self.context.current_task.attempt}})

    @register_action("Take a minute at the first attempt")
    async def stall(self) -> Outcome:
        return await self.say("done", 60.0 if self.context.current_task.attempt == 1 else 0.0)

if __name__ == "__main__":
    run(Clerk, __file__)
'''

BOSS = f'''"""An agent for tests: has everything done by the clerk."""
{ACTIONS}
class Boss(Agent):
    """Delegates."""

    @register_action("Have things said", {{"texts": "what", "seconds": "how long each takes"}})
    async def have_said(self, texts: list[str], seconds: float = 0.0) -> Outcome:
        run, attempt = self.context.delegation.run, self.context.current_task.attempt
        said = [await run("clerk", t, "say", {{"text": t, "seconds": seconds}}) for t in texts]
        told = {{"pid": os.getpid(), "attempt": attempt, "ids": [one.task_id for one in said]}}
        return Outcome(output=" ".join(one.output for one in said), data=told)

    @register_action("Have something done that cannot be done")
    async def have_burnt(self) -> str:
        result = await self.context.delegation.run("clerk", "burn it", "burn")
        return f"{{result.status}}: {{result.error_message}}"

if __name__ == "__main__":
    run(Boss, __file__)
'''

SKILL = '''
from shared.skills.skill import Skill
from shared.tasks.actions import register_action

class StampSkill(Skill):
    """A skill."""

    @register_action("Stamp a thing", {"thing": "what"})
    async def stamp(self, thing: str) -> str:
        return f"{thing}, stamped by {self.context.profile.name}"
'''

AGENTS = {
    "clerk": ("description: Does simple things.\nconcurrency: 2\n", CLERK),
    "boss": ("description: Delegates.\nconcurrency: 4\n", BOSS),
    "loner": ("description: Delegates, one thing at a time.\nconcurrency: 1\n", BOSS),
    "stamper": (
        "description: Stamps.\ninstructions: Hand me a thing.\nskills: [skill_of_the_test.StampSkill]\n",
        "",
    ),
    "muser": ("description: Thinks.\nprompt: You muse.\n", ""),
}


def hire(folder: Path) -> None:
    for name, (profile, code) in AGENTS.items():
        home = folder / name
        home.mkdir(parents=True)
        (home / "profile.yaml").write_text(f"name: {name}\n{profile}")
        if code:
            (home / "__main__.py").write_text(code)
    (folder / "skill_of_the_test.py").write_text(SKILL)


def program(office: Office, *command: str, **environment: str) -> subprocess.Popen[str]:
    """A process that is expected to end by itself, with a sentence on standard error."""
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**office.environment, **environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """The whole office, and agents of our own beside it; tests use task ids of their own."""
    folder = tmp_path_factory.mktemp("office")
    hire(folder / "agents")
    running = Office(
        folder,
        MAILROOM_AGENTS_DIR=str(folder / "agents"),
        MAILROOM_DRAIN_TIMEOUT="2",
        PYTHONPATH=f"{ROOT}:{folder / 'agents'}",
    )
    try:
        await running.open()
        yield running
    finally:
        await running.close()


@pytest.fixture(scope="module", autouse=True)
def hopeless(office: Office) -> Iterator[subprocess.Popen[str]]:
    """It waits for a server that never comes; by the last test it has given up."""
    process = program(office, "services.scout", NATS_URL="nats://127.0.0.1:1")
    yield process
    process.kill()
    process.communicate()


def task(assignee: str, task_id: str, action: str = "", requester: str = "user", **params: Any) -> Task:
    context = {"action": action, "params": params} if action else {}
    return Task(task_id=task_id, text="do it", assignee=assignee, requester=requester, context=context)


async def hand_out(bus: Bus, *tasks: Task) -> None:
    for one in tasks:
        await bus.commit([submission_entry(one)])


async def until(
    office: Office, condition: Callable[[TaskState], object], *where: str, timeout: float = 15
) -> TaskState:
    async def is_so() -> TaskState | None:
        now = await office.task(*where)
        return now if now is not None and condition(now) else None

    found: TaskState = await eventually(is_so, timeout)
    return found


def in_progress(state: TaskState) -> bool:
    return state.status is TaskStatus.IN_PROGRESS


async def result(office: Office, *where: str, timeout: float = 15) -> TaskResult:
    return await office.result(*where, timeout=timeout)


async def perform(office: Office, assignee: str, task_id: str, action: str = "", **params: Any) -> TaskResult:
    await hand_out(office.user, task(assignee, task_id, action, **params))
    return await result(office, assignee, task_id)


# --- presence and services -----------------------------------------------------------------------


def agents_of(office: Office) -> list[str]:
    return sorted(name for name in office.members if name != subjects.GATEWAY)


async def present(office: Office) -> dict[str, list[Presence]]:
    pages: dict[str, list[Presence]] = {}
    request = {"multi_last": [f"$KV.{subjects.AGENTS_BUCKET}.>"], "batch": 1_000}
    async for stored in office.user.read(subjects.bucket_stream(subjects.AGENTS_BUCKET), request):
        if stored.data:
            entry = Presence.from_json(stored.data)
            pages.setdefault(entry.agent, []).append(entry)
    return pages


async def test_the_yellow_pages_list_every_agent(office: Office) -> None:
    pages = await present(office)
    assert sorted(pages) == agents_of(office)
    assert all(len(entries) == 1 for entries in pages.values())
    (stamper,) = pages["stamper"]
    assert stamper.description == "Stamps."
    assert stamper.instructions == "Hand me a thing."
    assert stamper.actions == {"stamp": "Stamp a thing"}
    assert stamper.pid == office.processes["stamper"].pid
    (clerk,) = pages["clerk"]
    assert (clerk.concurrency, clerk.version) == (2, package_version())


async def test_a_replica_appears_and_one_that_stops_vanishes(office: Office) -> None:
    office.start("muser", "-2")
    await office.ready("muser", "-2")
    assert len((await present(office))["muser"]) == 2
    office.signal("muser-2", signal.SIGTERM)
    assert await asyncio.to_thread(office.processes["muser-2"].wait, 10) == 0
    assert [entry.pid for entry in (await present(office))["muser"]] == [office.processes["muser"].pid]


async def test_a_killed_process_leaves_the_yellow_pages_when_its_entry_expires(office: Office) -> None:
    admin = await office.connect(subjects.ADMIN)
    stream = subjects.bucket_stream(subjects.AGENTS_BUCKET)
    info = json.loads(await admin.request(f"$JS.API.STREAM.INFO.{stream}"))
    await admin.close()
    assert info["config"]["max_age"] == int(subjects.PRESENCE_TTL * 1e9)
    assert 2 * subjects.PRESENCE_INTERVAL < subjects.PRESENCE_TTL


class Switchboard:
    """A plain NATS client with the people's key."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def ask(self, subject: str, wait: float = 0.5) -> list[dict[str, Any]]:
        """Everything that answers, until nothing has come for ``wait`` seconds."""
        inbox = self._client.new_inbox()
        subscription = await self._client.subscribe(inbox)
        await self._client.publish(subject, b"", reply=inbox)
        answers: list[dict[str, Any]] = []
        while True:
            try:
                answers.append(json.loads((await subscription.next_msg(wait)).data))
            except TimeoutError:
                await subscription.unsubscribe()
                return answers


@pytest_asyncio.fixture(loop_scope="module")
async def switchboard(office: Office) -> AsyncIterator[Switchboard]:
    async with office.server.raw_client(subjects.USER) as client:
        yield Switchboard(client)


async def test_every_agent_is_a_service_that_people_can_find(
    office: Office, switchboard: Switchboard
) -> None:
    pings = await switchboard.ask("$SRV.PING")
    assert sorted(ping["name"] for ping in pings) == agents_of(office)
    assert {ping["type"] for ping in pings} == {"io.nats.micro.v1.ping_response"}
    (ping,) = await switchboard.ask("$SRV.PING.stamper")
    (info,) = await switchboard.ask(f"$SRV.INFO.stamper.{ping['id']}")
    assert (info["name"], info["description"], info["version"]) == ("stamper", "Stamps.", package_version())
    assert info["metadata"]["actions"] == "stamp"
    assert sorted(info["name"] for info in await switchboard.ask("$SRV.INFO")) == agents_of(office)


async def test_statistics_count_what_a_service_answered(office: Office, switchboard: Switchboard) -> None:
    async def searches() -> int:
        (stats,) = await switchboard.ask("$SRV.STATS.memory")
        (search,) = [endpoint for endpoint in stats["endpoints"] if endpoint["name"] == "search"]
        assert search["subject"] == "memory.search.*"
        return int(search["num_requests"])

    before = await searches()
    await office.user.request(subjects.memory("search"), b'{"text": "anything"}')
    assert await searches() == before + 1
    assert sorted(s["name"] for s in await switchboard.ask("$SRV.STATS")) == agents_of(office)


# --- an agent is a folder with a profile ---------------------------------------------------------


async def test_a_profile_with_a_skill_is_an_agent(office: Office) -> None:
    assert office.members["stamper"].command[1:3] == ("-m", "shared.agent.process")
    stamped = await perform(office, "stamper", "stamp-1", "stamp", thing="a form")
    assert stamped.output == "a form, stamped by stamper"


async def test_a_profile_alone_is_an_agent_that_says_what_it_lacks(office: Office) -> None:
    answer = await perform(office, "muser", "muse-1")
    assert answer.status is TaskStatus.FAILED
    assert answer.error_message.startswith("muser cannot work out what to do from words without a model")
    assert answer.error_message.endswith("It has no actions; set MAILROOM_BRAIN")


# --- replicas ------------------------------------------------------------------------------------


async def test_replicas_share_the_work_and_each_task_is_done_once(office: Office) -> None:
    for replica in ("-2", "-3"):
        office.start("clerk", replica)
    for replica in ("-2", "-3"):
        await office.ready("clerk", replica)
    names = [f"share-{number}" for number in range(30)]
    await hand_out(office.user, *(task("clerk", name, "say", text=name, seconds=0.05) for name in names))
    results = [await result(office, "clerk", name) for name in names]
    assert [one.output for one in results] == names
    assert {one.metadata["attempt"] for one in results} == {1}
    shares = Counter(one.metadata["pid"] for one in results)
    assert set(shares) == {office.processes[f"clerk{replica}"].pid for replica in ("", "-2", "-3")}
    ends = Counter(end.task_id for end in await office.results("clerk", "user"))
    assert {ends[name] for name in names} == {1}
    for replica in ("-2", "-3"):
        office.signal(f"clerk{replica}", signal.SIGTERM)
        await asyncio.to_thread(office.processes[f"clerk{replica}"].wait, 10)


async def test_a_process_that_is_told_to_stop_finishes_what_it_began(office: Office) -> None:
    await hand_out(office.user, task("clerk", "drain-1", "say", text="done", seconds=0.8))
    await until(office, in_progress, "clerk", "drain-1")
    office.signal("clerk", signal.SIGTERM)
    assert await asyncio.to_thread(office.processes["clerk"].wait, 10) == 0
    done = await result(office, "clerk", "drain-1")
    assert (done.output, done.metadata["attempt"]) == ("done", 1)
    office.start("clerk")
    await office.ready("clerk")


async def test_what_takes_longer_than_the_grace_is_handed_on_at_once(office: Office) -> None:
    await hand_out(office.user, task("clerk", "drain-2", "stall"))
    await until(office, in_progress, "clerk", "drain-2")
    office.start("clerk", "-4")
    await office.ready("clerk", "-4")
    office.signal("clerk", signal.SIGTERM)
    assert await asyncio.to_thread(office.processes["clerk"].wait, 25) == 0
    done = await result(office, "clerk", "drain-2", timeout=30)
    assert (done.metadata["pid"], done.metadata["attempt"]) == (office.processes["clerk-4"].pid, 2)


# --- delegation ----------------------------------------------------------------------------------


async def handed_out(office: Office, assignee: str, requester: str) -> list[str]:
    return [task.task_id for task in await office.submitted(assignee, requester)]


async def test_a_task_can_be_handed_on(office: Office) -> None:
    said = await perform(office, "boss", "on-1", "have_said", texts=["one", "two"])
    assert said.output == "one two"
    assert said.metadata["ids"] == ["on-1-1", "on-1-2"]
    (given,) = [task for task in await office.submitted("clerk", "boss") if task.task_id == "on-1-1"]
    assert [given.cause] == [task.id for task in await office.submitted("boss") if task.task_id == "on-1"]


async def test_a_failure_comes_back_as_a_result(office: Office) -> None:
    told = await perform(office, "boss", "burn-1", "have_burnt")
    assert told.output == "failed: clerk has no action 'burn'. Its actions are say, stall"


async def test_a_killed_delegator_hands_nothing_out_twice(office: Office) -> None:
    await hand_out(office.user, task("boss", "kill-1", "have_said", texts=["first", "second"], seconds=1.5))
    await until(office, in_progress, "clerk", "kill-1-2", "boss")
    office.kill("boss")
    office.start("boss")
    said = await result(office, "boss", "kill-1", timeout=20)
    assert (said.output, said.metadata["attempt"]) == ("first second", 2)
    ids = [task_id for task_id in await handed_out(office, "clerk", "boss") if task_id.startswith("kill-1")]
    assert sorted(ids) == ["kill-1-1", "kill-1-2"]
    for task_id in ids:
        assert (await result(office, "clerk", task_id, "boss")).attempt == 1


async def test_replicas_that_delegate_at_once_get_their_own_answers(office: Office) -> None:
    office.start("boss", "-2")
    await office.ready("boss", "-2")
    processes: set[object] = set()
    for turn in range(10):  # a replica that was late with its first pull gets none of the first twelve
        names = [f"both-{turn}-{number}" for number in range(12)]
        said = {name: [f"{name}a", f"{name}b"] for name in names}
        tasks = [task("boss", name, "have_said", texts=said[name], seconds=0.05) for name in names]
        await hand_out(office.user, *tasks)
        results = {name: await result(office, "boss", name, timeout=30) for name in names}
        assert {name: one.output for name, one in results.items()} == {n: f"{n}a {n}b" for n in names}
        processes |= {one.metadata["pid"] for one in results.values()}
        if len(processes) == 2:
            break
    assert len(processes) == 2
    office.signal("boss-2", signal.SIGTERM)


async def test_an_agent_of_one_hand_can_delegate(office: Office) -> None:
    """The answer lies in a mailbox that nobody empties while the only hand waits for it."""
    await hand_out(
        office.user,
        task("loner", "one-1", "have_said", texts=["a", "b"]),
        task("loner", "one-2", "have_said", texts=["c"]),
    )
    assert (await result(office, "loner", "one-1")).output == "a b"
    assert (await result(office, "loner", "one-2")).output == "c"


async def test_tasks_of_one_name_from_two_requesters_get_their_own_answers(office: Office) -> None:
    engineer = await office.connect("engineer")
    await hand_out(office.user, task("boss", "same", "have_said", texts=["for the user"]))
    mine = task("boss", "same", "have_said", "engineer", texts=["for the engineer"])
    await hand_out(engineer, mine)
    assert (await result(office, "boss", "same")).output == "for the user"
    assert (await result(office, "boss", "same", "engineer")).output == "for the engineer"
    await engineer.close()


@pytest.mark.parametrize("agent", ["engineer", "clerk"])
async def test_only_the_assignee_s_answer_is_taken(office: Office, agent: str) -> None:
    name = f"forge-{agent}"
    engineer = await office.connect("engineer")
    await hand_out(office.user, task("boss", name, "have_said", texts=["the truth"], seconds=0.7))
    await until(office, in_progress, "clerk", f"{name}-1", "boss")
    lie = TaskResult(
        sender="engineer",
        recipient="boss",
        task_id=f"{name}-1",
        agent=agent,
        status=TaskStatus.COMPLETED,
        output="a lie",
    )
    await engineer.commit([seal(subjects.task("engineer", "boss", f"{name}-1", subjects.ENDED), lie)])
    assert (await result(office, "boss", name)).output == "the truth"
    await engineer.close()


# --- ends with a sentence ------------------------------------------------------------------------


def sentence(process: subprocess.Popen[str], timeout: float = 20) -> str:
    """The last line of a process that ended with exit code 1 and without a traceback."""
    try:
        output, errors = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == 1, (output, errors)
    assert "Traceback" not in output + errors
    return errors.strip().splitlines()[-1]


def write_profile(folder: Path, more: str) -> str:
    path = folder / "clerk" / "profile.yaml"
    path.parent.mkdir()
    path.write_text(f"name: clerk\ndescription: Files.\n{more}\n")
    return str(path)


async def test_a_key_the_server_does_not_know(office: Office, tmp_path: Path) -> None:
    ensure_keys(tmp_path, ["scout"])
    said = await asyncio.to_thread(
        sentence, program(office, "services.scout", MAILROOM_KEY_DIR=str(tmp_path))
    )
    assert said.startswith(
        f"scout: The server at {office.server.url} does not know the key of 'scout'. The keys"
    )


async def test_no_key(office: Office, tmp_path: Path) -> None:
    said = await asyncio.to_thread(
        sentence, program(office, "services.scout", MAILROOM_KEY_DIR=str(tmp_path))
    )
    assert said.startswith("scout: The key of 'scout' cannot be read: No such file or directory")
    assert "'mailroom up' makes the keys" in said


async def test_a_profile_with_an_unknown_field(office: Office, tmp_path: Path) -> None:
    path = write_profile(tmp_path, "concurency: 3")
    said = await asyncio.to_thread(sentence, program(office, "shared.agent.process", path))
    assert said == f"clerk: {path}:3: unknown field 'concurency'. Did you mean 'concurrency'?"


async def test_a_skill_that_is_not_there(office: Office, tmp_path: Path) -> None:
    path = write_profile(tmp_path, "skills: [shared.skills.juggling.JugglingSkill]")
    said = await asyncio.to_thread(sentence, program(office, "shared.agent.process", path))
    assert said.startswith("clerk: The profile of 'clerk' names the skill 'shared.skills.juggling.Juggling")
    assert "which does not exist: No module named" in said


async def test_a_setting_that_is_wrong(office: Office) -> None:
    said = await asyncio.to_thread(sentence, program(office, "services.scout", MAILROOM_LOG_LEVEL="loud"))
    assert said == "scout: MAILROOM_LOG_LEVEL is 'loud'. Write one of debug, info, warning, error"


async def test_a_state_directory_that_cannot_be_written(office: Office, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where a folder should be")
    keys = str(office.config.keys)
    process = program(office, "services.scout", MAILROOM_STATE_DIR=str(tmp_path), MAILROOM_KEY_DIR=keys)
    said = await asyncio.to_thread(sentence, process)
    assert said.startswith(f"scout: The state directory {tmp_path} cannot be written: ")
    assert said.endswith("Make it writable, or set MAILROOM_STATE_DIR to another folder")


async def test_no_server_at_start(hopeless: subprocess.Popen[str]) -> None:
    said = await asyncio.to_thread(sentence, hopeless, CONNECT_WAIT + 15)
    assert said == (
        "scout: No nats-server answers at nats://127.0.0.1:1. "
        "Start the office with 'mailroom up', or correct NATS_URL"
    )


async def test_nothing_of_all_this_was_buried_but_what_was_forged(office: Office) -> None:
    letters = [json.loads(data) for _, _, data in await office.stored("dead.*")]
    assert [letter["reason"] for letter in letters] == ["it is the result of 'clerk', but 'engineer' sent it"]
