"""Mail to people: a local SMTP server takes it, refuses it, hangs; and no crash sends it twice in silence."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from email import message_from_string
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult

from shared.agent.base import Agent
from shared.contracts import TaskStatus
from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.mail import read_server, write_message
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from tests.support.team import Team, open_team

PROFILE = Profile(name="clerk", description="Writes mail.", skills=("shared.skills.mail.MailSkill",))
TEXT = "All 41 tests pass.\n.\nBye ✓\n"
LETTER = {
    "recipient": "Ann@Example.org",
    "subject": "Overnight – done",
    "body": TEXT,
}


class Inbox:
    """What the server took; ``answer`` is what it says to a letter, ``delay`` how long it thinks first."""

    def __init__(self) -> None:
        self.letters: list[Any] = []
        self.recipients: list[str] = []
        self.logins: list[str] = []
        self.answer = "250 OK"
        self.refuse_recipient = ""
        self.delay = 0.0

    async def handle_RCPT(self, _: SMTP, __: Any, envelope: Any, address: str, ___: Any) -> str:
        if self.refuse_recipient:
            return self.refuse_recipient
        self.recipients.append(address)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: SMTP, __: Any, envelope: Any) -> str:
        if self.answer.startswith("250"):
            self.letters.append(envelope.content.decode())
        await asyncio.sleep(self.delay)
        return self.answer

    def log_in(self, _: Any, __: Any, ___: Any, mechanism: str, data: Any) -> AuthResult:
        self.logins.append(data.login.decode())
        return AuthResult(success=data.password == b"p@ss:word")


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def smtp(inbox: Inbox) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(
        inbox, hostname="127.0.0.1", port=port, authenticator=inbox.log_in, auth_require_tls=False
    )
    controller.start()
    yield f"127.0.0.1:{port}"
    controller.stop()


class Clerk(Agent):
    """Sends letters; ``send_then_fall_over`` ends its first attempt in a crash after the letter went out."""

    @register_action("Send, and crash once", {})
    async def send_then_fall_over(self) -> Outcome:
        outcome = await self.context.actions.perform("send_mail", LETTER)
        if self.context.current_task.attempt == 1:
            raise RuntimeError("power cut")
        return outcome


def environment(server: str, **more: str) -> dict[str, str]:
    return {
        "MAILROOM_SMTP_URL": f"smtp://{server}",
        "MAILROOM_SMTP_SENDER": "Mailroom <office@example.org>",
        "MAILROOM_SMTP_RECIPIENTS": "ann@example.org,bob@example.org",
        "MAILROOM_HTTP_TIMEOUT": "2",
        **more,
    }


@pytest.fixture
async def team(tmp_path: Path, smtp: str) -> AsyncIterator[Team]:
    async with open_team(tmp_path, ["clerk"], **environment(smtp)) as team:
        await team.join(Clerk, PROFILE)
        yield team


async def test_a_letter_reaches_its_person_once(team: Team, inbox: Inbox) -> None:
    result = await team.perform("clerk", "send_mail", **LETTER)
    assert result.status is TaskStatus.COMPLETED, result.error_message
    assert result.output == "Sent to ann@example.org: Overnight – done"
    (letter,) = inbox.letters
    assert inbox.recipients == ["ann@example.org"]
    read = message_from_string(letter, policy=default)
    assert (read["From"], read["To"], read["Subject"]) == (
        "Mailroom <office@example.org>",
        "ann@example.org",
        "Overnight – done",
    )
    assert read["Message-ID"] == result.metadata["message_id"]
    assert read.get_content().replace("\r\n", "\n") == TEXT
    assert letter.isascii()


async def test_an_attempt_after_a_crash_does_not_send_it_again(team: Team, inbox: Inbox) -> None:
    result = await team.perform("clerk", "send_then_fall_over")
    assert result.status is TaskStatus.COMPLETED, result.error_message
    assert "was sent before" in result.output
    assert len(inbox.letters) == 1


async def test_a_crash_in_the_middle_is_reported_and_not_repeated(
    tmp_path: Path, smtp: str, inbox: Inbox
) -> None:
    inbox.delay = 1.0
    async with open_team(tmp_path, ["clerk"], **environment(smtp)) as team:
        clerk = await team.join(Clerk, PROFILE)
        asked = asyncio.create_task(team.perform("clerk", "send_mail", **LETTER))
        while not inbox.letters:
            await asyncio.sleep(0.02)
        await team.leave(clerk)
        await team.join(Clerk, PROFILE)
        result = await asked
    assert result.status is TaskStatus.FAILED
    assert "interrupted while it did this: send mail to ann@example.org: Overnight – done" in (
        result.error_message
    )
    assert len(inbox.letters) == 1


async def test_only_allowed_people_get_mail_and_headers_cannot_be_added(team: Team, inbox: Inbox) -> None:
    for change, why in (
        ({"recipient": "eve@evil.example"}, "is not allowed. The setting smtp_recipients allows ann@example"),
        ({"recipient": "ann@example.org, eve@evil.example"}, "is not allowed"),
        ({"recipient": "ann@example.org\r\nBcc: eve@evil.example"}, "is not allowed"),
        ({"subject": "Hi\r\nBcc: eve@evil.example"}, "A subject is one line"),
        ({"subject": "Hi\nBcc: eve@evil.example"}, "A subject is one line"),
        ({"subject": "Hi\u2028Bcc: eve@evil.example"}, "A subject is one line"),
        ({"subject": " "}, "1 to 500 characters"),
        ({"body": "x" * 90_001}, "at most 90,000"),
    ):
        result = await team.perform("clerk", "send_mail", **{**LETTER, **change})
        assert result.status is TaskStatus.FAILED
        assert why in result.error_message
    assert inbox.recipients == []


async def test_what_the_server_refuses_is_told_and_may_be_tried_again(team: Team, inbox: Inbox) -> None:
    inbox.refuse_recipient = "550 No such person"
    result = await team.perform("clerk", "send_mail", **LETTER)
    assert result.status is TaskStatus.FAILED
    assert "did not accept the mail" in result.error_message
    assert "(550 No such person). Check the recipient's address" in result.error_message
    inbox.refuse_recipient = "451 Greylisted"
    result = await team.perform("clerk", "send_mail", **LETTER)
    assert "(451 Greylisted). Try again later" in result.error_message
    inbox.refuse_recipient, inbox.answer = "", "554 Looks like spam"
    result = await team.perform("clerk", "send_mail", **LETTER)
    assert "Looks like spam" in result.error_message
    inbox.answer = "250 OK"
    result = await team.perform("clerk", "send_mail", **LETTER)
    assert result.status is TaskStatus.COMPLETED


async def test_a_server_that_is_away_or_hangs_is_told(tmp_path: Path, smtp: str, inbox: Inbox) -> None:
    inbox.delay = 5.0
    slow = environment(smtp, MAILROOM_HTTP_TIMEOUT="0.3")
    async with open_team(tmp_path / "slow", ["clerk"], **slow) as team:
        await team.join(Clerk, PROFILE)
        result = await team.perform("clerk", "send_mail", **LETTER)
    assert "may have been sent or not" in result.error_message
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = environment(f"127.0.0.1:{closed.getsockname()[1]}")
        async with open_team(tmp_path / "away", ["clerk"], **away) as team:
            await team.join(Clerk, PROFILE)
            result = await team.perform("clerk", "send_mail", **LETTER)
    assert result.status is TaskStatus.FAILED
    assert "did not accept the mail" in result.error_message
    assert "\n" not in result.error_message


async def test_a_password_is_used_and_shown_nowhere(tmp_path: Path, smtp: str, inbox: Inbox) -> None:
    async with open_team(tmp_path / "right", ["clerk"], **environment(f"me%40x:p%40ss:word@{smtp}")) as team:
        await team.join(Clerk, PROFILE)
        assert (await team.perform("clerk", "send_mail", **LETTER)).status is TaskStatus.COMPLETED
    assert inbox.logins == ["me@x"]
    async with open_team(tmp_path / "wrong", ["clerk"], **environment(f"me:secret-word@{smtp}")) as team:
        await team.join(Clerk, PROFILE)
        result = await team.perform("clerk", "send_mail", **LETTER)
    assert result.status is TaskStatus.FAILED
    assert "secret-word" not in result.to_json().decode()


def test_settings_that_do_not_do_are_told_without_the_password() -> None:
    for url in ("", "http://x", "smtp://", "smtp://u:secret@h:port"):
        with pytest.raises(ActionError, match="There is no server to send mail with") as error:
            read_server(Settings(state_dir=Path("unused"), smtp_url=url))
        assert "secret" not in str(error.value)
    for sender in ("", "nobody", "a@b\r\nBcc: c@d"):
        with pytest.raises(ActionError, match="Mail has no sender"):
            write_message(
                Settings(state_dir=Path("unused"), smtp_sender=sender), "a@example.org", "Hi", "", "id"
            )
