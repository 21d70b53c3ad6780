"""The short form of a briefing: titles alone, about four times as many in the same room."""

import re

from services.memory.briefing.fitting import Text, fit
from services.memory.briefing.page import CHARACTERS, Item, Page
from services.memory.briefing.text import escape, flatten

TITLE = 100
"""The most characters of a title."""

_STARTS = re.compile(r"^(\d{0,9})([-#>+=.)])")
"""What at the start of a line makes a heading, a list or a quotation of it."""


def render_compact(page: Page, characters: int = CHARACTERS) -> Text:
    """The page as Markdown of at most ``characters``: a heading a section, ``- title`` an item."""
    return fit(page, [_line], characters)


def _line(item: Item) -> str:
    title = _STARTS.sub(r"\1\\\2", escape(flatten(item.node.title, TITLE))) or "untitled"
    return f"- {title} ({escape(item.note)})\n" if item.note else f"- {title}\n"
