"""An architecture document: its sentences and tables, and the modules that its words name."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from services.critic.imports import ROOTS, THIRD_PARTY, Graph
from shared.text.markdown import read_blocks

DOCUMENT = re.compile(
    r"(?:(?:docs?|\.github|doc/[\w-]+|docs/[\w-]+)/)?(?:[^/]*(?:architecture|contributing|conventions?|guidelines?"
    r"|coding[-_ ]?(?:style|standards?)|style[-_ ]?guide|code[-_ ]?style|design|development|developing"
    r"|hacking|rules|principles|layers|layering|agents|claude|copilot-instructions))\.(?:md|markdown|mdx)"
    r"|(?:docs?/)?(?:adr|adrs|decisions|architecture)/[^/]+\.(?:md|markdown)",
    re.IGNORECASE,
)
"""Documents that are about how the code is to be, by their names."""
GENERAL = re.compile(r"readme(?:\.(?:md|markdown))?|docs?/[^/]+\.(?:md|markdown)", re.IGNORECASE)
"""Documents of which only what stands below a heading about that is read."""
ABOUT_RULES = re.compile(
    r"architect|contribut|convention|style|\brules?\b|guideline|design|principle|layer|standards\b|develop"
    r"|constraint|invariant|boundar|dependenc",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!cf\.)(?<!vs\.)\s+(?=\S)|;\s+|\n{2,}")
LISTED = re.compile(
    r"^([\s│├└─|`+-]*)([\w@.-]+(?:/[\w@.-]+)*/?)((?:<\w+>/?)?)(?:\s{2,}|\s+[#—–-]\s+|:\s+)(\S.*)$"
)
PLAIN = ("", "text", "txt", "none")  # What follows the fence of a code block that holds prose or a drawn tree

ARTICLE = re.compile(
    r"^(?:the|a|an|any|every|each|all|our|its|either|both|no|code in|anything in|everything in|modules in"
    r"|anything from|any of|from|inside|within|of|code under|anything under)\s+",
    re.IGNORECASE,
)
KIND = re.compile(
    r"\s+(?:layers?|packages?|modules?|code|folders?|director(?:y|ies)|components?|librar(?:y|ies)|files?|tree)$",
    re.IGNORECASE,
)
ADVERB = re.compile(
    r"\s+(?:at all|directly|itself|themselves|anywhere|either|in turn|ever|alone|at runtime|in any way)$",
    re.IGNORECASE,
)
TRAILER = re.compile(
    r"^(`[^`]+`|\S+)\s+(?:in|from|at|because|so|since|for|to|when|which|that|as|by|on|with|\()\b.*$"
)
OUTSIDE = re.compile(
    r"(?:third[- ]party|external|outside)\s+(?:packages?|librar(?:y|ies)|dependenc(?:y|ies)|modules?|code)"
    r"|third[- ]parties",
    re.IGNORECASE,
)
STANDARD = re.compile(r"(?:python'?s? )?standard library|stdlib", re.IGNORECASE)
SPLIT = re.compile(r"\s*(?:,\s*(?:and|or|nor)\s+|,|;|\band\b|\bor\b|\bnor\b|\||&|\s\+\s)\s*", re.IGNORECASE)
NAME = re.compile(r"[@\w][\w./*@-]*", re.ASCII)


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence or a part of one; ``about`` is what the list or table says it is about.

    ``heading`` has the headings above it.
    """

    text: str
    line: int
    about: str = ""
    fenced: bool = False
    heading: str = ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a table: the cells by their column's heading, lower-case."""

    cells: tuple[tuple[str, str], ...]
    line: int


def parse_document(text: str) -> tuple[list[Passage], list[Row]]:
    """The sentences of a Markdown document, the lines of its plain code blocks, the rows of its tables."""
    passages: list[Passage] = []
    rows: list[Row] = []
    headings: list[str] = []
    for block in read_blocks(text, inline=False):
        line = block.start + 1
        heading = " / ".join(block.path)
        if block.kind == "paragraph":
            passages += _sentences(block.text, line, heading)
        elif block.kind == "code" and block.info in PLAIN:
            passages += _listing(block.text, line + block.fenced, heading)
        elif block.kind == "row" and block.is_header:
            headings = [cell.text.lower() for cell in block.cells]
        elif block.kind == "row":
            cells = zip(headings, (cell.text for cell in block.cells), strict=False)
            rows.append(Row(cells=tuple(cells), line=line))
    return passages, rows


def _sentences(content: str, line: int, heading: str) -> Iterator[Passage]:
    start = 0
    # The name that an item of a list begins with: ``**`shared/bus`**: the only importer of nats``
    named = re.match(r"\s*\**(`[^`]+`|[\w./-]+)\**\s*(?::|—|–|\s-\s)\s*(?=\S)", content)
    about = named[1] if named else ""
    for end in [*(match.end() for match in SENTENCE.finditer(content)), len(content)]:
        sentence = content[start:end]
        text = " ".join(sentence.split()).strip(" ;")
        if text:
            skipped = content[:start] + sentence[: len(sentence) - len(sentence.lstrip())]
            yield Passage(text=text, line=line + skipped.count("\n"), about=about, heading=heading)
        start = end


def _listing(content: str, line: int, heading: str) -> Iterator[Passage]:
    """The lines of a drawn tree, each about the path that its indentation gives it, or of any plain block."""
    above: list[tuple[int, str]] = []
    for number, row in enumerate(content.splitlines(), start=line):
        match = LISTED.match(row)
        if not match:
            yield Passage(text=" ".join(row.split()), line=number, fenced=True, heading=heading)
            continue
        indent = len(match[1])
        above = [*(pair for pair in above if pair[0] < indent), (indent, match[2])]
        about = "/".join(name.rstrip("/") for _, name in above)
        for part in re.split(r";\s+|(?<=[.!?])\s+(?=[A-Z])", match[4]):
            text = " ".join(part.split())
            yield Passage(text=text, line=number, about=about, fenced=True, heading=heading)


class NamedModules(msgspec.Struct, frozen=True, kw_only=True):
    """What a phrase names: modules of the repository, and packages from elsewhere."""

    internal: tuple[str, ...] = ()
    external: tuple[str, ...] = ()

    @property
    def every(self) -> tuple[str, ...]:
        """Both."""
        return self.internal + self.external


class ModuleNames:
    """Looks up what prose calls a module."""

    def __init__(self, graph: Graph, declared: frozenset[str] = frozenset()) -> None:
        self.known = graph.names
        self.by_last: dict[str, list[str]] = {}
        for name in sorted(graph.names):
            self.by_last.setdefault(name.rsplit(".", 1)[-1].lower(), []).append(name)
        outside = {found.imported for found in graph.imports if not found.internal}
        self.external = outside | {name.split(".", maxsplit=1)[0] for name in outside} | declared

    def look_up(self, phrase: str, *, lenient: bool = False) -> NamedModules | None:
        """What every part of ``phrase`` names; None if one part is unknown or ambiguous.

        ``lenient`` takes an unknown word between backticks as a package that nothing imports yet.
        """
        internal: list[str] = []
        external: list[str] = []
        for part in split(phrase):
            if STANDARD.fullmatch(part):
                continue
            if OUTSIDE.fullmatch(part):
                external.append(THIRD_PARTY)
                continue
            found = self.find(part)
            if len(found) == 1:
                internal += found
            elif found:
                return None
            else:
                package = part.strip("`'\" ")
                if not NAME.fullmatch(package):
                    return None
                if package not in self.external and not (lenient and part.startswith("`")):
                    return None
                external.append(package)
        if not internal and not external and not STANDARD.search(phrase):
            return None
        return NamedModules(internal=tuple(internal), external=tuple(external))

    def find(self, word: str) -> list[str]:
        """The modules a single name may mean, the least deep ones; empty for none."""
        name = word.strip("`'\"* ").removeprefix("./").rstrip("/")
        if not NAME.fullmatch(name):
            return []
        name = re.sub(r"\.(?:py|[cm]?[jt]sx?|go)$|(?:[/.]\*{1,2})$", "", name).replace("/", ".").lower()
        root, _, inner = name.partition(".")
        for form in (name, inner if root in ROOTS and inner else name, f"{name}s"):
            candidates = self.by_last.get(form.rsplit(".", 1)[-1], [])
            if found := [known for known in candidates if f".{known.lower()}".endswith(f".{form}")]:
                depth = min(known.count(".") for known in found)
                return [known for known in found if known.count(".") == depth]
        return []


def split(phrase: str) -> list[str]:
    """The single names of a list such as ``the `a` and `b` layers, or c at all``."""
    parts = []
    for part in SPLIT.split(phrase.strip(" .,:;!")):
        text = part.strip(" .,:;!()")
        before = ""
        while text != before:
            before = text
            for pattern in (ARTICLE, ADVERB, KIND):
                text = pattern.sub("", text).strip()
        text = TRAILER.sub(r"\1", text)
        if outside := OUTSIDE.search(part):
            text = outside[0]
        elif STANDARD.search(part):
            text = "stdlib"
        if text:
            parts.append(text)
    return parts


def outermost(groups: Iterable[list[str]]) -> list[str]:
    """The clear ones of groups of candidates: of several, the one that no other group's module contains."""
    every = [list(group) for group in groups]
    sure = tuple(f"{group[0]}." for group in every if len(group) == 1)
    apart = ([name for name in group if len(group) == 1 or not name.startswith(sure)] for group in every)
    return [names[0] for names in apart if len(names) == 1]
