"""How a repository is laid out: its top-level folders, and where its programs begin."""

import ast
import re
from collections import Counter
from pathlib import PurePosixPath

from services.scout.languages import PROSE, language_of
from services.scout.reading import parse
from services.scout.wording import code, count, listing, say
from shared.contracts.checkup import Statement
from shared.source.places import is_test
from shared.source.syntax import parse_module
from shared.source.tree import Tree, read_text
from shared.web.quoting import clean

KNOWN = {
    "docs": "documents",
    "doc": "documents",
    "tests": "tests",
    "test": "tests",
    "examples": "examples",
    "scripts": "scripts",
    "tools": "tools",
    "bench": "benchmarks",
    "benchmarks": "benchmarks",
    "deploy": "deployment",
    "migrations": "database migrations",
    "vendor": "other people's code",
    "third_party": "other people's code",
    "assets": "assets",
    "static": "assets",
    ".github": "settings for GitHub",
    ".ci": "continuous integration",
}
ENTRIES = re.compile(
    r"(?:.*/)?__main__\.py|(?:src/)?main\.(?:rs|py|go|c|cpp|ts|js)|cmd/[^/]+/main\.go|src/bin/[^/]+\.rs|manage\.py|app\.py|(?:src/)?"
    r"(?:index|server|cli)\.[jt]sx?|src/(?:[^/]+/)?lib\.rs"
)


def read_layout(tree: Tree, limit: int = 20) -> list[Statement]:
    """What each top-level folder holds, largest first, then the entry points (at most ten)."""
    folders: dict[str, list[str]] = {}
    for path in tree.files:
        if "/" in path:
            folders.setdefault(path.split("/", 1)[0], []).append(path)
    ranked = sorted(folders, key=lambda name: (name.startswith("."), -len(folders[name]), name))
    statements = [_describe(tree, name, folders[name]) for name in ranked[:limit]]
    entries = [path for path in tree.files if ENTRIES.fullmatch(path) and not is_test(path)]
    for path in sorted(entries, key=lambda path: (path.count("/"), path))[:10]:
        about, line = _about_file(tree, path)
        statements.append(say(f"{code(path)} is an entry point{f': {about}' if about else ''}", path, line))
    return statements


def _describe(tree: Tree, name: str, files: list[str]) -> Statement:
    languages = Counter(language_of(path) for path in files if language_of(path))
    mostly = next((language for language, _ in languages.most_common() if language not in PROSE), "")
    mostly = mostly or next(iter(languages), "")
    what = f"{count(len(files), 'file')}{f', mostly {mostly}' if mostly else ''}"
    about, source, line = _about_folder(tree, name)
    below = Counter(path.split("/")[1] for path in files if path.count("/") > 1)
    parts = f"in {listing([folder for folder, _ in below.most_common()], 8)}" if below else ""
    about = about or KNOWN.get(name.lower(), "") or parts
    return say(f"{code(name + '/')} holds {what}{f': {about}' if about else ''}", source, line)


def _about_folder(tree: Tree, name: str) -> tuple[str, str, int]:
    path = f"{name}/__init__.py"
    if path in tree.files:
        about, line = _about_file(tree, path)
        if about:
            return about, path, line
    for path in tree.files:
        if re.fullmatch(rf"{re.escape(name)}/README(?:\.md|\.rst|\.txt)?", path, re.IGNORECASE):
            document = parse(path, read_text(tree.root, path))
            for _, paragraph in document.paragraphs():
                if len(paragraph.text.split()) >= 4:
                    return clean(paragraph.text, 160), path, paragraph.line
    return "", f"{name}/", 0


def _about_file(tree: Tree, path: str) -> tuple[str, int]:
    """The first line of a Python file's docstring, with its line."""
    if PurePosixPath(path).suffix != ".py":
        return "", 1
    try:
        module = parse_module(read_text(tree.root, path))
    except ValueError:
        return "", 1
    text = ast.get_docstring(module) or ""
    first = text.strip().split("\n\n")[0]
    return clean(first, 160).replace("``", "`"), module.body[0].lineno if first else 1
