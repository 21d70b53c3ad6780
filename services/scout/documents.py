"""Documents as sections of paragraphs and code with their lines: Markdown, reStructuredText, plain text."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import msgspec

from shared.text.markdown import Block, read_blocks


class Paragraph(msgspec.Struct, frozen=True, kw_only=True):
    """Running text without markup, and the line it begins at."""

    text: str
    line: int


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A block of code: its text, the line of its first line, the language if one is named."""

    text: str
    line: int
    language: str = ""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """Something a document points at: a link's target, or what it puts between backticks."""

    target: str
    line: int
    link: bool


class Section(msgspec.Struct, kw_only=True):
    """The content under a heading; ``headings`` are level and text of those above it, its own last."""

    headings: tuple[tuple[int, str], ...] = ()
    line: int = 1
    paragraphs: list[Paragraph] = []
    codes: list[Code] = []

    @property
    def titles(self) -> tuple[str, ...]:
        """The headings above it, outermost first, and its own, last."""
        return tuple(title for _, title in self.headings)

    @property
    def title(self) -> str:
        """Its own heading; empty before the first one."""
        return self.headings[-1][1] if self.headings else ""


class Document(msgspec.Struct, kw_only=True):
    """A document below a folder; ``path`` is relative to it. Its parser adds the parts in their order."""

    path: str
    text: str = ""
    sections: list[Section] = []
    references: list[Reference] = []

    def paragraphs(self) -> Iterator[tuple[Section, Paragraph]]:
        """Every paragraph with its section, in order."""
        for section in self.sections:
            for paragraph in section.paragraphs:
                yield section, paragraph

    def begin(self, level: int, title: str, line: int) -> None:
        """Start a section with a heading of ``level`` (1 is the outermost) at ``line``."""
        above = [each for each in self.sections[-1].headings if each[0] < level] if self.sections else []
        self.sections.append(Section(headings=(*above, (level, title)), line=line))

    def add_paragraph(self, text: str, line: int) -> None:
        """Add running text, unless it is blank."""
        if text.strip():
            self._section().paragraphs.append(Paragraph(text=" ".join(text.split()), line=line))

    def add_code(self, text: str, line: int, language: str = "") -> None:
        """Add a block of code, unless it is blank."""
        if text.strip():
            self._section().codes.append(Code(text=text, line=line, language=language.lower()))

    def add_reference(self, target: str, line: int, *, link: bool) -> None:
        """Add a link's target, or what is between backticks."""
        self.references.append(Reference(target=target, line=line, link=link))

    def _section(self) -> Section:
        if not self.sections:
            self.sections.append(Section())
        return self.sections[-1]


def split_blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Runs of lines between empty ones, each with the number of its first line."""
    block: list[str] = []
    for number, row in enumerate([*text.splitlines(), ""], start=1):
        if row.strip():
            block.append(row)
        elif block:
            yield number - len(block), block
            block = []


HIDDEN = ("script", "style", "h1", "h2", "table", "svg")  # Elements whose text is not prose


def parse_markdown(path: str, text: str) -> Document:
    """The document in ``text``; front matter is left out, HTML is read as the text it shows."""
    document = Document(path=path, text=text)
    head, end, rest = text[4:].partition("\n---\n") if text.startswith("---\n") else ("", "", "")
    # Front matter is replaced by empty lines, so that the numbers of the lines after it stay right.
    for block in read_blocks("\n" * (head.count("\n") + 3) + rest if end else text):
        line = block.start + 1
        if block.kind == "heading":
            document.begin(block.level, _read_inline(document, block).strip(), line)
        elif block.kind == "code":
            document.add_code(block.text, line + block.fenced, (block.info.split() or [""])[0])
        elif block.kind == "html":
            document.add_paragraph(_visible_text(block.text), line)
        else:
            for part in block.cells or (block,):
                document.add_paragraph(_read_inline(document, part), line)
    return document


def _read_inline(document: Document, block: Block) -> str:
    words, line = [], block.start + 1
    for token in block.inline:
        if token.type in ("softbreak", "hardbreak"):
            line += 1
            words.append(" ")
        elif token.type == "text":
            words.append(token.content)
        elif token.type == "code_inline":
            words.append(f"`{token.content}`")
            document.add_reference(token.content, line, link=False)
        elif token.type in ("link_open", "image"):
            target = token.attrs.get("href" if token.type == "link_open" else "src", "")
            document.add_reference(str(target), line, link=True)
    return "".join(words)


class _VisibleText(HTMLParser):
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


def _visible_text(html: str) -> str:
    parser = _VisibleText()
    try:
        parser.feed(html[:20_000])
    except AssertionError:  # raised by the standard library on a malformed declaration
        return ""
    return " ".join("".join(parser.words).split())


ADORNMENT = re.compile(r"([=\-`:.'\"~^_*+#<>])\1{2,}\s*")
CODE = re.compile(r"\.\. (?:code-block|code|sourcecode)::\s*(\S*)")
LINK = re.compile(r"`([^`<]+?)\s*<([^`>]+)>`__?")
ROLE = re.compile(r":[\w:+-]+:`~?([^`<]+?)(?:\s*<[^`>]*>)?`")
LITERAL = re.compile(r"``([^`]+)``")
MARKS = re.compile(r"\|[^|\s][^|]*\|_?|\*{1,2}|(?<=\w)__?(?=\W|$)")


def parse_restructured(path: str, text: str) -> Document:
    """The document in ``text``; directives other than code are left out."""
    document = Document(path=path, text=text)
    levels: list[str] = []
    literal = ""
    for line, rows in split_blocks(text):
        indented = rows[0].startswith((" ", "\t"))
        if indented:
            if literal:
                document.add_code(_dedent(rows), line, literal.strip(":"))
            continue
        literal = ""
        rest = _parse_title(document, levels, line, rows)
        while rest != (line, rows):
            line, rows = rest
            rest = _parse_title(document, levels, line, rows)
        if not rows:
            continue
        if rows[0].startswith(".. "):
            if match := CODE.match(rows[0]):
                literal = f":{match[1] or ':'}"
                body = [row for row in rows[1:] if not row.strip().startswith(":")]
                if body:
                    document.add_code(_dedent(body), line + len(rows) - len(body), match[1])
            continue
        words = " ".join(row.strip() for row in rows)
        if words.endswith("::"):
            literal = ":"
        for number, row in enumerate(rows, start=line):
            for match in LINK.finditer(row):
                document.add_reference(match[2], number, link=True)
            for match in LITERAL.finditer(row):
                document.add_reference(match[1], number, link=False)
        document.add_paragraph(_plain_text(words), line)
    return document


def _parse_title(document: Document, levels: list[str], line: int, rows: list[str]) -> tuple[int, list[str]]:
    over = len(rows) >= 3 and bool(ADORNMENT.fullmatch(rows[0])) and rows[0].rstrip() == rows[2].rstrip()
    first = 1 if over else 0
    if len(rows) < first + 2 or not ADORNMENT.fullmatch(rows[first + 1]):
        return line, rows
    style = rows[first + 1][0] * (2 if over else 1)
    if style not in levels:
        levels.append(style)
    document.begin(levels.index(style) + 1, _plain_text(rows[first].strip()), line + first)
    return line + first + 2, rows[first + 2 :]


def _plain_text(text: str) -> str:
    text = LINK.sub(r"\1", text)
    text = ROLE.sub(r"\1", text)
    text = LITERAL.sub("\0\\1\0", text)
    text = MARKS.sub("", text).replace("`", "").replace("\0", "`")
    text = text.strip()
    if not text.endswith("::"):
        return text
    return text[:-1] if text[:-2].strip() else ""


def _dedent(rows: list[str]) -> str:
    margin = min(len(row) - len(row.lstrip()) for row in rows)
    return "\n".join(row[margin:] for row in rows)


def parse(path: str, text: str) -> Document:
    """Read Markdown, reStructuredText or plain text, by the suffix of ``path``."""
    suffix = Path(path).suffix.lower()
    if suffix in (".md", ".markdown"):
        return parse_markdown(path, text)
    if suffix == ".rst":
        return parse_restructured(path, text)
    return parse_plain_text(path, text)


def parse_plain_text(path: str, text: str) -> Document:
    """Paragraphs parted by empty lines; an indented one is code."""
    document = Document(path=path, text=text)
    for line, block in split_blocks(text):
        if all(row.startswith(("    ", "\t")) for row in block):
            document.add_code("\n".join(row.strip() for row in block), line)
        else:
            document.add_paragraph(" ".join(block), line)
    return document
