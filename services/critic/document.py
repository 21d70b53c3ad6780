"""An architecture document: its sentences and tables, the modules they name, the import rules they state."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from services.critic.findings import clean
from services.critic.imports import (
    ROOTS,
    THIRD_PARTY,
    AllowedOnly,
    AnyRule,
    Forbidden,
    Graph,
    Layers,
    Protected,
)
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


# --- rules about imports, read by the few forms that such sentences take --------------------------------

VERB = (
    "(?:imports?|depends? (?:up)?on|relies on|rely on|references?|knows?(?: (?:about|of))?|reach(?:es)? into"
    "|uses?|calls?(?: into)?|access(?:es)?|touch(?:es)?|talks? to|needs?|sees?|includes?)"
)
STRICT = re.compile(r"\b(?:imports?|depends?|rel(?:y|ies)|references?)\b", re.IGNORECASE)
"""Verbs that are about modules alone; what others are said of has to be a module that is known."""
MAY = "(?:(?:may|can|must|should|shall|will|is allowed to|are allowed to) )?"
NOT = (
    "(?:(?:must|may|can|should|shall|do|does|will|is|are) ?(?:not|never|n't|n’t)|cannot|never"
    "|(?:is|are) forbidden to)(?: (?:be )?(?:allowed|permitted) to)?(?: (?:ever|directly))?"
)
NOBODY = (
    "(?:nothing|nobody|no one|no (?:other )?(?:module|code|package|file|part|one|process)s?)(?P<else> else)?"
)
BESIDES = "(?:outside(?: of)?|except(?: for)?|but|other than|besides|apart from)"
WITHIN = "(?:by|from|in|inside|within)"
USED = "(?:imported|used|called|accessed|touched)"
X, Y = "(?:(?P<x>.+?) )?", "(?P<y>.+)"
"""Who imports, if the sentence says it before the verb, and what is imported."""
OTHERS = re.compile(
    r"^(?:from\s+)?(?:each other|one another|(?:any |an|the )?other\b.*|another\b.*"
    r"|(?:its |their )?siblings?)",
    re.IGNORECASE,
)
PRONOUN = re.compile(r"(?:it|they|this|that|these|those|which|he|she)?$", re.IGNORECASE)
EXCEPT = re.compile(rf",?\s+(?:{BESIDES}|unless)\s+(?:through\s+|via\s+)?", re.IGNORECASE)

ABOUT_IMPORTS = re.compile(r"\bimport(?:s|ed|ing|ers?)?\b(?!-)", re.IGNORECASE)
BINDING = re.compile(
    r"\b(?:only|sole|never|not|nothing|nobody|must|may|cannot|forbidden|allowed)\b|n['’]t\b", re.IGNORECASE
)
ARROW = r"\s*(?:→|⟶|⇒|[-=]{1,2}>)\s*|\s>\s"
LAYERED = re.compile(r"layer|import|depend", re.IGNORECASE)


class Sentence:
    """A passage, read for the rules it states."""

    def __init__(self, passage: Passage, path: str, names: ModuleNames) -> None:
        self.passage = passage
        self.names = names
        self.lenient = bool(STRICT.search(passage.text))
        about = f"{passage.about}: " if passage.fenced and passage.about else ""
        self.source = f"{path}:{passage.line}"
        text = re.sub(r"\[([^\[\]]+)\]\([^()]*\)", r"\1", passage.text)  # a link as it is read
        self.stated: dict[str, Any] = {"text": clean(about + text), "source": self.source}

    def parse(self) -> list[AnyRule]:
        """The rules it states; empty if it states none that is understood."""
        words = " ".join(re.sub(r"\*\*|__", "", self.passage.text).split()).strip(" .")
        if self.passage.about and not self.passage.fenced:
            words = re.sub(r"^(?:`[^`]+`|[\w./-]+)\s*(?::|—|–|-)\s+", "", words)
        chain = self._chain(words)
        if chain:
            return [chain]
        for pattern, build in FORMS:
            if match := pattern.match(words):
                groups = {key: value.strip() for key, value in match.groupdict("").items()}
                if rules := build(self, groups):
                    return rules
        return []

    def protected(self, found: dict[str, str]) -> list[AnyRule]:
        """Only x imports y."""
        subject, target = self._subject(found["x"]), self.names.look_up(found["y"], lenient=self.lenient)
        if subject is None or target is None:
            return []
        return [Protected(**self.stated, subjects=subject, objects=target.every)]

    def protected_from_all(self, found: dict[str, str]) -> list[AnyRule]:
        """Nothing but x, or what the passage is about, imports y; or nothing at all does."""
        if found["x"] or found["else"]:
            return self.protected(found)
        target = self.names.look_up(found["y"], lenient=self.lenient)
        return [Protected(**self.stated, subjects=(), objects=target.every)] if target else []

    def allowed_only(self, found: dict[str, str]) -> list[AnyRule]:
        """x imports only y, and what follows a "never" not at all."""
        first, *never = re.split(r",?\s+(?:and\s+|but\s+)?(?:never|not)\s+", found["y"], maxsplit=1)
        subject = self._subject(found["x"])
        nothing = re.fullmatch(r"(?:nothing|none|-|–|—)?", first.strip(" ."), re.IGNORECASE)
        target = NamedModules() if nothing else self.names.look_up(first, lenient=self.lenient)
        if subject is None or target is None:
            return []
        outside = bool(target.external)
        rule = AllowedOnly(**self.stated, subjects=subject, objects=target.every, outside=outside)
        return [rule, *(self.forbid({"x": found["x"], "y": never[0]}) if never else [])]

    def isolated(self, found: dict[str, str]) -> list[AnyRule]:
        """x imports nothing of the repository."""
        return self.allowed_only({"x": found["x"], "y": "nothing"})

    def forbid(self, found: dict[str, str]) -> list[AnyRule]:
        """x must not import y."""
        outside = re.match(rf"(?:.*\s)?{BESIDES}\s+(.+)", found["x"], re.IGNORECASE)
        if outside:
            return self.protected({"x": outside[1], "y": found["y"]})
        subject = self._subject(found["x"])
        if subject is None:
            return []
        if OTHERS.match(found["y"]):  # the subjects, or the parts of a single one, do not import one another
            members = subject
            if len(subject) == 1:
                depth = subject[0].count(".") + 2
                inner = (name.split(".") for name in self.names.known if name.startswith(f"{subject[0]}."))
                members = tuple(sorted({".".join(parts[:depth]) for parts in inner}))
            return [Layers(**self.stated, levels=(members,), closed=frozenset({0}))] if members else []
        wanted, *excepted = EXCEPT.split(found["y"], maxsplit=1)
        target = self.names.look_up(wanted, lenient=self.lenient)
        exceptions = self.names.look_up(excepted[0]) if excepted else NamedModules()
        if target is None or exceptions is None:
            return []
        ignored = tuple(("**", pattern) for name in exceptions.every for pattern in (name, f"{name}.**"))
        return [Forbidden(**self.stated, subjects=subject, objects=target.every, ignored=ignored)]

    def _subject(self, phrase: str) -> tuple[str, ...] | None:
        if PRONOUN.fullmatch(phrase):
            phrase = self.passage.about
        # "a service" means each of the services, not a module that is called so
        one = re.fullmatch(r"(?:an?|any|every|each|no)\s+(\w+)", phrase, re.IGNORECASE)
        tries = [f"{one[1]}s", phrase] if one else [phrase]
        # "To keep it small, agents": the name comes last, unless the phrase makes an exception
        if not re.search(rf"\b(?:{BESIDES}|not|no)\b", phrase, re.IGNORECASE):
            tries += [re.split(r"[,:]\s+", phrase)[-1], phrase.split(" ")[-1]]
        # in a drawn tree the folder above may be missing if the project is laid out in another way
        tries += [phrase.rsplit("/", maxsplit=1)[-1]] if self.passage.fenced else []
        for words in tries:
            found = self.names.look_up(words) if words else None
            if found and found.internal and not found.external:
                return found.internal
        return None

    def _chain(self, words: str) -> Layers | None:
        """``services > shared > contracts``: layers, the upper ones import the lower ones."""
        parts = re.split(ARROW, re.sub(r"\s*\([^()]*\)$", "", words))
        layered = LAYERED.search(f"{words} {self.passage.heading}")
        bare = all(re.fullmatch(r"`?[\w./-]+`?", part.strip()) for part in parts)
        if len(parts) < (2 if layered else 3) or (
            re.search("[→⟶⇒]|[-=]>", words) and not layered and not bare
        ):
            return None
        parts[0] = re.split(r":\s+|\b(?:are|is)\s+", parts[0])[-1]
        parts[-1] = re.split(r"[.;(](?:\s|$)", parts[-1])[0]
        items = [[self.names.find(name) for name in split(part)] for part in parts]
        named = sum(bool(found) for level in items for found in level)
        clear = set(outermost(found for level in items for found in level if found))
        levels = [tuple(name for found in level for name in found if name in clear) for level in items]
        levels = [level for level in levels if level]
        # a chain that does not speak of layers must name little else than modules
        if len(levels) < 2 or named < sum(map(len, items)) * (1 / 2 if layered else 2 / 3):
            return None
        return Layers(**self.stated, levels=tuple(levels))


Build = Callable[[Sentence, dict[str, str]], list[AnyRule]]


def _form(pattern: str, build: Build) -> tuple[re.Pattern[str], Build]:
    return re.compile(pattern, re.IGNORECASE), build


FORMS = (
    _form(f"{NOBODY}(?: {BESIDES} (?P<x>.+?))? {MAY}{VERB} {Y}", Sentence.protected_from_all),
    _form(rf"no (?P<x>\S+(?: \w+)?) {MAY}{VERB} {Y}", Sentence.forbid),
    _form(f"only (?P<x>.+?) {MAY}{VERB} {Y}", Sentence.protected),
    _form(
        r"(?:(?P<x>.+?) (?:is|are) |[^:]*: )?(?:an? |the )(?:only|sole)\b(?: \w+){0,2}? "
        rf"(?:(?:that|which|to|allowed to) )?(?:may |can )?(?:imports?|importers? of) {Y}",
        Sentence.protected,
    ),
    _form(
        f"(?P<y>.+?) (?:{NOT} be|(?:is|are) (?:never|not)) {USED} {BESIDES} (?:from |in |by )?(?P<x>.+)",
        Sentence.protected,
    ),
    _form(
        f"(?P<y>.+?) (?:may|must|can|should|is|are) (?:only be|be only|only) {USED} {WITHIN} (?P<x>.+)",
        Sentence.protected,
    ),
    _form(
        f"(?P<y>.+?) (?:may be|must be|can be|should be|is|are) {USED} (?:only {WITHIN}|{WITHIN} only"
        "|nowhere (?:else )?but(?: in| by| from)?) (?P<x>.+)",
        Sentence.protected,
    ),
    _form(
        f"(?P<y>.+?) (?:{NOT} be|(?:is|are) (?:never|not)) {USED} (?:{WITHIN}|into) (?P<x>.+)",
        Sentence.forbid,
    ),
    _form(f"(?P<y>.+?) (?:may be|must be|is|are) {USED} by (?P<x>.+?) (?:only|alone)$", Sentence.protected),
    _form(
        f"(?P<y>.+?) (?:is|are) {USED} by (?:nobody|nothing|no one|none)(?P<else>)(?P<x>)$",
        Sentence.protected_from_all,
    ),
    _form("(?P<y>.+?) (?:is|are) private to (?P<x>.+)", Sentence.protected),
    _form(
        f"(?:never|do not|don['’]t) {VERB} (?:from )?(?P<y>.+?) (?:in|inside|within|from) (?P<x>.+)",
        Sentence.forbid,
    ),
    _form(f"(?P<x>.+?) (?:has|have) no dependenc(?:y|ies) on {Y}", Sentence.forbid),
    _form(
        f"(?P<x>.+?) (?:must |may |should )?(?:only )?{VERB} (?P<y>.+?) only (?:through|via) .+",
        Sentence.forbid,
    ),
    _form(
        f"(?P<x>.+?) (?:{NOT} {VERB} any|{VERB} no) other (?:module|package|part|layer)s?\\b.*(?P<y>)",
        Sentence.isolated,
    ),
    _form("(?P<x>.+?) (?:is|are) independent of (?:everything|all)(?: else)?(?P<y>)", Sentence.isolated),
    _form(f"{X}{VERB} nothing (?:from|of) {Y}", Sentence.forbid),
    _form(f"{X}{MAY}{VERB} (?:only|just|nothing {BESIDES}) (?:from )?{Y}", Sentence.allowed_only),
    _form(f"{X}{MAY}only {VERB} {Y}", Sentence.allowed_only),
    _form(f"{X}{MAY}{VERB} (?P<y>.+?),? and nothing else", Sentence.allowed_only),
    _form(f"{X}{MAY}{VERB} (?P<y>nothing)(?: else| internal)?$", Sentence.allowed_only),
    _form(f"{X}{NOT} {VERB} {Y}", Sentence.forbid),
    _form(f"(?P<x>.+?) {MAY}{VERB} .+?,? (?:and |but )?(?:never|not) (?:{VERB} )?{Y}", Sentence.forbid),
    _form(f"(?P<x>.+?) (?:must be|is|are|stays?|must stay) independent of {Y}", Sentence.forbid),
)
"""The forms, the more specific ones first; x is who imports, y what is imported or not."""


ALLOWING = re.compile(r"(?:may|can) (?:import|depend on)|allowed (?:imports|dependencies)|imports only")


def parse_table(rows: Sequence[Row], path: str, names: ModuleNames) -> list[AnyRule]:
    """The rules that the tables of a document state, by columns of what may be imported, or must not."""
    rules: list[AnyRule] = []
    for row, heading, cell in ((each, *column) for each in rows for column in each.cells[1:]):
        if re.search(r"(?:must|may|can) ?not|never|forbidden", heading):
            form = "must not import" if re.search(r"import|depend", heading) and cell.strip() else ""
        else:
            form = "imports only" if ALLOWING.search(heading) else ""
        if form:
            text = f"{row.cells[0][1]} {form} {cell.strip() or 'nothing'}"
            rules += Sentence(Passage(text=text, line=row.line), path, names).parse()
    return rules
