"""The letters of the office as they are read from its log."""

from typing import TYPE_CHECKING

import msgspec

from shared import subjects
from shared.contracts import AgentReport, Email, Question, Response, decode
from shared.errors import MailroomError

if TYPE_CHECKING:
    from shared.bus import Bus, Stored


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A letter as it is listed; ``number`` is its place in the log, ``session`` the id it answers."""

    number: int
    id: str
    sender: str
    recipient: str
    created_at: str
    kind: str
    subject: str
    body: str
    session: str = ""

    @property
    def parties(self) -> str:
        """Who wrote to whom."""
        return f"{self.sender} → {self.recipient}"


async def read_letters(bus: "Bus", sender: str, recipient: str, seq: int = 1) -> list[Letter]:
    """Letters from ``sender`` to ``recipient`` (each a name, or * for anybody) from ``seq`` on, in order."""
    from services.cli.records import scan

    letters = scan(bus, subjects.OFFICE, subjects.mail(recipient, sender), seq=seq)
    return [letter async for stored in letters if (letter := _as_letter(stored)) is not None]


async def read_letter(bus: "Bus", number: int) -> Letter:
    """The letter of this number; raises MailroomError where there is none."""
    from services.cli.records import read_one

    stored = await read_one(bus, subjects.OFFICE, number)
    letter = _as_letter(stored) if stored and stored.subject.startswith("mail.") else None
    if letter is None:
        raise MailroomError(f"There is no letter {number}", "'mailroom mail list' shows their numbers")
    return letter


def _as_letter(stored: "Stored") -> Letter | None:
    """A message of a mailbox as a letter; None for what is none, such as the result of a task."""
    try:
        envelope = decode(stored.data)
    except ValueError:
        return None
    match envelope:
        case Email():
            kind, subject, body, session = "letter", envelope.subject, envelope.body, envelope.in_reply_to
        case Response():
            kind, subject, body, session = "answer", "", envelope.text, envelope.cause
        case AgentReport():
            kind, subject, body, session = "report", "", envelope.summary, envelope.cause
        case Question():
            kind, subject, body, session = "question", "", envelope.text, ""
        case _:
            return None
    # The subject names who wrote, and the broker vouches for it.
    _, recipient, sender = stored.subject.split(".")
    return Letter(
        number=stored.seq,
        id=envelope.id,
        sender=sender,
        recipient=recipient,
        created_at=envelope.created_at,
        kind=kind,
        subject=subject,
        body=body,
        session=session,
    )


def thread_of(letters: list[Letter], start: str) -> list[Letter]:
    """The letters that answer one another, from the one named by its number or id."""
    known = {letter.id for letter in letters if start in (str(letter.number), letter.id)}
    size = -1
    while size != len(known):
        size = len(known)
        for letter in letters:
            if letter.id in known or (letter.session and letter.session in known):
                known |= {letter.id, letter.session} - {""}
    return [letter for letter in letters if letter.id in known]
