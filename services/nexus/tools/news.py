"""The news."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
what's in the news?
any AI news today?
latest news please
give me the headlines
what happened in the world of AI today
anything new in tech?
news about OpenAI
what is going on in the world
read me the news
is there any news on the elections
what's new in artificial intelligence
top stories this morning
news on climate policy
did anything big happen in the industry this week
today's headlines in AI
what are people talking about in machine learning
show news
anything in the press about our city
what's the latest on the chip shortage
tech news summary
recent developments in robotics?
what was announced at the conference yesterday
news from the town council please
headlines about the strike
what's happening in AI
anything new about the ferry line
what's the news on Ukraine
did I miss any big news
news?
tech headlines
morning news please
what's up in the world of physics
any news about our competitor
what do the papers say today
local news
sports news of the weekend
news on chips and export rules
has anything happened in Berlin today
give me three headlines
what's trending in tech
anything about the flood in the news
what did the government decide today
which stories are big today
what's new in battery technology
news on the film festival
any news on the transfer market
what happened in the world this week
update me on the election
is there something new about the merger in the press
what do the headlines say about energy prices
news from science
what's the latest on the tram line
top five tech news
any updates on the strike in the news
did the referendum pass
any headlines on the rail strike
news please
Whats going on in the world
has anything happened in the election in Peru
latest on the harbour fire
tell me the top stories this morning
any tech news
What do the papers write about the new school law, newspapers I mean
football results from last night
sports news pls
did the central bank raise rates
anything new on the wildfires in Portugal
local news for Sheffield
read me the headlines
what's the latest with the teachers' union talks
Give me the news of today in three sentences
what's everyone talking about today
breaking news?
is there something in the news about our town
business headlines
any updates about the recalled baby formula
who won the match yesterday evening
news from science world
how are the peace talks going
what did the minister announce yesterday
Has there been an earthquake somewhere
show me news about electric ferries
current affairs quick summary
any word in the press about the festival being cancelled
"""


async def read_news(desk: "Desk", request: Request, _: Words) -> Call:
    """The latest items of the feeds."""
    return Call(assignee="frontier", action="monitor_ai_news")


TOOL = Tool(
    name="news",
    description="reads the latest news of your feeds",
    examples=EXAMPLES,
    run=read_news,
)
