"""One web page: its main text and links taken out of what was fetched."""

from typing import Any
from urllib.parse import urldefrag, urljoin

import msgspec

from shared.web.quoting import clean

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
ACCEPT = {"Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.1"}


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What a page says; ``url`` is where redirects led to, ``links`` lead on from it (at most 50)."""

    url: str
    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()


def read_page(url: str, kind: str, body: bytes) -> Page:
    """The page in ``body`` of content type ``kind``; one without any text is an empty page."""
    if not kind.lower().startswith(("text/html", "application/xhtml")):
        return Page(url=url, text=decode_text(kind, body))
    from trafilatura import extract
    from trafilatura.utils import load_html

    tree = load_html(body)
    if tree is None:
        return Page(url=url)
    title = clean(tree.findtext(".//title") or "", 300)
    links = tuple(_links(url, [str(anchor.get("href")) for anchor in tree.iter("a") if anchor.get("href")]))
    text = extract(body, url=url, include_comments=False) or _visible(tree)
    return Page(url=url, title=title, text=text, links=links)


def decode_text(kind: str, body: bytes) -> str:
    """``body`` in the character set its content type names, else UTF-8; what is not in it is replaced."""
    charset = kind.lower().partition("charset=")[2].strip("\"' ;") or "utf-8"
    try:
        # these two are for names, and take ages over a page
        return body.decode("utf-8" if charset in ("idna", "punycode") else charset, "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")


def _links(url: str, targets: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for target in targets:
        try:
            link = urldefrag(urljoin(url, target.strip()))[0]
        except ValueError:
            continue
        if link.startswith(("http://", "https://")) and link.isprintable() and len(link) <= 1_000:
            found.setdefault(link)
    found.pop(url, None)
    return list(found)[:50]


def _visible(tree: Any) -> str:
    for element in [*tree.iter("script", "style", "noscript", "template", "head")]:
        element.drop_tree()
    return "\n".join(line for row in tree.text_content().splitlines() if (line := " ".join(row.split())))
