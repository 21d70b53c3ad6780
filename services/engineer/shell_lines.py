"""Shell scripts of CI and build files, split into simple commands."""

import re
import shlex
from collections.abc import Iterator, Mapping

import msgspec

KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "do", "while", "!", "{", "}", "fi", "done", "set", "(", ")"}
)
PUNCTUATION = re.compile(r"[();<>|&]+")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
UNKNOWN = "\ufffd"
"""Stands in a word for what is not known before the command runs."""


class ShellCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command: its words, the assignments before it, and the folder the script had entered.

    ``line`` counts the lines of the script from 0.
    """

    words: tuple[str, ...]
    line: int = 0
    folder: str = ""
    env: dict[str, str] = {}


def split_script(script: str, variables: Mapping[str, str] | None = None) -> Iterator[ShellCommand]:
    """The simple commands of a script in order; lines that cannot be split are left out.

    Variables are replaced by ``variables``; of a word with any other, that part becomes UNKNOWN.
    """
    known = dict(variables or {})
    folder = ""
    for number, line in _join_lines(script):
        for words in _split_line(line):
            env: dict[str, str] = {}
            words = [expand(word, known) for word in words]
            while words and (words[0] in KEYWORDS or ASSIGNMENT.fullmatch(words[0])):
                name, equals, value = words.pop(0).partition("=")
                env |= {name: value} if equals else {}
            if words[:1] == ["export"]:
                known |= dict(word.split("=", 1) for word in words[1:] if "=" in word)
            elif words[:1] in (["cd"], ["pushd"]) and len(words) == 2:
                folder = f"{folder}/{words[1]}".lstrip("/") if folder else words[1]
            elif words[:1] == ["popd"]:
                folder = folder.rpartition("/")[0]
            elif words:
                yield ShellCommand(words=tuple(words), line=number, folder=folder, env=env)


def expand(word: str, variables: Mapping[str, str]) -> str:
    """``word`` with the values of its variables, UNKNOWN for one that has none."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        return variables.get(name, match[2] if match[2] is not None else UNKNOWN)

    return VARIABLE.sub(value, word)


def _join_lines(script: str) -> Iterator[tuple[int, str]]:
    joined, first = "", 0
    for number, line in enumerate(script.splitlines()):
        first = first if joined else number
        joined += line
        if joined.endswith("\\"):
            joined = f"{joined[:-1]} "
            continue
        yield first, joined
        joined = ""
    if joined:
        yield first, joined


def _split_line(line: str) -> Iterator[list[str]]:
    """The words of each command in a line; what follows a redirection is left out."""
    # A substitution is not known before it runs; its parentheses would end the command.
    line = re.sub(r"\$\([^()]*\)|`[^`]*`", UNKNOWN, line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    redirected = False
    try:
        for word in lexer:
            if PUNCTUATION.fullmatch(word):
                redirected = word[0] in "<>" or word.endswith((">", ">&"))
                if not redirected:
                    yield words
                    words = []
                elif words and words[-1].isdigit():
                    words.pop()
            elif redirected:
                redirected = False  # the file it goes to
            else:
                words.append(word)
    except ValueError:
        return
    yield words
