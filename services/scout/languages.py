"""Which languages a repository is written in, and the notes its authors left to themselves."""

import re
import time
from pathlib import PurePosixPath

import msgspec

from shared.source.tree import Tree, read_text

BY_SUFFIX = {
    suffix: language
    for language, suffixes in {
        "Python": ".py .pyi .pyx",
        "JavaScript": ".js .mjs .cjs .jsx",
        "TypeScript": ".ts .mts .cts .tsx",
        "Go": ".go",
        "Rust": ".rs",
        "C": ".c .h",
        "C++": ".cc .cpp .cxx .hpp .hh .hxx",
        "C#": ".cs",
        "Java": ".java",
        "Kotlin": ".kt .kts",
        "Scala": ".scala",
        "Swift": ".swift",
        "Objective-C": ".m .mm",
        "Ruby": ".rb",
        "PHP": ".php",
        "Perl": ".pl .pm",
        "Lua": ".lua",
        "R": ".r",
        "Julia": ".jl",
        "Haskell": ".hs",
        "OCaml": ".ml .mli",
        "Elixir": ".ex .exs",
        "Erlang": ".erl",
        "Clojure": ".clj .cljs",
        "Dart": ".dart",
        "Zig": ".zig",
        "Nim": ".nim",
        "Shell": ".sh .bash .zsh .fish",
        "PowerShell": ".ps1 .psm1",
        "SQL": ".sql",
        "HTML": ".html .htm",
        "CSS": ".css .scss .less",
        "Vue": ".vue",
        "Svelte": ".svelte",
        "Terraform": ".tf",
        "Protocol Buffers": ".proto",
        "Assembly": ".s .asm",
        "Markdown": ".md .markdown",
        "reStructuredText": ".rst",
    }.items()
    for suffix in suffixes.split()
}
PROSE = frozenset({"Markdown", "reStructuredText", "HTML", "CSS"})
"""What is counted, but is not the code of a project."""

NOTE = re.compile(r"(?:#|//|/\*|<!--|--|;|%|^\s*\*)\s*@?(TODO|FIXME|XXX)\b(?![-_\w])(?=[\s:(!.]|$)(.{0,200})")


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A TODO, FIXME or XXX in a comment, with what it says."""

    kind: str
    text: str
    file: str
    line: int


class Survey(msgspec.Struct, frozen=True, kw_only=True):
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
    """The language of a file by its name; empty where it is none that is counted."""
    return BY_SUFFIX.get(PurePosixPath(path).suffix.lower(), "")


def survey(tree: Tree, *, seconds: float = 15.0) -> Survey:
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
            if language not in PROSE:
                notes += _notes(path, text)
    ranked = sorted(lines, key=lambda language: (-lines[language], language))
    return Survey(
        lines={name: lines[name] for name in ranked},
        files={name: files[name] for name in ranked},
        notes=tuple(notes),
        cut=cut,
    )


def _notes(path: str, text: str) -> list[Note]:
    if not any(kind in text for kind in ("TODO", "FIXME", "XXX")):
        return []
    return [
        Note(kind=match[1], text=match[2].strip(" :-*/>"), file=path, line=number)
        for number, row in enumerate(text.splitlines(), start=1)
        # after an odd number of quotes it stands in a string
        if len(row) < 2_000 and (match := NOTE.search(row)) and not row[: match.start()].count('"') % 2
    ]
