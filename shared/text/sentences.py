"""Sentences of prose, told apart by their punctuation and by line breaks."""

import re

SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")
"""What stands between two sentences."""

_END = re.compile(r"[.!?](?=\s)")
_LIST_MARKS = re.compile(r"^\s*(?:[-*•#>]+\s+)+")


def split_sentences(text: str) -> list[str]:
    """The sentences and lines of ``text``, without leading marks of headings, lists and quotations."""
    parts = SENTENCE_BREAK.split(text)
    return [sentence for part in parts if (sentence := _LIST_MARKS.sub("", part).strip())]


def last_sentence_end(text: str, limit: int) -> int:
    """The length of the whole sentences within the first ``limit`` characters; 0 if not even one fits."""
    return max((match.end() for match in _END.finditer(text[: limit + 1])), default=0)
