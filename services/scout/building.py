"""How a project is built, installed, tested and run, by its build files."""

import re
from pathlib import PurePosixPath

from services.scout.commands import CHECKING, commands_in_yaml
from services.scout.wording import code, listing, say
from shared.contracts.checkup import Statement
from shared.source.tree import Tree, read_text
from shared.web.quoting import clean

MAKEFILES = ("Makefile", "GNUmakefile", "makefile")
TARGET = re.compile(r"^([A-Za-z0-9][\w./-]*(?: [A-Za-z0-9][\w./-]*)*)\s*:(?![:=])([^#]*)(?:##\s*(.*))?")
USUAL = frozenset(
    "all build test tests check lint format install setup run serve start docs clean dist release".split()
)
"""Targets worth naming even where the Makefile does not explain them."""

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
CI = re.compile(
    r"\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.circleci/config\.yml|azure-pipelines\.yml|\.travis\.yml|\.ci/[^/]+"
    r"|\.woodpecker(?:/[^/]+)?\.ya?ml|Jenkinsfile|\.buildkite/pipeline\.yml|appveyor\.yml|\.appveyor\.yml|bitbucket-pipelines\.yml"
)


def read_building(tree: Tree) -> list[Statement]:
    """What the Makefile, other build files, container files and CI say, in that order."""
    statements = []
    for path in tree.files:
        if path in MAKEFILES:
            statements += read_makefile(path, read_text(tree.root, path))
    statements += [say(text, path) for path, text in OTHERS.items() if path in tree.files]
    for path in [path for path in tree.files if path.count("/") <= 1]:
        name = PurePosixPath(path).name
        if name in ("Dockerfile", "Containerfile"):
            statements += _read_dockerfile(path, read_text(tree.root, path))
        elif re.fullmatch(r"(?:docker-)?compose\.ya?ml", name):
            statements += _read_compose(path, read_text(tree.root, path))
    for path in ci_files(tree)[:5]:
        statements += _read_ci(path, read_text(tree.root, path))
    return statements


def ci_files(tree: Tree) -> list[str]:
    """The files that configure continuous integration."""
    return [path for path in tree.files if CI.fullmatch(path)]


def targets_of(tree: Tree) -> set[str] | None:
    """The names that ``make`` knows; None where there is no Makefile, or it includes others."""
    found: set[str] = set()
    for path in tree.files:
        if path in MAKEFILES:
            text = read_text(tree.root, path)
            if re.search(r"^-?s?include\s|^[^\t#]*%.*:|\$\(eval|^\$[({].*:", text, re.MULTILINE):
                return None
            found.update(*(match[1].split() for match in map(TARGET.match, text.splitlines()) if match))
            found.update(
                word
                for match in re.finditer(r"^\.PHONY\s*:(.*)", text, re.MULTILINE)
                for word in match[1].split()
            )
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
            explained.append(say(f"`make {name}`: {match[3]}", path, number))
        elif name in USUAL:
            recipe = (
                rows[number].strip().lstrip("@-")
                if number < len(rows) and rows[number].startswith("\t")
                else ""
            )
            usual.append(say(f"`make {name}`{f' runs {code(recipe)}' if recipe else ''}", path, number))
    return (explained or usual)[:limit]


def _read_dockerfile(path: str, text: str) -> list[Statement]:
    bases: list[str] = []
    runs = ""
    first = 1
    for number, row in enumerate(text.splitlines(), start=1):
        word, _, rest = row.strip().partition(" ")
        if word.upper() == "FROM":
            first = number if not bases else first
            bases.append(code(re.sub(r"^--\S+\s+", "", rest.strip()).split(" ")[0]))
        elif word.upper() in ("CMD", "ENTRYPOINT"):
            runs = clean(rest, 100)
    if not bases:
        return []
    return [
        say(
            f"Has a container image on {listing(bases)}{f', which runs {code(runs)}' if runs else ''}",
            path,
            first,
        )
    ]


def _read_compose(path: str, text: str) -> list[Statement]:
    import yaml

    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    services = data.get("services") if isinstance(data, dict) else None
    if not isinstance(services, dict) or not services:
        return []
    line = next(
        (number for number, row in enumerate(text.splitlines(), start=1) if row.startswith("services")), 1
    )
    return [say(f"`docker compose up` starts {listing([str(name) for name in services], 10)}", path, line)]


def _read_ci(path: str, text: str) -> list[Statement]:
    if path.endswith((".yml", ".yaml")):
        rows = commands_in_yaml(path, text)
    else:
        rows = [
            (number, row.strip()) for number, row in enumerate(text.splitlines(), start=1) if row[:1] != "#"
        ]
    checks = {words: number for number, words in reversed(rows) if CHECKING.search(words)}
    ordered = sorted(checks.items(), key=lambda item: item[1])[:4]
    if not ordered:
        return []
    shown = listing([code(words) for words, _ in ordered], 4)
    return [say(f"Continuous integration runs {shown}", path, ordered[0][1])]
