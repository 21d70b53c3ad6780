"""Messages in another language than English, which only a model understands."""

from typing import TYPE_CHECKING

from services.nexus.routing.languages import SENTENCES, find_language
from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words
from shared.contracts import ResultOutcome

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """

"""


async def say_so(desk: "Desk", request: Request, _: Words) -> Answer:
    """In that language, that without a model English is understood."""
    language = find_language(request.text)
    return Answer(text=SENTENCES.get(language, SENTENCES["German"]), outcome=ResultOutcome.FAILED)


TOOL = Tool(
    name="language",
    description="says in other languages that English is understood",
    examples=EXAMPLES,
    run=say_so,
    hidden=True,
)
