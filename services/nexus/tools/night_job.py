"""Work for the night."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.schedules.words import read_night_job, read_queue_call
from services.nexus.tools.tool import Answer, Call, Effect, Tool, Words, ask_back, command
from shared import subjects
from shared.contracts.conversation import SLOT
from shared.errors import ActionError

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
in the small hours, go through the receipts in ~/box
when we've all left, sort the recordings in ~/takes
have it done by breakfast: count the plants in /srv/beds
use the quiet hours for the long conversion
put the films on for tonight, they're in ~/reels
once everybody has gone, read through the forms and mark the empty ones
I'd be glad if somebody could index the letters during the night
run the tests tonight
do that tonight please
tonight run the full checkup of ~/src/shop
while I sleep, look through the logs for errors
overnight, please benchmark the index
after work run the long simulation
queue this for tonight: rebuild the docs
can you do the migration during the night
have the engineer run the slow tests overnight
put a security scan of /srv/app into the night queue
leave the heavy stuff for tonight and reprocess the images then
when nobody is around tonight, clean up the data folder
once I'm in bed start the batch conversion
check the repository at ~/work/cart for vulnerabilities tonight
tonight find out why the importer is slow
do the research on heat pumps overnight so I can read it in the morning
I'd like the report to be generated while we're asleep
by tomorrow morning I want a summary of all papers on graph memory
schedule the refactoring for tonight
make the full test run happen after hours
add a job for the night: transcribe the interviews
later tonight compile the statistics for the grant
not now, run it tonight
could this be done overnight? render the video
run the experiment after everyone has gone home
this evening when I'm off, reindex the library catalogue
sort the sample images while I'm sleeping
before tomorrow morning please have the dependencies updated
could something be done overnight about the mess in ~/archive
no hurry, run the growth model tonight, results in the morning are fine
can you index the photos after we close
run the slow simulation once everyone's gone
tonight please: compress the recordings in ~/audio
before I'm back tomorrow have the spreadsheet cleaned
please transcribe the interviews overnight, I need them at 8
queue up the data cleaning for the night
make the backup tonight
save the big download for the night
let it run through the night
put that on tonight's list
when the machine is idle tonight retrain the model
I'd rather have that done during the night
run it at 3 in the morning
wait with the scan till tonight
have the translation ready when I wake up
start the long test at midnight
in the small hours, rebuild the search index
as soon as I log off, defragment the archive
overnight job: check all links of the website
can cortex work on the thesis statistics tonight?
look for duplicates in the photo collection while we sleep
tonight, when it's cheap, process the satellite images
finish the catalogue during the night please
when I've gone to bed, run the checks on ~/farm
could somebody look at the mess in the photo folder overnight? it's ~/photos
do the large export tonight while the office is empty
process the recordings tonight, no rush
the statistics can wait until tonight, run them then
I'd like ~/scans sorted by tomorrow morning
can this run overnight: python simulate.py in ~/model
start it after ten tonight
have the engineer clean the repo while I'm asleep
no need to hurry, tonight is fine: convert the videos
during the night please look for broken links on our site
prepare the statistics so that they are there when I get up
get the backups verified overnight
tonight's job: retag the library
do a full security scan tonight at 11
after closing time, reindex the shop
the big render of ~/film can run tonight
tonight at 2 please convert the whole archive
let cortex chew on ~/genome overnight
do the deduplication in the night, it's slow
could you do that after hours?
while we're closed, regenerate all thumbnails
use the night for the reindexing
let the long simulation go tonight, tell me in the morning
put the license scan of ~/src into tonight's queue
tonight would be a good time to clean the database
have the transcripts ready by breakfast
please do the stock import during the night, the server is too slow by day
I won't be here tonight, so run the long benchmark then
can you crunch ~/data/field.csv tonight while I sleep
overnight: make thumbnails of ~/photos
do the photo resizing tonight
run the full test suite while I'm asleep
have the agents clean up ~/scans overnight
Tonight, please convert all the wav files in the rehearsal folder to mp3
I'm off to bed, transcribe the three interviews till the morning
queue up the big simulation for the night
it doesn't have to be now but by tomorrow morning I'd like the bibliography sorted
overnight: check every link on the shop site
let the model training go through the night
after hours somebody should go through the customer feedback and group it
could you index the old newsletters once everyone has gone home
put rebuilding the search index on for tonight
please make during the night a summary of the 14 reports
night job: dedupe the address list
do the slow benchmarks when nobody's using the machine, tonight i mean
while I sleep write unit tests for the parser in ~/code/midi
Add to tonight's jobs that the lesson plans for year 8 get proofread
leave the agents working on the refactoring overnight will you
tonight compare our prices with last years list and write me what changed
get the translation of the brochure done by the time i wake up
I want the log files of the telescope reduced this night
schedule the database vacuum for tonight, just the once
as soon as it's late and quiet, run the profiler on ~/engine
generate the captions for all slides tonight would be great
sometime during the night can they re-tag the whole music library
have it ready when I get up: a first draft of the funding application
for tonight, look through the herbarium photos and flag the blurry ones
tonight fix the flaky tests in ~/web please, no rush before that
Don't do it now, do it tonight: regenerate the pdfs of all handouts
work on the crossword generator through the night
"""


async def queue(desk: "Desk", request: Request, _: Words) -> Answer | Call:
    """The job, put into cortex's queue, whose answer says when it begins and how to stop it."""
    now = desk.now(request)
    if call := read_queue_call(request.text, now, desk.zone):
        return Call(assignee=subjects.CORTEX, action=call[0], params=call[1])
    try:
        params = read_night_job(request.text, now, desk.zone)
    except ActionError as error:
        return ask_back(str(error), command("night_job", f"tonight {SLOT}"))
    old = request.replaces
    note = f"The job before is still queued. To remove it: mailroom queue remove {old}" if old else ""
    return Call(assignee=subjects.CORTEX, action="queue_job", params=params, note=note)


_NEEDED = re.compile(
    r"(?i)\b(?:tonight|to\s?nite|over\s?ni(?:ght|te)|night|(?:small|wee|quiet) hours"
    r"|breakfast|dawn|asleep|sleep\w*|bed|(?:after|out of) (?:work|hours)|evening"
    r"|morning|later|no rush|queue\w*|"
    r"(?:gone|go|went) home|nobody|everyone|quiet|midnight|off\s?peak|when (?:i|we)['’]?(?:m| am|re| are)? "
    r"(?:off|away|out|done)"
    r"|off\s?line|shut|closed|closing|cheap\w*|idle|while (?:i|we)['’]?(?:m| am|re| are)? (?:off|away|out))\b"
)
"""Words of the night, or of later."""
TOOL = Tool(
    name="night_job",
    description="puts work into the queue for the night",
    examples=EXAMPLES,
    needs=_NEEDED,
    run=queue,
    effect=Effect.STARTS,
)
