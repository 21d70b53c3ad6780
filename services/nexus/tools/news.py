"""The news."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk


async def read_news(desk: "Desk", request: Request, _: Words) -> Call:
    """The latest items of the feeds."""
    return Call(assignee="frontier", action="monitor_ai_news")


TOOL = Tool(
    name="news",
    description="reads the latest news of your feeds",
    run=read_news,
)
