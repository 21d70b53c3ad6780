"""Words of a command as the shell would pass them, if that is known before it runs."""

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from shared.policy.expansion import (
    UNKNOWN,
    expand,
    expand_braces,
    protect,
    reveal,
    unescape_ansi,
    unescape_bare,
    unescape_document,
    unescape_string,
)
from shared.policy.parser import QUOTED, are_adjacent, gap_between, is_quoted, text_of, without_dollar_signs
from shared.policy.paths import is_secret_variable
from shared.policy.scope import Scope, Word
from shared.policy.shell import Shell

if TYPE_CHECKING:
    from tree_sitter import Node

_PLAIN = re.compile(r"[\w./:=@%+,#^-]*").fullmatch
_NAME = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_EVERY = re.compile(r'"\$(?:(@)|\{(@|\w+)(?:\[@\])\})"').fullmatch
"""Quotes around these keep several words apart instead of making them one."""
_BARE = {"word", "extglob_pattern", "regex"}
_NAMES = {"number", "variable_name", "special_variable_name", "test_operator", "file_descriptor"}
_JOINED = {"concatenation", "command_name", "array", "subscript"}


class Expander:
    """Builds words from their nodes; ``run`` judges a substitution and returns its output."""

    def __init__(self, scope: Scope, run: Shell) -> None:
        self.scope, self.run = scope, run
        self.obfuscated = self.hidden = self.spliced = self.computed = False
        self.guessed = False

    def words(self, node: "Node") -> list[Word]:
        """The words ``node`` becomes: none, one, or several with braces and unquoted variables."""
        if node.type in {"word", "number", "variable_name"} and not node.child_count:
            text = text_of(node)
            if _PLAIN(text):
                return [Word(text)]
        return self._joined([node])

    def line(self, nodes: Sequence["Node"]) -> list[Word]:
        """The words of all ``nodes``. The grammar takes some words apart: those that touch are one."""
        words: list[Word] = []
        start = 0
        for end, node in enumerate(nodes, 1):
            if end < len(nodes) and are_adjacent(node, nodes[end]):
                continue
            words.extend(self.words(node) if end - start == 1 else self._joined(nodes[start:end]))
            start = end
        return words

    def _joined(self, nodes: Sequence["Node"]) -> list[Word]:
        self.obfuscated = self.hidden = self.computed = False
        self.spliced = len(nodes) > 1
        parts, before = [], None
        for node in without_dollar_signs(nodes):
            parts.append(unescape_bare(gap_between(before, node))[0] if before is not None else "")
            parts.append(self._raw(node, quoted=False))
            before = node
        raw = "".join(parts)
        kept = raw or any(is_quoted(node) for node in nodes)
        return [self._finish(part) for part in self._split(raw)] if kept else []

    def text(self, node: "Node") -> str:
        """The one text that ``node`` becomes if nothing is split: an assigned value, a here-string."""
        self.obfuscated = self.hidden = self.spliced = self.computed = False
        return self._finish(self._raw(node, quoted=False)).text

    def body(self, node: "Node") -> str:
        """The text of a here-document whose variables count."""
        return reveal(self._inside(node, unescape_document))

    def _finish(self, raw: str) -> Word:
        if "$" in raw:
            # The grammar takes some expansions for plain signs.
            raw = _NAME.sub(lambda match: self.scope.value(match[1] or match[2]), raw)
        glob = any(sign in raw for sign in "*?[")
        if raw.startswith("~"):
            raw = self._home(raw)
        return Word(reveal(raw), glob, self.obfuscated, self.hidden, self.spliced, self.computed)

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
            expanded = list(expand_braces(raw))
        else:
            expanded = [raw]
        if " " not in raw and "\n" not in raw and "\t" not in raw:
            return expanded
        return [part for one in expanded for part in one.split()]

    def _raw(self, node: "Node", quoted: bool) -> str:
        """The text of ``node`` before it is split, its quoted signs protected."""
        kind = node.type
        if not node.child_count and kind in _BARE:
            return self._bare(node)
        if not node.child_count and kind in _NAMES:
            return text_of(node)
        if kind in QUOTED:
            return self._quoted(node)
        if kind in {"simple_expansion", "expansion"}:
            return self._variable(node, quoted)
        if kind in {"command_substitution", "process_substitution", "arithmetic_expansion"}:
            self.hidden = True
            if node.type == "command_substitution":
                output = self.run.substitute(node, self.scope)
                self.computed |= UNKNOWN in output
                return protect(output) if quoted else self._separate(output)
            if node.type == "process_substitution":
                return self.run.process(node, self.scope)
            self.run.visit(node, self.scope)
            self.guessed = True
            number = text_of(node)[3:-2].strip()
            return (
                number if number.isdigit() else "0"
            )  # in the place of another one it changes no path and no name
        if kind == "brace_expression":
            return text_of(node)
        if kind in _JOINED:
            children = without_dollar_signs(node.children)
            if kind == "concatenation":
                self.spliced |= any(child.type in QUOTED for child in children)
                # Braces come first: $a{b,c} is $ab and $ac.
                self.obfuscated |= any(
                    child.type == "simple_expansion" and text_of(after).startswith("{")
                    for child, after in pairwise(children)
                )
            return "".join(self._raw(child, quoted) for child in children)
        if node.child_count:
            self.run.visit(node, self.scope)
            self.obfuscated = True
            return UNKNOWN
        return self._bare(node)

    def _bare(self, node: "Node") -> str:
        text, spliced = unescape_bare(text_of(node))
        self.spliced |= spliced
        return text

    def _quoted(self, node: "Node") -> str:
        if node.type == "raw_string":
            return protect(text_of(node)[1:-1])
        if node.type == "ansi_c_string":
            text, coded = unescape_ansi(text_of(node)[2:-1], UNKNOWN)
            self.spliced |= coded
            return protect(text)
        inner = node.children[-1] if node.type == "translated_string" and node.children else node
        if node.child_count == 3 and (match := _EVERY(text_of(node))):
            self.hidden = True
            name = match[1] or match[2]
            self.computed |= self.scope.is_set(name)
            return self.scope.value(name)
        return self._inside(inner, unescape_string, trim='"')

    def _inside(self, node: "Node", unescape: Callable[[str], str], trim: str = "") -> str:
        """The text between quotes: literal parts, and expansions among them."""
        source, start = node.text or b"", node.start_byte
        parts, end = [], len(trim)
        for child in node.children:
            if not child.is_named or child.type in {"string_content", "heredoc_content"}:
                continue
            begin = child.start_byte - start
            parts.append(protect(unescape(source[end:begin].decode(errors="replace"))))
            parts.append(protect(self._raw(child, quoted=True)))
            end = child.end_byte - start
        last = len(source) - len(trim)
        if end < last:
            parts.append(protect(unescape(source[end:last].decode(errors="replace"))))
        return "".join(parts)

    def _variable(self, node: "Node", quoted: bool) -> str:
        self.hidden = True
        if node.type == "simple_expansion":
            name = text_of(node)[1:]
            value = self.scope.value(name)
            self.computed |= UNKNOWN in value and self.scope.is_set(name)
            self._reveal(name)
        else:
            value = self._expansion(node)
        return protect(value) if quoted else self._separate(value)

    def _separate(self, value: str) -> str:
        """Outside of quotes a value falls into words at the signs of IFS."""
        if not self.scope.is_set("IFS"):
            return value
        return value.translate({ord(sign): " " for sign in self.scope.value("IFS") if sign != UNKNOWN})

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
                name = text_of(child)
                self.run.visit(child, self.scope)
            elif not child.is_named and not operator:
                operator = kind
                if kind in {"#", "!"} and not name:
                    self.obfuscated |= kind == "!"
                    self.run.visit(node, self.scope)
                    return self._length(node) if kind == "#" else UNKNOWN
            else:
                rest.append(child)
        value = self._element(name)
        self.computed |= UNKNOWN in value and self.scope.is_set(name.partition("[")[0])
        self._reveal(name)
        self.guessed = False
        arguments = [reveal(self._raw(child, quoted=False)) for child in rest if child.is_named]
        result, odd = expand(value, operator, arguments, self.scope.is_set(name))
        if operator == ":" and self.guessed and result != UNKNOWN:
            result, odd = UNKNOWN, True  # it decides where a value is cut
        self.obfuscated |= odd
        if operator == "@" and rest and text_of(rest[0]) in {"P", "E"}:
            self.run.find("unclear.eval", f"${{{name}@{text_of(rest[0])}}}")
        return result

    def _element(self, name: str) -> str:
        """The value of a variable, or that of one element of an array."""
        name, bracket, index = name.partition("[")
        value = self.scope.value(name)
        parts = value.split()
        position = index.removesuffix("]")
        return (
            parts[int(position)] if bracket and position.isdigit() and int(position) < len(parts) else value
        )

    def _length(self, node: "Node") -> str:
        value = self.scope.value(text_of(node)[3:-1].partition("[")[0])
        return "0" if UNKNOWN in value else str(len(value))


@cache
def _split(names: str) -> dict[str, None]:
    """``names`` as a set that keeps their order."""
    return dict.fromkeys(names.split())


class Options(msgspec.Struct, gc=False):
    """``flags`` without their dashes, ``values`` of those that take one, and the ``operands``."""

    flags: set[str]
    values: dict[str, list[Word]]
    operands: list[Word]

    def has(self, names: str) -> bool:
        """Whether one of the options is given; ``names`` are separated by spaces."""
        given = _split(names)
        return not given.keys().isdisjoint(self.flags) or not given.keys().isdisjoint(self.values)

    def of(self, names: str) -> list[Word]:
        """The values of the options ``names``, which are separated by spaces."""
        if not self.values:
            return []
        return [word for name in _split(names) for word in self.values.get(name, ())]


def parse_options(words: Sequence[Word], valued: str = "", permute: bool = True) -> Options:
    """``valued``: the options that take a value, separated by spaces, one letter or long.

    ``permute``: options may follow operands; without it the first operand ends them (env, nice, ssh).
    Long options may be shortened, as GNU's may.
    """
    takes = _split(valued)
    found = Options(set(), {}, [])
    position, count = 0, len(words)
    while position < count:
        word = words[position]
        text = word.text
        position += 1
        if text == "--":
            found.operands.extend(words[position:])
            break
        if len(text) < 2 or text[0] != "-":
            found.operands.append(word)
            if not permute:
                found.operands.extend(words[position:])
                break
        elif text[1] == "-":
            name, equals, value = text[2:].partition("=")
            name = _full(name, takes)
            if equals:
                found.values.setdefault(name, []).append(_value(word, value))
            elif name in takes and position < count:
                found.values.setdefault(name, []).append(words[position])
                position += 1
            else:
                found.flags.add(name)
        elif text[1:] in takes:
            if position < count:
                found.values.setdefault(text[1:], []).append(words[position])
                position += 1
        else:
            position = _cluster(word, takes, words, position, found)
    return found


def _cluster(word: Word, takes: Collection[str], words: Sequence[Word], position: int, found: Options) -> int:
    letters = word.text[1:]
    for index, letter in enumerate(letters):
        if letter in takes:
            rest = letters[index + 1 :]
            if rest:
                found.values.setdefault(letter, []).append(_value(word, rest))
            elif position < len(words):
                found.values.setdefault(letter, []).append(words[position])
                position += 1
            return position
        found.flags.add(letter)
    if len(letters) > 1:
        found.flags.add(letters)
    return position


def _full(name: str, takes: Collection[str]) -> str:
    if name in takes or len(name) < 3:
        return name
    longer = (known for known in takes if known.startswith(name) and known[len(name)] != "-")
    return next(longer, name)


def _value(word: Word, text: str) -> Word:
    return Word(text, word.glob, word.obfuscated, word.hidden)
