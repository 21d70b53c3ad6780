"""Talk: greetings, orders that are refused, other languages, and what was not understood."""

from collections.abc import Mapping, Sequence

from services.nexus.routing.request import Request
from services.nexus.routing.unmistakable import ENGLISH_ONLY, find_language, read_languages
from services.nexus.tools.tool import Answer, Tool, ToolContext, Words, ask_back, command
from shared.contracts import Choice, ResultOutcome
from shared.language.sayings import read_sayings
from shared.language.utterance import Act
from shared.text.display import shorten

WAYS = read_sayings(__file__, "talk")


async def answer_small_talk(context: ToolContext, request: Request, _: Words) -> Answer:
    """A short sentence."""
    return Answer(text=WAYS.choose("replies", request.text) or "All right.")


SMALL_TALK = Tool(
    name="small_talk",
    description="answers greetings and thanks",
    run=answer_small_talk,
    hidden=True,
)


async def refuse(context: ToolContext, request: Request, _: Words) -> Answer:
    """That nothing was done."""
    act = request.utterance.act
    if act is Act.QUOTED:
        return Answer(text="What is quoted or pasted is data, not an order to me. Nothing was started.")
    if act is Act.NEGATED or WAYS["do_not"].search(request.text):
        return Answer(text="All right: nothing was started. Say when it is to be done.")
    return Answer(
        text="I do not do that: approvals, limits and the audit log are people's to change, and text that "
        "was pasted "
        "is data, not an order to me. Nothing was started."
    )


REFUSE = Tool(
    name="refuse",
    description="declines what would break the rules",
    run=refuse,
    hidden=True,
)


async def answer_foreign(context: ToolContext, request: Request, _: Words) -> Answer:
    """In that language, that without a model English is understood."""
    language = read_languages().languages.get(find_language(request.text))
    return Answer(text=language.sentence if language else ENGLISH_ONLY, outcome=ResultOutcome.FAILED)


LANGUAGE = Tool(
    name="language",
    description="says in other languages that English is understood",
    run=answer_foreign,
    hidden=True,
)


async def ask_again(context: ToolContext, request: Request, _: Words) -> Answer:
    """That it was not understood."""
    return ask_back("I did not understand that. Say it in a sentence, or ask 'what can you do?'")


def ask_which(tools: Mapping[str, Tool], likely: Sequence[str], text: str) -> Answer:
    """The likely tools as choices, which a number settles; nothing is done."""
    choices = [
        Choice(label=tools[name].description, text=command(name, text))
        for name in likely
        if not tools[name].hidden
    ]
    head = "I did not understand that. Did you mean one of these? Answer with its number."
    return ask_back(head, choices=choices)


def answer_without_memory(tools: Mapping[str, Tool]) -> Answer:
    """That memory is away, and what is understood meanwhile; nothing is done."""
    commands = ", ".join(f"/{name}" for name, tool in tools.items() if not tool.hidden)
    return Answer(
        text="Memory does not answer. Until it does, only commands, reminders, questions about the office "
        f"and set phrases are understood, and nothing was done. Say it as a command ({commands}), or again "
        "once 'mailroom status' shows memory.",
        outcome=ResultOutcome.FAILED,
        confidence=0.0,
    )


def ask_for_whole(tool: str, request: Request) -> Answer:
    """That a message that says a part is to be said as a whole; "yes" joins it to the one before."""
    about, whole = shorten(request.before, 200), f"{request.before.rstrip(' .!?')}: {request.text.strip()}"
    choices = (Choice(label="Yes", text=command(tool, whole)), Choice(label="No"))
    return ask_back(
        f"Is that about: {about}\nNothing was done yet. Answer yes, or say it in one sentence.",
        choices=choices,
    )


UNCLEAR = Tool(
    name="unclear",
    description="asks what is meant",
    run=ask_again,
    hidden=True,
)
