"""Papers on a topic."""

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
find papers on graph memory
search arxiv for sparse attention
any new papers about protein folding?
what has been published on soil microbes lately?
find me recent articles on reinforcement learning
is there research on the effect of sleep on memory
look on arxiv for temporal knowledge graphs
show the latest papers by Hinton
literature on teaching fractions to kids
papers about battery degradation please
what are the most relevant publications on corals
read the paper 2310.08560 and tell me what it says
recent work on retrieval for language models?
scientific studies about noise in classrooms
do a literature search on yeast fermentation
which papers came out this week on world models
I need references on acoustic treatment of rehearsal rooms
what's the state of the art in reranking
get me three good papers about explainable AI
preprints on quantum error correction
what are researchers saying about long contexts
survey of multi-agent systems, any papers?
has anyone published on that
find the paper "Attention is all you need"
find me some papers
search arxiv please
did the authors of that sleep paper publish anything new
papers on urban bees since 2024
find studies comparing oat and wheat sourdough
who has written about noise in open offices, scientific please
any preprints on tide prediction
latest publications from the group of Ito
is there a meta-analysis on homework
look up the paper by Kim et al. on memory
what does the literature say about no-till farming
references for teaching music to deaf children
recent arxiv papers on diffusion
journal articles on coral bleaching
summarise the paper 2401.01234
any new papers on perovskite solar cells
find me research about reading aloud to toddlers
what's on arxiv today
papers by Yoshua Bengio
is there a recent study about bee mortality and pesticides
look for publications on graph neural networks for chemistry
latest preprints in cs.CL
Has anybody published something on vibrato perception in violins
show me this week's papers on protein folding
literature on concrete curing in cold weather please
search for articles in journals about dyslexia fonts
new paper from the Max Planck people about sleep?
i need three citations on soil carbon
what does the research say on four day weeks
summarise the newest paper on diffusion models
give me the abstract of attention is all you need
Are there scientific works over the acoustics of small halls
recent arxiv stuff about agents with memory
which papers came in overnight
reviews on CRISPR off-target effects since 2024
find the DOI of that Kahneman article on noise
any studies comparing sourdough starters
whats new in the literature on tinnitus
could you pull up papers that cite Vaswani 2017
preprints about long covid and exercise
my supervisor mentioned a paper on ant navigation by Wehner, can you find it
papers please, topic battery recycling
most cited work on crowd simulation
is there academic literature on volunteer burnout
paper of the day
"""


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """What it is about, in a few words."""

    topic: str = ""


def read(desk: "Desk", request: Request) -> Topic:
    """The topic that is named."""
    return Topic(topic=find_topic(request.text))


async def find(desk: "Desk", request: Request, about: Topic) -> Answer | Call:
    """The papers that frontier finds."""
    if not about.topic:
        what = "I can ask frontier for papers, but not about what. Name the topic."
        return ask_back(what, f"find papers on {SLOT}")
    return Call(assignee="frontier", action="find_papers", params={"topic": about.topic})


_NEEDED = re.compile(
    r"(?i)\b(?:papers?|articles?|arxiv|publi\w+|preprints?|research\w*|stud(?:y|ies)|literature|scien\w+|authors?|journals?|references?|"
    r"state of the art|survey|work on|doi|methods?|approaches|scholar|thesis|citations?"
    r"|sources)\b|\d{4}\.\d{4,5}"
)
"""Words of science."""
TOOL = Tool(
    name="papers",
    description="finds papers on a topic",
    examples=EXAMPLES,
    needs=_NEEDED,
    run=find,
    parameters=Topic,
    read=read,
)
