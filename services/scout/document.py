"""A document as sections of paragraphs and code, each with its line."""

from collections.abc import Iterator

import msgspec


class Paragraph(msgspec.Struct, frozen=True, kw_only=True):
    """Running text without markup, and the line it begins at."""

    text: str
    line: int


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A block of code: its text, the line of its first line, the language where one is named."""

    text: str
    line: int
    language: str = ""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """Something a document points at: a link's target, or what it puts between backticks."""

    target: str
    line: int
    link: bool


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """What stands under a heading; ``titles`` are the headings above it, outermost first, its own last."""

    titles: tuple[str, ...] = ()
    line: int = 1
    paragraphs: tuple[Paragraph, ...] = ()
    codes: tuple[Code, ...] = ()

    @property
    def title(self) -> str:
        """Its own heading; empty before the first one."""
        return self.titles[-1] if self.titles else ""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document beneath a folder: ``path`` is relative to it."""

    path: str
    sections: tuple[Section, ...] = ()
    references: tuple[Reference, ...] = ()
    text: str = ""

    def paragraphs(self) -> Iterator[tuple[Section, Paragraph]]:
        """Every paragraph with its section, in order."""
        for section in self.sections:
            for paragraph in section.paragraphs:
                yield section, paragraph

    @property
    def lines(self) -> int:
        """How many lines the text has."""
        return len(self.text.splitlines())


class Builder:
    """Collects the parts of a document in the order they are met."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._references: list[Reference] = []
        self._sections: list[Section] = []
        self._titles: list[tuple[int, str]] = []
        self._line = 1
        self._paragraphs: list[Paragraph] = []
        self._codes: list[Code] = []

    def begin(self, level: int, title: str, line: int) -> None:
        """A heading of ``level`` (1 is the outermost) starts a section at ``line``."""
        self._close()
        self._titles = [*((above, name) for above, name in self._titles if above < level), (level, title)]
        self._line = line

    def add_paragraph(self, text: str, line: int) -> None:
        """Running text; what has nothing to read is left out."""
        if text.strip():
            self._paragraphs.append(Paragraph(text=" ".join(text.split()), line=line))

    def add_code(self, text: str, line: int, language: str = "") -> None:
        """A block of code; an empty one is left out."""
        if text.strip():
            self._codes.append(Code(text=text, line=line, language=language.lower()))

    def add_reference(self, target: str, line: int, *, link: bool) -> None:
        """A link's target, or what is put between backticks."""
        self._references.append(Reference(target=target, line=line, link=link))

    def build(self) -> Document:
        """The document from everything added so far."""
        self._close()
        return Document(
            path=self.path, sections=tuple(self._sections), references=tuple(self._references), text=self.text
        )

    def _close(self) -> None:
        titles = tuple(name for _, name in self._titles)
        if titles or self._paragraphs or self._codes:
            self._sections.append(
                Section(
                    titles=titles,
                    line=self._line,
                    paragraphs=tuple(self._paragraphs),
                    codes=tuple(self._codes),
                )
            )
        self._paragraphs, self._codes = [], []


def split_blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Runs of lines between empty ones, each with the number of its first line."""
    block: list[str] = []
    for number, row in enumerate([*text.splitlines(), ""], start=1):
        if row.strip():
            block.append(row)
        elif block:
            yield number - len(block), block
            block = []
