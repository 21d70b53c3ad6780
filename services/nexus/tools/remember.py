"""Remember a fact for the team."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.following import is_part
from services.nexus.routing.request import Request
from services.nexus.tools.correct import CORRECTS, correct
from services.nexus.tools.keeping import keep
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back
from shared.contracts.conversation import SLOT

if TYPE_CHECKING:
    from services.nexus.desk import Desk

_LEAD = re.compile(
    r"(?i)^\W*(?:(?:please|pls|hey|ok|okay|nexus|yes|no|wait|oh|well|actually|can|could|would|you|i\s+want\s+you\s+to|just)\b[\s,]*)*"
    r"(?:remember|memori[sz]e|note(?:\s+(?:down|to\s+self))?|(?:keep|bear)\s+in\s+mind|so\s+(?:that\s+)?you\s+know|make\s+a\s+(?:mental\s+)?note"
    r"|take\s+a\s+note|save|store|write\s+down|"
    r"jot\s+down|log|keep|record|(?:add|put)\s+(?:in)?to\s+(?:(?:my|our|the|your)\s+)?(?:memory|notes?|knowledge)|for\s+the\s+record|fyi"
    r"|learn)\b"
    r"(?:\s+(?:this|it|that|of\s+that|for\s+later|down))*\s*[:,-]?\s*(?:that\b\s*)?"
)
_CLAUSE = re.compile(
    r"(?i)^\W*(?:[\w'’]+[\s,]+){1,10}?(?:remember(?:ed)?|memori[sz]ed?|know|knew|not(?:e|ed)|wr(?:ite|ote)|record(?:ed)?"
    r"|(?:keep|kept|bear|bore)\s+in\s+mind|(?:make|made|take|took)\s+a\s+note)(?:\s+(?:down|for\s+\w+))?\s+that\s+"
)
"""What leads to a fact as a clause: "it would help if you kept in mind that"."""
_NOTHING = re.compile(
    r"(?i)(?:you\s+should\s+(?:remember|note)\s+)?(?:something|a\s+thing|a\s+few\s+things)(?:\s+(?:for\s+(?:me|us)|please))?\W*"
)
"""Words that announce a fact without saying it."""


async def remember(desk: "Desk", request: Request, words: Words) -> Answer:
    """What was kept, word for word, and how to have it forgotten; what corrects a memory is told as that."""
    if CORRECTS.match(request.text) and not _LEAD.match(CORRECTS.sub("", request.text, count=1)):
        return await correct(desk, request, words)
    lead = _LEAD if _LEAD.match(request.text) else _CLAUSE
    fact = lead.sub("", request.text, count=1).strip()
    if fact == request.text.strip() and is_part(fact) and request.before_route in _KEPT:
        return ask_back("Is that a correction? Say the whole fact in a sentence.", f"correct that: {SLOT}")
    if len(fact.split()) < 2 or _NOTHING.fullmatch(fact):
        return ask_back("What shall I remember? Say it in a sentence.", f"remember that {SLOT}")
    return await keep(desk, request, fact)


_KEPT = ("tool:remember", "tool:correct")
_NEEDED = re.compile(
    r"(?i)^(?!\W*(?:(?:and|but|so|oh|ah|well|yes)\W+)*(?:i|we|he|she|they|do\s+you)\s+(?:\w+\s+)?remember\b)"
)
"""Not that a person remembers: "I remember when this was a cinema"."""
_SAYS = re.compile(
    r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
    r"(?:remember|memori[sz]e|keep in mind|note(?: down)?|make a note|take a note|jot down|for the record"
    r"|for future reference"
    r"|fyi|save this|store this|note to self)\b"
    r"(?!\s+(?:when|who|what|where|how|why|which|if|whether|me\b|to\s+remind|our\b|in\s+the\s+calendar)"
    r"|[^.!]*\?\s*$)"
)
"""How a message begins that is certainly for this tool."""
TOOL = Tool(
    name="remember",
    description="remembers facts for the team",
    needs=_NEEDED,
    says=_SAYS,
    run=remember,
    effect=Effect.WRITES,
)
