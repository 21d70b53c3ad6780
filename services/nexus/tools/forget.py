"""Forget something: it says what, and a person confirms."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.keeping import find_hits
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back, command
from shared.contracts import AskedBack, Choice, Node
from shared.contracts.conversation import SLOT
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk

_LEAD = re.compile(
    r"(?i)^\W*(?:(?:please|pls|hey|ok|okay|nexus|can|could|would|you|i\s+want\s+you\s+to|just)\b[\s,]*)*"
    r"(?:forget|unlearn|erase|wipe|delete|drop|remove|purge|clear|strike|get\s+rid\s+of|lose|scratch)\b\s*"
    r"(?:(?:about|of|all|everything|anything|that|the|this|what|thing|things|note|notes|fact|facts|memory|entry|line|info"
    r"|data|you\s+know|you\s+remember|i\s+(?:told|said)(?:\s+to)?(?:\s+you)?|said|concerning|on|regarding)\b\s*)*"
)
"""What comes before that which is to be forgotten."""

_NAMED = re.compile(r"memory (?P<id>[\w-]+)")
"""A memory by its id."""
ERASED = (
    "Nothing is forgotten yet: a text is erased for good, from the logs too, and only by a person. "
    "The command that erases it after a yes:"
)
MOST = 3
"""The most memories that are offered at once."""


async def forget(desk: "Desk", request: Request, _: Words) -> Answer:
    """What would be forgotten, and how: erasing for good is a person's own act, so nothing is erased here."""
    if (named := _NAMED.fullmatch(request.text)) and (nodes := await desk.context.memory.get(named["id"])):
        return _offer(nodes)
    about = _LEAD.sub("", request.text, count=1).strip(" .!?") or request.text
    hits = (await find_hits(desk, about))[:MOST]
    if not hits:
        return ask_back("Memory holds nothing like that. Which memory do you mean?", f"forget {SLOT}")
    return _offer([hit.node for hit in hits])


def _offer(nodes: Sequence[Node]) -> Answer:
    """What each memory says, and the command that erases it; "yes" after a single one says so again."""
    lines = [f"- {flatten(node.title, 200)}: mailroom memory forget {node.id}" for node in nodes]
    again = Choice(label="Yes", text=command("forget", f"memory {nodes[0].id}"))
    return Answer(
        text="\n".join([ERASED, *lines]),
        citations=tuple(node.id for node in nodes),
        asks=AskedBack(choices=(again, Choice(label="No"))) if len(nodes) == 1 else None,
    )


_SAYS = re.compile(
    r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
    r"(?:forget|unlearn|erase|wipe)\s+(?!it\b|to\b|the\s+(?:reminder|alarm|timer|goal|job|check)|about\s+it\b)(?![^.!]*\?\s*$)"
    r"(?![^.!]*\b(?:new|now|cancel|reminder|rules|instructions)\b)"
)
"""How a message begins that is certainly for this tool."""
TOOL = Tool(
    name="forget",
    description="finds what is to be forgotten, and says how",
    says=_SAYS,
    run=forget,
    effect=Effect.WRITES,
)
