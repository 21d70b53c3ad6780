"""A goal that repeats."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back, command
from shared.contracts import Choice

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
every night at 2 run the tests of ~/x
run the linter every Monday morning
check the repository for vulnerabilities every week
each night at 3am scan ~/src/shop
do a checkup of /srv/app on the first of every month
from now on run the tests of ~/work/cart each evening
please make a research brief on battery recycling every Friday
every weekday at 6 collect the sales numbers
schedule a weekly security scan
set up a nightly run of the benchmark
repeat this every day at 7
I want the dependency check to happen once a month
have frontier look for new papers about corals every Sunday
automate the report: every Friday at 4pm
run this daily
twice a week, check whether the website is up
every two hours look whether the page at URL has changed
on the last day of each month make the invoice overview
can you do a full checkup every saturday night
every morning at 5 back up the notes
build the project nightly
schedule: tests of ~/a at 1:30 daily
do that every night from now on
run the regression suite nightly at 23:30
every Tuesday search the web for grants for small theatres
weekly: summarise what changed in ~/src/api
"""


async def plan(desk: "Desk", request: Request, _: Words) -> Answer:
    """That nothing was scheduled."""
    return ask_back(
        "I cannot repeat a goal yet, so nothing was scheduled. I can remind you regularly, or do it once "
        "tonight.",
        choices=(
            Choice(label="do it once tonight", text=command("night_job", request.text)),
            Choice(label="remind me of it", text=command("reminder_set", f"remind me {request.text}")),
        ),
    )


_NEEDED = re.compile(
    r"(?i)\b(?:(?:every|each)\s+(?:\w+\s+){0,2}?(?:day|night|morning|evening|afternoon|week\w*|month|year|hour"
    r"|minute|quarter|noon|midnight|(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun|\d+)s?"
    r"|(?<!the\s)(?<!last\s)(?:daily|nightly|weekly|monthly|hourly|yearly)|regular\w*|repeat\w*|from now on"
    r"|automat\w*|(?:once|twice|\w+ times) (?:an?|per|each|every)|(?:mon|tues|wednes|thurs|fri|satur|sun)days"
    r"|schedules?d?|weekdays|mornings|evenings|nights)\b"
)
"""Words of repetition."""
TOOL = Tool(
    name="schedule",
    description="repeats a goal on a schedule",
    examples=EXAMPLES,
    needs=_NEEDED,
    run=plan,
    effect=Effect.STARTS,
)
