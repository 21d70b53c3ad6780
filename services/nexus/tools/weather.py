"""The weather at a place."""

from typing import TYPE_CHECKING

import msgspec

from services.nexus.routing.request import Request
from services.nexus.tools.places import find_place
from services.nexus.tools.tool import Call, Tool

if TYPE_CHECKING:
    from services.nexus.desk import Desk


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a town, empty for where the office is, and for how many days from today, 1 to 16."""

    place: str = ""
    days: int = 3


def read(desk: "Desk", request: Request) -> Where:
    """The place that is named, if one is; a week if the message looks further ahead than some days."""
    lower = request.text.lower()
    return Where(place=find_place(request.text), days=8 if "week" in lower or "next" in lower else 3)


async def tell(desk: "Desk", request: Request, where: Where) -> Call:
    """The forecast."""
    return Call(
        assignee=desk.context.profile.name,
        action="tell_weather",
        params={"place": where.place, "days": min(max(where.days, 1), 16)},
    )


TOOL = Tool(
    name="weather",
    description="tells the weather at a place",
    run=tell,
    parameters=Where,
    read=read,
)
