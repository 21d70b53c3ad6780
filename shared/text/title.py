"""A title for a text that has none."""

import re

from shared.text.shorten import shorten

MAX_TITLE = 256
"""The longest title of a node, in characters."""
MIN_TITLE = 10
"""A first sentence shorter than this says too little by itself: the next one joins it."""

_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[^a-z\s])|(?<=[。！？])(?=.)|\n+")


def split_title(text: str) -> tuple[str, str]:
    """A title made of the first sentence, and the body: the whole text where that is longer, else "".

    Line breaks end a sentence too. A sentence of more than 256 characters is cut between words.
    """
    whole = text.strip()
    title = " ".join(_first_sentence(whole).split())
    title = shorten(title, MAX_TITLE)
    return title, "" if title == whole else whole


def _first_sentence(text: str) -> str:
    for end in _END.finditer(text):
        sentence = text[: end.end()].strip()
        if len(sentence) >= MIN_TITLE:
            return sentence
    return text
