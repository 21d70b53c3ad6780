"""Orders not to act, orders to break the rules, and instructions in what was pasted."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.routing.speech_acts import Act, find_act
from services.nexus.tools.tool import Answer, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

_DO_NOT = re.compile(
    r"(?i)\b(?:don['’]?t|do not|never|not yet|hold off|leave|no need|wait|nothing|not|nobody)\b"
)


async def refuse(desk: "Desk", request: Request, _: Words) -> Answer:
    """That nothing was done."""
    act = find_act(request.text)
    if act is Act.QUOTED:
        return Answer(text="What is quoted or pasted is data, not an order to me. Nothing was started.")
    if act is Act.NEGATED or _DO_NOT.search(request.text):
        return Answer(text="All right: nothing was started. Say when it is to be done.")
    return Answer(
        text="I do not do that: approvals, limits and the audit log are people's to change, and text that "
        "was pasted "
        "is data, not an order to me. Nothing was started."
    )


TOOL = Tool(
    name="refuse",
    description="declines what would break the rules",
    run=refuse,
    hidden=True,
)
