"""Mail to people, by SMTP: only to the addresses in the settings, and never twice without saying so."""

import re
import ssl
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, parseaddr
from urllib.parse import unquote, urlsplit

import msgspec

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import Email, SentEmail
from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action
from shared.text.display import flatten, flatten_lines, format_network_error
from shared.web.quoting import clean

LONGEST = 90_000  # The most characters of a body: far more than anyone reads
PLAIN = SMTP.clone(cte_type="7bit", max_line_length=900)
"""Every server takes seven bits. A long id in a shorter line would be encoded, and no program would know it
again."""
LONGEST_SUBJECT = 500
PORTS = {"smtp": 587, "smtps": 465}
LOCAL = ("localhost", "127.0.0.1", "::1")
UNSAFE = re.compile(r"[\r\n\0\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Characters that some programs treat as the end of a line."""
_ID = re.compile(r"<[!-;=?-~]{1,800}>")  # A Message-ID


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """A mail server; ``smtps`` uses TLS from the start, ``smtp`` as soon as it is offered."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = ""


class MailSkill(Skill):
    """Sends mail to people."""

    @register_action(
        "Send mail to a person, at one of the addresses that the settings allow",
        {
            "recipient": "The person's mail address",
            "subject": "One line",
            "body": "The text of the mail",
        },
        personal=True,
    )
    async def send_mail(self, recipient: str, subject: str, body: str) -> Outcome:
        """Sent when it returns; a task begun again finds what it sent before and does not send it again.

        Raises ActionError if the address is not among those allowed or the server does not take the
        letter, and Reject if an attempt was interrupted in the middle: then nobody knows.
        """
        settings = self.context.settings
        server, address = read_server(settings), allow_recipient(recipient, settings)
        mail_id = self.context.bus.derive_id("mail", self.context.task.task_id, address, subject, body)
        message = write_message(settings, address, subject, body, mail_id)
        record = subjects.record(self.context.profile.name, "mail", mail_id)
        stored = await self.context.bus.last(subjects.OFFICE, record)
        if stored is not None:
            return Outcome(output=f"This mail to {address} was sent before, so it is not sent again.")
        async with self.context.effect(f"send mail to {address}: {clean(subject, 100)} ({mail_id[:8]})"):
            refused = await submit_message(server, message, settings.http_timeout)
        if refused is not None:
            raise refused
        letter = Email(
            sender=self.context.profile.name,
            recipient=subjects.USER,
            subject=subject,
            body=f"To {address}\n\n{body}",
        )
        sent = SentEmail(sender=self.context.profile.name, email=letter)
        # in one commit with the end of the effect: from here on no attempt sends it again
        await self.context.current_task.progress(f"sent mail to {address}", [seal(record, sent, expect=0)])
        return Outcome(
            output=f"Sent to {address}: {clean(subject, 100)}",
            data={"recipient": address, "message_id": str(message["Message-ID"])},
            evidence_refs=(f"mail:{mail_id}",),
        )


def read_server(settings: Settings) -> MailServer:
    """The server in the setting smtp_url; raises ActionError, which never shows the password."""
    try:
        parts = urlsplit(settings.smtp_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in PORTS or not parts.hostname:
        raise ActionError(
            "There is no server to send mail with",
            "Set MAILROOM_SMTP_URL, such as smtp://user:password@mail.example.org:587",
        )
    return MailServer(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or PORTS[parts.scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def allow_recipient(recipient: str, settings: Settings) -> str:
    """The address as the setting smtp_recipients has it; raises ActionError if it is not among them."""
    for address in settings.smtp_recipients:
        if address.casefold() == recipient.strip().casefold():
            return address
    raise ActionError(
        f"Mail to {clean(recipient, 100)!r} is not allowed",
        f"The setting smtp_recipients allows {', '.join(settings.smtp_recipients) or 'nobody'}",
    )


def write_message(settings: Settings, recipient: str, subject: str, body: str, mail_id: str) -> EmailMessage:
    """The letter, with an id by which a mail server knows it again; raises ActionError for a bad subject."""
    sender = settings.smtp_sender
    if not sender or UNSAFE.search(sender) or "@" not in sender:
        raise ActionError("Mail has no sender", "Set MAILROOM_SMTP_SENDER to an address")
    if UNSAFE.search(subject) or UNSAFE.search(recipient):
        raise ActionError("A subject is one line", "Leave line breaks to the body")
    if not subject.strip() or len(subject) > LONGEST_SUBJECT or len(body) > LONGEST:
        raise ActionError(f"Mail has a subject of 1 to 500 characters and at most {LONGEST:,} in its body")
    return make_mail(sender, recipient, subject, body, mail_id)


def make_mail(
    sender: str, recipient: str, subject: str, body: str, mail_id: str, thread: str = ""
) -> EmailMessage:
    """The only maker of mails: one with these headers and no others, whatever the texts hold.

    ``sender`` is the settings'; the domain of its address ends the Message-ID. ``thread`` is the Message-ID
    that it answers, left out if it is none.
    """
    message = EmailMessage(policy=PLAIN)
    message["From"], message["To"] = sender, write_header(recipient)
    message["Subject"] = write_header(subject) or "Mailroom"
    message["Date"] = formatdate(usegmt=True)
    message["Message-ID"] = f"<{mail_id}@{sender.rpartition('@')[2].strip('> ')}>"
    message["Auto-Submitted"] = (
        "auto-generated"  # so that no holiday notice answers it; Exchange reads the next
    )
    message["X-Auto-Response-Suppress"] = "All"
    if _ID.fullmatch(thread) and thread == write_header(thread):
        message["In-Reply-To"] = message["References"] = thread
    message.set_content(flatten_lines(body))
    return message


def write_header(text: str) -> str:
    """``text`` as a header shows it: one line, which says the same after it is decoded.

    EmailMessage decodes encoded words (RFC 2047), as every reader does, and a line break in one begins a
    header: what would be one is taken apart.
    """
    return flatten(text, LONGEST_SUBJECT).replace("=?", "= ?")


async def submit_message(server: MailServer, message: EmailMessage, timeout: float) -> ActionError | None:
    """Give ``message`` to the server, within ``timeout`` seconds for each step.

    What is returned says why it was certainly not sent; an ActionError is raised if nobody can know. A
    password is sent only over TLS, or to this machine itself.
    """
    import aiosmtplib

    where = f"The mail server {server.host}:{server.port}"
    begun = False
    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        timeout=timeout,
        use_tls=server.scheme == "smtps",
        tls_context=ssl.create_default_context(),
    )
    try:
        async with client:
            if server.user:
                if client.get_transport_info("sslcontext") is None and server.host not in LOCAL:
                    return ActionError(f"{where} offers no TLS, so the password is not sent to it")
                await client.login(server.user, server.password)
            await client.mail(parseaddr(str(message["From"]))[1])
            await client.rcpt(str(message["To"]))
            begun = True
            await client.data(message.as_bytes())
    except (aiosmtplib.SMTPException, OSError, ValueError) as error:
        reason, cure = _explain(error, timeout)
        if begun and not isinstance(error, aiosmtplib.SMTPResponseException | ValueError):
            cause = f"{where} broke off while receiving the mail ({reason}), which may have been sent or not"
            raise ActionError(cause, "Ask the person before it is sent again") from None
        return ActionError(f"{where} did not accept the mail ({reason})", cure)
    return None


def _explain(error: Exception, timeout: float) -> tuple[str, str]:
    """Why a server did not take a mail, and what to do."""
    import aiosmtplib

    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s", "Check the server's name and port"
    if isinstance(error, aiosmtplib.SMTPResponseException):
        reason = clean(f"{error.code} {error.message}", 200).rstrip(".")
        cures = {
            aiosmtplib.SMTPAuthenticationError: "Check the user and the password",
            aiosmtplib.SMTPSenderRefused: "Check the sender's address",
            aiosmtplib.SMTPRecipientRefused: "Check the recipient's address",
        }
        later = "Try again later: the server says that this may pass"
        return reason, later if 400 <= error.code < 500 else cures.get(type(error), "Ask who runs the server")
    if "AUTH extension" in str(error):
        return (
            "it takes no password",
            "Leave the user out of the address, or use the port that it takes one on",
        )
    return format_network_error(error), "Check the server's name and port"
