"""Documents opened: Markdown, reStructuredText and plain text, each by its own reader."""

from pathlib import Path

from services.scout.document import Builder, Document, blocks
from services.scout.markdown import parse_markdown
from services.scout.restructured import parse_restructured


def parse(path: str, text: str) -> Document:
    """Read Markdown, reStructuredText or plain text, by the suffix of ``path``."""
    suffix = Path(path).suffix.lower()
    if suffix in (".md", ".markdown"):
        return parse_markdown(path, text)
    if suffix == ".rst":
        return parse_restructured(path, text)
    return parse_plain(path, text)


def parse_plain(path: str, text: str) -> Document:
    """Paragraphs parted by empty lines; an indented one is code."""
    builder = Builder(path, text)
    for line, block in blocks(text):
        if all(row.startswith(("    ", "\t")) for row in block):
            builder.add_code("\n".join(row.strip() for row in block), line)
        else:
            builder.add_paragraph(" ".join(block), line)
    return builder.build()
