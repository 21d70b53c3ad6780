"""The text of a mail as a person sees it, of HTML too."""

from email.message import EmailMessage
from html.parser import HTMLParser

LONGEST = 1_000_000
"""The most characters of HTML that are read."""
UNREADABLE = (ValueError, LookupError, AttributeError, TypeError, IndexError)
"""What the parser raises for mails that are made to break it."""


def read_text(mail: EmailMessage) -> str:
    """The text of a mail, of HTML the visible one without quotations; raises one of UNREADABLE."""
    part = mail.get_body(("plain", "html"))
    if part is None:
        return ""
    content = str(part.get_content())
    if part.get_content_type() == "text/plain":
        return content
    reader = _Text()
    reader.feed(content[:LONGEST])
    return "".join(reader.parts)


class _Text(HTMLParser):
    """The visible text of HTML outside of quotations."""

    BREAKS = frozenset({"br", "p", "div", "li", "tr", "h1", "h2", "h3"})
    SKIPPED = frozenset({"script", "style", "blockquote", "head"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped += tag in self.SKIPPED
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in self.SKIPPED and self._skipped > 0
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.parts.append(data)
