"""What people reply to the channels of tests/support/channels.py."""

import re
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

from tests.support.channels import ImapStub


def reply_to(mail: EmailMessage, text: str, **changes: str) -> EmailMessage:
    """A reply as a person's program writes it; ``changes`` are headers, such as ``From``."""
    reply = EmailMessage(policy=SMTP.clone(max_line_length=900))
    headers = {
        "From": "Ada <ada@example.org>",
        "To": "office@example.org",
        "Subject": f"Re: {mail['Subject']}",
        "Message-ID": f"<{abs(hash((text, *changes.items())))}@example.org>",
        "In-Reply-To": str(mail["Message-ID"]),
    }
    for name, value in (headers | {name.replace("_", "-"): value for name, value in changes.items()}).items():
        reply[name] = value
    quoted = "\n".join(f"> {line}" for line in mail.get_content().splitlines())
    reply.set_content(f"{text}\n\nOn Monday Mailroom wrote:\n{quoted}\n")
    return reply


def put(imap: ImapStub, *mails: EmailMessage) -> None:
    """Have mails arrive in the mailbox."""
    imap.mails.extend(bytes(mail) for mail in mails)


def code_in(mail: EmailMessage) -> str:
    """The code that came with a request."""
    found = re.search(r"approve ([2-9A-Z]{6})\b", mail.get_content())
    assert found
    return found[1]


def pressed(number: int, person: int, data: str) -> dict[str, Any]:
    """A button was pressed below a message of the bot."""
    message = {"message_id": 101, "chat": {"id": 7}}
    return {
        "update_id": number,
        "callback_query": {"id": str(number), "from": {"id": person}, "data": data, "message": message},
    }


def wrote(number: int, person: int, text: str) -> dict[str, Any]:
    """A person wrote to the bot."""
    message = {"message_id": 500 + number, "chat": {"id": person}, "from": {"id": person}, "text": text}
    return {"update_id": number, "message": message}
