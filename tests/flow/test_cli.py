"""The command against a real server: goals, questions, the state of the office."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import submission_entry
from shared.contracts import (
    CancelGoal,
    Email,
    OfficeState,
    Presence,
    Question,
    Response,
    ResultOutcome,
    StateChanged,
    Task,
    TaskStatus,
    decode,
    generate_id,
    generate_task_id,
)
from tests.support.conductor import StandIn, claim_task, result_of, write_dead_letter
from tests.support.forking import start_program
from tests.support.server import ROOT, Server, mailroom_command, serve

pytestmark = pytest.mark.usefixtures("office_gateway")

Run = Callable[..., subprocess.CompletedProcess[str]]


def strip(text: str) -> str:
    """Text without colours and cursor movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@asynccontextmanager
async def heard(office: Server, subject: str) -> AsyncIterator[Callable[[], Awaitable[tuple[bytes, int]]]]:
    """Wait for the next message as it is published again: its payload and its sequence in OFFICE."""
    queue: asyncio.Queue[tuple[bytes, int]] = asyncio.Queue()

    async def receive(_: str, payload: bytes, headers: dict[str, str]) -> None:
        queue.put_nowait((payload, int(headers["Nats-Sequence"])))

    async def following() -> tuple[bytes, int]:
        return await asyncio.wait_for(queue.get(), 20)

    async with office.connection() as bus:
        await bus.subscribe(f"audit.{subject}", receive)
        yield following


@asynccontextmanager
async def stand_in(office: Server, goal_id: str, text: str = "Look around") -> AsyncIterator[StandIn]:
    async with office.connection("conductor") as conductor, office.connection("scout") as scout:
        yield StandIn(conductor, scout, goal_id, text)


async def run(office: Server, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The command in a thread, so that the test can play the office meanwhile."""
    return await asyncio.to_thread(office.mailroom, *arguments, **more)


# --- submitting ----------------------------------------------------------------------------------


async def test_a_submission_is_what_the_conductor_expects(office_server: Server) -> None:
    arguments = [
        "-c",
        "repo=/some/where",
        "-c",
        'params={"depth": 2}',
        "--priority",
        "p0",
        "--deadline",
        "10m",
    ]
    async with heard(office_server, subjects.SUBMIT_AS["URGENT"]) as following:
        done = await run(office_server, "submit", "Tidy up", *arguments, "--json")
        body = json.loads((await following())[0])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"goal_id": body["goal_id"], "status": "submitted"}
    assert body["goal_id"].startswith("goal_")
    assert body["text"] == "Tidy up"
    assert body["requester"] == "user"
    assert body["context"] == {"repo": "/some/where", "params": {"depth": 2}}
    assert body["priority"] == "URGENT"
    assert body["deadline"].endswith("Z")


async def test_text_can_come_from_standard_input(office_server: Server) -> None:
    async with heard(office_server, subjects.SUBMIT) as following:
        done = await asyncio.to_thread(
            office_server.mailroom, "submit", "-", text="Zähle alles\nund sage es."
        )
        body = json.loads((await following())[0])
    assert body["text"] == "Zähle alles\nund sage es."
    assert f"mailroom show {body['goal_id']}" in done.stdout


async def _submit_and_play(
    office: Server,
    *arguments: str,
    status: TaskStatus = TaskStatus.COMPLETED,
    report: Path | None = None,
) -> tuple[subprocess.CompletedProcess[str], StandIn]:
    async with heard(office, subjects.SUBMIT) as following:
        running = asyncio.create_task(run(office, "submit", "Look around", "--wait", *arguments))
        goal_id = json.loads((await following())[0])["goal_id"]
        async with stand_in(office, goal_id) as conductor:
            await conductor.play(status, report)
        return await running, conductor


async def test_waiting_shows_what_happens_and_the_first_screen_of_the_report(
    office_server: Server, tmp_path: Path
) -> None:
    report = tmp_path / "report.md"
    report.write_text(
        "# Look around\n\n**All is well.**\n\n" + "\n".join(f"Line {number}" for number in range(100))
    )
    done, _ = await _submit_and_play(office_server, report=report)
    assert done.returncode == 0, done.stderr
    lines = [line.partition(" ")[2] for line in done.stdout.splitlines()]
    assert "look (scout): opens README.md" in lines
    assert any(re.fullmatch(r"look \(scout\) completed in .* m?s: 12 documents read", line) for line in lines)
    assert done.stdout.count("All is well.") == 1
    assert f"Report: {report}" in done.stdout
    assert "# Look around" not in done.stdout
    assert f"{report}\n\nLine 0\n" in done.stdout
    assert "Line 19\n" in done.stdout
    assert "Line 20" not in done.stdout
    assert "80 more lines" in done.stdout
    assert lines.count("completed") == 0


async def test_a_goal_that_fails_ends_the_command_with_1(office_server: Server) -> None:
    done, _ = await _submit_and_play(office_server, status=TaskStatus.FAILED)
    assert done.returncode == 1
    assert "failed" in done.stdout
    assert "Reason: it rained" in done.stdout


async def test_waiting_with_json_prints_nothing_but_the_goal(office_server: Server) -> None:
    done, conductor = await _submit_and_play(office_server, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        **conductor.goal.to_dict(),
        "spent": {"tokens": 0, "cost": 0.0, "agents": [], "read": 0, "cached": 0, "fallbacks": []},
    }


async def test_a_refused_submission_ends_waiting_with_the_reason(office_server: Server) -> None:
    async with (
        heard(office_server, subjects.SUBMIT) as following,
        office_server.connection("conductor") as conductor,
    ):
        running = asyncio.create_task(run(office_server, "submit", "Look around", "--wait"))
        data, seq = await following()
        await write_dead_letter(
            conductor, subjects.SUBMIT, seq, data, "the submission is wrong: it is a Monday"
        )
        done = await running
    assert done.returncode == 1
    said = done.stderr.removeprefix(f"The folder is {Path.cwd()}\n")
    assert said.startswith("Error: The conductor refuses the goal: the submission is wrong: it is a Monday")


async def test_ctrl_c_leaves_the_goal_and_says_how_to_follow_it(office_server: Server) -> None:
    async with heard(office_server, subjects.SUBMIT) as following:
        process = office_server.start_mailroom("submit", "Look around", "--wait")
        goal_id = json.loads((await following())[0])["goal_id"]
        async with stand_in(office_server, goal_id) as conductor:
            await conductor.take_up()
            assert process.stdout is not None
            assert goal_id in await asyncio.to_thread(process.stdout.readline)
            process.send_signal(signal.SIGINT)
            _, errors = await asyncio.to_thread(process.communicate, timeout=20)
            assert process.returncode == 1
            assert "Detached; the goal keeps running." in errors
            assert f"mailroom tail --since 1h --goal {goal_id}" in errors
            assert "Traceback" not in errors
            await conductor.finish(TaskStatus.COMPLETED)


def run_on_terminal(office: Server, *arguments: str) -> tuple[int, str]:
    """Run the command on a terminal of 80 columns; its exit code and what it showed."""
    ours, theirs = pty.openpty()
    environment = {**office.environment, "TERM": "xterm-256color", "LINES": "24"}
    process = subprocess.Popen(
        mailroom_command(*arguments), cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65_536):
            shown += chunk
    except OSError:
        pass  # the terminal ends with the process
    finally:
        os.close(ours)
    return process.wait(20), shown.decode()


async def test_on_a_terminal_the_tasks_are_shown_live_in_80_columns(office_server: Server) -> None:
    async with heard(office_server, subjects.SUBMIT) as following:
        running = asyncio.create_task(
            asyncio.to_thread(run_on_terminal, office_server, "submit", "Look around", "--wait")
        )
        goal_id = json.loads((await following())[0])["goal_id"]
        async with stand_in(office_server, goal_id) as conductor:
            await conductor.take_up()
            await conductor.hand_out()
            claim = await conductor.claim(
                "opens a document with a name so long " + "that it cannot be shown " * 9
            )
            await asyncio.sleep(0.6)
            await conductor.finish_task(claim)
            await conductor.finish(TaskStatus.COMPLETED)
        code, shown = await running
    assert code == 0
    assert "\x1b[" in shown
    plain = strip(shown)
    assert re.search(r"▶ +look +scout +.*opens a document.*…", plain)
    assert re.search(r"✓ +look +scout +.*12 documents read", plain)
    assert max(map(len, plain.replace("\r", "\n").splitlines())) <= 80


def test_on_a_terminal_no_word_is_torn(office_server: Server) -> None:
    code, shown = run_on_terminal(office_server, "show", "goal_that_nobody_ever_gave_to_this_office_of_ours")
    assert code == 1
    assert strip(shown).splitlines() == [
        "Error: There is no goal or task",
        "'goal_that_nobody_ever_gave_to_this_office_of_ours'. 'mailroom tasks --all'",
        "lists the goals",
    ]
    _, shown = run_on_terminal(office_server, "doctor")
    lines = strip(shown).splitlines()
    assert all(re.match(r"(ok|warn|fail) {1,3}\w|  {15}", line) for line in lines), lines


# --- asking --------------------------------------------------------------------------------------


async def test_an_answer_is_the_one_to_this_question(office_server: Server) -> None:
    letter = subjects.mail("nexus", "user")
    async with heard(office_server, letter) as following, office_server.connection("nexus") as nexus:
        running = asyncio.create_task(run(office_server, "ask", "How are we?"))
        question = Question.from_json((await following())[0])
        for text, cause in (("To somebody else.", generate_id()), ("Very well [1].", question.id)):
            answer = Response(sender="nexus", recipient="user", cause=cause, text=text, citations=("node-7",))
            await nexus.commit([seal(subjects.mail("user", "nexus"), answer)])
        done = await running
    assert (question.text, question.sender, question.recipient) == ("How are we?", "user", "nexus")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Very well [1].\n\nSources:\n  node-7\n"


async def test_what_was_asked_for_and_not_done_ends_the_command_with_1(office_server: Server) -> None:
    letter = subjects.mail("nexus", "user")
    async with heard(office_server, letter) as following, office_server.connection("nexus") as nexus:
        running = asyncio.create_task(run(office_server, "ask", "Remind me of ./services"))
        question = Question.from_json((await following())[0])
        answer = Response(
            sender="nexus", recipient="user", cause=question.id, text="When?", outcome=ResultOutcome.FAILED
        )
        await nexus.commit([seal(subjects.mail("user", "nexus"), answer)])
        done = await running
    assert question.text == f"Remind me of {ROOT}/services"
    assert (done.returncode, done.stdout) == (1, "When?\n")


async def test_a_question_that_cannot_be_taken_says_why(office_server: Server) -> None:
    letter = subjects.mail("nexus", "user")
    async with heard(office_server, letter) as following, office_server.connection("nexus") as nexus:
        running = asyncio.create_task(run(office_server, "ask", "How are we?"))
        data, seq = await following()
        await write_dead_letter(nexus, letter, seq, data, "nexus is on holiday")
        done = await running
    assert done.returncode == 1
    assert "nexus is on holiday" in done.stderr


def test_no_answer_is_an_error_with_a_cure(mailroom: Run) -> None:
    done = mailroom("ask", "Anybody?", "--timeout", "0.5")
    assert done.returncode == 1
    assert "did not answer within 0.5 s" in done.stderr
    assert "mailroom status" in done.stderr


# --- goals ---------------------------------------------------------------------------------------


async def test_goals_are_listed_with_their_tasks(office_server: Server) -> None:
    goal_id = generate_task_id("goal")
    async with stand_in(office_server, goal_id, "Find \x1b[31mit") as conductor:
        await conductor.play()
    done = await run(office_server, "tasks")
    assert done.returncode == 0, done.stderr
    block = done.stdout.partition(goal_id)[2]
    assert re.match(r"  ✓ done in .*\n  Find \[31mit\n    ✓ look +scout +.* m?s  12 documents read\n", block)
    goals = json.loads((await run(office_server, "tasks", "--json")).stdout)
    assert conductor.goal.to_dict() in goals


async def test_the_tree_of_a_goal_tells_who_sent_what_to_whom(office_server: Server) -> None:
    goal_id = generate_task_id("goal")
    async with (
        stand_in(office_server, goal_id) as conductor,
        office_server.connection("engineer") as engineer,
    ):
        await conductor.take_up()
        await conductor.hand_out()
        claim = await conductor.claim("asks the engineer")
        part = Task(
            task_id=f"{conductor.task.task_id}-1",
            goal_id=goal_id,
            cause=conductor.task.id,
            text="Count the files",
            assignee="engineer",
            requester="scout",
        )
        await conductor.scout.commit([submission_entry(part)])
        done_part = await claim_task(engineer, part)
        await done_part.finish(result_of(part, "engineer", "7 files"))
        await conductor.finish_task(claim)
        await conductor.finish(TaskStatus.COMPLETED)
    tree = (await run(office_server, "show", goal_id)).stdout
    for pattern in (
        r"^├── ✓ look-1  conductor → scout  waited .*, worked ",
        r"^│   ├── \+\d+\.\d{3} conductor → scout task Look at the documents \[look\]",
        r"^│   ├── \+\d+\.\d{3} scout → conductor state asks the engineer",
        r"^│   ├── ✓ look-1-1  scout → engineer  waited .*, worked ",
        r"^│   │   └── \+\d+\.\d{3} engineer → scout result completed: 7 files",
        r"^│   └── \+\d+\.\d{3} scout → conductor result completed: 12 documents read",
        r"^└── \+\d+\.\d{3} conductor → user report All is well\.",
    ):
        assert re.search(pattern, tree, re.MULTILINE), (pattern, tree)
    assert max(map(len, tree.partition("seconds since")[2].splitlines())) <= 80
    story = json.loads((await run(office_server, "show", goal_id, "--json")).stdout)
    assert [task["task"]["task_id"] for task in story["tasks"]] == [conductor.task.task_id]
    assert [task["outcome"] for task in story["tasks"][0]["parts"]] == ["7 files"]
    assert story["tasks"][0]["worked"] > 0
    single = (await run(office_server, "show", conductor.task.task_id)).stdout
    assert "engineer → scout result completed: 7 files" in single


async def test_what_only_quotes_an_id_belongs_to_neither_goal_nor_task(office_server: Server) -> None:
    """Of the messages that name the goal and its task, those show it that have it in their header."""
    goal_id, other = generate_task_id("goal"), generate_task_id("goal")
    async with (
        stand_in(office_server, goal_id) as conductor,
        office_server.connection("scout") as scout,
        office_server.connection("engineer") as engineer,
    ):
        await conductor.take_up()
        await conductor.hand_out()
        task = conductor.task
        quoting = Task(
            task_id=generate_task_id(),
            goal_id=other,
            text=f"QUOTED what did {goal_id} and {task.task_id} come to?",
            assignee="engineer",
            requester="scout",
        )
        await scout.commit([submission_entry(quoting)])
        for body in (f"QUOTED {goal_id} is over", f"QUOTED {task.task_id}", f"QUOTED {task.id}"):
            letter = Email(sender="scout", recipient="user", body=body, goal_id=other)
            await scout.store(subjects.mail("user", "scout"), letter.to_json())
        part = Task(
            task_id=generate_task_id(),  # its name does not begin with that of its parent
            goal_id=goal_id,
            cause=task.id,
            text="DELEGATED",
            assignee="engineer",
            requester="scout",
        )
        await scout.commit([submission_entry(part)])
        about = Email(sender="engineer", recipient="user", body="WRITTEN", goal_id=goal_id, cause=part.id)
        await engineer.store(subjects.mail("user", "engineer"), about.to_json())
        claim = await conductor.claim("looks")
        await conductor.finish_task(claim)
        await conductor.finish(TaskStatus.COMPLETED)
    for name in (goal_id, task.task_id):
        for thoughts in ((), ("--thoughts",)):
            shown = (await run(office_server, "show", name, "--json", *thoughts)).stdout
            assert "QUOTED" not in shown, (name, thoughts)
            assert "DELEGATED" in shown or (name == task.task_id and thoughts), (name, thoughts)
        assert "WRITTEN" in (await run(office_server, "show", name)).stdout, name


async def test_a_goal_that_waits_for_the_conductor_is_shown_as_such(office_server: Server) -> None:
    goal_id = json.loads((await run(office_server, "submit", "Wait", "--json")).stdout)["goal_id"]
    done = await run(office_server, "show", goal_id)
    assert done.returncode == 1
    assert "waits for the conductor" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", "no-such-id"), "There is no goal or task 'no-such-id'"),
        (("show", "state.>"), "'state.>' is not an id"),
        (("cancel", "no-such-goal"), "There is no goal 'no-such-goal'"),
        (("cancel", "*"), "There is no goal '*'"),
        (("dead", "show", "1"), "There is no dead letter 1"),
        (("dead", "drop", "1"), "There is no dead letter 1"),
        (("agents", "nobody"), "No agent named 'nobody' is running. Running: "),
        (("memory", "search", "anything"), "The memory daemon does not answer"),
    ],
)
def test_what_is_not_there_is_one_sentence(mailroom: Run, arguments: tuple[str, ...], sentence: str) -> None:
    done = mailroom(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {sentence}"), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


async def test_cancelling_a_goal(office_server: Server) -> None:
    goal_id = generate_task_id("goal")
    letter = subjects.mail("conductor", "user")
    async with stand_in(office_server, goal_id) as conductor, heard(office_server, letter) as following:
        await conductor.take_up()
        running = asyncio.create_task(run(office_server, "cancel", goal_id, "--reason", "changed my mind"))
        request = decode((await following())[0])
        await conductor.finish(TaskStatus.CANCELLED, "cancelled by user")
        done = await running
    assert isinstance(request, CancelGoal)
    assert (request.goal_id, request.reason) == (goal_id, "changed my mind")
    assert (done.returncode, done.stdout) == (0, f"{goal_id} ended: cancelled\n")
    again = await run(office_server, "cancel", goal_id)
    assert again.returncode == 1
    assert "has ended already: cancelled" in again.stderr


# --- the office ----------------------------------------------------------------------------------


async def _show_presence(bus: Bus, **fields: Any) -> None:
    presence = Presence(
        sender=bus.name,
        agent=bus.name,
        instance=bus.instance,
        version="1.2.3",
        description="Reads things.",
        instructions="Write to me plainly.",
        actions={"read": "Read a thing"},
        **fields,
    )
    await bus.store(subjects.presence(bus.name, bus.instance), presence.to_json())


async def test_status_shows_agents_mailboxes_and_dead_letters(fresh_office_server: Server) -> None:
    office = fresh_office_server
    async with AsyncExitStack() as stack:
        scouts = [await stack.enter_async_context(office.connection("scout")) for _ in range(2)]
        conductor = await stack.enter_async_context(office.connection("conductor"))
        for scout in scouts:
            await _show_presence(scout, load=1, concurrency=4, handled=5)
        task = Task(task_id="t1", text="x", assignee="scout", requester="conductor")
        await conductor.commit([submission_entry(task)])
        await write_dead_letter(scouts[0], "mail.scout.nexus", 1, b"?", "nobody reads this")
        board = StateChanged(
            sender="conductor", state=OfficeState.EXECUTING, active={"g1": OfficeState.EXECUTING}
        )
        await conductor.commit([seal(subjects.OFFICE_STATE, board)])
        text = await run(office, "status")
        data = json.loads((await run(office, "status", "--json")).stdout)
        await asyncio.to_thread(office.start_gateway)
        asked = await run(office, "status")
        pages, page = await run(office, "agents"), await run(office, "agents", "scout")
    assert text.returncode == 0, text.stderr
    assert "; this works on the bus instead." in text.stderr
    assert asked.stderr == ""
    assert asked.stdout.splitlines()[0] == "office  EXECUTING  1 goal open"
    assert re.search(r"^scout +2 +1\.2\.3 +2/8 +1 +0 +10 +0 ", asked.stdout, re.MULTILINE)
    assert re.search(r"^office  EXECUTING  1 goal open$", text.stdout, re.MULTILINE)
    assert re.search(r"^scout +2 +2/8 +1 +0 +10 +0 ", text.stdout, re.MULTILINE)
    assert re.search(r"^critic +none ", text.stdout, re.MULTILINE)
    assert "1 dead letter (scout 1): mailroom dead list" in text.stdout
    assert max(map(len, text.stdout.splitlines()[4:])) <= 80
    (scout_post,) = [post for post in data["agents"] if post["agent"] == "scout"]
    assert (scout_post["pending"], len(scout_post["processes"])) == (1, 2)
    assert data["dead_letters"] == {"scout": 1}
    assert data["server_version"].startswith("2.")
    assert re.search(r"scout  2 processes, version 1\.2\.3\s+Reads things\.", pages.stdout)
    assert "Write to me" not in pages.stdout
    assert pages.stdout.endswith("mailroom agents NAME shows how to write to one, and its actions.\n")
    assert "Write to me plainly." in page.stdout
    assert "read: Read a thing" in page.stdout


async def test_the_yellow_pages_outlive_the_server(fresh_office_server: Server) -> None:
    office = fresh_office_server
    async with office.connection("scout") as scout:
        await _show_presence(scout)
        await office.restart()
        await asyncio.to_thread(office.start_gateway)
        listed = json.loads((await run(office, "agents", "--json")).stdout)
        async with asyncio.timeout(10):
            while not scout.connected:
                await asyncio.sleep(0.05)
        await _show_presence(scout, load=3)
        again = json.loads((await run(office, "agents", "--json")).stdout)
    found = [(page["agent"], page["load"]) for page in (*listed, *again) if page["agent"] != "gateway"]
    assert found == [("scout", 0), ("scout", 3)]


def test_the_doctor_says_what_is_wrong_and_what_to_do(office_server: Server, mailroom: Run) -> None:
    checks = {check["name"]: check for check in json.loads(mailroom("doctor", "--json").stdout)}
    for name in ("bus", "streams", "keys", "disk", "brain"):
        assert checks[name]["verdict"] == "ok", checks[name]
    assert checks["agents"]["verdict"] == "warn"
    assert checks["memory"]["verdict"] == "fail"
    assert checks["memory"]["fix"]
    key = office_server.config.keys / "critic.nk"
    key.chmod(0o644)
    try:
        done = mailroom("doctor")
    finally:
        key.chmod(0o600)
    assert done.returncode == 1
    assert re.search(r"^fail keys +others can read critic\.nk\n +fix: chmod 600 ", done.stdout, re.MULTILINE)


def test_the_doctor_says_so_where_there_is_no_office(office_server: Server, mailroom: Run) -> None:
    done = mailroom("doctor", NATS_URL="nats://127.0.0.1:1")
    assert done.returncode == 1
    pattern = r"^fail bus +No nats-server answers at nats://127\.0\.0\.1:1\n +fix: "
    assert re.search(pattern, done.stdout, re.MULTILINE)
    wrong = mailroom("doctor", MAILROOM_NO_SUCH_SETTING="1")
    assert wrong.returncode == 1
    assert wrong.stdout.startswith("fail settings   MAILROOM_NO_SUCH_SETTING is not a setting")


def test_every_way_of_not_reaching_the_office_is_one_sentence(office_server: Server, tmp_path: Path) -> None:
    (tmp_path / "other" / "state" / "keys").mkdir(parents=True)  # so that it gets keys of its own
    with serve(tmp_path / "other") as other:
        stranger = office_server.mailroom("tail", NATS_URL=other.url)
        keyless = office_server.mailroom("tail", NATS_URL=other.url, MAILROOM_KEY_DIR=str(tmp_path / "none"))
    gone = office_server.mailroom("tail", NATS_URL=other.url)
    for done, sentence in (
        (stranger, "does not know the key of 'user'"),
        (keyless, "The key of 'user' cannot be read"),
        (gone, "No nats-server answers at"),
    ):
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")
        assert sentence in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr


async def test_memory_by_way_of_the_real_daemon(fresh_office_server: Server) -> None:
    office = fresh_office_server
    office.start_gateway()
    variables, log = {**office.environment, "NATS_URL": office.url}, office.config.logs / "memory.log"
    daemon = start_program([sys.executable, "-m", "services.memory"], variables, log)
    try:
        async with asyncio.timeout(40):
            while not list((office.config.state_dir / "run").glob("memory-*.alive")):
                assert daemon.poll() is None
                await asyncio.sleep(0.1)
        title = "The harbour opens at six in the morning"
        added = await run(office, "memory", "add", title, "--kind", "decision", "--tag", "harbour", "--json")
        assert added.returncode == 0, added.stderr
        (node_id,) = json.loads(added.stdout)["ids"]
        found = await run(office, "memory", "search", "when can ships come in?", "--kind", "decision")
        assert title in found.stdout
        shown = await run(office, "memory", "get", node_id)
        assert re.match(
            rf"{title}\ndecision, importance 0\.5, .*, from user command line\ntags: harbour\n", shown.stdout
        )
        missing = await run(office, "memory", "get", node_id, "nothing-here")
        assert missing.returncode == 1
        assert "There is no memory 'nothing-here'" in missing.stderr
        stored = json.loads((await run(office, "memory", "get", node_id, "--json")).stdout)
        assert stored[0]["source"]["agent"] == "user"
        healthy = json.loads((await run(office, "doctor", "--json")).stdout)
        assert {"name": "memory", "verdict": "ok"}.items() <= next(
            c for c in healthy if c["name"] == "memory"
        ).items()
    finally:
        daemon.terminate()
        daemon.wait(20)


def test_the_story_holds_for_structs() -> None:
    """Shared mutable defaults would mix the stories of two tasks."""
    from shared.views.timeline import TaskTimeline

    task = Task(task_id="t", text="x", assignee="a", requester="b")
    first, second = (TaskTimeline(task=task, status=TaskStatus.PENDING) for _ in range(2))
    first.subtasks.append(second)
    assert second.subtasks == []
    assert msgspec.to_builtins(first)["parts"][0]["parts"] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "words", ["--help", "--version", "memory --help", "completion bash", "asyncapi", "policy -h"]
)
def test_output_that_cannot_be_written_is_told_in_one_sentence(words: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            mailroom_command(*words.split()), cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (
        1,
        "Error: the output cannot be written: No space left on device\n",
    )
