"""A repository read for a newcomer: its purpose, how it is built and laid out, and open questions."""

import re
from collections.abc import Iterable
from pathlib import Path

from services.scout.build_instructions import read_building, read_commands
from services.scout.documents import Document, Paragraph, parse
from services.scout.layout import read_layout, survey_code
from services.scout.open_questions import read_questions
from shared.contracts.checkup import RepositoryReading, Statement
from shared.projects.reading import Project, read_project
from shared.projects.reading.manifests import Manifest, cite
from shared.source import Limits

ELSEWHERE = re.compile(
    r"(?i)\b(install|usage|licen[cs]e|contribut|changelog|table of contents|contents|toc|badges?|sponsor"
    r"|support|backers|acknowledge?ments|authors?|credits|status|news|translations?|links?|documentation|docs)"
)
ADDRESS = re.compile(r"https?://|[^@]@[^@]")
MAX_SOURCES = 50


def read_readmes(project: Project) -> list[Document]:
    """The documents at the top whose name is README, Markdown first."""
    return [parse(name, text) for name in project.docs if (text := project.files.text(name)).strip()]


def read_purpose(readmes: list[Document], manifests: tuple[Manifest, ...]) -> list[Statement]:
    """At most two paragraphs of the README, then the manifests' descriptions that differ."""
    statements = [
        cite(paragraph.text, readme.path, paragraph.line)
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
        if _is_prose(paragraph.text):
            found.append(paragraph)
        if len(found) == 2:
            break
    return found


def _is_prose(text: str) -> bool:
    """Whether it reads as a sentence: five words beside addresses, and no mere list of links."""
    words = [word for word in text.split() if any(map(str.isalpha, word)) and not ADDRESS.search(word)]
    marks = text.count("|") + text.count("•") + text.count("·")
    return len(words) >= 5 and marks <= 1 and not text.rstrip().endswith(":")


def find_licence(root: Path) -> list[Statement]:
    """What declares the licence of the folder ``root``; raises ActionError as read_repository does."""
    return list(read_project(root).licence)


def read_repository(root: Path, limits: Limits | None = None) -> RepositoryReading:
    """Read the folder ``root``, within ``limits``; nothing in it is run or changed.

    Raises ActionError unless ``root`` is the absolute path of a readable folder.
    """
    project = read_project(root, limits)
    tree, manifests = project.tree, project.manifests
    readmes = read_readmes(project)
    found = survey_code(tree)
    build = [statement for readme in readmes[:1] for statement in read_commands(readme)]
    build += [statement for manifest in manifests for statement in manifest.build]
    build += read_building(tree, project.files)
    entries = [statement for manifest in manifests for statement in manifest.entries]
    return RepositoryReading(
        name=next((m.name for m in manifests if m.name and "/" not in m.path), "") or tree.root.name,
        purpose=_unique(read_purpose(readmes, manifests)),
        build=_unique(build),
        licence=_unique(project.licence),
        layout=_unique([*read_layout(tree), *entries]),
        questions=_unique(read_questions(project, readmes, found)),
        languages=found.lines,
        files=len(tree.files),
    )


def format_reading(reading: RepositoryReading) -> str:
    """The reading as plain text: what people see as the result of the task."""
    languages = ", ".join(f"{name} {lines:,}" for name, lines in list(reading.languages.items())[:5])
    files = f"{reading.files:,} file{'' if reading.files == 1 else 's'}"
    counts = f"{files}; lines of {languages or 'no known language'}"
    first = reading.purpose[0].text if reading.purpose else counts
    rows = [f"{reading.name}: {first}", *([f"({counts})"] if reading.purpose else [])]
    parts = {
        "What it is": (*reading.purpose, *reading.licence),
        "How it is built": reading.build,
        "How it is laid out": reading.layout,
        "Open questions": reading.questions,
    }
    for title, statements in parts.items():
        rows += ["", f"{title}:"] if statements else []
        rows += [f"- {statement.text} [{statement.source}]" for statement in statements]
    return "\n".join(rows)


def sources_of(reading: RepositoryReading) -> tuple[str, ...]:
    """Where the reading comes from: each source once, at most MAX_SOURCES."""
    said = (*reading.purpose, *reading.licence, *reading.build, *reading.layout, *reading.questions)
    return tuple(dict.fromkeys(statement.source for statement in said))[:MAX_SOURCES]


def _unique(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    return tuple({statement.text: statement for statement in statements}.values())
