"""What waits for the person: approvals, questions, dead letters."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk


async def tell(desk: "Desk", request: Request, _: Words) -> Answer:
    """The open requests for approval, agents' questions, and messages that could not be handled."""
    goals = await desk.office.goals()
    approvals, questions = await desk.office.approvals(goals), await desk.office.questions(goals)
    lines = [
        *(
            f"- {each.sender} asks to be allowed: {flatten(each.what, 200)} "
            f"(mailroom approvals grant {each.approval_id[:12]}, or refuse)"
            for each in approvals
        ),
        *(
            f"- {each.sender} asks: {flatten(each.subject or each.body, 200)} (mailroom mail read {each.id})"
            for each in questions
        ),
        *(
            f"- {each.count} dead letter{'s' * (each.count > 1)} of {each.agent}, the last: "
            f"{flatten(each.last.reason, 160)} (mailroom dead show {each.number})"
            for each in await desk.office.dead_letters()
        ),
    ]
    return Answer(text="\n".join(["Waiting for you:", *lines] if lines else ["Nothing waits for you."]))


TOOL = Tool(
    name="waiting",
    description="tells what waits for you: approvals, questions, messages that could not be handled",
    run=tell,
)
