"""Replies are read again after the mail server was away."""

import asyncio
import contextlib
from typing import Any

from services.cli.supervisor.programs import free_port
from services.gateway.delivery import replies
from shared.delivery.channels import Mail, Reply
from tests.support.channels import SECRET, ImapStub


class Taken:
    """What follows from replies, and a sign that one came."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    async def take(self, name: str, _: Any, reply: Reply) -> None:
        assert (name, reply.ignored) == ("post", "its sender is not among those allowed")
        self.came.set()


async def test_a_server_that_was_away_is_asked_again(monkeypatch: Any) -> None:
    monkeypatch.setattr(replies, "PAUSE", 0.05)
    port, taken = free_port(), Taken()
    mail = Mail(
        smtp="smtp://127.0.0.1",
        sender="office@example.org",
        to="ada@example.org",
        imap=f"imap://ada@127.0.0.1:{port}",
        imap_password=SECRET,
        poll=0.05,
    )
    task = asyncio.create_task(replies.listen("post", mail, taken))  # type: ignore[arg-type]
    await asyncio.sleep(0.3)
    assert not task.done()
    with ImapStub(port) as imap:
        imap.mails.append(b"From: eve@example.org\r\nIn-Reply-To: <mailroom.d1.0@example.org>\r\n\r\nhello")
        await asyncio.wait_for(taken.came.wait(), 30)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
