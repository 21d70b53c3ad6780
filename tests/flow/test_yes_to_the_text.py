"""A person's yes is to the text that was shown, on each channel, and to no other: that is what is done."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import submission_entry
from shared.contracts import ApprovalAnswer, ApprovalRequest, Task, TaskStatus
from shared.delivery.channels import LONGEST
from tests.flow.test_approvals import answered, ask, run
from tests.flow.test_delivery import Channels, open_gateway
from tests.support.replying import code_in, pressed, put, reply_to
from tests.support.server import Server
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)
WORDS = {
    "ansi": "\x1b[2J\x1b[1;1Hharmless\x1b[8m",
    "cr": "rm -rf important\rls",
    "bidi": "\u202egpj.live\u202c",
    "zero": "a\u200bb\u2060",
    "lines": "a\n-- \nReply with one of these as the first line:\n  approve AAAAAA",
    "filler": "a\u3164\ufe01\u2800b",
    "tab": "a\tb   c",
    "quoted": "\\u{1b} and \\\\u{5c}u{",
    "markup": "[bold]x[/bold] <b>y</b> [z](https://evil.example.org) :smile:",
    "wide": "漢字 é 👩\u200d🔬 " + "word " * 60,
}
LONG = "x" * 9_000


def command(word: str, name: str) -> str:
    """A command that the policy leaves to a person, and which writes ``word``."""
    return f"git stash drop 2>/dev/null || printf %s '{word}' > {name}.txt"


def read_shown(text: str) -> str:
    """What the marked lines of a message say, read back."""
    lines = [line.removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
    return re.sub(r"\\u\{([0-9a-f]+)\}", lambda code: chr(int(code[1], 16)), "\n".join(lines))


@pytest.fixture
async def channels(tmp_path: Path) -> AsyncIterator[Channels]:
    made = Channels(tmp_path)
    try:
        yield made
    finally:
        await made.close()


async def have_run(channels: Channels, words: dict[str, str]) -> None:
    """Have the engineer run a command for each word, each in a goal of its own."""
    user = channels.gateway.office.user
    for name, word in words.items():
        context = {"action": "run_shell", "params": {"command": command(word, name)}}
        task = Task(
            task_id=name,
            goal_id=f"g-{name}",
            text="x",
            assignee="engineer",
            requester="user",
            context=context,
        )
        await user.commit([submission_entry(task)])


async def require_done(channels: Channels, words: dict[str, str]) -> None:
    """Each command did what its text says, to the byte."""
    for name, word in words.items():
        result = await channels.gateway.office.result("engineer", name, timeout=60)
        assert result.status is TaskStatus.COMPLETED, result.error_message
        written = channels.gateway.config.workspaces / f"g-{name}" / name / f"{name}.txt"
        assert written.read_bytes() == word.encode()


def named(texts: dict[str, str], words: dict[str, str]) -> dict[str, str]:
    """The shown text for each word, by its name."""
    return {name: next(text for text in texts.values() if f"> {name}.txt" in text) for name in words}


async def test_by_mail_and_ntfy_all_of_a_command_is_shown_and_done_after_a_yes(channels: Channels) -> None:
    channels.write("mail", "ntfy")
    await open_gateway(channels, "engineer")
    await have_run(channels, WORDS)
    mails = channels.mail.mails
    await eventually(lambda: len(mails) == len(channels.web.ntfy) == len(WORDS), 90)
    texts = {str(mail["Message-ID"]): mail.get_content() for mail in mails}
    told = {str(number): each["message"] for number, each in enumerate(channels.web.ntfy)}
    for name, word in WORDS.items():
        for shown in (named(texts, WORDS)[name], named(told, WORDS)[name]):
            assert read_shown(shown) == f"run in the workspace: {command(word, name)}"
    for mail in mails:
        code = re.findall(r"^  approve ([2-9A-Z]{6})\r?$", mail.get_content(), re.MULTILINE)
        assert len(code) == 1, "a text that imitates ours is marked"
        put(channels.imap, reply_to(mail, f"approve {code[0]}"))
    await require_done(channels, WORDS)


async def test_by_telegram_a_text_that_is_cut_says_so_and_the_whole_is_where_it_says(
    channels: Channels,
) -> None:
    words = WORDS | {"long": LONG}
    channels.write("telegram", "mail")
    await open_gateway(channels, "engineer")
    await have_run(channels, words)
    sent, mails = channels.web.sent, channels.mail.mails
    await eventually(lambda: len(sent) == len(mails) == len(words), 90)
    whole = f"run in the workspace: {command(LONG, 'long')}"
    (phone,) = [each["text"] for each in sent if "xxxx" in each["text"]]
    (mail,) = [each.get_content() for each in mails if "xxxx" in each.get_content()]
    for shown, limit in ((phone, LONGEST), (mail, 8_000)):
        assert f"(Cut after {limit:,} of " in shown
        assert re.search(r"the whole is at http://127\.0\.0\.1:\d+/goals/g-long\.\)", shown)
        assert whole.startswith(read_shown(shown))
    async with channels.gateway.client() as client:
        listed = (await client.get("/api/v1/approvals?goal=g-long")).json()["approvals"]
        assert [each["what"] for each in listed] == [whole]
    texts = {str(number): each["text"] for number, each in enumerate(sent) if "xxxx" not in each["text"]}
    for name, word in WORDS.items():
        assert read_shown(named(texts, WORDS)[name]) == f"run in the workspace: {command(word, name)}"
    data = [each["reply_markup"]["inline_keyboard"][0][0]["callback_data"] for each in sent]
    channels.web.updates += [pressed(number, 7, act) for number, act in enumerate(data, 1)]
    await require_done(channels, words)


async def change(bus: Bus, request: ApprovalRequest) -> None:
    """Ask for another thing under the same id, with the agent's own key."""
    other = msgspec.structs.replace(request, what="run: rm -rf /srv")
    await bus.store(subjects.approval_asked(bus.name, request.approval_id), other.to_json())


async def test_an_old_yes_grants_nothing_else_on_any_channel(channels: Channels) -> None:
    channels.write("mail", "telegram")
    await open_gateway(channels)
    office = channels.gateway.office
    engineer = await office.connect("engineer")
    try:
        by_mail, by_phone = await ask(engineer, what="run: ls a"), await ask(engineer, what="run: ls b")
        by_page, by_hand = await ask(engineer, what="run: ls c"), await ask(engineer, what="run: ls d")
        asked = (by_mail, by_phone, by_page, by_hand)
        await eventually(lambda: len(channels.mail.mails) == len(channels.web.sent) == 4, 60)
        async with channels.gateway.client() as client:
            shown = (await client.get("/api/v1/approvals")).json()["approvals"]
            assert {each["what"] for each in shown} == {each.what for each in asked}
            for request in asked:
                await change(engineer, request)
            (mail,) = [each for each in channels.mail.mails if "ls a" in each.get_content()]
            put(channels.imap, reply_to(mail, f"approve {code_in(mail)}"))
            (message,) = [each for each in channels.web.sent if "ls b" in each["text"]]
            yes = message["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
            channels.web.updates.append(pressed(1, 7, yes))
            page = await client.post(f"/api/v1/approvals/{by_page.approval_id}", json={"granted": True})
            assert page.status_code == 409, page.text
            assert "changed the text of the request" in page.text
        by_command = await run(office.server, "grant", by_hand.approval_id)
        assert by_command.returncode == 1
        assert "so it is void. Refuse it: mailroom approvals refuse" in by_command.stderr

        def is_said() -> bool:
            said = [each.get_content() for each in channels.mail.mails]
            said += [each["text"] for each in channels.web.sent]
            return sum("so it is void" in each for each in said) == 2

        await eventually(is_said, 60)
        assert [await answered(engineer, each) for each in asked] == [None] * 4
        refused = await run(office.server, "refuse", by_hand.approval_id)
        assert refused.returncode == 0, refused.stderr
    finally:
        await engineer.close()


@pytest.mark.usefixtures("office_gateway")
async def test_the_command_shows_each_text_to_the_letter_and_a_grant_names_it(office_server: Server) -> None:
    async with office_server.connection("engineer") as engineer:
        words = [*WORDS.values(), LONG]
        asked = [await ask(engineer, f"yes-{at}-x", what=f"run: {word}") for at, word in enumerate(words)]
        shown = (await run(office_server, "list")).stdout
        for request in asked:
            lines = shown.partition(request.approval_id[:12])[2].split("\n\n", 1)[0]
            assert read_shown(lines.replace("\n    ", "\n")) == request.what
            granted = await run(office_server, "grant", request.approval_id)
            assert granted.returncode == 0, granted.stderr
            answer = await answered(engineer, request)
            assert answer
            assert answer.allows(request)
            assert not answer.allows(msgspec.structs.replace(request, what=f"{request.what} "))
            assert not answer.allows(msgspec.structs.replace(request, reach=("python",)))


async def test_a_grant_of_another_text_lets_no_agent_go_on(channels: Channels) -> None:
    """The agent compares the yes with what it is about to do, whoever stored which answer."""
    channels.write("mail")
    await open_gateway(channels, "engineer")
    await have_run(channels, {"tab": WORDS["tab"]})
    user = channels.gateway.office.user

    async def stored() -> ApprovalRequest | None:
        rows = await channels.gateway.office.stored(subjects.approval_asked("engineer", "*"))
        return ApprovalRequest.from_json(rows[0][2]) if rows else None

    request: ApprovalRequest = await eventually(stored, 60)
    subject = subjects.approval_answered("engineer", request.approval_id)
    other = msgspec.structs.replace(request, what="run: ls")
    for digest in ("", other.digest):
        answer = ApprovalAnswer(
            sender="user", recipient="engineer", approval_id=request.approval_id, granted=True, digest=digest
        )
        await user.commit([seal(subject, answer)])
        await asyncio.sleep(1.5)
        assert (await channels.gateway.office.task("engineer", "tab")).result is None  # type: ignore[union-attr]
    granted = await run(channels.gateway.office.server, "grant", request.approval_id)
    assert granted.returncode == 0, granted.stderr
    await require_done(channels, {"tab": WORDS["tab"]})
