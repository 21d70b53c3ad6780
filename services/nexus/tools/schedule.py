"""A goal that repeats."""

import re
from typing import TYPE_CHECKING

from services.nexus.conversation.mentions import GONE
from services.nexus.routing.request import Request
from services.nexus.schedules.words import read_order
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back, command
from shared.contracts.conversation import SLOT
from shared.errors import ActionError

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
on the 5th and the 20th, collect the receipts in ~/box
once a week have the links of the site checked
from monday to friday at 7 fetch the bus times
it'd be good to have the labels printed each quarter
mondays to saturdays at 6 read the water meter page
three times a day look at the booking page
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
each Monday morning I'd like a list of overdue books
sundays at 5am compress the webcam pictures in /data
every evening after closing count the stock file
on weekdays at 6 fetch the timetable and save it
once a week check the links on our website
every quarter, go through the licences of the dependencies
every morning summarise the new tickets
run the checks on ~/depot every night
on the 1st of every month write the energy report
every 30 minutes see if the sensor log is still growing
could you have the photos sorted every weekend?
I want a security scan each Saturday
make it a habit: every Friday archive the old logs
weekly on Wednesday, look for new tenders on the web
back up ~/thesis every night at 1
please test the backups monthly
regularly check the certificates, say every two weeks
change the nightly run to 4
from next week on, every Tuesday at 6 do the stock count
daily at noon: fetch the exchange rates
every other Monday compile the attendance list
set it up to run each hour
do this at the end of each month
every first of the month make a report on the energy use
check our site for dead links every Sunday night
I want the stock counted each evening at 7
start a checkup of ~/src/shop every Friday at 5pm
please always run the linter on Mondays
can the tests run by themselves every night?
go through the new invoices in ~/in twice a week
each quarter compare our prices with the market
tuesdays and thursdays at 4, look for new messages in the forum
let scout read the tender page daily and tell me what changed
read the water meter page every day at 6 and log it
on Fridays, tidy up ~/downloads
I'd like to get the sales figures each Monday at 8
from Monday on run the smoke tests every hour
nightly at 1: sync ~/photos
check weekly if our certificate expires soon
please repeat the scan on the 15th of each month
every weekday evening, list what was sold
monthly report on the energy use please, on the 1st
every night at 2 back up the recipes folder
run the linter on ~/site each Monday morning
I want a stock report every Friday at 4
once a week check that all the links in the handbook still work
daily at 6am pull the sensor data and plot it
please do the log cleanup on the first of every month
from now on test the build every evening
set up a recurring goal that updates the fixture list every Sunday
weekly: summarise the open issues in ~/app
could the agents sort the downloads folder every couple of days
each weekday at 8:30 generate the substitution plan
make it a habit to verify the backups on Saturdays
all two weeks please control the freezer logs for gaps
every hour see whether the ticket page is up
On the last working day of each month compile the hours of the volunteers
schedule a dependency check for every Wednesday night
tuesdays and thursdays at noon refresh the menu page
twice a day sync the sheet music folder
do that spelling check of the blog regularly, say every Monday
Every quarter I'd like somebody to go over the safety data sheets
nightly run of the regression tests in ~/core please
have the catalogue rebuilt at midnight every day
every morning before nine rename the incoming scans
repeat the price comparison every ten days
I keep forgetting to rotate the archive so let it be done automatically each 15th
run ~/bin/health.sh every 30 minutes
starting tomorrow, each night retrain the classifier on the new labels
mondays 7am create the agenda for the team meeting from the open points
put the duplicates check on a weekly schedule
yearly on 2 January archive last year's orders
"""


async def plan(desk: "Desk", request: Request, _: Words) -> Answer:
    """The goal on its schedule, or what a command does to one; what is not clear is asked back."""
    try:
        outcome = await desk.schedules.obey(request)
    except ActionError as error:
        # A command says all at once; what follows it is another message.
        more = "" if read_order(request.text) else command("schedule", f"{request.text} {SLOT}")
        return ask_back(str(error), more)
    if request.replaces and request.replaces not in outcome.output:
        removed = await desk.schedules.book.remove(request.replaces)
        return Answer(text=f"{outcome.output}\n{GONE}{removed.output}")
    return Answer(text=outcome.output, goal_id=str(outcome.data.get("goal_id", "")))


_NEEDED = re.compile(
    r"(?i)\b(?:(?:every|evry|each)\s+(?:\w+\s+){0,2}?(?:day|night|morning|evening|afternoon|week\w*|month|year|hour"
    r"|minute|quarter|noon|midnight|(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun|\d+)s?"
    r"|(?<!the\s)(?<!last\s)(?:daily|nightly|(?:bi-?)?weekly|fortnightly|monthly|quarterly|hourly|yearly|annually)"
    r"|cron\w*|regular\w*|repeat\w*|from now on"
    r"|automat\w*|(?:once|twice|\w+ times) (?:an?|per|each|every)|(?:mon|tues|wednes|thurs|fri|satur|sun)days"
    r"|(?:\d+(?:st|nd|rd|th)|first|last)(?:\s+\w+){0,2}\s+of\s+(?:the|each|every)\s+(?:month|quarter|year)"
    r"|(?:mon|tues?|wed|thurs?|fri|sat|sun)\w*\s*(?:\+|&|and)\s*(?:mon|tues?|wed|thurs?|fri|sat|sun)\w*"
    r"|on the \d+\w* and (?:the )?\d+\w*|schedules?d?|weekdays|mornings|evenings|nights)\b"
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
