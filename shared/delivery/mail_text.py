"""The text of a mail as a person sees it, of HTML too."""

import re
from email import message_from_bytes
from email.message import EmailMessage, MIMEPart
from email.policy import EmailPolicy
from html.parser import HTMLParser
from typing import Any

LONGEST_HEADER = 8_000
"""The characters of a header that are read: the parser takes four times as long for twice as many."""
LONGEST = 1_000_000  # The most characters of HTML that are read
_SPACES = re.compile(r"\s+")
UNREADABLE = (ValueError, LookupError, AttributeError, TypeError, IndexError, RecursionError)
"""What the parser raises for mails that are made to break it."""


class _Policy(EmailPolicy):
    """The default policy, which reads no more of a header than LONGEST_HEADER."""

    def header_fetch_parse(self, name: str, value: Any) -> Any:
        return super().header_fetch_parse(name, value[:LONGEST_HEADER] if type(value) is str else value)


_POLICY = _Policy()


def parse_mail(data: bytes) -> EmailMessage:
    """A mail with its headers as structures; raises one of UNREADABLE, as reading a header of it may."""
    return message_from_bytes(data, policy=_POLICY)  # type: ignore[arg-type]  # it makes an EmailMessage


def read_text(mail: EmailMessage) -> str:
    """The text of a mail, of HTML the visible one, in which a line of ``>`` stands for what is quoted.

    Raises one of UNREADABLE.
    """
    for kind in ("plain", "html"):
        part = mail.get_body((kind,))
        content = _decode(part) if part is not None else ""
        if kind == "html":
            reader = _Text()
            reader.feed(content[:LONGEST])
            content = "".join(reader.parts)
        if content.strip():
            return content
    return ""


def _decode(part: MIMEPart) -> str:
    """The text of a part, also if it names a set of characters that is unknown."""
    try:
        return str(part.get_content())
    except LookupError:
        raw = part.get_payload(decode=True)
        return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""


class _Text(HTMLParser):
    """The visible text of HTML outside of quotations."""

    BREAKS = frozenset({"br", "p", "div", "li", "tr", "hr", "h1", "h2", "h3", "pre", "table"})
    SKIPPED = frozenset({"script", "style", "blockquote", "head"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body":  # the end of the head need not be written
            self._skipped = 0
        if tag == "blockquote" and not self._skipped:
            self.parts.append("\n>\n")
        self._skipped += tag in self.SKIPPED
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in self.SKIPPED and self._skipped > 0
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.parts.append(_SPACES.sub(" ", data))
