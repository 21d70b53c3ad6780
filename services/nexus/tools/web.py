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

EXAMPLES = """
search the web for the boiling point of ethanol
look up the opening hours of the town library online
google the best practice for composting
read the page at URL
what does the page at URL say?
summarise URL
find out on the internet how much a used piano costs
look it up on the web
can you check online when the museum opens
search for a recipe for sourdough
what does Wikipedia say about tardigrades?
open URL and tell me the main points
find the website of the ministry of education
look up the phone number of the city hall
search online for cheap train tickets to Vienna
what's the current price of copper
who won the match last night? look it up
is the website URL down?
find a good plumber near us on the web
do a web search on grants for small theatres
check the docs online for how to use asyncio timeouts
what's the exchange rate of the dollar to the euro
what is written on URL about the licence
get me the latest release version of node from the internet
could you look up the address of the embassy
search the internet for tulip bulbs wholesale
browse to URL
is github down??
is the website of the school reachable
whats the current price of wheat
what does the page URL say about allergens
find me the train connections from Ghent to Lille
check on the web whether the shop in the harbour is still open
what's the fuel price today
look for grants for youth theatres
how do I remove wine stains, look it up
who is the mayor of Gdansk
when was the bridge built, google it
what's the latest version of django
find the manual of the Bosch dishwasher online
search for the phone number of the veterinary clinic in Bern
what do reviews say about the Canon scanner
compare prices for 50 folding chairs online
is there a bus strike tomorrow? check the site
read URL and tell me if it is still valid
find out when the next total eclipse is, on the internet
have a look at www.example.org
look up what the law says about cellar lighting
how did the match end
check the timetable of the ferry online
how late is the post office open, look online
what are people saying about the new tram on the internet
find a recipe for plum cake online
what's on at the cinema tonight
when does the train to Lyon leave
how much does a ferry ticket cost
what does URL say
is URL any good, read it for me
open the link URL
translate what is on URL
what's the address of the Polish consulate
who invented the zipper, look it up on the web
search: best glue for ceramics
find contact details of the printing shop Kern on the web
which films won prizes last year? check the web
what time does the supermarket close today
is the A7 motorway blocked right now
look up flights to Porto in June
is the museum shop open on Mondays according to their site
check on wikipedia when the town hall was built
what does it cost to ship 20 kg to Norway, look at the carrier's page
get me the programme of the city theatre
see if URL has a newer version
what is the exchange rate today
search for a used cello
how do you get coffee stains out of wool, search the web
which pharmacies are on duty tonight
what's the weather service's website
who is the author of the blog at URL
look up who invented the zip
google the opening hours of the hardware store on Mill Lane
what does it say on https://example.org/terms
find a good recipe for rye bread online
read this page and give me the gist: https://blog.example.net/tuning-harpsichords
search the web for cheap trestle tables
how tall is the Eiffel Tower
Who's the mayor of Ghent at present
check online whether the ferry to Arran takes vans
what is a Helmholtz resonator
can you find out how much a used potter's wheel costs
open www.stadtbad.example and see if they have lane swimming tonight
whats the exchange rate euro to zloty
Look please in the internet for a translation office in Brno
is there a pharmacy open near the station on sundays
what's the difference between a viola and a violin
search: replacement fuse for Bosch GTS 10
how do you get red wine out of a carpet
find the manual of the Canon LBP6030 on the web
which airlines fly from Leeds to Bilbao
could you see on the internet if this is legit, "Nordlicht Textil Ltd"
what year did the Titanic sink
find me the phone number of the Thai place in Dock Street, online somewhere
does python 3.13 still have distutils
what does the abbreviation ISBN stand for
summarise https://docs.example.com/changelog for me
any reviews on the net about the Zoom H5 recorder
When do the tickets for the Proms go on sale, look on their site
look up the current stamp price for a letter to Canada
who is the author of The Dispossessed
"""

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
    examples=EXAMPLES,
    run=look_up,
    parameters=Lookup,
    read=read,
)
