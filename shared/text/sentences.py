"""Sentences of prose, split at punctuation and line breaks."""

import re

from shared.text.shorten import shorten

SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")
"""The white space between two sentences."""

_END = re.compile(r"[.!?](?=\s)")
_LIST_MARKS = re.compile(r"^\s*(?:[-*•#>]+\s+)+")


def split_sentences(text: str) -> list[str]:
    """The sentences and lines of ``text``, without leading marks of headings, lists and quotations."""
    parts = SENTENCE_BREAK.split(text)
    return [sentence for part in parts if (sentence := _LIST_MARKS.sub("", part).strip())]


def last_sentence_end(text: str, limit: int) -> int:
    """The length of the whole sentences within the first ``limit`` characters; 0 if not even one fits."""
    return max((match.end() for match in _END.finditer(text[: limit + 1])), default=0)


MAX_TITLE = 256
"""The longest title of a node, in characters."""
MIN_TITLE = 10
"""A shorter first sentence is joined with the next one."""

_TITLE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[^a-z\s])|(?<=[。！？])(?=.)|\n+")


def split_title(text: str) -> tuple[str, str]:
    """A title made of the first sentence, and the body: the whole text if that is longer, else "".

    Line breaks end a sentence too. A sentence of more than 256 characters is cut between words.
    """
    whole = text.strip()
    title = " ".join(_first_sentence(whole).split())
    title = shorten(title, MAX_TITLE)
    return title, "" if title == whole else whole


def _first_sentence(text: str) -> str:
    for end in _TITLE_END.finditer(text):
        sentence = text[: end.end()].strip()
        if len(sentence) >= MIN_TITLE:
            return sentence
    return text
