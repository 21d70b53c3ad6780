"""Where a text quotes others: word for word, whatever stands between the words, and however it is escaped."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from shared.text.prose import split_sentences

FORGOTTEN = "[forgotten]"  # What stands where a text was erased
LEAST_WORDS, LEAST_CHARACTERS = 3, 15
"""The words and characters from which on a text is looked for elsewhere: 'Deploy' is everywhere."""
RUN = 7  # The words from which on a part of a text is a quotation of it
COMMON = 10  # The other texts that have a part of one from which on it is no quotation of that one
REST = 4  # The same in what is known to quote it: the beginning and the end of a quotation may be cut
MAX_CHECKED = 8
"""The most words of which each is looked for by itself; of more, all words of a message are compared."""
WIDE = 3  # The characters that one of Chinese, Japanese or Korean counts for; each is a word

_CJK = "぀-ヿ㐀-䶿一-鿿가-힯"
_LETTER = rf"(?:\\+u[0-9a-fA-F]{{4}}|(?![{_CJK}])[^\W_])"
_INVISIBLE = "\u0300-\u036f\u00ad\u200b-\u200d\ufeff"
_WORD = re.compile(rf"[{_CJK}]|{_LETTER}(?:{_LETTER}|[{_INVISIBLE}])*")
_BREAK = re.compile(r"\\+[nrtbf]")
"""A line break or a tab, as it is written within JSON that is itself a string."""
_ESCAPED = re.compile(r"\\+u([0-9a-fA-F]{4})")
_UNSEEN = re.compile("[\u00ad\u200b-\u200d\ufeff]")
_PLAIN = re.compile(rb"[a-z0-9]{3,}")
_ESCAPES = re.compile(rb"\\+(?:[nrtbf]|u[0-9a-f]{4})")
_CODE = re.compile(r"[\w@]+(?:[-.+:/@][\w@]+)*")
_LIKE_ALL = re.compile(
    r"[\d.:/+-]*|\d{4}-\d\d-\d\d.*|v?\d+(?:\.\d+)+.*|[0-9a-f-]{16,}|\w+_\d{8}_\d{6}_\w+|\d+[a-z]{1,3}|.*/.*",
    re.IGNORECASE,
)
"""Numbers, dates, versions, ids, amounts and paths: what many texts share, and what messages are found by."""
LEAST_CODE = 8
"""The characters from which on a code, such as a password or an address of mail, is looked for by itself."""


class Word(NamedTuple):
    """A word as it is compared, and where it stands."""

    text: str
    start: int
    end: int


class Quotations:
    """Finds what texts say in other texts.

    Looked for are each text as a whole and its lines and sentences, from LEAST_WORDS and LEAST_CHARACTERS on;
    any RUN words that follow each other in it; and codes, words of letters and digits or an address of mail.
    Upper case, punctuation, Markdown, blanks and JSON's escapes make no difference. What is ``common``, as
    ``find_common`` has it, is left.
    """

    def __init__(self, texts: Iterable[str], common: Iterable[str] = ()) -> None:
        self.texts = tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
        whole: dict[tuple[str, ...], None] = {}
        parts: dict[tuple[str, ...], None] = {}
        rests: dict[tuple[str, ...], None] = {}
        for text in self.texts:
            words = tuple(word.text for word in find_words(text))
            whole |= dict.fromkeys((words, *_find_codes(text)) if is_telling(text) else _find_codes(text))
            for part in filter(is_telling, split_sentences(text)):
                sentence = tuple(word.text for word in find_words(part))
                parts |= {sentence: None} if len(sentence) < RUN else {}
            if is_telling(text):
                parts |= dict.fromkeys(_runs(words, RUN))
                rests |= dict.fromkeys(each for each in _runs(words, REST) if _is_long(each))
        left = {tuple(each.split()) for each in common}
        self.parts = tuple(part for part in parts if part not in whole and part not in left)
        units = (*whole, *self.parts)
        self._strict, self._loose = _by_beginning(units), _by_beginning((*units, *rests))
        self._plain: dict[bytes, list[frozenset[bytes]]] = {}
        others: dict[str, None] = {}
        for unit in units:
            plain = sorted((word.encode() for word in unit if word.isascii() and len(word) > 2), key=len)
            if plain:
                self._plain.setdefault(plain[-1], []).append(frozenset(plain))
            else:
                others |= {max(unit, key=len): None}
        self._others = tuple(others)

    def __bool__(self) -> bool:
        return bool(self._strict)

    def may_be_in(self, data: bytes) -> bool:
        """Whether a message can hold a quotation: it has the words of one. Quick, and right if it says no."""
        folded = data.lower()
        if len(self._plain) <= MAX_CHECKED:
            for longest, units in self._plain.items():
                if longest in folded and any(all(word in folded for word in unit) for unit in units):
                    return True
        else:
            found = frozenset(_PLAIN.findall(_ESCAPES.sub(b" ", folded)))
            if any(unit <= found for word in found & self._plain.keys() for unit in self._plain[word]):
                return True
        if not self._others:
            return False
        text = _fold(_unescape(data.decode("utf-8", "replace")))
        return any(word in text for word in self._others)

    def are_in(self, text: str) -> bool:
        """Whether a text quotes one of the texts."""
        return any(True for _ in _find(find_words(text), self._strict))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where a text that quotes them has their words: places that are apart, in order."""
        return list(_merge(_find(find_words(text), self._loose)))

    def redact(self, text: str) -> str:
        """A text that quotes them, with FORGOTTEN where their words stood."""
        end, pieces = 0, []
        for begin, after in self.spans(text):
            pieces += [text[end:begin], FORGOTTEN]
            end = after
        return "".join((*pieces, text[end:]))


def find_words(text: str) -> list[Word]:
    """The words of a text, each Chinese, Japanese or Korean character by itself."""
    text = _BREAK.sub(lambda found: " " * len(found[0]), text) if "\\" in text else text
    return [Word(_fold(_unescape(found[0])), *found.span()) for found in _WORD.finditer(text)]


def is_telling(text: str) -> bool:
    """Whether a text says so much that it is to be erased wherever it stands."""
    words = [word.text for word in find_words(text)]
    return text != FORGOTTEN and len(words) >= LEAST_WORDS and _is_long(words)


def find_common(texts: Iterable[str], others: Iterable[str]) -> list[str]:
    """The parts of ``texts`` that COMMON of the ``others`` have too, such as the beginning of all reports."""
    known, counts = Quotations(texts), Counter[tuple[str, ...]]()
    parts = _by_beginning(known.parts)
    for other in others:
        if known.may_be_in(other.encode("utf-8", "replace")):
            words = find_words(other)
            found = {tuple(word.text for word in words[at : at + size]) for at, size in _places(words, parts)}
            counts.update(found)
    return [" ".join(part) for part, number in counts.items() if number >= COMMON]


def find_short(texts: Iterable[str]) -> list[str]:
    """The texts that are too short to be looked for, and have no code."""
    found = (text.strip() for text in texts)
    return [
        text
        for text in found
        if text not in ("", FORGOTTEN) and not is_telling(text) and not any(_find_codes(text))
    ]


def _is_long(words: Sequence[str]) -> bool:
    wide = sum(len(word) == 1 and not word.isascii() for word in words)
    return sum(map(len, words)) + len(words) - 1 + (WIDE - 1) * wide >= LEAST_CHARACTERS


def _fold(word: str) -> str:
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFKC", _UNSEEN.sub("", word)).casefold()


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "\\u" in text else text


def _runs(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    for begin in range(max(1, len(words) - length + 1)):
        if run := tuple(words[begin : begin + length]):
            yield run


def _find_codes(text: str) -> Iterator[tuple[str, ...]]:
    """Codes in a text, such as 'KESTREL-7741' or 'ana@example.org': what is a secret by itself."""
    for found in _CODE.findall(text):
        is_address = "@" in found[1:-1] and "." in found
        is_mixed = "." not in found and re.search(r"\d\d", found) and re.search(r"[^\W\d_]", found)
        if (is_address or is_mixed) and len(found) >= LEAST_CODE and not _LIKE_ALL.fullmatch(found):
            yield tuple(word.text for word in find_words(found))


Units = dict[tuple[str, ...], list[tuple[str, ...]]]


def _by_beginning(units: Iterable[tuple[str, ...]]) -> Units:
    """Units by their first two words, or the one that they have."""
    found: Units = {}
    for unit in units:
        found.setdefault(unit[:2], []).append(unit)
    return found


def _find(words: Sequence[Word], units: Units) -> Iterator[tuple[int, int]]:
    for place, length in _places(words, units):
        yield words[place].start, words[place + length - 1].end


def _places(words: Sequence[Word], units: Units) -> Iterator[tuple[int, int]]:
    """Where units stand among words: the first word and how many."""
    texts = tuple(word.text for word in words)
    for place in range(len(texts)):
        known = (*units.get(texts[place : place + 1], ()), *units.get(texts[place : place + 2], ()))
        yield from ((place, len(unit)) for unit in known if texts[place : place + len(unit)] == unit)


def _merge(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans that overlap or touch as one."""
    begin, end = 0, -2
    for start, after in spans:
        if start > end + 1:
            if end >= 0:
                yield begin, end
            begin = start
        end = max(end, after)
    if end >= 0:
        yield begin, end
