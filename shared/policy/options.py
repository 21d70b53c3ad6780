"""Options and operands of a command, separated as the programs themselves do."""

from collections.abc import Collection, Sequence
from functools import cache

import msgspec

from shared.policy.scope import Word


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
