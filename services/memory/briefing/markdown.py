"""The full form of a briefing: a line of title, kind and body for every item."""

from collections.abc import Callable
from functools import partial

from services.memory.briefing.fitting import Text, fit
from services.memory.briefing.page import CHARACTERS, Item, Page
from services.memory.briefing.text import escape, flatten

LENGTHS = ((256, 400), (256, 200), (160, 120), (120, 80))
"""The most characters of a title and of a body, the roomiest first: a fuller memory gets shorter extracts
before it gets fewer items."""


def render_markdown(page: Page, characters: int = CHARACTERS) -> Text:
    """The page as Markdown of at most ``characters``: a heading a section, ``- **title** (kind): body`` an
    item.
    """
    lines: list[Callable[[Item], str]] = [partial(_line, title, body) for title, body in LENGTHS]
    return fit(page, lines, characters)


def _line(title_limit: int, body_limit: int, item: Item) -> str:
    node = item.node
    title = escape(flatten(node.title, title_limit)) or "untitled"
    about = f"{node.kind}; {item.note}" if item.note else node.kind
    body = escape(flatten(node.body, body_limit))
    return f"- **{title}** ({escape(about)})" + (f": {body}\n" if body else "\n")
