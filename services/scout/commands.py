"""The commands that a project's documents tell people to run."""

import re
from collections.abc import Iterator

from services.scout.document import Code, Document
from services.scout.wording import code, say
from shared.contracts.checkup import Statement
from shared.web.quoting import clean

HEADINGS = re.compile(
    r"\b(install|installation|installing|set.?up|usage|quick.?start|getting.started|build|building|compil|test|tests"
    r"|testing|run|running|develop|development|contributing|hacking|demo|try)",
    re.IGNORECASE,
)
SHELLS = frozenset({"sh", "bash", "shell", "console", "zsh", "fish", "shell-session", "terminal", "doscon"})
PROGRAMS = re.compile(
    r"(?:sudo\s+)?(?:pip3?|pipx|uvx?|poetry|pdm|hatch|conda|python3?|pytest|tox|nox|npm|npx|yarn|pnpm|node|bun|deno|make|cmake"
    r"|ctest|ninja|meson|cargo|rustup|go|docker|docker-compose|podman|git|mvn|gradle|\./[\w./-]+|bundle|gem|rake|composer|brew"
    r"|apt|apt-get|just|bazel|dotnet|swift|mix|stack|cabal|curl|cd|kubectl|helm|nix|opam|dune|zig|mailroom)\b"
)
CHECKING = re.compile(
    r"\b(make|pytest|tox|nox|npm|npx|yarn|pnpm|cargo|go (?:test|build|vet)|mvn|gradlew?|ruff|mypy|flake8"
    r"|pylint|hatch|poetry|uv run|docker (?:build|compose)|cmake|ctest|bazel|just|python3? -m|rake|phpunit"
    r"|dotnet|swift|mix)\b"
)


def read_commands(document: Document, limit: int = 8) -> list[Statement]:
    """What the blocks of shell commands under headings such as Install, Build and Test say."""
    statements = []
    for section in document.sections:
        if not any(HEADINGS.search(title) for title in section.titles):
            continue
        for block in section.codes:
            found = commands_of(block)[:4]
            if found:
                title = clean(section.title, 60)
                shown = ", ".join(code(words) for _, words in found)
                statements.append(say(f"{title}: {shown}", document.path, found[0][0]))
    return statements[:limit]


def all_commands(document: Document) -> Iterator[tuple[int, str]]:
    """Every command in the document's blocks of code, with its line."""
    for section in document.sections:
        for block in section.codes:
            yield from commands_of(block)


def commands_of(block: Code) -> list[tuple[int, str]]:
    """The commands in a block, each with its line; none where it is no block of shell commands."""
    if block.language not in SHELLS and block.language not in ("", "text", "none"):
        return []
    rows = list(enumerate(block.text.splitlines(), start=block.line))
    prompted = [(number, match[1]) for number, row in rows if (match := re.match(r"\s*[$%]\s+(\S.*)", row))]
    if prompted:
        return prompted
    plain = [
        (number, row.split(" #", 1)[0].strip()) for number, row in rows if not row.lstrip().startswith("#")
    ]
    plain = [(number, row) for number, row in plain if row and not row.startswith(("--", "|", "&&"))]
    if block.language in SHELLS:
        return plain
    # without a language named, output and code look alike: only what begins with a known program is a command
    return [(number, row) for number, row in plain if PROGRAMS.match(row)]


def commands_in_yaml(path: str, text: str) -> list[tuple[int, str]]:
    """The commands of a CI file: its run, script and command entries, each with its line."""
    import yaml

    found: list[tuple[int, str]] = []
    budget = 5_000  # nodes: more than any real CI file has, and aliases cannot blow it up

    def walk(node: yaml.Node, key: str) -> None:
        nonlocal budget
        budget -= 1
        if budget < 0:
            return
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                walk(value, str(name.value))
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                walk(value, key)
        elif key in ("run", "script", "command", "commands"):
            first = node.start_mark.line + (2 if getattr(node, "style", "") in ("|", ">") else 1)
            found.extend(
                (first + at, row.strip())
                for at, row in enumerate(str(node.value).splitlines())
                if row.strip()
            )

    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        if tree is not None:
            walk(tree, "")
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    return found
