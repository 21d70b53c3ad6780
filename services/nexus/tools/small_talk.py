"""Greetings, thanks and other talk, answered shortly."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
ok cool
good, that's all
fine by me
so no picnic then
they can stay
let me think about that first
give me a moment to think
hello
hi there
hey nexus
good morning
good evening everyone
how are you?
how's it going
thanks
thank you very much
thanks, that was helpful
thx
great job
well done!
you're the best
tell me a joke
sing me a song
I'm tired today
I am so stressed
bye
see you tomorrow
good night
what's your name?
who are you?
are you a robot
do you like music?
happy birthday!
lol
haha nice one
cool
ok
okay great
perfect
sorry, my mistake
no worries
merry christmas
I love you
nice weather today isn't it
I'm bored
what is your favourite colour
you are useless
that's all for today
have a nice weekend
cheers mate
long day huh
wow
ugh mondays
how was your weekend?
are you there?
morning!
do you ever sleep
🙂
👍
I missed you
write a poem about spring
hi! how's everyone today
are you human?
you're great, you know that?
what a day
so happy today!!
we won the cup!!!
we got the funding, hooray 🎉
happy new year to all of you
happy easter from the whole team
greetings from the sea
good luck today
guess what, I'm getting married
I'm so fed up with this
i hate mondays
today is just not my day
tell me something funny
do you have feelings?
how old are you
where do you live
do you like your job?
nice to meet you
thanks a bunch 🙏
ty
tysm, you saved my day
much appreciated
that's sweet
ha, good one
yay
oops
brb
I'm back
good to see you
sleep well
take care
sure
fine
got it
right
no that's all, thanks
never mind
you too
same here
who made you
do you dream
are you ok?
what do you think about love
sing a birthday song for Ana
I could use a coffee
my cat just walked over the keyboard
sorry for the mess earlier
do you get bored
you sound tired
lovely morning
my head hurts
I'm in such a good mood
I don't feel well
long time no see
happy birthday to me
we did it!
I'm off, bye
talk later
hello hello
what's up
hey, all good?
good evening
are you busy?
you made my day
sorry to bother you
that was fast!
you are wrong all the time, annoying
nobody understands me
I'm nervous about tomorrow
that's funny
you're kidding
good luck to you too
I'm starving
welcome back
ok thanks, bye
alright then
thanks, I'll do it myself
thank you, that's exactly what I needed
great, thanks
no thanks
it's freezing in here
have you had breakfast
my day was awful
guess who is here
hi
thanks a lot!
I'm so tired today
hello anybody there
bye, see you tomorrow
Happy new year!
nice one cheers
sorry for shouting at you before
what's your favourite colour
I had such a rough week
yo
haha that was funny
Do you ever get bored?
ta very much
i feel a bit lonely in the office today
Greetings from sunny Bari
love you
congrats on surviving the power cut
how was your night, mine was awful
"""

_REPLIES = (
    (
        r"robot|machine|\bhuman|real\s+person|\bare\s+you\s+(?:an?\s+)?(?:ai|bot|person|program|computer|alive|real)|who\s+are\s+you|your\s+name",
        "I am Nexus, the front desk of this office: a program, no person.",
    ),
    (r"joke|funny|make\s+me\s+laugh", "A message queue walks into a bar. It leaves once it is acknowledged."),
    (
        r"thank|thx|cheers|appreciate|helpful|helped|\bstar\b|legend|great|perfect|well done|good job"
        r"|nice one|brilliant|awesome",
        "You are welcome.",
    ),
    (r"\b(?:bye|goodbye|good night|see you|that's all|nice weekend|later)\b", "Goodbye."),
    (
        r"how(?:['’]?s| is| are)? (?:you|we|things|it going|everyone|life)",
        "I am at work, thank you. What can I do for you?",
    ),
    (r"sorry|no worries|my mistake", "No harm done."),
    (
        r"tired|stressed|sad|hard|exhausted|angry|annoyed|ugh|frustrat",
        "I am sorry to hear that. If I can take something off your hands, say what.",
    ),
    (r"grant|accepted|won|passed|birthday|married|congrat|hurray|yay|🎉", "Congratulations!"),
    (
        r"\b(?:hi|hello|hey|morning|evening|afternoon|day|there)\b",
        "Hello. What can I do for you? 'What can you do?' lists it.",
    ),
)


async def reply(desk: "Desk", request: Request, _: Words) -> Answer:
    """A short sentence."""
    lower = request.text.lower()
    found = (text for pattern, text in _REPLIES if re.search(pattern, lower))
    return Answer(text=next(found, "All right."))


TOOL = Tool(
    name="small_talk",
    description="answers greetings and thanks",
    examples=EXAMPLES,
    run=reply,
    hidden=True,
)
