"""Greetings, thanks and other talk, answered shortly."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

_REPLIES = (
    (
        r"robot|machine|\bhuman|real\s+person|\bare\s+you\s+(?:an?\s+)?(?:ai|bot|person|program|computer|alive|real)|who\s+are\s+you|your\s+name",
        "I am Nexus, the front desk of this office: a program, no person.",
    ),
    (r"joke|funny|make\s+me\s+laugh", "A message queue walks into a bar. It leaves once it is acknowledged."),
    (
        r"thank|thx|cheers|appreciate|helpful|helped|\bstar\b|legend|great|perfect|well done|good job"
        r"|nice one|brilliant|awesome",
        "You are welcome.",
    ),
    (r"\b(?:bye|goodbye|good night|see you|that's all|nice weekend|later)\b", "Goodbye."),
    (
        r"how(?:['’]?s| is| are)? (?:you|we|things|it going|everyone|life)",
        "I am at work, thank you. What can I do for you?",
    ),
    (r"sorry|no worries|my mistake", "No harm done."),
    (
        r"tired|stressed|sad|hard|exhausted|angry|annoyed|ugh|frustrat",
        "I am sorry to hear that. If I can take something off your hands, say what.",
    ),
    (r"grant|accepted|won|passed|birthday|married|congrat|hurray|yay|🎉", "Congratulations!"),
    (
        r"\b(?:hi|hello|hey|morning|evening|afternoon|day|there)\b",
        "Hello. What can I do for you? 'What can you do?' lists it.",
    ),
)


async def reply(desk: "Desk", request: Request, _: Words) -> Answer:
    """A short sentence."""
    lower = request.text.lower()
    found = (text for pattern, text in _REPLIES if re.search(pattern, lower))
    return Answer(text=next(found, "All right."))


TOOL = Tool(
    name="small_talk",
    description="answers greetings and thanks",
    run=reply,
    hidden=True,
)
