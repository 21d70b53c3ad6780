"""What the desk and the team can do, made from the list of tools."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
what can you do?
help
how can you help me?
what are you able to do
which commands are there?
how does this work?
what can I ask you
how do I use this
list your features
show me what you can do
can you set reminders?
can you read my calendar?
do you speak German?
are you able to send mail?
what do you do here
I'm new here, where do I start
how do I give you work
what kind of tasks can the agents do
which agents are there and what do they do?
who is on the team of agents and what are they good at
how do I set a reminder
how do I start a goal
can you search the web?
what are your limits
what can't you do
instructions please
explain yourself, what are you for
is there a manual
give me examples of what I can say
can you run code
do you have access to the internet
can you help me with something
what tools do you have
how would I find out if somebody wrote to me?
can you answer my mails by yourself?
are you able to book flights
do you understand French
can you see my files?
can you do things at night?
what happens when I ask you to do something
where do my reminders go
how do I stop a goal?
how do I approve something
how can I teach you something
how do I change the time of the briefing
what can the engineer do
which languages do you speak
can you phone someone
do you keep what I tell you?
who can read what I write here
what's the command for reminders
could you do my taxes?
are there shortcuts
how do I connect my calendar
does it cost anything to ask you
can I talk to the agents directly?
what do I have to say so that you set a timer
is it possible to get the brief by mail?
what are you good for
can you learn new tricks
show me the help
how do I schedule something
what should I say to start the tests
can several people use you at the same time
could you remind me by text message?
are you able to read pdfs
can you translate?
can you also do maths
what happens to my data
could you write mails for me?
how often can I ask you
what is a briefing
what do you mean by dead letter
how does the night queue work
do you work on weekends
can I talk German to you
what would you recommend me to try
can I undo a reminder
are you able to read my mail
What kinds of things can I ask you?
i'm new here what is this for
what commands are there
Do you speak other languages
is it possible to give you a file
how does this work then
can you do stuff at night as well
what are you not able to do
show me some examples of what to say
who are you and what are you good at
does this thing have access to my calendar
Please explain to me your functions
could you in principle run programs on my computer
stuck, how do I talk to this thing
can I cancel something once it's started
what do you know how to do
give me an introduction
are you connected to the internet
how do i tell you to repeat something every week
what happens when I approve something
do you keep what I say
how would I go about starting a goal
can you handle spreadsheets or just text
"""

GROUPS = {
    "Memory": (
        "memory remember correct forget",
        "'who has the key?', 'remember that the fee is 9 euros', 'forget that'",
    ),
    "Reminders": (
        "reminder_set reminder_list reminder_change reminder_cancel",
        "'remind me at 9 to call Ana', 'at 10 instead', 'list my reminders'",
    ),
    "Calendar": (
        "calendar calendar_add",
        "'what is on my calendar on Friday?', 'add lunch on Friday at 12:30'",
    ),
    "Work now": ("work goals stop", "'run the tests of ~/src/shop', 'is it done?', 'stop it'"),
    "Tonight": ("night_job queue", "'tonight at 23:30 check the links of ~/site', 'what is queued?'"),
    "Schedules": ("schedule", "'every weekday at 7 run the tests of .', 'list my schedules'"),
    "For you": ("waiting approve brief project", "'what waits for me?', 'brief me', 'what is still open?'"),
    "Mail": ("mail send_mail", "'any mail from the bank?', 'write to ana@example.org: I am late'"),
    "Look up": ("web papers news weather", "'search the web for ...', 'papers on ...', 'weather in Bern'"),
    "And": (
        "clock arithmetic spending capabilities",
        "'what is 12% of 340?', 'days until 30 June', 'what was spent?'",
    ),
}
"""The tools in groups, each with what one may say."""
TEAM = (
    "Work is tests, check-ups and security scans of a repository, and research on the",
    "web and in papers; with a model also patches, documents, and what you describe.",
)
"""What the team works on."""


async def explain(desk: "Desk", request: Request, _: Words) -> Answer:
    """One screen: what may be said, by groups of tools, and the team's work."""
    groups = [f"- {name}: {said}" for name, (_, said) in GROUPS.items()]
    head = "This is Nexus, the front desk. Write what you want in plain English:"
    return Answer(text="\n".join([head, *groups, "", *TEAM]))


TOOL = Tool(
    name="capabilities",
    description="says what it can do, with examples",
    examples=EXAMPLES,
    run=explain,
)
