"""One web page: what is read as one, its character set, and where it leads."""

import codecs
from collections.abc import Iterable
from urllib.parse import urldefrag, urljoin

import msgspec

READABLE = (
    "text/html",
    "application/xhtml+xml",
    "text/plain",
    "text/markdown",
    "application/json",
    "text/x-rst",
    "text/csv",
    "text/xml",
    "application/xml",
    "application/yaml",
)
"""Media types that are read as pages; all but HTML as they stand."""
NO_PAGE = ("idna", "punycode")
"""Character sets for names, which take ages over a page."""
ACCEPT = {"Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.1"}


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What a page says; ``url`` is where redirects led to, ``links`` lead on from it (at most 50)."""

    url: str
    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()


def is_html(kind: str) -> bool:
    """Whether a content type is that of HTML, which has to be taken apart."""
    return kind.lower().startswith(("text/html", "application/xhtml"))


def recode_html(kind: str, body: bytes) -> bytes:
    """``body`` in UTF-8 where its content type rightly names a character set, which goes before what a page
    says of itself; else as it is.
    """
    charset = _charset(kind)
    try:
        return body.decode(charset).encode() if charset else body
    except (LookupError, UnicodeError):
        return body


def decode_text(kind: str, body: bytes) -> str:
    """``body`` in the character set its content type names, else UTF-8; what is not in it is replaced."""
    try:
        return body.decode(_charset(kind) or "utf-8", "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")


def _charset(kind: str) -> str:
    """The character set that a content type names, as Python calls it; empty where it is no page's."""
    named = kind.lower().partition("charset=")[2].partition(";")[0].strip("\"' ")
    try:
        charset = codecs.lookup(named).name
    except LookupError:
        return ""
    return "" if charset in NO_PAGE else charset


def follow_links(url: str, targets: Iterable[str]) -> tuple[str, ...]:
    """Where ``targets`` lead from the page at ``url``: at most 50 addresses on the web, each once."""
    found: dict[str, None] = {}
    for target in targets:
        try:
            link = urldefrag(urljoin(url, target.strip()))[0]
        except ValueError:
            continue
        if link.startswith(("http://", "https://")) and link.isprintable() and len(link) <= 1_000:
            found.setdefault(link)
    found.pop(url, None)
    return tuple(found)[:50]
