"""What is looked up outside: the web, papers, news and the weather."""

import re

import msgspec

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Call, Tool, ToolContext, Words, ask_back
from shared.contracts.emails import SLOT
from shared.language.sayings import read_sayings

WAYS = read_sayings(__file__, "outside")


def find_place(text: str) -> str:
    """The town or place that ``text`` names; empty if it names none."""
    found = WAYS["place"].search(text) or WAYS["small"].search(text)
    return found["place"].strip() if found else ""


def find_topic(text: str) -> str:
    """What ``text`` is about: the words behind "on", "about" or "for"; empty if there are none."""
    found = WAYS["topic"].search(text)
    topic = WAYS["works"].sub("", WAYS["end"].sub("", found["topic"])) if found else ""
    return topic.strip(" \"'“”,;")


_URL = re.compile(r"(?i)\bhttps?://[^\s<>\"'“”)]+|\bwww\.[^\s<>\"'“”)]+")


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """A page's address, or what to look for on the web."""

    url: str = ""
    query: str = ""


def read_lookup(context: ToolContext, request: Request) -> Lookup:
    """The address in the message, else what it asks."""
    if found := _URL.search(request.text):
        url = found[0].rstrip(".,;:!?")
        return Lookup(url=url if url.lower().startswith("http") else f"https://{url}")
    return Lookup(query=WAYS["searches"].sub("", request.text).strip(" ?.!") or find_topic(request.text))


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


PAPERS = Tool(
    name="papers",
    description="finds papers on a topic",
    needs=WAYS["papers_needs"],
    run=find_papers,
    parameters=Topic,
    read=read_topic,
)


async def read_news(context: ToolContext, request: Request, _: Words) -> Answer | Call:
    """The latest items of the feeds, of a topic that is named or told before; or which feeds there are."""
    if WAYS["which_feeds"].match(request.utterance.spelled):
        feeds = context.agent.settings.feeds
        return Answer(
            text="\n".join(["These feeds are read (the setting feeds):", *(f"- {each}" for each in feeds)])
        )
    again = WAYS["told_before"].search(request.text) is not None
    about = "" if again else WAYS["no_topic"].sub("", find_topic(request.text)).strip()
    return Call(assignee="frontier", action="monitor_ai_news", params={"again": again, "about": about})


NEWS = Tool(
    name="news",
    description="reads the latest news of your feeds",
    says=WAYS["which_feeds"],
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
