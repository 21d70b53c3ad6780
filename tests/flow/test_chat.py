"""``mailroom chat`` on a terminal and over a pipe, with a model that writes its answers piece by piece."""

import asyncio
import json
import os
import pty
import re
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import (
    AnswerWords,
    ApprovalAnswer,
    ApprovalRequest,
    Email,
    Node,
    Question,
    SentEmail,
    generate_id,
)
from shared.memory import Memory
from tests.support.asking import ask_nexus
from tests.support.office import Office
from tests.support.server import ROOT, mailroom_command, run_mailroom

pytestmark = pytest.mark.asyncio(loop_scope="module")
LONG = "Deploys happen on Tuesdays [deploys]. I have set a reminder for you. They begin at noon [deploys]."
DEPTH = "how deep is the well of the mill?"
SCRIPT = [
    {"match": "pelican", "replies": [{"text": "It is slow.", "delay": 60}]},
    {"match": "When do we deploy", "replies": [{"text": LONG}, {"text": "That is 42."}]},
    {"match": "how deep is the well", "replies": [{"text": "That is 42."}, {"text": "It is 42 still."}]},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """An office of nexus and memory with a model that follows a script."""
    folder: Path = tmp_path_factory.mktemp("chat")
    script = folder / "script.yaml"
    script.write_text(json.dumps(SCRIPT))
    running = Office(folder, MAILROOM_LINKER_INTERVAL="1000000", MAILROOM_BRAIN=f"scripted:{script}")
    try:
        await running.open(["memory", "nexus", "gateway"])
        node = Node(id="deploys", kind="decision", title="Deploys happen on Tuesdays at noon")
        await Memory(running.user).add(node, insist=True)
        yield running
    finally:
        await running.close()


async def run(office: Office, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(run_mailroom, office.environment, *arguments, text=text)


class Terminal:
    """A command on a terminal, which the test types into."""

    def __init__(self, office: Office, *arguments: str, kind: str = "xterm-256color") -> None:
        self._ours, theirs = pty.openpty()
        environment = {**office.environment, "TERM": kind, "LINES": "24", "PROMPT_TOOLKIT_NO_CPR": "1"}
        self.process = subprocess.Popen(
            mailroom_command(*arguments),
            cwd=ROOT,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  # it only makes a system call
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    async def expect(self, what: str, timeout: float = 30.0) -> str:
        """Wait until the terminal shows ``what``, a regular expression; the rest is for the next."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(what, self.shown)):
            assert time.monotonic() < deadline, self.shown
            try:
                self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(self._ours, 65_536).decode())
            except BlockingIOError:
                await asyncio.sleep(0.03)
            except OSError:
                assert re.search(what, self.shown), self.shown
        before, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return before

    async def end(self) -> int:
        code = await asyncio.to_thread(self.process.wait, 20)
        os.close(self._ours)
        return code


def _take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C is a signal."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def test_a_line_of_a_pipe_is_a_message(office: Office) -> None:
    done = await run(office, "chat", text=f"{DEPTH}\n\n{DEPTH}\n")
    assert (done.returncode, done.stdout.splitlines()) == (0, ["That is 42.", "It is 42 still."]), done.stderr
    as_json = await run(office, "chat", "--json", text=DEPTH)
    assert json.loads(as_json.stdout)["text"] == "That is 42."


async def test_sessions_are_listed_and_gone_on_with(office: Office) -> None:
    first = await run(office, "ask", DEPTH, "--json")
    assert "42" in json.loads(first.stdout)["text"]
    again = await run(office, "ask", "--continue", "say that again")
    assert "42" in again.stdout
    listed = json.loads((await run(office, "sessions", "--json")).stdout)
    assert (listed[0]["title"], listed[0]["questions"]) == (DEPTH, 2)
    name = listed[0]["session_id"]
    third = await run(office, "ask", "--session", name, "say that again")
    assert "42" in third.stdout
    missing = await run(office, "ask", "--session", "nothing-like-it", "hello")
    assert missing.returncode == 1
    assert "'mailroom sessions' lists them" in " ".join(missing.stderr.split())
    table = await run(office, "sessions")
    assert f"{name}  " in table.stdout
    assert DEPTH in table.stdout


async def test_words_come_as_they_are_written_and_none_that_claims_what_was_not_done(office: Office) -> None:
    question = Question(sender="user", recipient="nexus", text="When do we deploy?")
    written: list[AnswerWords] = []
    answer = await ask_nexus(office.user, question, 60, written)
    assert [each.text.strip() for each in written] == [
        "Deploys happen on Tuesdays [deploys].",
        "They begin at noon [deploys].",
    ]
    assert answer.text.startswith("Deploys happen on Tuesdays [deploys]. They begin at noon [deploys].")
    assert "set a reminder" not in answer.text


async def test_words_are_heard_by_people_alone_and_sent_by_nexus_alone(office: Office) -> None:
    heard: list[str] = []

    async def hear(subject: str, _: bytes, __: dict[str, str]) -> None:
        heard.append(subject)

    scout = await office.connect("scout")
    end = await office.user.subscribe(subjects.words("*"), hear)
    await scout.subscribe(subjects.words("*"), hear)
    forged = AnswerWords(question_id="q1", number=0, text="All your goals are done.")
    for bus in (scout, office.user):
        await bus.publish(subjects.words("q1"), forged.to_json())
    question = Question(sender="user", recipient="nexus", text="When do we deploy?")
    await ask_nexus(office.user, question, 60)
    await end()
    assert heard == [subjects.words(question.id)] * 2


async def test_the_shell_completes_agents_goals_sessions_and_kinds(office: Office) -> None:
    await run(office, "ask", DEPTH)

    def complete(words: str) -> str:
        variables = {
            **office.environment,
            "_MAILROOM_COMPLETE": "bash_complete",
            "COMP_WORDS": f"mailroom {words}",
            "COMP_CWORD": str(len(words.split())),
        }
        return run_mailroom(variables).stdout

    assert "nexus" in await asyncio.to_thread(complete, "agents pause ne")
    assert "last" in await asyncio.to_thread(complete, "show la")
    assert "chat-" in await asyncio.to_thread(complete, "chat --session chat")
    assert "decision" in await asyncio.to_thread(complete, "memory list --kind dec")
    office.environment["MAILROOM_URL"] = "http://127.0.0.1:9"
    assert not (await asyncio.to_thread(complete, "agents pause ne")).strip()
    del office.environment["MAILROOM_URL"]


async def test_a_conversation_on_a_terminal(office: Office) -> None:
    chat = Terminal(office, "chat", "--new")
    await chat.expect(r"New session chat-\w+\. /help helps, Ctrl-D leaves\.")
    await chat.expect("›")
    chat.type("When do we deploy?\r")
    await chat.expect("They begin at noon")
    chat.type("what is 6 times 7?\r")
    await chat.expect("42")
    await chat.expect("›")
    chat.type("\x1b[A")  # the arrow up: what was written last
    await chat.expect("what is 6 times 7")
    chat.type("\r")
    await chat.expect("42")
    chat.type("/sess\t")
    await chat.expect("/sessions")
    chat.type("\x03")
    await chat.expect(r"Ctrl-D leaves\.[^›]*›")
    chat.type("/help\r")
    await chat.expect("Ctrl-C stops an answer[^›]*›")
    chat.type("\x04")
    await chat.expect(r"Go on later: mailroom chat --session chat-\w+")
    assert await chat.end() == 0
    history = office.config.state_dir / "chat_history"
    assert "+what is 6 times 7?" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0

    again = Terminal(office, "chat")
    await again.expect("› ?what is 6 times 7")
    await again.expect(r"Session chat-\w+\.[^›]*›")
    again.type("\x04")
    assert await again.end() == 0


async def test_ctrl_c_stops_an_answer_and_the_conversation_goes_on(office: Office) -> None:
    chat = Terminal(office, "chat", "--new")
    await chat.expect("›")
    chat.type("Who feeds the pelican of the harbour?\r")
    await chat.expect("answering")
    await asyncio.sleep(0.8)
    chat.type("\x03")
    await chat.expect("Stopped, as you asked[^›]*›")
    chat.type("what is 6 times 7?\r")
    await chat.expect("42[^›]*›")
    chat.type("\x04")
    assert await chat.end() == 0


async def test_a_dumb_terminal_is_asked_line_by_line(office: Office) -> None:
    chat = Terminal(office, "chat", kind="dumb")
    chat.type("what is 6 times 7?\r")
    await chat.expect("42")
    chat.type("\x04")
    assert await chat.end() == 0


async def test_what_only_a_person_may_do_is_done_after_a_yes(office: Office) -> None:
    scout = await office.connect("scout")
    request = ApprovalRequest(
        sender="scout",
        recipient="user",
        approval_id=generate_id(),
        what="run: curl example.org",
        rule="network",
        why="It sends data out.",
        expires_at="2100-01-01T00:00:00+00:00",
    )
    answers = subjects.approval_answered("scout", request.approval_id)
    await scout.commit([seal(subjects.approval_asked("scout", request.approval_id), request)])
    chat = Terminal(office, "chat", "--new")
    await chat.expect("›")
    chat.type("approve it\r")
    await chat.expect(r"network: It sends data out[\s\S]*Grant it\? \[y/N\]")
    chat.type("\r")
    await chat.expect("It waits on[^›]*›")
    assert await office.user.last(subjects.OFFICE, answers) is None
    chat.type("approve it\r")
    await chat.expect(r"Grant it\? \[y/N\]")
    chat.type("y\r")
    await chat.expect("granted: scout may do it[^›]*›")
    answer = await office.user.last(subjects.OFFICE, answers)
    assert answer is not None
    assert ApprovalAnswer.from_json(answer.data).granted

    # the only question that waits is answered by talking
    letter = Email(sender="nexus", recipient="user", subject="Which branch?", body="main or release-2?")
    note = SentEmail(sender="nexus", email=letter, awaited=True)
    await (await office.connect("nexus")).commit(
        [
            seal(subjects.mail("user", "nexus"), letter),
            seal(subjects.record("nexus", "letter", letter.id), note),
        ]
    )
    chat.type("answer: use release-2\r")
    await chat.expect(r"Send “use release-2”\?[^\[]*\[y/N\]")
    chat.type("y\r")
    await chat.expect("Sent[^›]*›")
    sent = await office.user.last(subjects.OFFICE, subjects.mail("nexus", "user"))
    assert sent is not None
    assert (Email.from_json(sent.data).body, Email.from_json(sent.data).in_reply_to) == (
        "use release-2",
        letter.id,
    )

    chat.type("remember that the weir of the mill is painted green\r")
    await chat.expect("I shall remember[^›]*›")
    chat.type("forget that\r")
    await chat.expect(r"Erase it for good\?[^\[]*\[y/N\]")
    chat.type("y\r")
    await chat.expect("Forgotten: [^›]*›")
    assert not [hit for hit in await Memory(office.user).search("weir") if "weir" in hit.node.title]
    chat.type("\x04")
    assert await chat.end() == 0
