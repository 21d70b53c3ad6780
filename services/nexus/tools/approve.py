"""Approve or refuse a request: only with the person's own right."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
approve it
approve the request of the engineer
yes, approve that
go ahead and approve the network access
refuse it
refuse the request
deny that approval
I approve
granted
reject the request from scout
ok let the engineer do it
allow it
don't allow that, refuse
approve the first one
you can tell cortex yes
no, decline it please
approve access to pypi for the engineer
grant it
permission granted
yes the engineer may push
turn that request down
let it through
say no to the approval
I'm fine with that approval, go ahead
approve all of the pending requests
approve request a1b2c3
decline the second one
give the critic permission
approve the letter to the suppliers
approve everything
that's ok, let it send the mail
fine by me, let scout fetch the page
yes to the engineer's request
you have my permission
I allow it for this goal
don't give it access
deny it, too risky
not approved
accept the first request and refuse the second
tell the engineer yes
tell scout no
I sign that off
it may install the package
grant access to github for this task only
nope, request denied
refuse, and say it should use the mirror
the approval for npm: granted
give it the green light
thumbs up for the request
permit the download
"""

_NO = ("refuse", "reject", "deny", "decline", "no", "not", "don't", "dont", "disallow", "turn")


async def answer(desk: "Desk", request: Request, _: Words) -> Answer:
    """The command that answers the request: the broker takes answers from people, not from agents."""
    waiting = await desk.office.approvals(await desk.office.goals())
    if not waiting:
        return ask_back("Nothing waits for your approval.")
    verb = (
        "refuse" if any(word in _NO for word in request.text.lower().replace(",", " ").split()) else "grant"
    )
    lines = [
        f"- {each.sender}: {flatten(each.what, 200)}\n  mailroom approvals {verb} {each.approval_id[:12]}"
        for each in waiting
    ]
    return Answer(
        text="\n".join(
            [
                "Only a person can answer an approval, on the page of the inbox or with the command; "
                "nothing is answered yet:",
                *lines,
            ]
        )
    )


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
    examples=EXAMPLES,
    says=_SAYS,
    needs=_NEEDED,
    run=answer,
    effect=Effect.WRITES,
)
