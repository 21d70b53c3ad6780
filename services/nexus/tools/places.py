"""Places and topics that a message names."""

import re

_PLACE = re.compile(
    r"\b(?:[Ii]n|[Ff]or|[Aa]t|[Oo]f|[Ww]eather|[Ff]orecast)\s+(?!(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|January|February|"
    r"March|April|May|June|July|August|September|October|November|December|I|My|The|It|What|Will|How|Is)\b)"
    r"(?P<place>[A-ZÀ-Þ][\w'’-]+(?:[ -](?:[A-ZÀ-Þ][\w'’-]+|am|an der|upon|sur|de|la|of))*)"
)
_SMALL = re.compile(
    r"\b(?:in|for|at)\s+(?!(?:the|my|our|a|an|this|next|today|tomorrow|tonight|now|case|\d)\b)(?P<place>[a-zà-ÿ][\w'’-]+(?:\s+[a-zà-ÿ]+)?)"
    r"(?=\s*(?:[?.!,]|$|today|tomorrow|tonight|now|this|next|on|at|right))"
)
_TOPIC = re.compile(
    r"(?i)\b(?:on|about|for|of|regarding|concerning|into|in)\s+(?!(?:the\s+)?(?:arxiv|web|internet|today|tomorrow|this\s+week)\b)"
    r"(?P<topic>[^?!\n]+?)\s*(?:[?!\n]|\.(?:\s|$)|$|,?\s*\b(?:please|thanks|pls)\b)"
)
_END = re.compile(
    r"(?i)\s*\b(?:(?:are|is)\s+there|(?:this|last)\s+(?:week|month|year)|lately|recently|today|on\s+arxiv|from\s+arxiv|please|then.*)\s*$"
)


_WORKS = re.compile(
    r"(?i)^(?:\w+\s+){0,3}?(?:papers?|articles?|preprints?|publications?|stud(?:y|ies)|literature|research)\s+(?:on|about|into|in)\s+"
)
"""What a topic is not: "recent papers on ..."."""


def find_place(text: str) -> str:
    """The town or place that ``text`` names; empty if it names none."""
    found = _PLACE.search(text) or _SMALL.search(text)
    return found["place"].strip() if found else ""


def find_topic(text: str) -> str:
    """What ``text`` is about: the words behind "on", "about" or "for"; empty if there are none."""
    found = _TOPIC.search(text)
    topic = _WORKS.sub("", _END.sub("", found["topic"])) if found else ""
    return topic.strip(" \"'“”,;")
