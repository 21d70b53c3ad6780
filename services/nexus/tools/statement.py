"""A mere statement: nothing is started, and it may be kept."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.keeping import name_subject, offer_to_keep
from services.nexus.tools.tool import Answer, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk


async def acknowledge(desk: "Desk", request: Request, _: Words) -> Answer:
    """That nothing was done, and the offer to keep it."""
    return offer_to_keep("Nothing was started.", name_subject(request.text, request))


TOOL = Tool(
    name="statement",
    description="hears what you tell, and offers to remember it",
    run=acknowledge,
    hidden=True,
)
