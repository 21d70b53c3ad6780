"""The weather at a place."""

from typing import TYPE_CHECKING

import msgspec

from services.nexus.routing.request import Request
from services.nexus.tools.places import find_place
from services.nexus.tools.tool import Call, Tool

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
how cold does it get tonight at the hut
can we do the fair outside on saturday or will it pour
uv index for malaga
what's it like outside in Bergen
what's the forecast
what's the weather like?
how is the weather in Bern?
will it rain tomorrow?
do I need an umbrella today?
is it cold outside
what temperature is it in Oslo
weather forecast for the weekend
is it going to snow this week?
how warm will it get tomorrow
do I need a jacket tonight?
will it be sunny on Saturday for the picnic
weather in Lisbon next week
is there a storm coming?
can I hang the washing out
is it windy at the coast today
should I take the bike or will it rain
forecast please
how hot is it in Madrid right now
rain today?
will there be frost tonight, the plants are outside
what's it like outside
weather london tomorrow
good weather for a bbq on sunday?
is it raining in Hamburg
when does it stop raining
how's the weather looking for the open air
minimum temperature tonight?
temperature in Tromsø?
when does the sun set tomorrow
sunset in Lisbon
sunrise on Saturday?
will the wind be strong enough for sailing on Sunday
is it safe to dry hay this week
how cold does it get tonight
is a thunderstorm likely
will we have snow at the weekend
how's the weather at the festival site
should I water the garden or does it rain
t-shirt or coat today?
any chance of fog in the morning
weather for the trip on Friday
is it humid in Singapore
pollen forecast
what will the weather be like on the 24th
dry tomorrow?
forecast for the next three days
is the heat wave over
will the storm hit us tonight
what will it be like in Ghent on Sunday
can we eat outside this evening
how many degrees on Saturday
is it going to be dry for the parade
snow in the mountains?
when is sunrise
how strong is the wind in Kiel
do we need to cover the beds tonight, frost?
wet or dry weekend?
whats the weather
do I need an umbrella in Glasgow this afternoon
forecast for the weekend
Is it going to be windy at the coast on Saturday
temperature outside?
we have the open air show on Friday, will it stay dry
weather in Lisbon
should I bring the plants in tonight, is there frost
How is the weather by you in Hamburg today
snow this week?
when's sunset
is it sunny in Marseille right now
what's it like out
humidity today, for the varnish
any storm warnings
chance of rain for the match at 3
is it hot in Delhi
weekend weather for camping in the Lakes please
how warm will it become on Sunday
fog tomorrow morning on the M4?
will the roads be icy at six
dry enough to paint the fence thursday?
weather next week in Oslo, I have to pack
tell me if there's thunder coming
UV index today
do you think a coat is needed today
are we getting a heatwave
rain radar says what
"""


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
    examples=EXAMPLES,
    run=tell,
    parameters=Where,
    read=read,
)
