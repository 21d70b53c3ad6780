"""The web: a page, or a search."""

import re
from typing import TYPE_CHECKING

import msgspec

from services.nexus.routing.request import Request
from services.nexus.tools.places import find_topic
from services.nexus.tools.tool import Answer, Call, Tool, ask_back
from shared.contracts.conversation import SLOT

if TYPE_CHECKING:
    from services.nexus.desk import Desk

_URL = re.compile(r"(?i)\bhttps?://[^\s<>\"'“”)]+|\bwww\.[^\s<>\"'“”)]+")
_COMMAND = re.compile(
    r"(?i)^\W*(?:(?:please|can|could|would|you|hey|just|quickly)\s+)*(?:(?:search|look|google|check|find|browse)\b"
    r"(?:\s+(?:up|out|for|online|on|the|web|internet|in|a|it))*|do\s+a\s+web\s+search\s+(?:on|for))\s*"
)


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """A page's address, or what to look for on the web."""

    url: str = ""
    query: str = ""


def read(desk: "Desk", request: Request) -> Lookup:
    """The address in the message, else what it asks."""
    if found := _URL.search(request.text):
        url = found[0].rstrip(".,;:!?")
        return Lookup(url=url if url.lower().startswith("http") else f"https://{url}")
    return Lookup(query=_COMMAND.sub("", request.text).strip(" ?.!") or find_topic(request.text))


async def look_up(desk: "Desk", request: Request, lookup: Lookup) -> Answer | Call:
    """The page's text, or the results of a search."""
    if lookup.url:
        return Call(assignee="scout", action="fetch_page", params={"url": lookup.url})
    if not lookup.query:
        return ask_back("What am I to look for on the web?", f"search the web for {SLOT}")
    return Call(assignee="scout", action="research", params={"question": lookup.query})


TOOL = Tool(
    name="web",
    description="searches the web and reads pages",
    run=look_up,
    parameters=Lookup,
    read=read,
)
