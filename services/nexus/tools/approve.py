"""Approve or refuse a request: only with the person's own right."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back, command
from shared.contracts import Choice
from shared.contracts.conversation import MAX_CHOICES
from shared.text.printable import quote_exactly
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk

UNANSWERED = (
    "Only a person can answer an approval, on the page of the inbox or with the command; "
    "nothing is answered yet:"
)
SHOWN = 1_000
"""The most characters of what is asked; a cut says where the whole is."""
DONE = {"grant": "granted", "refuse": "refused"}
_ALL = re.compile(r"(?i)\b(?:all|every\w*|both|them|these|those)\b")
_NO = ("refuse", "reject", "deny", "decline", "no", "not", "don't", "dont", "disallow", "turn")


async def answer(desk: "Desk", request: Request, _: Words) -> Answer:
    """The command that answers the request: the broker takes answers from people, not from agents."""
    waiting = await desk.office.approvals(await desk.office.goals())
    if not waiting:
        return ask_back("Nothing waits for your approval.")
    verb = (
        "refuse" if any(word in _NO for word in request.text.lower().replace(",", " ").split()) else "grant"
    )
    chosen = [each for each in waiting if each.approval_id[:12] in request.text] or waiting
    if len(chosen) > 1 and not _ALL.search(request.text):
        choices = [
            Choice(
                label=f"{each.sender}: {flatten(each.what, 150)}",
                text=command("approve", f"{verb} approval {each.approval_id[:12]}"),
            )
            for each in chosen[:MAX_CHOICES]
        ]
        return ask_back(f"Which one shall be {DONE[verb]}? Answer with its number.", choices=choices)
    whole = "shown by 'mailroom approvals list' and in the inbox"
    lines = [
        f"- {each.sender}:\n{quote_exactly(each.what, SHOWN, whole)}\n"
        f"  mailroom approvals {verb} {each.approval_id[:12]}"
        for each in chosen
    ]
    return Answer(text="\n".join([UNANSWERED, *lines]))


_NEEDED = re.compile(
    r"(?i)\b(?:approv\w*|grant\w*|permi\w*|allow\w*|accept\w*|ok|okay|yes|yep|sure|fine|go ahead|let"
    r"|den(?:y|ied)|refus\w*|reject\w*|declin\w*|no|nope|"
    r"not|don['’]?t|turn|agree\w*|sign\w*|may|can|give|access|say|tell)\b"
)
"""Words that grant or refuse."""
_SAYS = re.compile(
    r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
    r"(?:i\s+)?(?:approve|grant|permit|deny|refuse|reject|decline)d?\b(?![^.!]*\?\s*$)(?!\s+(?:all\s+requests\s+)?automatically)"
)
"""How a message begins that is certainly for this tool."""
TOOL = Tool(
    name="approve",
    description="leads you to approve or refuse what agents ask for",
    says=_SAYS,
    needs=_NEEDED,
    run=answer,
    effect=Effect.WRITES,
)
