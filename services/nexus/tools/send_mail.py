"""Mail to a person, or a letter to an agent."""

import re
from typing import TYPE_CHECKING

import msgspec

from services.nexus.routing.request import Request
from services.nexus.routing.speech_acts import LETTER
from services.nexus.tools.tool import Answer, Call, Effect, Tool, ask_back
from shared import subjects
from shared.bus.entry import seal
from shared.contracts.conversation import SLOT

if TYPE_CHECKING:
    from services.nexus.desk import Desk

_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_BODY = re.compile(
    r"(?is)(?:\bthat\b|\bsaying\b|\basking\b|:|\bto\s+ask\b|\bto\s+say\b|\babout\b|\bto\s+look\b)\s*(?P<body>.+)$"
)
_AGENTS = ("scout", "engineer", "critic", "cortex", "frontier", "conductor")


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A mail address or an agent's name, a subject and the text."""

    recipient: str = ""
    subject: str = ""
    body: str = ""


def read(desk: "Desk", request: Request) -> Letter:
    """The recipient and the text that the message names."""
    address = _ADDRESS.search(request.text)
    agent = next((name for name in _AGENTS if re.search(rf"\b{name}\b", request.text.lower())), "")
    body = _BODY.search(_ADDRESS.sub("", request.text))
    text = body["body"].strip() if body else ""
    return Letter(recipient=address[0] if address else agent, subject=text[:80], body=text)


async def send(desk: "Desk", request: Request, letter: Letter) -> Answer | Call:
    """The letter to an agent, or the mail to a person at an address that the settings allow."""
    if not letter.recipient:
        where = "To which address, or to which agent? For example: ana@example.org"
        return ask_back(where, f"{request.text} {SLOT}")
    if not letter.body.strip():
        return ask_back("What shall I write?", f"{request.text}: {SLOT}")
    if letter.recipient in _AGENTS:
        mail = desk.make_letter(request, letter.recipient, letter.subject, letter.body)
        entry = seal(subjects.mail(letter.recipient, mail.sender), mail)
        return Answer(text=f"I wrote to {letter.recipient}: {letter.body}", entries=(entry,))
    params = {"recipient": letter.recipient, "subject": letter.subject or "A message", "body": letter.body}
    return Call(assignee=desk.context.profile.name, action="send_mail", params=params)


_NEEDED = re.compile(r"(?is)^(?!.*\b(?:do\s+not|don['’]?t|dont|without|before\s+you)\s+send)")
"""No word that it is not to be sent."""
TOOL = Tool(
    name="send_mail",
    description="sends mail to people you allowed, and letters to agents",
    needs=_NEEDED,
    says=LETTER,
    run=send,
    effect=Effect.WRITES,
    parameters=Letter,
    read=read,
)
