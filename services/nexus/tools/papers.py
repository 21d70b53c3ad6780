"""Papers on a topic."""

import re
from typing import TYPE_CHECKING

import msgspec

from services.nexus.routing.request import Request
from services.nexus.tools.places import find_topic
from services.nexus.tools.tool import Answer, Call, Tool, ask_back
from shared.contracts.conversation import SLOT

if TYPE_CHECKING:
    from services.nexus.desk import Desk


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """What it is about, in a few words."""

    topic: str = ""


def read(desk: "Desk", request: Request) -> Topic:
    """The topic that is named."""
    return Topic(topic=find_topic(request.text))


async def find(desk: "Desk", request: Request, about: Topic) -> Answer | Call:
    """The papers that frontier finds."""
    if not about.topic:
        what = "I can ask frontier for papers, but not about what. Name the topic."
        return ask_back(what, f"find papers on {SLOT}")
    return Call(assignee="frontier", action="find_papers", params={"topic": about.topic})


_NEEDED = re.compile(
    r"(?i)\b(?:papers?|articles?|arxiv|publi\w+|preprints?|research\w*|stud(?:y|ies)|literature|scien\w+|authors?|journals?|references?|"
    r"state of the art|survey|work on|doi|methods?|approaches|scholar|thesis|citations?"
    r"|sources)\b|\d{4}\.\d{4,5}"
)
"""Words of science."""
TOOL = Tool(
    name="papers",
    description="finds papers on a topic",
    needs=_NEEDED,
    run=find,
    parameters=Topic,
    read=read,
)
