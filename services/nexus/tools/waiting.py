"""What waits for the person: approvals, questions, dead letters."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
what are you waiting for from me?
what is waiting for me?
anything I need to approve?
are there any open approvals?
do you need anything from me
which approvals are pending?
what's in my inbox that needs a decision?
is anything blocked on me?
what needs my attention?
do any of the agents have a question for me?
are there questions I haven't answered
show me the approval requests
list approvals
any dead letters?
what are the dead letters about
does anyone wait for my answer?
what do I have to decide?
who needs something from me
pending requests?
is somebody asking for permission
what do you need my ok for?
am I holding anything up?
did any agent ask me something?
any requests for access that I should look at
what's still waiting for a yes or no from me
messages that could not be delivered?
is there anything to sign off
why is the engineer waiting?
open questions for me?
what's stuck waiting on a human
what are the open questions from the agents
why did the message to the engineer bounce?
do I owe anyone an answer
is anyone stuck because of me
what do I need to sign
which permissions are they asking for
what does cortex want from me
is there something to confirm
any decisions pending on my side
what requires my approval today
show what's pending
who is waiting on me
what's holding up the engineer
does scout need access to something?
any unanswered requests
do you have questions?
have I forgotten to answer something
are there approvals that expire soon
what can I unblock
is there anything left for me to OK
what's waiting for me
anything I need to sign off?
do you guys need something from me
open approvals?
Are there any questions from the agents that I haven't answered
is anything blocked because of me
what do i have to decide today
show pending requests
I was away two days, is there stuff sitting there for my OK?
which messages couldn't be delivered
who is waiting on an answer from me
list all approvals please
did anyone ask me something while I was teaching
Is there any permission outstanding which I must give
hows my inbox of questions looking, the ones from the workers i mean
got anything for me to approve
what's stuck in the dead letter box
how many decisions are pending on my side
Do the agents wait for something?
before I go home, tell me if there is something that only I can release
what are the oldest approvals
any permission slips for me to stamp lol
please show me what needs my confirmation
is there still that question about the venue open
Was there something I should have said yes or no to?
things waiting on me, go
do I owe anybody a reply in the office
any undelivered stuff lying around
could you read me the questions that are pending
"""


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
    examples=EXAMPLES,
    run=tell,
)
