"""What happens is told by mail, ntfy, webhooks and Telegram, once each, and replies are acted on."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import ApprovalRequest, DeadLetter, Delivery, DeliveryStatus, Email
from tests.support.channels import SECRET, ImapStub, MailStub, WebStub
from tests.support.gateway import RunningGateway
from tests.support.server import run_mailroom
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)


class Channels:
    """Servers for all channels, and a gateway that is told of them."""

    def __init__(self, folder: Path) -> None:
        self.mail, self.imap, self.web = MailStub(), ImapStub(), WebStub()
        self.folder = folder
        self.gateway = RunningGateway(folder)
        self._stack = contextlib.ExitStack()
        for server in (self.mail, self.imap, self.web):
            self._stack.enter_context(server)

    def write(self, *names: str, common: str = "") -> None:
        """Write a mailroom.toml with these channels."""
        secret = self.folder / "secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        tables = {
            "mail": f'smtp = "smtp://127.0.0.1:{self.mail.port}"\nsender = "office@example.org"\n'
            f'to = "ada@example.org"\nimap = "imap://ada@127.0.0.1:{self.imap.port}"\npoll = 0.2\n'
            f'imap_password_file = "{secret}"',
            "ntfy": f'url = "{self.web.root}/topic"\nurgency = "low"',
            "webhook": f'url = "{self.web.root}/hook"\nsecret_file = "{secret}"',
            "telegram": f'chat = 7\ntoken_file = "{secret}"\napi = "{self.web.root}"\nurgency = "low"',
        }
        sections = [f"[deliver.{name}]\n{tables[name]}\n" for name in names]
        config = self.gateway.config.state_dir / "mailroom.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(f"[deliver]\n{common}\n" + "\n".join(sections))

    async def close(self) -> None:
        await self.gateway.close()
        self._stack.close()

    async def restart(self) -> None:
        self.gateway.office.kill(subjects.GATEWAY)
        self.gateway.office.start(subjects.GATEWAY)
        await self.gateway.office.ready(subjects.GATEWAY)

    async def told(self) -> dict[str, Delivery]:
        """The last record of each delivery."""
        rows = await self.gateway.office.stored(subjects.record(subjects.GATEWAY, subjects.DELIVERY, "*"))
        records = [Delivery.from_json(data) for _, _, data in rows]
        return {each.delivery_id: each for each in records}


@pytest.fixture
async def channels(tmp_path: Path) -> AsyncIterator[Channels]:
    made = Channels(tmp_path)
    try:
        yield made
    finally:
        await made.close()


async def open_gateway(channels: Channels, *agents: str) -> None:
    """Open it, and wait until it follows the log."""
    await channels.gateway.open(*agents)
    await eventually(lambda: channels.gateway.shared("told"), 60)


async def remind(channels: Channels, text: str, reminder: str = "r0123456789") -> None:
    """Nexus sends a reminder."""
    bus = await channels.gateway.office.connect("nexus")
    try:
        email = Email(
            sender="nexus",
            recipient="user",
            subject=f"Reminder: {text}",
            body=f"{text}\n\nYou wanted to be reminded of this.\nDone: mailroom reminders done {reminder}",
        )
        await bus.commit([seal(subjects.mail("user", "nexus"), email)])
    finally:
        await bus.close()


async def ask_permission(channels: Channels, approval_id: str = "approval1") -> None:
    """An agent asks for permission."""
    bus = await channels.gateway.office.connect("engineer")
    try:
        request = ApprovalRequest(
            sender="engineer",
            recipient="user",
            approval_id=approval_id,
            what="git push origin main",
            why="it leaves this machine",
            expires_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        )
        await bus.commit([seal(subjects.approval_asked("engineer", approval_id), request)])
    finally:
        await bus.close()


async def test_a_reminder_is_told_on_every_channel_once(channels: Channels) -> None:
    channels.write("mail", "ntfy", "webhook", "telegram")
    await open_gateway(channels)
    await remind(channels, "call the bank")
    web = channels.web
    await eventually(lambda: channels.mail.mails and web.ntfy and web.hooks and web.sent, 60)
    mail = channels.mail.mails[0]
    assert mail["Subject"] == "Reminder: call the bank"
    assert "mailroom reminders" not in mail.get_content()
    assert "snooze 2 hours" in mail.get_content()
    assert web.ntfy[0]["title"] == web.hooks[0]["title"] == "Reminder: call the bank"
    assert web.hooks[0]["about"] == "r0123456789"
    assert web.sent[0]["reply_markup"]["inline_keyboard"][0][0]["text"] == "Done"

    async def all_delivered() -> bool:
        told = await channels.told()
        return [each.status for each in told.values()] == [DeliveryStatus.DELIVERED] * 4

    await eventually(all_delivered, 60)
    async with channels.gateway.client() as client:

        async def all_shown() -> bool:
            shown = (await client.get("/api/v1/deliveries")).json()["deliveries"]
            return [each["status"] for each in shown] == ["delivered"] * 4

        await eventually(all_shown)
        page = (await client.get("/api/v1/deliveries?limit=3")).json()
        assert [each["name"] for each in page["channels"]] == ["mail", "ntfy", "webhook", "telegram"]
        rest = (await client.get("/api/v1/deliveries", params={"before": page["next"]})).json()
        assert (len(page["deliveries"]), len(rest["deliveries"]), rest["next"]) == (3, 1, "")
        assert {each["status"] for each in page["deliveries"]} == {"delivered"}
        assert (await client.get("/api/v1/deliveries?before=x")).status_code == 422
    variables = channels.gateway.office.environment
    log = await asyncio.to_thread(run_mailroom, variables, "deliver", "log")
    assert log.stdout.count("Reminder: call the bank") == 4, log.stderr
    tried = await asyncio.to_thread(run_mailroom, variables, "deliver", "test", "ntfy")
    assert (tried.returncode, tried.stdout[:12]) == (0, "ok     ntfy "), tried.stderr
    assert web.ntfy.pop()["title"] == "Mailroom: a test"
    await channels.restart()
    await remind(channels, "water the plants")
    await eventually(lambda: len(channels.mail.mails) == 2 and len(web.hooks) == 2, 60)
    assert len(web.ntfy) == 2


async def fail_messages(channels: Channels, first: int, last: int) -> None:
    """Agents write dead letters."""
    bus = await channels.gateway.office.connect("engineer")
    try:
        for number in range(first, last):
            letter = DeadLetter(
                sender="engineer",
                recipient="user",
                reason=f"number {number:03d}",
                subject="tasks.submit",
                stream="OFFICE",
                stream_seq=1,
            )
            await bus.commit([seal(subjects.dead("engineer"), letter)])
    finally:
        await bus.close()


async def test_a_hundred_deliveries_with_kills_are_told_once_each(channels: Channels) -> None:
    channels.write("ntfy", "webhook", "mail")
    await open_gateway(channels)
    web, mails = channels.web, channels.mail.raw
    for round_ in range(5):
        writing = asyncio.create_task(fail_messages(channels, 7 * round_, 7 * round_ + 7))
        wanted = 7 * round_ + 1 + round_
        await eventually(lambda wanted=wanted: len({each["text"] for each in web.hooks}) >= wanted, 60)
        web.lose = round_ == 2  # the answers to what is sent just now are lost, too
        await channels.restart()
        web.lose = False
        await writing
    numbers = [f"number {number:03d}" for number in range(35)]
    await eventually(lambda: len({each["text"] for each in web.hooks}) == 35, 60)
    await eventually(lambda: len({each["message"] for each in web.ntfy}) == 35, 60)
    await eventually(lambda: len({_message_id(each) for each in mails}) == 35, 60)
    # ntfy is asked what it has; webhooks and mail that come a second time have the same id.
    assert sorted(each["message"] for each in web.ntfy) == numbers
    assert sorted({(each["id"], each["text"]) for each in web.hooks}, key=lambda pair: pair[1]) == [
        (next(each["id"] for each in web.hooks if each["text"] == number), number) for number in numbers
    ]
    assert len(web.hooks) <= 35 + 6
    assert len(mails) <= 35 + 5

    async def all_delivered() -> bool:
        return {each.status for each in (await channels.told()).values()} == {DeliveryStatus.DELIVERED}

    await eventually(all_delivered, 60)
    assert len(await channels.told()) == 105


def _message_id(mail: bytes) -> bytes:
    found = re.search(rb"(?m)^Message-ID:\s*(<.*?>)", mail)
    assert found
    return found[1]
