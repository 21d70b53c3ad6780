"""Messages in another language than English, which only a model understands."""

from typing import TYPE_CHECKING

from services.nexus.routing.languages import ENGLISH_ONLY, SENTENCES, find_language
from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words
from shared.contracts import ResultOutcome

if TYPE_CHECKING:
    from services.nexus.desk import Desk


async def say_so(desk: "Desk", request: Request, _: Words) -> Answer:
    """In that language, that without a model English is understood."""
    language = find_language(request.text)
    return Answer(text=SENTENCES.get(language, ENGLISH_ONLY), outcome=ResultOutcome.FAILED)


TOOL = Tool(
    name="language",
    description="says in other languages that English is understood",
    run=say_so,
    hidden=True,
)
