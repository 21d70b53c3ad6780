"""Which action a thought in plain words invokes."""

import re
from collections.abc import Iterable

_VERBS = "call|use|run|invoke|execute|perform|do|try|start|go with|proceed with|continue with"
_LEAD = r"i(?:['’]ll| will| shall| am going to|['’]m going to)|let me|let us|let['’]s|now|next|then|please|so"
_INTENT = rf"(?:{_LEAD})\W+(?:\w+\W+){{0,2}}?(?:{_VERBS})\W+(?:the\W+)?(?:action\W+|tool\W+|function\W+)?"
_LABEL = r"(?:^|\n)\W*(?:next\s+)?(?:action|tool|call|function|invoke)\W*[:=]\W*"
_NOT = re.compile(
    r"(?:\b(?:not|never|without|instead of|rather than|already|after|avoid|could|might)\b|n['’]t\b)"
    r"[^.!?\n]{0,40}$",
    re.IGNORECASE,
)


def detect_action(thought: str, names: Iterable[str]) -> str:
    """The longest of ``names`` that ``thought`` actually invokes; "" where it invokes none.

    Invoked is a name that is called (``name(...)``), labelled (``Action: name``, ``{"action": "name"}``),
    stands on a line of its own, or is said to be used now ("I will call name"); not one that is merely
    mentioned, nor one that is negated ("I will not call name") or already done. Case does not matter; a name
    within a longer word or a longer name does not count.
    """
    for name in sorted(names, key=len, reverse=True):
        if any(
            not _NOT.search(thought[max(0, match.start() - 80) : match.end()])
            for match in _pattern(name).finditer(thought)
        ):
            return name
    return ""


def _pattern(name: str) -> re.Pattern[str]:
    word = rf"[`*_\"'“]{{0,3}}(?<![\w.-]){re.escape(name)}(?![\w-])"
    return re.compile(
        rf"(?:{_LABEL}{word}"
        rf"|[\"'](?:action|name|tool|function)[\"']\s*:\s*{word}"
        rf"|\b{_INTENT}{word}"
        rf"|(?:^|\n)\s*{word}[`*_\"'”]{{0,3}}\s*(?:$|\n|[.!:]\s*(?:$|\n))"
        rf"|{word}[`*_\"'”]{{0,3}}\s*[({{])",
        re.IGNORECASE,
    )
