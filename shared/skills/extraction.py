"""A program for the jail: the text of one PDF or Word file, as JSON. It imports nothing of Mailroom.

``python -I extraction.py FILE pdf|docx`` prints ``{"text", "pages", "headings", "cut"}`` or ``{"error"}``.
"""

import json
import resource
import sys
import zipfile
from typing import Any

MOST_TEXT = 400_000
"""Characters of text that are taken: some 150 pages."""
MOST_PAGES = 2_000
MEMORY = 1 << 30
"""Bytes of address space: what unpacks to more than that ends here, not in the machine's memory."""
SECONDS = 60
"""Of processor time."""
UNPACKED = 200_000_000
"""Bytes a Word file may have unpacked, by what it says of itself; zlib gives no more than that."""


class Refused(Exception):
    """The file is not read, for the reason given."""


def read_pdf(path: str) -> dict[str, Any]:
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
        if size > MOST_TEXT:
            break
    text = "\n\f".join(pages)
    return {"text": text[:MOST_TEXT], "pages": len(reader.pages), "cut": len(pages) < len(reader.pages)}


def _decrypt(reader: Any) -> bool:
    """Whether it opens without a password."""
    try:
        return bool(reader.decrypt(""))
    except Exception:
        return False


def read_docx(path: str) -> dict[str, Any]:
    """Its paragraphs and tables in order; raises Refused where it would unpack to too much."""
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
            told = ["\t".join(cell.text for cell in row.cells) for row in block.rows]
        else:
            told = [block.text]
            style = (block.style and block.style.name) or ""
            if style.startswith(("Heading", "Title")) and block.text.strip():
                headings.append({"title": block.text.strip(), "line": count + 1})
        lines += told
        count += sum(line.count("\n") + 1 for line in told)
    text = "\n".join(lines)
    return {"text": text[:MOST_TEXT], "headings": headings[:500], "cut": len(text) > MOST_TEXT}


def main(path: str, kind: str) -> None:
    """Print what is in the file, or why it is not read."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        told = read_pdf(path) if kind == "pdf" else read_docx(path)
    except Refused as error:
        told = {"error": str(error)}
    except MemoryError:
        told = {"error": f"reading it takes more than {MEMORY:,} bytes of memory"}
    except Exception as error:  # whatever two parsers of hostile files may raise
        told = {"error": f"it is damaged or not a {kind} file ({type(error).__name__})"}
    sys.stdout.buffer.write(json.dumps(told).encode())


if __name__ == "__main__":
    main(*sys.argv[1:3])
