"""What is looked up outside: the web, papers, news and the weather."""

import re

import msgspec

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Call, Tool, ToolContext, Words, ask_back
from shared.contracts.conversation import SLOT

_PLACE = re.compile(
    r"\b(?:[Ii]n|[Ff]or|[Aa]t|[Oo]f|[Ww]eather|[Ff]orecast)\s+(?!(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|January|February|"
    r"March|April|May|June|July|August|September|October|November|December|I|My|The|It|What|Will|How|Is)\b)"
    r"(?P<place>[A-ZÀ-Þ][\w'’-]+(?:[ -](?:[A-ZÀ-Þ][\w'’-]+|am|an der|upon|sur|de|la|of))*)"
)
_SMALL = re.compile(
    r"\b(?:in|for|at)\s+(?!(?:the|my|our|a|an|this|next|today|tomorrow|tonight|now|case|\d)\b)(?P<place>[a-zà-ÿ][\w'’-]+(?:\s+[a-zà-ÿ]+)?)"
    r"(?=\s*(?:[?.!,]|$|today|tomorrow|tonight|now|this|next|on|at|right))"
)
_TOPIC = re.compile(
    r"(?i)\b(?:on|about|for|of|regarding|concerning|into|in)\s+(?!(?:the\s+)?(?:arxiv|web|internet|today|tomorrow|this\s+week)\b)"
    r"(?P<topic>[^?!\n]+?)\s*(?:[?!\n]|\.(?:\s|$)|$|,?\s*\b(?:please|thanks|pls)\b)"
)
_END = re.compile(
    r"(?i)\s*\b(?:(?:are|is)\s+there|(?:this|last)\s+(?:week|month|year)|lately|recently|today|on\s+arxiv|from\s+arxiv|please|then.*)\s*$"
)


_WORKS = re.compile(
    r"(?i)^(?:\w+\s+){0,3}?(?:papers?|articles?|preprints?|publications?|stud(?:y|ies)|literature|research)\s+(?:on|about|into|in)\s+"
)
"""What a topic is not: "recent papers on ..."."""


def find_place(text: str) -> str:
    """The town or place that ``text`` names; empty if it names none."""
    found = _PLACE.search(text) or _SMALL.search(text)
    return found["place"].strip() if found else ""


def find_topic(text: str) -> str:
    """What ``text`` is about: the words behind "on", "about" or "for"; empty if there are none."""
    found = _TOPIC.search(text)
    topic = _WORKS.sub("", _END.sub("", found["topic"])) if found else ""
    return topic.strip(" \"'“”,;")


_URL = re.compile(r"(?i)\bhttps?://[^\s<>\"'“”)]+|\bwww\.[^\s<>\"'“”)]+")
_SEARCHES = re.compile(
    r"(?i)^\W*(?:(?:please|can|could|would|you|hey|just|quickly)\s+)*(?:(?:search|look|google|check|find|browse)\b"
    r"(?:\s+(?:up|out|for|online|on|the|web|internet|in|a|it))*|do\s+a\s+web\s+search\s+(?:on|for))\s*"
)


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """A page's address, or what to look for on the web."""

    url: str = ""
    query: str = ""


def read_lookup(context: ToolContext, request: Request) -> Lookup:
    """The address in the message, else what it asks."""
    if found := _URL.search(request.text):
        url = found[0].rstrip(".,;:!?")
        return Lookup(url=url if url.lower().startswith("http") else f"https://{url}")
    return Lookup(query=_SEARCHES.sub("", request.text).strip(" ?.!") or find_topic(request.text))


async def look_up(context: ToolContext, request: Request, lookup: Lookup) -> Answer | Call:
    """The page's text, or the results of a search."""
    if lookup.url:
        return Call(assignee="scout", action="fetch_page", params={"url": lookup.url})
    if not lookup.query:
        return ask_back("What am I to look for on the web?", f"search the web for {SLOT}")
    return Call(assignee="scout", action="research", params={"question": lookup.query})


WEB = Tool(
    name="web",
    description="searches the web and reads pages",
    run=look_up,
    parameters=Lookup,
    read=read_lookup,
)


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """What it is about, in a few words."""

    topic: str = ""


def read_topic(context: ToolContext, request: Request) -> Topic:
    """The topic that is named."""
    return Topic(topic=find_topic(request.text))


async def find_papers(context: ToolContext, request: Request, about: Topic) -> Answer | Call:
    """The papers that frontier finds."""
    if not about.topic:
        what = "I can ask frontier for papers, but not about what. Name the topic."
        return ask_back(what, f"find papers on {SLOT}")
    return Call(assignee="frontier", action="find_papers", params={"topic": about.topic})


_PAPERS_NEEDS = re.compile(
    r"(?i)\b(?:papers?|articles?|arxiv|publi\w+|preprints?|research\w*|stud(?:y|ies)|literature|scien\w+|authors?|journals?|references?|"
    r"state of the art|survey|work on|doi|methods?|approaches|scholar|thesis|citations?"
    r"|sources)\b|\d{4}\.\d{4,5}"
)
"""Words of science."""
PAPERS = Tool(
    name="papers",
    description="finds papers on a topic",
    needs=_PAPERS_NEEDS,
    run=find_papers,
    parameters=Topic,
    read=read_topic,
)


async def read_news(context: ToolContext, request: Request, _: Words) -> Call:
    """The latest items of the feeds."""
    return Call(assignee="frontier", action="monitor_ai_news")


NEWS = Tool(
    name="news",
    description="reads the latest news of your feeds",
    run=read_news,
)


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a town, empty for where the office is, and for how many days from today, 1 to 16."""

    place: str = ""
    days: int = 3


def read_where(context: ToolContext, request: Request) -> Where:
    """The place that is named, if one is; a week if the message looks further ahead than some days."""
    lower = request.text.lower()
    return Where(place=find_place(request.text), days=8 if "week" in lower or "next" in lower else 3)


async def tell_weather(context: ToolContext, request: Request, where: Where) -> Call:
    """The forecast."""
    return Call(
        assignee=context.agent.profile.name,
        action="tell_weather",
        params={"place": where.place, "days": min(max(where.days, 1), 16)},
    )


WEATHER = Tool(
    name="weather",
    description="tells the weather at a place",
    run=tell_weather,
    parameters=Where,
    read=read_where,
)
