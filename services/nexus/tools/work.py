"""Work for the office: a goal, with what will be done said in one line and how to stop it."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back
from shared.contracts.conversation import SLOT
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
the folder ~/post is a mess, tidy it
the form lost its button, find out why
have a go at a first version of the leaflet from ~/notes
would you mind counting the chairs in the plan at ~/hall
the numbers in ~/books look odd, check them
I'd be grateful if somebody could rewrite the rules page
who can turn these recordings into text? they are in ~/rec
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
clean up the spreadsheet ~/farm/milk.xlsx
write a one page summary of the interviews in /srv/interviews
build the docs
make a csv from the member list in ~/club/members.docx
go through ~/thesis/ch3.tex and mark every long sentence
would you kindly check whether all links on our website still work
could u convert all the wav files in ~/audio to mp3
I need a chart of the visitors per month from ~/museum/visits.csv
compare the two offers in ~/offers and tell me which is cheaper
please proofread ~/letters/appeal.md
find all broken images on the site in /srv/www
rename the files in ~/scans by date
extract all names and dates from the pdfs in /data/archive
count how many orders came from France in /srv/shop/orders.csv
make a timetable for the summer course
prepare slides about the excavation
set up a small database for our seeds
get the website ready for mobile phones
work out a seating plan for 80 guests
calculate the statistics of ~/lab/run7.csv and write them up
look through the logs in /var/log/app and tell me what went wrong
someone needs to sort the inbox folder in ~/docs by client
it would be great if somebody could tidy up the repository
please do a full checkup of ~/work/site
check /srv/app for secrets
update the changelog of PATH
port the plugin to version 5
benchmark the two parsers in PATH
do a market analysis for oat milk and write it down
create a website for the choir
write a press release about the opening
improve the error messages in PATH
review the changes in PATH
merge the two address lists in ~/club
translate ~/menu.txt into French
generate invoices from ~/orders
put the recipes in ~/recipes into one document
do it right away
have cortex rewrite the scraper
let the engineer look at the memory leak
ask frontier to write a brief on solid state batteries
get scout to read the docs in PATH and explain the API
test the login flow and report
reformat the bibliography in ~/paper.bib
make the script print the totals as well
simplify the build of PATH
check up on PATH and PATH
I want the parser to accept empty files
could we have a dark theme please
the search is broken, please repair it
add tests for the invoice module
solve the crossword generator bug
take care of the duplicates in the address book
extract the quotes from ~/interviews/anna.txt
make me a list of all plants in ~/garden.csv that need shade
please turn ~/notes.md into slides
check whether the numbers in ~/budget.xlsx add up
set the till software up on the new laptop
find the slowest query in PATH and speed it up
add a contact form to the website
I need a script that renames my photos
write a grant application for the youth theatre
design a flyer for the flea market
go and fix the typo on the home page
plot the temperatures in ~/lab/temps.csv
could you put the addresses into alphabetical order in ~/club/list.txt
we need a new logo, make three drafts
remove the unused code from PATH
the heating script crashes, look into it please
the totals in ~/till.csv are wrong, find out why
please write the minutes from ~/rec/meeting.txt
get the old website running again
work through ~/todo.md
draft a contract for the hall rental
document the API of PATH
unify the date formats in ~/data
create an index of the archive in /srv/archive
prepare the exam questions for chapter 4
go through my receipts in ~/receipts and add them up in a table
sort out the import of the bank statements
the booking form loses the phone number, can someone fix that
please make the poster bigger and save it as pdf
can we get a summary of ~/minutes/2025
create three exercises on fractions with solutions
give ~/src/shop a checkup
recalculate the averages in ~/lab/assay.csv
strip the personal data from ~/export.json
set the version to 2.0 everywhere
split ~/book.md into chapters
install the dependencies of PATH and see if it builds
measure how fast the search is in PATH
could the team look into the wrong prices on the website
write me a letter of recommendation for Eva
work out why the sensor readings jump
clean the data in ~/survey.csv and tell me what you removed
put a captcha on the guestbook
write up the results of the experiment in ~/lab
collect everything we have on the theatre tender in one document
make the tests in PATH pass
draw up a rota for the volunteers
back up ~/photos to /srv/backup now
resize the images in PATH to 800 pixels
the invoice template has the old address, change it please
try the patch in ~/fix.diff on PATH
convert ~/recipes.docx to markdown
have a look why the newsletter signup does not work
make an inventory of all scripts in PATH
please finish the report in ~/report.md
produce a glossary from ~/manual.pdf
tell me which files in PATH are never used
crop the scans in ~/scans
look over ~/contract.txt and list the risks
find out how many lines of code PATH has
set up a test environment for the plugin
check the spelling in ~/flyer.txt
please add up the hours in ~/timesheet.csv for each person
can somebody fix the broken contact form on the site
run the linter on ~/src/api and fix what it finds
make a summary of ~/docs/policy.pdf
fix the failing test in ~/app
write a press release about the open day
make me a poster for the bake sale
Could you have someone convert the scores in ~/music/new to PDF
please build a small page where parents can sign up
translate the flyer into Polish
start on the data cleanup
Clean the CSV in ~/data/survey and plot the answers per class
I need a comparison of three accounting programs by this afternoon
get the agents to write the documentation for the api
refactor the billing module
sort the photos of the excavation by trench
draft a contract for the freelance illustrator
analyze the sales numbers of February and say me what is going bad
can somebody add dark mode to the site
transcribe the recording in ~/audio/board.m4a
run the tests of ~/parser
design a logo with a heron
Set the website live
find the memory leak in ~/srv/ingest, it's been crashing every six hours
make a quiz for year 9 about photosynthesis with twelve questions and an answer sheet
rename all files in ~/scans to date plus title
the login button does nothing on mobile, please fix
it would be great if the price list could be turned into a nice table
prepare a 10 slide deck for the sponsors
update the dependencies and see what breaks
write me a python script that merges pdfs
go through the applications in ~/jobs and rank them
I want the bass part transposed down a tone, file's in ~/scores/waltz.mscz
deploy the new version to staging
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
