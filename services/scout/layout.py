"""The languages of a repository, its TODO notes, its top-level folders and its entry points."""

import ast
import re
import time
from collections import Counter
from pathlib import PurePosixPath

import msgspec

from services.scout.documents import parse
from shared.contracts.checkup import Statement
from shared.projects.reading.manifests import cite, format_code
from shared.projects.reading.project import README
from shared.source import LANGUAGES, Tree, is_test, parse_module, read_text
from shared.text.display import count, format_list
from shared.web.quoting import clean

BY_SUFFIX = {suffix: language for language, suffixes in LANGUAGES.items() for suffix in suffixes}
PROSE = frozenset({"Markdown", "reStructuredText", "HTML", "CSS"})
"""What is counted, but is not the code of a project."""

NOTE = re.compile(r"(?:#|//|/\*|<!--|--|;|%|^\s*\*)\s*@?(TODO|FIXME|XXX)\b(?![-_\w])(?=[\s:(!.]|$)(.{0,200})")


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A TODO, FIXME or XXX in a comment, with what it says."""

    kind: str
    text: str
    file: str
    line: int


class CodeSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """Lines by language (largest first), the files of each, and the notes; ``cut`` says what was left out."""

    lines: dict[str, int] = {}
    files: dict[str, int] = {}
    notes: tuple[Note, ...] = ()
    cut: str = ""

    @property
    def code(self) -> tuple[str, ...]:
        """The programming languages, largest first."""
        return tuple(language for language in self.lines if language not in PROSE)


def language_of(path: str) -> str:
    """The language of a file by its name; empty if it is not counted."""
    return BY_SUFFIX.get(PurePosixPath(path).suffix.lower(), "")


def survey_code(tree: Tree, *, seconds: float = 15.0) -> CodeSurvey:
    """Read the code files of ``tree`` once, for at most ``seconds``."""
    lines: dict[str, int] = {}
    files: dict[str, int] = {}
    notes: list[Note] = []
    cut = ""
    ends = time.monotonic() + seconds
    for path in tree.files:
        language = language_of(path)
        if not language:
            continue
        if time.monotonic() > ends:
            cut = f"the languages of only the files read within {seconds:g} s were counted"
            break
        text = read_text(tree.root, path)
        if text:
            lines[language] = lines.get(language, 0) + text.count("\n") + (not text.endswith("\n"))
            files[language] = files.get(language, 0) + 1
            if language not in PROSE and any(kind in text for kind in ("TODO", "FIXME", "XXX")):
                notes += [
                    Note(kind=match[1], text=match[2].strip(" :-*/>"), file=path, line=number)
                    for number, row in enumerate(text.splitlines(), start=1)
                    # after an odd number of quotes it is within a string
                    if len(row) < 2_000
                    and (match := NOTE.search(row))
                    and not row[: match.start()].count('"') % 2
                ]
    ranked = sorted(lines, key=lambda language: (-lines[language], language))
    return CodeSurvey(
        lines={name: lines[name] for name in ranked},
        files={name: files[name] for name in ranked},
        notes=tuple(notes),
        cut=cut,
    )


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
        text = f"{format_code(path)} is an entry point{f': {about}' if about else ''}"
        statements.append(cite(text, path, line))
    return statements


def _describe(tree: Tree, name: str, files: list[str]) -> Statement:
    languages = Counter(language_of(path) for path in files if language_of(path))
    mostly = next((language for language, _ in languages.most_common() if language not in PROSE), "")
    mostly = mostly or next(iter(languages), "")
    what = f"{count(len(files), 'file')}{f', mostly {mostly}' if mostly else ''}"
    about, source, line = _about_folder(tree, name)
    below = Counter(path.split("/")[1] for path in files if path.count("/") > 1)
    parts = f"in {format_list([folder for folder, _ in below.most_common()], 8)}" if below else ""
    about = about or KNOWN.get(name.lower(), "") or parts
    return cite(f"{format_code(name + '/')} holds {what}{f': {about}' if about else ''}", source, line)


def _about_folder(tree: Tree, name: str) -> tuple[str, str, int]:
    path = f"{name}/__init__.py"
    if path in tree.files:
        about, line = _about_file(tree, path)
        if about:
            return about, path, line
    for path in tree.files:
        if path.startswith(f"{name}/") and README.fullmatch(path.removeprefix(f"{name}/")):
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
