"""What an architecture document says, sentence by sentence, with lines."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from markdown_it.token import Token

DOCUMENT = re.compile(r"(?:(?:docs?|\.github)/)?architecture\.(?:md|markdown)", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!cf\.)(?<!vs\.)\s+(?=\S)|;\s+|\n{2,}")
LISTED = re.compile(
    r"^([\s│├└─|`+-]*)([\w@.-]+(?:/[\w@.-]+)*/?)((?:<\w+>/?)?)(?:\s{2,}|\s+[#—–-]\s+|:\s+)(\S.*)$"
)


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence or a part of one; ``about`` is what the list, table or heading says it is about."""

    text: str
    line: int
    about: str = ""
    fenced: bool = False


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a table: the cells by their column's heading, lower-case."""

    cells: tuple[tuple[str, str], ...]
    line: int


def read_passages(text: str) -> tuple[list[Passage], list[Row]]:
    """The sentences of a Markdown document, the lines of its plain code blocks, the rows of its tables."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    passages: list[Passage] = []
    rows: list[Row] = []
    table = False
    heading = False
    for at, token in enumerate(tokens):
        if token.type in ("table_open", "table_close"):
            table = token.type == "table_open"
            rows += _rows(tokens, at) if table else []
        elif token.type in ("heading_open", "heading_close"):
            heading = token.type == "heading_open"
        elif token.type == "inline" and token.map and not table and not heading:
            passages += _sentences(token.content, token.map[0] + 1)
        elif (
            token.type in ("fence", "code_block")
            and token.map
            and token.info.strip() in ("", "text", "txt", "none")
        ):
            passages += _listing(token.content, token.map[0] + (2 if token.type == "fence" else 1))
    return passages, rows


def _sentences(content: str, line: int) -> Iterator[Passage]:
    start = 0
    about = _about(content)
    for end in [*(match.end() for match in SENTENCE.finditer(content)), len(content)]:
        sentence = content[start:end]
        text = " ".join(sentence.split()).strip(" ;")
        if text:
            skipped = content[:start] + sentence[: len(sentence) - len(sentence.lstrip())]
            yield Passage(text=text, line=line + skipped.count("\n"), about=about)
        start = end


def _about(content: str) -> str:
    """What an item of a list begins with: ``**`shared/bus`**: the only importer of nats``."""
    match = re.match(r"\s*\**(`[^`]+`|[\w./-]+)\**\s*(?::|—|–|\s-\s)\s*(?=\S)", content)
    return match[1] if match else ""


def _listing(content: str, line: int) -> Iterator[Passage]:
    """The lines of a drawn tree, each about the path that its indentation gives it, or of any plain block."""
    above: list[tuple[int, str]] = []
    for number, row in enumerate(content.splitlines(), start=line):
        match = LISTED.match(row)
        if not match:
            yield Passage(text=" ".join(row.split()), line=number, fenced=True)
            continue
        above = [
            *((depth, name) for depth, name in above if depth < len(match[1])),
            (len(match[1]), match[2]),
        ]
        about = "/".join(name.rstrip("/") for _, name in above)
        for part in re.split(r";\s+|(?<=[.!?])\s+(?=[A-Z])", match[4]):
            yield Passage(text=" ".join(part.split()), line=number, about=about, fenced=True)


def _rows(tokens: "list[Token]", start: int) -> Iterator[Row]:
    headings: list[str] = []
    cells: list[str] = []
    line = 0
    for token in tokens[start:]:
        if token.type == "table_close":
            return
        if token.type == "tr_open":
            cells, line = [], token.map[0] + 1 if token.map else line
        elif token.type == "inline":
            cells.append(token.content)
        elif token.type == "tr_close":
            if not headings:
                headings = [cell.lower() for cell in cells]
            else:
                yield Row(cells=tuple(zip(headings, cells, strict=False)), line=line)
