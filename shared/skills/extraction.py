"""A program for the jail: the text of a PDF, a Word file or a web page. It imports nothing of Mailroom.

``python -I extraction.py FILE pdf|docx|html [CHARACTERS SECONDS]`` prints as JSON what there is of
``text``, ``pages``, ``headings``, ``title``, ``links`` and ``cut``, or ``error``: at most so many
characters of text, in at most so many seconds of processor time.
"""

import json
import resource
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_TEXT = 400_000  # Characters of text that are taken: some 150 pages
MOST_PAGES = 2_000
MEMORY = 1 << 30
"""Bytes of address space: what unpacks to more than that ends here, not in the machine's memory."""
SECONDS = 60  # Of processor time
UNPACKED = 200_000_000
"""Bytes a Word file may have unpacked, by its own directory; zlib unpacks no more than that."""
MOST_LINKS = 500
LONGEST_LINK = 1_000


class Refused(Exception):
    """The file is not read, for the reason given."""


def read_pdf(path: str, most: int) -> dict[str, Any]:
    """The text of its pages, each begun by a form feed; raises Refused for one that needs a password."""
    import pypdf

    reader = pypdf.PdfReader(path)
    if reader.is_encrypted and not _decrypt(reader):
        raise Refused("it is encrypted")
    pages: list[str] = []
    size = 0
    for page in reader.pages[:MOST_PAGES]:
        pages.append(page.extract_text())
        size += len(pages[-1])
        if size > most:
            break
    text = "\n\f".join(pages)
    return {"text": text[:most], "pages": len(reader.pages), "cut": len(pages) < len(reader.pages)}


def _decrypt(reader: Any) -> bool:
    """Whether it opens without a password."""
    try:
        return bool(reader.decrypt(""))
    except Exception:
        return False


def read_docx(path: str, most: int) -> dict[str, Any]:
    """Its paragraphs and tables in order; raises Refused if it would unpack to too much."""
    import docx
    from docx.table import Table

    with zipfile.ZipFile(path) as archive:
        if sum(info.file_size for info in archive.infolist()) > UNPACKED:
            raise Refused(f"it unpacks to more than {UNPACKED:,} bytes")
    lines: list[str] = []
    headings: list[dict[str, Any]] = []
    count = 0
    for block in docx.Document(path).iter_inner_content():
        if isinstance(block, Table):
            added = ["\t".join(cell.text for cell in row.cells) for row in block.rows]
        else:
            added = [block.text]
            style = (block.style and block.style.name) or ""
            if style.startswith(("Heading", "Title")) and block.text.strip():
                headings.append({"title": block.text.strip(), "line": count + 1})
        lines += added
        count += sum(line.count("\n") + 1 for line in added)
    text = "\n".join(lines)
    return {"text": text[:most], "headings": headings[:500], "cut": len(text) > most}


def extract_html(page: bytes, most: int = MOST_TEXT) -> dict[str, Any]:
    """The title, the main text (else all visible text) and the link targets of an HTML page."""
    from lxml import html  # type: ignore[import-untyped]
    from trafilatura import extract
    from trafilatura.utils import load_html

    body = page.replace(b"\0", b"")
    if not body.strip():
        return {}
    tree = load_html(body)
    if tree is None:  # it looks too little like a page
        tree = html.document_fromstring(body, parser=html.HTMLParser(encoding="utf-8"))
    targets = [str(anchor.get("href")) for anchor in tree.iter("a") if anchor.get("href")]
    links = [target for target in targets if len(target) <= LONGEST_LINK]
    title = (tree.findtext(".//title") or "")[:LONGEST_LINK]
    text = extract(body, include_comments=False) or _shown(tree)
    cut = len(text) > most
    return {"text": text[:most], "title": title, "links": links[:MOST_LINKS], "cut": cut}


def _shown(tree: Any) -> str:
    for element in [*tree.iter("script", "style", "noscript", "template", "head")]:
        element.drop_tree()
    return "\n".join(line for row in tree.text_content().splitlines() if (line := " ".join(row.split())))


READERS: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "pdf": read_pdf,
    "docx": read_docx,
    "html": lambda path, most: extract_html(Path(path).read_bytes(), most),
}


def main(path: str, kind: str, most: str = str(MOST_TEXT), longest: str = str(SECONDS)) -> None:
    """Print what is in the file, or why it is not read."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    _, allowed = resource.getrlimit(resource.RLIMIT_CPU)
    seconds = int(longest) if allowed == resource.RLIM_INFINITY else min(int(longest), allowed)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        result = READERS[kind](path, int(most))
    except Refused as error:
        result = {"error": str(error)}
    except MemoryError:
        result = {"error": f"reading it takes more than {MEMORY:,} bytes of memory"}
    except Exception as error:  # whatever two parsers of hostile files may raise
        result = {"error": f"it is damaged or not a {kind} file ({type(error).__name__})"}
    sys.stdout.buffer.write(json.dumps(result).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
