"""Ways to say a thing: rows of a file, in a plain notation of patterns, compiled when they are first used.

A file ``sayings.toml`` has a table for each module that reads it, in which a name stands for a way to say
something, or a list of ways; ``lead`` and ``tail`` are what stands around each of the ``ways`` of a table::

    again = ["(please )?(once more|again)( please)?", "try again"]
    [undo]
    lead = "{ahead}"
    ways = ["undo( that| it)?", "(take|bring|put) (that|it) back"]

A blank is any white space, a round bracket only groups, an apostrophe is straight or curly, case makes no
difference, and ``{ahead}`` is another name of the table or of ``words.toml``, which all share. The rest is a
regular expression of Python. A row of two is a way to say something, and how it is written plainly
or what is answered.
"""

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

WORDS = Path(__file__).with_name("words.toml")
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<[=!]|\(\?P<\w+>|\(\?|\(|\)|\{(?P<name>[a-z][\w ]*)\}| +|['’]|.",
    re.DOTALL,
)


class Sayings:
    """The ways of one table of a file, each a pattern."""

    def __init__(self, rows: Mapping[str, Any], words: Mapping[str, Any]) -> None:
        self._rows = {**words, **rows}
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._pairs: dict[str, list[tuple[re.Pattern[str], str]]] = {}

    def __getitem__(self, name: str) -> re.Pattern[str]:
        """The pattern of ``name``; raises KeyError, or re.error for a way that is no pattern."""
        if name not in self._patterns:
            self._patterns[name] = re.compile(self.expand(name), re.IGNORECASE)
        return self._patterns[name]

    def words(self, name: str) -> frozenset[str]:
        """The words of the row ``name``, which is no pattern: they are separated by blanks."""
        return frozenset(self._rows[name].split())

    def rewrite(self, name: str, text: str) -> str:
        """``text`` with each way of the rows ``name`` written plainly, in their order."""
        for pattern, plain in self._read_pairs(name):
            text = pattern.sub(plain, text)
        return text

    def choose(self, name: str, text: str) -> str:
        """The second part of the first of the rows ``name`` whose way ``text`` has; empty if it has none."""
        return next((second for pattern, second in self._read_pairs(name) if pattern.search(text)), "")

    def _read_pairs(self, name: str) -> list[tuple[re.Pattern[str], str]]:
        if name not in self._pairs:
            rows = self._rows[name]
            self._pairs[name] = [
                (re.compile(self._translate(way), re.IGNORECASE), second) for way, second in rows
            ]
        return self._pairs[name]

    def expand(self, name: str) -> str:
        """The regular expression of ``name``, without its flags."""
        row = self._rows[name]
        if isinstance(row, str):
            return self._translate(row)
        if isinstance(row, Mapping):
            ways = "|".join(map(self._translate, row["ways"]))
            lead, tail = (self._translate(row.get(part, "")) for part in ("lead", "tail"))
            return f"{lead}(?:{ways}){tail}"
        return "|".join(map(self._translate, row))

    def _translate(self, way: str) -> str:
        return "".join(self._pieces(way))

    def _pieces(self, way: str) -> Iterator[str]:
        behind: list[bool] = []  # for each open bracket, whether it looks behind: there a blank is one
        for token in _TOKEN.finditer(way):
            piece = token[0]
            if piece.startswith("("):
                behind.append(piece.startswith("(?<") or any(behind))
                yield "(?:" if piece == "(" else piece
            elif token["name"]:
                yield f"(?:{self.expand(token['name'])})"
            elif piece.startswith(" "):
                yield r"\s" if any(behind) else r"\s+"
            else:
                if piece == ")":
                    behind.pop()
                yield "['’]" if piece in "'’" else piece


@functools.cache
def read_sayings(module_file: str, table: str) -> Sayings:
    """The ``table`` of the file ``sayings.toml`` beside ``module_file``."""
    return Sayings(_read(Path(module_file).with_name("sayings.toml"))[table], _read(WORDS))


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
