"""Markdown by its blocks (headings, paragraphs, code, HTML, table rows), each with its headings and lines."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_KINDS: dict[str, Literal["code", "html"]] = {"fence": "code", "code_block": "code", "html_block": "html"}


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A block of a document; ``text`` is its source without the marks that make the block.

    ``path`` has the headings it stands under, outermost first, as they are written; a heading is the last of
    its own path. Lines count from 0: ``start`` is the first one, that of the opening fence for fenced code,
    and ``end`` the one after the last. A block within a list or a quotation is ``nested``; a heading there is
    in no path. ``level`` is 1 to 6 for headings. ``info`` is what follows an opening fence. A row of a table
    has ``cells``; ``is_header`` is set on the first row. ``inline`` holds markdown-it's tokens of the text,
    if links and code within it are parsed.
    """

    kind: Literal["heading", "paragraph", "code", "html", "row", "cell"]
    text: str
    start: int
    end: int
    path: tuple[str, ...] = ()
    nested: bool = False
    level: int = 0
    fenced: bool = False
    info: str = ""
    cells: tuple["Block", ...] = ()
    is_header: bool = False
    inline: tuple[Any, ...] = ()


def read_blocks(text: str, *, tables: bool = True, inline: bool = True) -> Iterator[Block]:
    """The blocks of a CommonMark text, in order.

    Without ``tables`` a table is a paragraph. Without ``inline``, links and code within texts are not parsed,
    which takes half of the time.
    """
    path: list[tuple[int, str]] = []
    cells: list[Block] = []
    opened: Token | None = None
    header = False
    for token in _parser(tables, inline).parse(text):
        names = tuple(name for _, name in path)
        if token.type in ("heading_open", "paragraph_open", "th_open", "td_open"):
            opened = token
        elif token.type == "inline" and opened is not None:
            start, end = opened.map or token.map or (0, 0)
            heading = opened.type == "heading_open"
            block = Block(
                kind="heading" if heading else "paragraph" if opened.type == "paragraph_open" else "cell",
                text=token.content,
                start=start,
                end=end,
                path=names,
                nested=opened.level > 0,
                level=int(opened.tag[1:]) if heading else 0,
                inline=tuple(token.children or ()),
            )
            if block.kind == "cell":
                cells.append(block)
                continue
            if block.kind == "heading" and not block.nested:
                path = [pair for pair in path if pair[0] < block.level] + [(block.level, block.text)]
                block = msgspec.structs.replace(block, path=tuple(name for _, name in path))
            yield block
        elif token.type == "tr_close":
            yield _make_row(cells, names, nested=token.level > 2, is_header=header)
            cells = []
        elif token.type in ("thead_open", "thead_close"):
            header = token.type == "thead_open"
        elif token.type in _KINDS:
            yield _read_code(token, names)


def show_inline(text: str) -> str:
    """A line of Markdown as it is shown: without marks of emphasis, escapes and tags; links stay."""
    (token,) = _parser(False, True, False).parseInline(text)
    return "".join(
        " " if child.type.endswith("break") else "" if child.type == "html_inline" else child.content
        for child in token.children or ()
    )


def _read_code(token: "Token", path: tuple[str, ...]) -> Block:
    start, end = token.map or (0, 0)
    return Block(
        kind=_KINDS[token.type],
        text=token.content,
        start=start,
        end=end,
        path=path,
        nested=token.level > 0,
        fenced=token.type == "fence",
        info=token.info.strip(),
    )


def _make_row(cells: list[Block], path: tuple[str, ...], *, nested: bool, is_header: bool) -> Block:
    return Block(
        kind="row",
        text=" | ".join(cell.text for cell in cells),
        start=cells[0].start,
        end=cells[0].end,
        path=path,
        nested=nested,
        cells=tuple(cells),
        is_header=is_header,
    )


@cache
def _parser(tables: bool, inline: bool, links: bool = True) -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    if tables:
        parser.enable("table")
    if not links:  # looking for the end of one takes time that grows with the square of open brackets
        parser.disable(["link", "image"])
    return parser if inline else parser.disable("inline")
