"""A web page: its media types, its character set, and its links."""

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
"""Media types that are read as pages; all but HTML are taken as plain text."""
NO_PAGE = ("idna", "punycode")
"""Codecs for host names, which are far too slow for a page."""
ACCEPT = {"Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.1"}


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a page; ``url`` is its address after redirects, ``links`` are at most 50."""

    url: str
    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()


def is_html(kind: str) -> bool:
    """Whether a content type is that of HTML, which has to be parsed."""
    return kind.lower().startswith(("text/html", "application/xhtml"))


def recode_html(kind: str, body: bytes) -> bytes:
    """``body`` in UTF-8 if its content type names a valid character set, else as it is.

    The content type takes precedence over the page's own declaration.
    """
    charset = _charset(kind)
    try:
        return body.decode(charset).encode() if charset else body
    except (LookupError, UnicodeError):
        return body


def decode_text(kind: str, body: bytes) -> str:
    """``body`` decoded by its content type, else as UTF-8; invalid bytes are replaced."""
    try:
        return body.decode(_charset(kind) or "utf-8", "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")


def _charset(kind: str) -> str:
    """Python's name of the character set of a content type; empty if it has no valid one."""
    named = kind.lower().partition("charset=")[2].partition(";")[0].strip("\"' ")
    try:
        charset = codecs.lookup(named).name
    except LookupError:
        return ""
    return "" if charset in NO_PAGE else charset


def follow_links(url: str, targets: Iterable[str]) -> tuple[str, ...]:
    """The ``targets`` of links on the page at ``url`` as absolute web addresses: at most 50, each once."""
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
