"""What a repository is for, in its own words."""

import re

from services.scout.document import Document, Paragraph
from services.scout.manifest import Manifest
from services.scout.reading import parse
from services.scout.wording import say
from shared.contracts.checkup import Statement
from shared.source.tree import Tree, read_text

README = re.compile(r"readme(?:\.md|\.markdown|\.rst|\.txt)?", re.IGNORECASE)
ELSEWHERE = re.compile(
    r"\b(install|usage|licen[cs]e|contribut|changelog|table of contents|contents|toc|badges?|sponsor|support"
    r"|backers|acknowledge?ments|authors?|credits|status|news|translations?|links?|documentation|docs)",
    re.IGNORECASE,
)
ADDRESS = re.compile(r"https?://\S+|\S+@\S+")


def read_readmes(tree: Tree) -> list[Document]:
    """The documents at the root whose name is README, Markdown first."""
    order = {".md": 0, ".markdown": 0, ".rst": 1, "": 2, ".txt": 2}
    names = [path for path in tree.files if README.fullmatch(path)]
    names.sort(key=lambda name: (order.get(name[len("readme") :].lower(), 3), name))
    return [parse(name, text) for name in names if (text := read_text(tree.root, name)).strip()]


def read_purpose(readmes: list[Document], manifests: tuple[Manifest, ...]) -> list[Statement]:
    """At most two paragraphs of the README, then what the manifests say where it differs."""
    statements = [
        say(paragraph.text, readme.path, paragraph.line)
        for readme in readmes[:1]
        for paragraph in _prose(readme)
    ]
    said = " ".join(statement.text.casefold() for statement in statements)
    for manifest in manifests:
        description = manifest.description
        if description and description.text.casefold().rstrip(".") not in said:
            statements.append(description)
            said += description.text.casefold()
    return statements[:4]


def _prose(readme: Document) -> list[Paragraph]:
    found: list[Paragraph] = []
    name = next((section.title for section in readme.sections if section.titles), "")
    for section, paragraph in readme.paragraphs():
        below = [title for title in section.titles if title != name]
        if any(ELSEWHERE.match(title) for title in below) or (found and below):
            continue
        if _says_something(paragraph.text):
            found.append(paragraph)
        if len(found) == 2:
            break
    return found


def _says_something(text: str) -> bool:
    """Whether it reads as a sentence: five words beside addresses, and no mere list of links."""
    words = [word for word in ADDRESS.sub("", text).split() if any(map(str.isalpha, word))]
    marks = text.count("|") + text.count("•") + text.count("·")
    return len(words) >= 5 and marks <= 1 and not text.rstrip().endswith(":")
