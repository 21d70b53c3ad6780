"""How a project is built, installed, tested and run: commands in its documents, build files and CI."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from services.scout.documents import Code, Document
from shared.contracts.checkup import Statement
from shared.projects.reading.ci import list_commands
from shared.projects.reading.guesses import MAKEFILES
from shared.projects.reading.manifests import cite, format_code
from shared.projects.reading.project_files import ProjectFiles, ci_files
from shared.source import Tree
from shared.text.display import format_list
from shared.web.quoting import clean

HEADINGS = re.compile(
    r"(?i)\b(install|installation|installing|set.?up|usage|quick.?start|getting.started|build|building|compil|test|tests"
    r"|testing|run|running|develop|development|contributing|hacking|demo|try)"
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
        named = any(HEADINGS.search(title) for title in section.titles)
        for found in (commands_in(block)[:4] for block in section.codes if named):
            if found:
                shown = ", ".join(format_code(words) for _, words in found)
                statements.append(cite(f"{clean(section.title, 60)}: {shown}", document.path, found[0][0]))
    return statements[:limit]


def all_commands(document: Document) -> Iterator[tuple[int, str]]:
    """Every command in the document's blocks of code, with its line."""
    for section in document.sections:
        for block in section.codes:
            yield from commands_in(block)


def commands_in(block: Code) -> list[tuple[int, str]]:
    """The commands in a block, each with its line; none if it has no shell commands."""
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


TARGET = re.compile(r"^([A-Za-z0-9][\w./-]*(?: [A-Za-z0-9][\w./-]*)*)\s*:(?![:=])([^#]*)(?:##\s*(.*))?")
USUAL = frozenset(
    "all build test tests check lint format install setup run serve start docs clean dist release".split()
)
"""Targets worth naming even if the Makefile does not explain them."""

OTHERS = {
    "tox.ini": "Tested by tox: `tox`",
    "noxfile.py": "Tested by nox: `nox`",
    "CMakeLists.txt": "Built by CMake: `cmake -B build && cmake --build build`",
    "meson.build": "Built by Meson: `meson setup build && meson compile -C build`",
    "configure.ac": "Built by Autotools: `./configure && make`",
    "pom.xml": "Built by Maven: `mvn verify`",
    "build.gradle": "Built by Gradle: `gradle build`",
    "build.gradle.kts": "Built by Gradle: `gradle build`",
    "Gemfile": "Installed by Bundler: `bundle install`",
    "Rakefile": "Has tasks of Rake: `rake -T`",
    "mix.exs": "Built and tested by Mix: `mix test`",
    "Package.swift": "Built and tested by Swift: `swift test`",
    "stack.yaml": "Built by Stack: `stack build`",
    "build.zig": "Built by Zig: `zig build`",
    "flake.nix": "Has a Nix flake: `nix develop`",
    "justfile": "Has recipes of just: `just --list`",
    "requirements.txt": "Installs its dependencies by `pip install -r requirements.txt`",
    "environment.yml": "Installs its dependencies by `conda env create`",
}


def read_building(tree: Tree, files: ProjectFiles) -> list[Statement]:
    """What the Makefile, other build files, container files and CI say, in that order."""
    statements = []
    for path in tree.files:
        if path in MAKEFILES:
            statements += read_makefile(path, files.text(path))
    statements += [cite(text, path) for path, text in OTHERS.items() if path in tree.files]
    for path in [path for path in tree.files if path.count("/") <= 1]:
        name = PurePosixPath(path).name
        if name in ("Dockerfile", "Containerfile"):
            statements += _read_dockerfile(path, files.text(path))
        elif re.fullmatch(r"(?:docker-)?compose\.ya?ml", name) and (
            services := files.table(path, "services")
        ):
            line = files.find_line(path, r"^services") or 1
            names = format_list([str(name) for name in services], 10)
            statements.append(cite(f"`docker compose up` starts {names}", path, line))
    for path in ci_files(tree.files)[:5]:
        rows = list_commands(path, files.text(path))
        checks = {words: number for number, words in reversed(rows) if CHECKING.search(words)}
        if ordered := sorted(checks.items(), key=lambda item: item[1])[:4]:
            shown = format_list([format_code(words) for words, _ in ordered], 4)
            statements.append(cite(f"Continuous integration runs {shown}", path, ordered[0][1]))
    return statements


def make_targets(tree: Tree, files: ProjectFiles) -> set[str] | None:
    """The targets of the Makefile; None if there is none, or it includes others."""
    found: set[str] = set()
    for path in tree.files:
        if path in MAKEFILES:
            text = files.text(path)
            if re.search(r"^-?s?include\s|^[^\t#]*%.*:|\$\(eval|^\$[({].*:", text, re.MULTILINE):
                return None
            found.update(*(match[1].split() for match in map(TARGET.match, text.splitlines()) if match))
            found.update(*(names.split() for names in re.findall(r"^\.PHONY\s*:(.*)", text, re.MULTILINE)))
    return found or None


def read_makefile(path: str, text: str, limit: int = 14) -> list[Statement]:
    """The targets that are explained by a ``##`` comment, else the usual ones with their first command."""
    rows = text.splitlines()
    explained, usual = [], []
    for number, row in enumerate(rows, start=1):
        match = TARGET.match(row)
        if not match:
            continue
        name = match[1].split()[0]
        if match[3]:
            explained.append(cite(f"`make {name}`: {match[3]}", path, number))
        elif name in USUAL:
            recipe = next(iter(rows[number : number + 1]), "")
            runs = f" runs {format_code(recipe.strip().lstrip('@-'))}" if recipe.startswith("\t") else ""
            usual.append(cite(f"`make {name}`{runs}", path, number))
    return (explained or usual)[:limit]


def _read_dockerfile(path: str, text: str) -> list[Statement]:
    bases: list[str] = []
    runs = ""
    first = 1
    for number, row in enumerate(text.splitlines(), start=1):
        word, _, rest = row.strip().partition(" ")
        if word.upper() == "FROM":
            first = number if not bases else first
            bases.append(format_code(re.sub(r"^--\S+\s+", "", rest.strip()).split(" ")[0]))
        elif word.upper() in ("CMD", "ENTRYPOINT"):
            runs = clean(rest, 100)
    if not bases:
        return []
    command = f", which runs {format_code(runs)}" if runs else ""
    return [cite(f"Has a container image on {format_list(bases)}{command}", path, first)]
