"""Documents opened: Markdown, reStructuredText and plain text, each by its own reader."""

from pathlib import Path

from services.scout.document import Builder, Document, blocks
from services.scout.markdown import parse_markdown
from services.scout.restructured import parse_restructured
from shared.errors import ActionError
from shared.source.tree import read_text

SUFFIXES = (".md", ".markdown", ".rst", ".txt", "")
"""What is read as a document; a file without a suffix is plain text."""


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


def open_document(path: Path) -> Document:
    """Read the document at an absolute ``path``; raises ActionError where it cannot be read as one."""
    if not path.is_absolute():
        raise ActionError(f"{str(path)!r} is not an absolute path", "Give the whole path of the document")
    if path.suffix.lower() not in SUFFIXES:
        raise ActionError(
            f"{path.name} is not a document", "Markdown, reStructuredText and plain text can be read"
        )
    if path.is_symlink() or not path.is_file():
        raise ActionError(f"{path} is not a regular file", "Check the path; links are not followed")
    text = read_text(path.parent, path.name)
    if not text.strip():
        raise ActionError(f"{path} holds no text that can be read", "It is empty, binary or not readable")
    return parse(path.name, text)
