"""Markdown read by its structure: headings, paragraphs, code, links."""

from html.parser import HTMLParser
from typing import TYPE_CHECKING

from services.scout.document import Builder, Document, Reference

if TYPE_CHECKING:
    from markdown_it.token import Token

HIDDEN = ("script", "style", "h1", "h2", "table", "svg")
"""Elements whose text is not prose."""


def parse_markdown(path: str, text: str) -> Document:
    """The document in ``text``; front matter is left out, HTML is read as the text it shows."""
    from markdown_it import MarkdownIt

    builder = Builder(path, text)
    tokens = MarkdownIt("commonmark").enable("table").parse(_blank_front_matter(text))
    level = 0
    for token in tokens:
        line = token.map[0] + 1 if token.map else 1
        if token.type == "heading_open":
            level = int(token.tag[1:])
        elif token.type == "inline":
            words = _read_inline(builder, token, line)
            if level:
                builder.begin(level, words.strip(), line)
                level = 0
            else:
                builder.add_paragraph(words, line)
        elif token.type == "fence":
            builder.add_code(token.content, line + 1, (token.info.split() or [""])[0])
        elif token.type == "code_block":
            builder.add_code(token.content, line)
        elif token.type == "html_block":
            builder.add_paragraph(_shown(token.content), line)
    return builder.build()


def _blank_front_matter(text: str) -> str:
    # replaced by empty lines, so that the numbers of the lines after it stay right
    if not text.startswith("---\n"):
        return text
    head, end, rest = text[4:].partition("\n---\n")
    return "\n" * (head.count("\n") + 3) + rest if end else text


def _read_inline(builder: Builder, token: "Token", line: int) -> str:
    words = []
    for child in token.children or []:
        if child.type in ("softbreak", "hardbreak"):
            line += 1
            words.append(" ")
        elif child.type == "text":
            words.append(child.content)
        elif child.type == "code_inline":
            words.append(f"`{child.content}`")
            builder.references.append(Reference(target=child.content, line=line, link=False))
        elif child.type == "link_open":
            builder.references.append(
                Reference(target=str(child.attrs.get("href", "")), line=line, link=True)
            )
        elif child.type == "image":
            builder.references.append(Reference(target=str(child.attrs.get("src", "")), line=line, link=True))
    return "".join(words)


class _Shown(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden += tag in HIDDEN

    def handle_endtag(self, tag: str) -> None:
        if tag in HIDDEN and self.hidden:
            self.hidden -= 1

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.words.append(data)


def _shown(html: str) -> str:
    parser = _Shown()
    try:
        parser.feed(html[:20_000])
    except AssertionError:  # what the standard library raises on a malformed declaration
        return ""
    return " ".join("".join(parser.words).split())
