"""A real IMAP server with one mailbox, on this machine: pymap, with its mails in memory."""

import contextlib
import imaplib
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from email.message import EmailMessage

from services.cli.supervisor.programs import free_port, is_listening
from tests.support.waiting import wait_for

USER, PASSWORD = "ada", "a-secret"


class ImapServer:
    """The mailbox of USER at ``address``."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.address = f"imap://{USER}@127.0.0.1:{port}"

    def put(
        self, sender: str, subject: str, text: str, *, at: str = "", flags: str = "", html: str = ""
    ) -> None:
        """Have a mail arrive, at a time such as 2026-03-18T09:00:00+01:00 (default: now)."""
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = sender, "ada@example.org", subject
        mail.set_content(text)
        if html:
            mail.set_content(html, subtype="html")
        self.put_raw(bytes(mail), at=at, flags=flags)

    def put_raw(self, raw: bytes, *, at: str = "", flags: str = "") -> None:
        """Have these bytes arrive."""
        moment = datetime.fromisoformat(at).timestamp() if at else time.time()
        with self._box() as box:
            assert box.append("INBOX", flags, imaplib.Time2Internaldate(moment), raw)[0] == "OK"

    def unread(self) -> int:
        """How many mails are not marked as read."""
        with self._box() as box:
            box.select(readonly=True)
            return len(box.search(None, "UNSEEN")[1][0].split())

    @contextlib.contextmanager
    def _box(self) -> Iterator[imaplib.IMAP4]:
        with imaplib.IMAP4("127.0.0.1", self.port, timeout=10) as box:
            box.login(USER, PASSWORD)
            yield box


@contextlib.contextmanager
def run_imap_server() -> Iterator[ImapServer]:
    """The server, until the block ends."""
    port = free_port()
    program = [sys.executable, "-c", "from pymap.main import main; main()"]
    options = ["--host", "127.0.0.1", "--port", str(port), "--no-tls"]
    mailbox = ["dict", "--demo-user", USER, "--demo-password", PASSWORD]
    process = subprocess.Popen(
        [*program, *options, *mailbox], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: is_listening(port))
        yield ImapServer(port)
    finally:
        process.kill()
        process.wait()
