"""Words of a command as the shell would hand them over, as far as that can be known beforehand."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import msgspec

from shared.sandbox.policy.expansion import UNKNOWN, expand
from shared.sandbox.policy.secrets import is_secret_variable

if TYPE_CHECKING:
    from tree_sitter import Node

    from shared.sandbox.policy.scope import Scope

MOST_WORDS = 64
"""Words one pair of braces may become before the rest is left out."""
LONGEST_RANGE = 100_000
"""Words of a range (``{1..9}``) beyond which making them is a burden in itself."""

_SHIFT = 0xE000
_SPECIAL = "*?[]{},~ \t\n"
_PROTECT = {ord(sign): _SHIFT + ord(sign) for sign in _SPECIAL}
_REVEAL = {_SHIFT + ord(sign): sign for sign in _SPECIAL}
_PLAIN = re.compile(r"[\w./:=@%+,#^-]*").fullmatch
_RANGE = re.compile(r"(-?\w+)\.\.(-?\w+)(\.\.-?\d+)?")
_ANSI = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
Unescape = Callable[[str], str]
_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}


class Word(msgspec.Struct, frozen=True, gc=False):
    """``text`` with UNKNOWN for what is not known; ``glob``: it has wildcards.

    ``odd``: something in it is looked up in a way that only hides what is meant; ``hidden``: it is made of
    variables, substitutions or braces; ``spliced``: it is quoted or escaped in the middle.
    """

    text: str
    glob: bool = False
    odd: bool = False
    hidden: bool = False
    spliced: bool = False

    @property
    def known(self) -> bool:
        """Whether nothing of it is left to be found out."""
        return UNKNOWN not in self.text


class Runner(Protocol):
    """Who judges the commands that words hold."""

    def find(self, rule: str, what: str = "") -> None:
        """Note that a rule applies."""

    def substitute(self, node: "Node", scope: "Scope") -> str:
        """Judge a command substitution; its output, or UNKNOWN."""

    def process(self, node: "Node", scope: "Scope") -> str:
        """Judge a process substitution; the path that stands for it."""

    def visit(self, node: "Node", scope: "Scope") -> None:
        """Judge whatever commands are found beneath ``node``."""


class Spelling:
    """Puts words together from their nodes; ``run`` judges what a substitution holds and tells its output."""

    def __init__(self, scope: "Scope", run: Runner) -> None:
        self.scope, self.run = scope, run
        self.odd = self.hidden = self.spliced = False
        self.too_many = False

    def words(self, node: "Node") -> list[Word]:
        """The words ``node`` becomes: none, one, or several with braces and unquoted variables."""
        if node.type in {"word", "number", "variable_name"} and not node.child_count:
            text = _text(node)
            if _PLAIN(text):
                return [Word(text)]
        self.odd = self.hidden = self.spliced = False
        raw = self._raw(node, quoted=False)
        return [self._finish(part) for part in self._split(raw)] if raw or _is_quoted(node) else []

    def text(self, node: "Node") -> str:
        """The one text that ``node`` becomes where nothing is split: an assigned value, a here-string."""
        self.odd = self.hidden = self.spliced = False
        return self._finish(self._raw(node, quoted=False)).text

    def body(self, node: "Node") -> str:
        """The text of a here-document whose variables count."""
        return self._inside(node, _unescape_document).translate(_REVEAL)

    def _finish(self, raw: str) -> Word:
        glob = any(sign in raw for sign in "*?[")
        if raw.startswith("~"):
            raw = self._home(raw)
        return Word(raw.translate(_REVEAL), glob, self.odd, self.hidden, self.spliced)

    def _home(self, raw: str) -> str:
        user, slash, rest = raw[1:].partition("/")
        if not user:
            return self.scope.value("HOME") + slash + rest
        if user in {"+", "-"}:
            return (self.scope.cwd if user == "+" and self.scope.cwd else UNKNOWN) + slash + rest
        return ("/root" if user == "root" else f"/home/{user}") + slash + rest

    def _split(self, raw: str) -> list[str]:
        if "{" in raw:
            self.hidden = True
            expanded = list(self._braces(raw, MOST_WORDS))
        else:
            expanded = [raw]
        if " " not in raw and "\n" not in raw and "\t" not in raw:
            return expanded
        return [part for one in expanded for part in one.split()]

    def _braces(self, raw: str, room: int) -> Iterator[str]:
        found = _outer_braces(raw)
        if found is None or room <= 0:
            yield raw
            return
        start, end, commas = found
        inner = raw[start + 1 : end]
        if commas:
            edges = [start, *commas, end]
            choices = [raw[a + 1 : b] for a, b in pairwise(edges)]
        elif match := _RANGE.fullmatch(inner):
            choices = [match[1], match[2]]
            self.too_many |= _is_long(match[1], match[2])
        else:
            for rest in self._braces(raw[end + 1 :], room):
                yield raw[: end + 1] + rest
            return
        for count, choice in enumerate(choices):
            if count >= room:
                return
            yield from self._braces(raw[:start] + choice + raw[end + 1 :], room // len(choices))

    def _raw(self, node: "Node", quoted: bool) -> str:  # noqa: PLR0912 - one branch a kind
        kind = node.type
        if kind in {"word", "extglob_pattern", "regex"} and not node.child_count:
            return self._unquoted(_text(node))
        if (
            kind in {"number", "variable_name", "special_variable_name", "test_operator", "file_descriptor"}
            and not node.child_count
        ):
            return _text(node)
        if kind == "raw_string":
            return _text(node)[1:-1].translate(_PROTECT)
        if kind == "ansi_c_string":
            return self._ansi(_text(node)[2:-1]).translate(_PROTECT)
        if kind in {"string", "translated_string"}:
            inner = node.children[-1] if kind == "translated_string" and node.children else node
            return self._inside(inner, _unescape_string, trim='"')
        if kind in {"simple_expansion", "expansion"}:
            return self._variable(node, quoted)
        if kind == "command_substitution":
            self.hidden = True
            output = self.run.substitute(node, self.scope)
            return output.translate(_PROTECT) if quoted else output
        if kind == "process_substitution":
            self.hidden = True
            return self.run.process(node, self.scope)
        if kind == "arithmetic_expansion":
            self.run.visit(node, self.scope)
            self.hidden = True
            return "0"
        if kind == "brace_expression":
            return _text(node)
        if kind in {"concatenation", "command_name", "array", "subscript"}:
            if kind == "concatenation" and _is_spliced(node):
                self.spliced = True
            return "".join(self._raw(child, quoted) for child in node.children)
        if node.child_count:
            self.run.visit(node, self.scope)
            self.odd = True
            return UNKNOWN
        return self._unquoted(_text(node))

    def _unquoted(self, text: str) -> str:
        if "\\" not in text:
            return text
        parts, escaped = [], False
        for position, sign in enumerate(text):
            if escaped:
                parts.append("" if sign == "\n" else sign.translate(_PROTECT))
                self.spliced |= sign.isalnum() and position > 1
                escaped = False
            elif sign == "\\":
                escaped = True
            else:
                parts.append(sign)
        return "".join(parts)

    def _ansi(self, text: str) -> str:
        def decode(match: re.Match[str]) -> str:
            code = match[0][1:]
            if code[0] in "xuU" and len(code) > 1:
                self.spliced = True
                number = int(code[1:], 16)
                return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else UNKNOWN
            if code[0] in "01234567":
                self.spliced = True
                return chr(int(code, 8) & 255)
            return _LETTERS.get(code[0], code[-1])

        return _ANSI.sub(decode, text) if "\\" in text else text

    def _inside(self, node: "Node", unescape: "Unescape", trim: str = "") -> str:
        """What stands between quotes: texts as they are, and what expands among them."""
        source, start = node.text or b"", node.start_byte
        parts, end = [], len(trim)
        for child in node.children:
            if not child.is_named or child.type in {"string_content", "heredoc_content"}:
                continue
            begin = child.start_byte - start
            parts.append(unescape(source[end:begin].decode(errors="replace")).translate(_PROTECT))
            parts.append(self._raw(child, quoted=True).translate(_PROTECT))
            end = child.end_byte - start
        last = len(source) - len(trim)
        if end < last:
            parts.append(unescape(source[end:last].decode(errors="replace")).translate(_PROTECT))
        return "".join(parts)

    def _variable(self, node: "Node", quoted: bool) -> str:
        self.hidden = True
        if node.type == "simple_expansion":
            name = _text(node)[1:]
            value = self.scope.value(name)
            self._reveal(name)
        else:
            value = self._expansion(node)
        return value.translate(_PROTECT) if quoted else value

    def _reveal(self, name: str) -> None:
        """The environment, not the script, gave a variable its value: it may be a credential."""
        if is_secret_variable(name) and not self.scope.is_set(name):
            self.run.find("secret.environment", f"${name}")

    def _expansion(self, node: "Node") -> str:
        """``${name...}``: the value, its default, or what is cut and replaced in it."""
        name, operator, rest = "", "", []
        for child in node.children:
            kind = child.type
            if kind in {"${", "}"}:
                continue
            if not name and kind in {"variable_name", "special_variable_name", "subscript"}:
                name = _text(child)
                self.run.visit(child, self.scope)
            elif not child.is_named and not operator:
                operator = kind
                if kind in {"#", "!"} and not name:
                    self.odd |= kind == "!"
                    self.run.visit(node, self.scope)
                    return "0" if kind == "#" else UNKNOWN
            else:
                rest.append(child)
        value = self.scope.value(name.partition("[")[0])
        self._reveal(name)
        arguments = [self._raw(child, quoted=False).translate(_REVEAL) for child in rest if child.is_named]
        result, odd = expand(value, operator, arguments, self.scope.is_set(name))
        self.odd |= odd
        return result


def _text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")


def _is_quoted(node: "Node") -> bool:
    """Whether a word stays a word even when nothing is in it."""
    if node.type in {"string", "raw_string", "ansi_c_string", "translated_string"}:
        return True
    return node.type in {"concatenation", "command_name"} and any(
        _is_quoted(child) for child in node.children
    )


def _is_spliced(node: "Node") -> bool:
    return any(
        child.type in {"string", "raw_string", "ansi_c_string", "translated_string"}
        for child in node.children
    )


def _outer_braces(raw: str) -> tuple[int, int, list[int]] | None:
    """The first pair of braces that closes, and its commas."""
    start = raw.find("{")
    while start >= 0:
        depth = 0
        commas: list[int] = []
        for position in range(start, len(raw)):
            sign = raw[position]
            if sign == "{":
                depth += 1
            elif sign == "}":
                depth -= 1
                if not depth:
                    return start, position, commas
            elif sign == "," and depth == 1:
                commas.append(position)
        start = raw.find("{", start + 1) if len(raw) < MOST_WORDS * 16 else -1
    return None


def _is_long(first: str, last: str) -> bool:
    try:
        return abs(int(first) - int(last)) > LONGEST_RANGE
    except ValueError:
        return False


def _unescape_string(text: str) -> str:
    return re.sub(r'\\([$`"\\])|\\\n', lambda match: match[1] or "", text) if "\\" in text else text


def _unescape_document(text: str) -> str:
    return re.sub(r"\\([$`\\])|\\\n", lambda match: match[1] or "", text) if "\\" in text else text
