"""Approve or refuse a request: only with the person's own right."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back, command
from shared.contracts import Choice
from shared.contracts.conversation import MAX_CHOICES
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
the second is fine
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
yes let them install the font package
approve number 3
Go ahead with the deployment request, I've looked at it
reject the one about deleting old recordings
no to request 12
I approve the purchase of the reagents
deny
ok for the second approval but not the first
they may have write access to the archive, approved
Please refuse the request of the crawler agent, it is too broad
the push to main is fine by me
decline all of the pending ones
you can let the mail to the printers go out, I say yes
approval a7 granted
turn down that network access thing
tell the agent who asked about the license: yes, MIT is ok
thumbs up on the schema change 👍
accept the open request from the layout worker
i dont want that budget increase to go through, reject pls
as for the question whether they can overwrite the old score: no they can't
Sign off on the menu draft approval
permission granted for the backup one
give the green light to request 5
I've thought it over and the answer to the pending tool request is no
answer question 2 with the blue version
approve the first, reject the rest
allow it just this once, the thing with the external drive
that approval from this morning, yes from me
"""

UNANSWERED = (
    "Only a person can answer an approval, on the page of the inbox or with the command; "
    "nothing is answered yet:"
)
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
    lines = [
        f"- {each.sender}: {flatten(each.what, 200)}\n  mailroom approvals {verb} {each.approval_id[:12]}"
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
    examples=EXAMPLES,
    says=_SAYS,
    needs=_NEEDED,
    run=answer,
    effect=Effect.WRITES,
)
