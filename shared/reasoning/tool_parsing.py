"""Which action a model message in plain text invokes."""

import re
from collections import deque
from collections.abc import Iterable

WINDOW = 120
"""Characters around a mention that are examined: every pattern below is bounded, so that the time grows only
linearly with the length of the text."""
MENTIONS = 200
"""Mentions of one name that are examined, the last ones."""

_VERBS = "call|use|run|invoke|execute|perform|do|try|start|go with|proceed with|continue with"
_LEAD = r"i(?:['’]ll| will| shall| am going to|['’]m going to)|let me|let us|let['’]s|now|next|then|please|so"
_OPEN, _CLOSE = r"[`*_\"'“]{0,3}", r"[`*_\"'”]{0,3}"
_LABEL = r"(?:^|\n)\W{0,8}(?:next\s)?(?:action|tool|call|function|invoke)\W{0,6}[:=]\W{0,8}"
_FIELD = r"[\"'](?:action|name|tool|function)[\"'] ?: ?"
_INTENT = (
    rf"\b(?:{_LEAD})\W{{1,4}}(?:\w{{1,20}}\W{{1,4}}){{0,2}}?(?:{_VERBS})\W{{1,4}}"
    r"(?:the\W{1,4})?(?:action\W{1,4}|tool\W{1,4}|function\W{1,4})?"
)
_LEADS_TO = re.compile(rf"(?:{_LABEL}|{_FIELD}|{_INTENT}){_OPEN}$", re.IGNORECASE)
_BEGINS_LINE = re.compile(rf"(?:^|\n) ?{_OPEN}$")
_ENDS_LINE = re.compile(rf"{_CLOSE} ?(?:[.!:] ?)?(?:$|\n)")
_IS_CALLED = re.compile(rf"{_CLOSE}\s?[({{]")
_NOT = re.compile(
    r"(?:\b(?:not|never|without|instead of|rather than|already|after|avoid|could|might)\b|n['’]t\b)"
    r"(?P<since>[^.!?,;\n]{0,40})$",
    re.IGNORECASE,
)
_TURN = re.compile(r"\b(?:so|but|instead|therefore|hence)\b(?! of\b)", re.IGNORECASE)


def detect_action(thought: str, names: Iterable[str]) -> str:
    """The longest of ``names`` that ``thought`` actually invokes; "" if it invokes none.

    A name is invoked if it is called (``name(...)``), labelled (``Action: name``, ``{"action": "name"}``),
    alone on a line, or announced ("I will call name"). It is not if it is merely mentioned, negated ("I will
    not call name"), already done, or quoted. Case is ignored; a part of a longer word or name does not count.
    """
    text = _squeeze(thought)
    lowered = text.lower()
    for name in sorted(set(names), key=lambda name: (-len(name), name)):
        if name.lower() in lowered and _is_invoked(text, name):
            return name
    return ""


def find_mentions(text: str, name: str) -> list[re.Match[str]]:
    """The mentions of ``name`` in ``text``, except in quotation marks, lines quoted with ``>``, or data."""
    word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
    mentions = deque(word.finditer(text), MENTIONS)
    return [mention for mention in mentions if not _is_quoted(text, mention.start(), mention.end())]


def _is_quoted(text: str, start: int, end: int) -> bool:
    before = text[text.rfind("\n", 0, start) + 1 : start]
    if before.lstrip().startswith(">") or before.rfind("“") > before.rfind("”"):
        return True
    if text.rfind("<data>", 0, start) > text.rfind("</data>", 0, start):
        return True
    # A name alone between quotation marks is a string in JSON.
    alone = before.endswith('"') and text.startswith('"', end)
    return not alone and (before.count('"') - before.count('\\"')) % 2 == 1


def _is_invoked(text: str, name: str) -> bool:
    for mention in find_mentions(text, name):
        before = text[max(0, mention.start() - WINDOW) : mention.start()]
        after = text[mention.end() : mention.end() + WINDOW]
        called = (
            _IS_CALLED.match(after)
            or _LEADS_TO.search(before)
            or (_BEGINS_LINE.search(before) and _ENDS_LINE.match(after))
        )
        if called and not _is_negated(before):
            return True
    return False


def _is_negated(before: str) -> bool:
    found = _NOT.search(before)
    return found is not None and not _TURN.search(found["since"])


def _squeeze(text: str) -> str:
    """``text`` with runs of blanks, empty lines and repeated punctuation shortened."""
    text = re.sub(r"[^\S\n]+", " ", text)
    text = re.sub(r"\n[ \n]*", "\n", text)
    return re.sub(r"([^\w\s])\1{3,}", r"\1\1\1", text)
