"""A repository read as a newcomer reads it: what it is, how it is built and laid out, what is left open."""

from pathlib import Path

from services.scout.building import read_building
from services.scout.commands import read_commands
from services.scout.languages import survey
from services.scout.layout import read_layout
from services.scout.manifests import read_manifests
from services.scout.purpose import read_purpose, read_readmes
from services.scout.questions import read_questions
from shared.contracts.checkup import RepositoryReading, Statement
from shared.source.tree import Limits, read_tree


def read_repository(root: Path, limits: Limits | None = None) -> RepositoryReading:
    """Read the folder ``root``, within ``limits``; nothing in it is run or changed.

    Raises ActionError where ``root`` is not the absolute path of a readable folder.
    """
    tree = read_tree(root, limits)
    readmes = read_readmes(tree)
    manifests = read_manifests(tree)
    found = survey(tree)
    build = [statement for readme in readmes[:1] for statement in read_commands(readme)]
    build += [statement for manifest in manifests for statement in manifest.build]
    build += read_building(tree)
    entries = [statement for manifest in manifests for statement in manifest.entries]
    return RepositoryReading(
        name=next((m.name for m in manifests if m.name and "/" not in m.path), "") or tree.root.name,
        purpose=_once(read_purpose(readmes, manifests)),
        build=_once(build),
        layout=_once([*read_layout(tree), *entries]),
        questions=_once(read_questions(tree, readmes, manifests, found)),
        languages=found.lines,
        files=len(tree.files),
    )


def describe(reading: RepositoryReading) -> str:
    """The reading as plain text: what people see as the result of the task."""
    languages = ", ".join(f"{name} {lines:,}" for name, lines in list(reading.languages.items())[:5])
    files = f"{reading.files:,} file{'' if reading.files == 1 else 's'}"
    counts = f"{files}; lines of {languages or 'no known language'}"
    first = reading.purpose[0].text if reading.purpose else counts
    rows = [f"{reading.name}: {first}", *([f"({counts})"] if reading.purpose else [])]
    parts = {
        "What it is": reading.purpose,
        "How it is built": reading.build,
        "How it is laid out": reading.layout,
        "Open questions": reading.questions,
    }
    for title, statements in parts.items():
        rows += ["", f"{title}:"] if statements else []
        rows += [f"- {statement.text} [{statement.source}]" for statement in statements]
    return "\n".join(rows)


def sources(reading: RepositoryReading, limit: int = 50) -> tuple[str, ...]:
    """Where the reading comes from: each source once."""
    said = (*reading.purpose, *reading.build, *reading.layout, *reading.questions)
    return tuple(dict.fromkeys(statement.source for statement in said))[:limit]


def _once(statements: list[Statement]) -> tuple[Statement, ...]:
    return tuple({statement.text: statement for statement in statements}.values())
