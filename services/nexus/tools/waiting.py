"""What waits for the person: approvals, questions, dead letters, failed goals."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words
from shared.text.phrases import count
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk


async def tell(desk: "Desk", request: Request, _: Words) -> Answer:
    """All that waits, as the page of the inbox has it."""
    waiting = await desk.office.waiting(await desk.office.goals())
    lines = [
        *(
            f"- {each.sender} asks to be allowed: {flatten(each.what, 200)} "
            f"(mailroom approvals grant {each.approval_id[:12]}, or refuse)"
            for each in waiting.approvals
        ),
        *(
            f"- {each.sender} asks: {flatten(each.subject or each.body, 200)} (mailroom mail show {each.id})"
            for each in waiting.questions
        ),
        *(
            f"- {count(each.count, 'dead letter')} of {each.agent}, the last: "
            f"{flatten(each.last.reason, 160)} (mailroom dead show {each.number})"
            for each in waiting.dead_letters
        ),
        *(
            f"- Failed: {flatten(each.text, 120)} - {flatten(each.reason or each.answer, 160)} "
            f"(mailroom show {each.goal_id}, or retry)"
            for each in waiting.failed_goals
        ),
    ]
    head = f"{count(waiting.count, 'thing')} {'waits' if waiting.count == 1 else 'wait'} for you:"
    return Answer(text="\n".join([head, *lines] if lines else ["Nothing waits for you."]))


TOOL = Tool(
    name="waiting",
    description="tells what waits for you: approvals, questions, messages that could not be handled",
    run=tell,
    personal=True,
)
