"""Work for the office: a goal, with what will be done said in one line and how to stop it."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back
from shared.contracts.conversation import SLOT
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
fix the flaky test in ~/src/shop
run the tests of PATH
check up on the repository at PATH
please refactor the parser
the login page is broken, fix it please
find out why the build takes so long and make it faster
look into why the checkout crashes
add an endpoint that returns the list of users
can you run the linter on PATH
write a script that resizes all images in a folder
convert this notebook into a module
upgrade the dependencies of PATH
scan PATH for vulnerabilities and secrets
what changed in PATH last week?
read the documentation in PATH and tell me what the project is
compare PATH with PATH
rename the config option everywhere
could somebody take care of the crash in the importer?
set up continuous integration for the shop
create a small tool that merges pdf files
generate a csv with all the invoices
analyse the sales figures in PATH and make a chart
write a research brief on battery recycling
I want you to benchmark the index
get the backup working again
clean up this function
how healthy is the project at PATH?
start a goal: review the code in PATH
let's build a small web page for the band
have the engineer try the patch
ask the critic to review PATH
please investigate the slow query
draft a concept for the open day
prepare a comparison of three booking systems
put together a plan for the migration
go over the spreadsheet in PATH and find duplicates
research the market for second-hand pianos and write a report
make the start page load faster
it would be nice if the export also had the dates
could you please have a look at the failing pipeline
test
do a checkup
audit the code base
translate the readme in PATH to German
extract the tables from the pdf in PATH
we need to debug this
the exporter drops the last line, please take care of it
tell cortex to optimise the query
write unit tests for the date parser
turn this shell script into a python program
is the code in PATH in good shape?
would you mind checking the licence of PATH
implement dark mode for the settings page
please deploy the website
go ahead, start it
yes do it now
please compile a list of all suppliers with their prices
make a poster layout for the concert
transcribe the recording in PATH
sort the photos in PATH by date
migrate the database to the new schema
find the bug that makes the totals wrong
solve the merge conflict in PATH
design an experiment to measure the yield
do it again but with verbose output
retry the last goal
let's try that again
run the tests
run them again
start the tests please
find out why the nightly job fails
find out what makes the export crash
figure out why the totals are off by one
look for the reason of the timeouts
get to the bottom of the failing import
"""


async def start(desk: "Desk", request: Request, _: Words) -> Answer:
    """The goal that was started; asks what is to be done if the message does not say it."""
    if len(request.text.split()) < 2:
        what = "What is to be done, and where? For example: run the tests of ~/src/shop"
        return ask_back(what, f"{request.text} {SLOT}")
    entry, goal_id = desk.make_goal(request)
    return Answer(
        text=f"That is work for the office, so I started goal {goal_id}: {flatten(request.text, 200)}\n"
        f"The conductor plans it, and its report comes by mail. Follow it with: mailroom show {goal_id}\n"
        f"Not what you meant? mailroom cancel {goal_id}",
        goal_id=goal_id,
        entries=(entry,),
    )


TOOL = Tool(
    name="work",
    description="starts work by the team: tests, fixes, check-ups, research, writing; you get a report",
    examples=EXAMPLES,
    run=start,
    effect=Effect.STARTS,
    route="conductor",
)
