"""What sentences say besides a claim: who said it and when, whether it holds, what it says has changed or
is over.
"""

import re
from typing import NamedTuple

from services.memory.linking import claim_words as table


def _compile(*alternatives: str, before: str = r"\b", after: str = r"\b") -> re.Pattern[str]:
    return re.compile(f"{before}(?:{'|'.join(alternatives)}){after}", re.IGNORECASE)


_SAYING = _compile(
    r"[\s\-*•>#]+",
    r"\[?\(?(?:\d{4}-\d\d-\d\d[T\s,]*)?\d{1,2}:\d\d(?::\d\d)?(?:\s*[ap]m)?\)?\]?(?=\s+\S+:|\s*[-–]"
    r"|\])[\]:\s–-]*",
    r"\[[^\]]{1,30}\]\s*",
    r"\d{4}-\d\d-\d\d\s*[:,–-]\s*",
    r"<@?\w[\w.]*>\s+",
    r"(?:hi|hey|hello|good morning|morning|dear)\b[^,.!:]{0,20}[,.!:]\s+",
    r"(?:decision|outcome|result|note|news|update|minutes)s? (?:from|of|in|after) [^:,]{3,30}:\s+",
    r"(?:fyi|btw|psa|note|update|reminder|heads[ -]up|news|info|decision|decided|correction|edit|scratch that"
    r"|quick (?:note|one|update)|for the record|just so you know|as discussed|as agreed|please note"
    r"|good to know"
    r"|announcement|change|changed|actually|also|and|so|ok|okay|well|sorry|i (?:think|believe|guess)|i'm sure"
    r"|it turns out|apparently|basically)\b(?: that)?[\s:,–-]+",
    r"(?:we|i|the team|they|it|everyone) (?:have |has |had |was |just )*"
    r"(?:agreed|decided|settled|said|confirmed|announced|learned|heard) (?:that|in [^,]{3,20} that)\s+",
    before="^",
    after="",
)
_RESOLVED = _compile(
    r"(?:we|i|the team|they|everyone) (?:have |has |had |all |just )*"
    r"(?:agreed|decided|resolved|settled|chose|opted)(?: in [^,]{3,20})? to (?=\w)",
    before="^",
    after="",
)
_REPORTED = re.compile(
    r"^(\w+) (?:told (?:me|us)|said|says|mentioned|wrote|reported|confirmed)(?: that)? (?:she|he|they|it)\b",
    re.IGNORECASE,
)
_SPEAKER = re.compile(
    r"^(?:@?[A-Za-z][\w.-]{1,20}(?: [A-Z][\w.-]{0,20})?)(?: ?\([^)]{1,30}\))?:\s+(?=\S+\s+\S+\s+\S+)"
)

_TENTATIVE = _compile(
    r"if|unless|suppose|assuming|in case|might|could|may (?:move|switch|change|want)|maybe|perhaps|would",
    r"consider(?:s|ed|ing)?|think(?:s|ing)? (?:of|about)|thought (?:of|about)|propos(?:e|es|ed|al|ing)",
    r"suggest(?:s|ed|ion|ing)?|evaluat(?:e|es|ed|ing)|debat(?:e|ed|ing)|whether|pilot",
    r"(?<!after the )trial(?:ling)?",
    r"(?:want|wants|wanted|hope|hopes|plan|plans|planning|planned|like|likes|wish|wishes|going|intend"
    r"|intends)"
    r" to (?!be\b)",
    r"discuss(?:es|ed|ing)? (?:whether|if|moving|switching|a move)|experiment(?:s|ing)?|trying out"
    r"|tried|what if",
    r"idea|rumou?rs?|asked (?:if|whether|for|to)|not yet|once we|was rejected|rejected the|turned down",
    r"decided against|voted against|instead of what",
)
_PAST = _compile(
    r"^(?:in|before|until|back in|during|around|from) (?:\w+ )?(?:19|20)\d\d",
    r"back then|in the past|originally|at the time|at first|once upon|in the (?:old|early) days|years ago",
    r"months ago|last (?:year|month|summer|winter|spring|autumn)",
    r"when (?:we|the company|i) (?:started|began|was|were)",
)
_EVENT = re.compile(
    r"^(?:\S+\s+){1,5}?(?:(?:was|were)\s+\w+ed|failed|crashed|broke|fixed|found|reported|went|came|fell"
    r"|happened"
    r"|met|said|asked|visited|merged|started|finished|shipped|ran out|lost|won|called|wrote|saw|gave|bought"
    r"|(?-i:[a-z]{2,}(?<!e))ed)\b",
    re.IGNORECASE,
)
_PRESENT = frozenset("is are be been being has have gets get".split())
_ADDING = _compile(
    r"also|additionally|in addition|as well|too|another|besides|second|extra|alongside|both|plus"
)
_NEGATION = re.compile(r"\b(?:not|never|no|cannot|nobody|none)\b|n['’]t\b", re.IGNORECASE)

_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)"
)
_WHEN = (
    rf"(?:(?:the )?(?:\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}(?: \d{{4}})?"
    rf"|{_MONTH}(?: \d{{1,2}})?(?:st|nd|rd|th)?"
    r"(?:,? \d{4})?|20\d\d(?:-\d\d){0,2}|(?:this|next|last|new|coming|following) \w+|\w+day|today|tomorrow"
    r"|yesterday|now|then|easter|christmas|summer|winter|spring|autumn))"
)
_NOW = _compile(
    rf"^from {_WHEN}",
    rf"from (?:now|here|today|{_WHEN}) on(?:wards?)?",
    rf"(?:as of|as from|effective|starting(?: from)?|beginning|with effect from) (?:immediately|{_WHEN})",
    rf"since {_WHEN}|these days|nowadays|currently|going forward|at present|henceforth|in future|by now"
    rf"|now|newly",
    r"after the (?:switch|change|move|migration|trial|test|vote|retro)",
    r"meanwhile|new(?= [\w-]+(?: [\w-]+)?(?:,|:| is\b))|instead(?! of)",
)
_CHOSEN = _compile(r"(?:settled|decided|landed) on|opted for|went with|ha(?:s|ve) chosen")
_REASON = re.compile(
    r"\s*\b(?:because|since|due to|once|as soon as|as long as|provided that|whenever|so that|owing to"
    r"|thanks to|ever since"
    r"|after(?! \d| \w+ (?:failure|attempt|minute|second|hour|day|week|month|year)))\b[^,;]*$",
    re.IGNORECASE,
)
_CHANGED = _compile(
    r"\w+ed|(?<!\ba )(?<!\bthe )(?:moves?|switch(?:es)?|migrates?|went|rises?)(?= (?:over |back "
    r"|up |down )?to\b)",
    r"rewrote|rewritten|went (?:up|down)|cut|took|taken|takes over|become|becomes|became|brought|grew"
    r"|grown|shrunk",
    r"has gone|put back|set to|given",
)
_CHANGES = table.CHANGE_VERBS | {table.root("went"), table.root("set")}

_WORD = r"(?:[^\s,;:()]|:(?=\d))+"
_NP = rf"(?:(?:in|on|at|with|by|through|to|via|under|from|as|using) )?(?:{_WORD} ){{0,4}}?{_WORD}"
_END = (
    r"(?=\s*(?:$|[,;:()]|\b(?:in|on|at|under|of|among|over|into|with|by|for|through|to|via|as|from|and"
    r"|but|when|now|because"
    r"|since|anymore"
    r"|any|we|they|you|i|he|she|it)\b))"
)
_FROM_TO = re.compile(rf"\bfrom\s+(?P<old>{_NP})\s+(?:over\s+|on\s*)?(?:to|into|onto)\b", re.IGNORECASE)
_REPLACED = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:instead of|rather than|in place of|in lieu of|as opposed to)\s+(?P<old>{_NP}){_END}",
        _FROM_TO.pattern,
        r"(?P<old>[^\s,;:()]+(?: [^\s,;:()]+)?)\s*(?:->|→|=>)\s*",
        r"\b(?:replac(?:ed|es|e|ing)|swapped(?: out)?|exchanged|traded|superseded|supersedes|succeeds"
        r"|succeeded)\s+"
        rf"(?P<old>{_NP}){_END}",
        r"^(?P<old>.+?)\s+(?:has|have|was|were|is|are|been|being|got|gets|\s)+(?:now )?"
        r"(?:replaced|succeeded|superseded|swapped)\b",
        rf"\b(?:took|takes?|taken|taking) the place of\s+(?P<old>{_NP}){_END}",
        r"(?P<verb>\b(?:dropp?(?:ed)?|ditched|abandon(?:ed)?|left|retired|scrapped|g[ai]ven? up|traded))\s+"
        rf"(?P<old>{_NP})\s+in favou?r of\b",
        rf"(?P<verb>\b(?:ditched|swapped|traded|exchanged))\s+(?P<old>{_NP})\s+for\b",
        rf"\b(?:took|takes|taken|taking|inherited)\b[^,;]*?\bfrom\s+(?P<old>{_NP}){_END}",
        r"^(?:Mr|Ms|Mrs|Dr)?\.?\s*(?P<old>\w+(?: \w+)?)\s+(?:has |have )?(?:hand(?:ed|s)|pass(?:ed"
        r"|es))\b[^,;]*"
        r"\b(?:over|on|off)\b(?![^,;]*\bfrom\b)",
        r"(?:,|\band\b|;|-|–|—|\()\s*(?:(?:it|that|they|this)(?: is| are|'s|'re)?\s+)?not\s+"
        rf"(?P<old>{_NP})(?=\s*(?:$|[,;:()]|any ?more|any longer))",
        r"\bnot (?P<old>(?-i:[A-Z][\w-]+(?: [A-Z][\w-]+)*))",
        r"\bnot\s+(?P<old>(?:in|on|at|with|by|through|to|via|under)\s[^,;]+?)\s+any ?(?:more|longer)",
        rf"\b(?:up|down) from\s+(?P<old>{_NP}){_END}",
        rf"\b(?:goodbye to|parted ways with|out (?:goes|with)|(?:we|they|he|she|i)(?: are| is| am|'re"
        rf"|'s|'m) done with)\s+(?P<old>{_NP}){_END}",
        rf"\b(?:took|takes?|taken|taking)\s+(?P<old>{_NP})['’]s? place\b",
        rf"\b(?:we|they|i)(?: have|'ve)? left\s+(?P<old>{_NP}){_END}",
        rf"\b(?:which|that|who) was\s+(?P<old>{_NP}){_END}",
        rf"\bno more\s+(?P<old>{_NP}){_END}",
        r"\b(?:moved|switched|migrated|shifted|got|away)\s+(?:away from|off(?: of)?)\s+"
        rf"(?P<old>{_NP}){_END}",
        r"(?P<old>[A-Z]\w+)\s+(?:has left|left|retired|resigned|quit)\b",
        r"\b(?:used to be|previously|formerly|until now)\s+"
        rf"(?P<old>{_NP})(?=\s*[,;()])",
    )
]
_HABIT = r"(?<!is )(?<!are )(?<!be )"
_OVER = _compile(
    r"no longer(?: (?:in use|around|available|in service))?|used to|any ?more|any longer"
    r"|stopped(?= \w+ing)|quit",
    r"ceas(?:ed|es|e)|g[ai]ven? up|got(?:ten)? rid of|d(?:one|id) away with|retired|deprecated|abolished",
    r"discontinued|sunset(?:ted)?|decommissioned|withdrew|finished with|threw out|moved away from"
    r"|end of life",
    rf"{_HABIT}(?:dropped|abandoned|scrapped|cancell?ed|ditched|removed|suspended|eliminated|lifted"
    rf"|revoked|axed"
    r"|killed|shut down|switched off|turned off|phased out|thrown out|withdrawn)|lapsed|unsubscribed",
    r"(?:is|are) (?:gone|history|dead|over|obsolete|(?:a )?things? of the past)",
)
_ANYMORE = _compile(r"any ?more|any longer")
_CLAUSE = re.compile(
    r"[,;:()]\s*|\s+[–—-]\s+|\s+(?:but|so)\s+|\s+and\s+(?=now\b|we\b|it\b|use\b|they\b|instead\b)"
)


class Reading(NamedTuple):
    """A sentence taken apart: ``text`` without its saying, the ``label`` before its colon, and what is left
    as ``rest`` without what it says is over or replaced (``denied``), marks of time and reasons.

    ``mark`` is over, replaced, changed, now, or empty; ``changes`` are its verbs of change, as roots.
    """

    text: str
    label: str
    rest: str
    denied: tuple[str, ...]
    mark: str
    changes: frozenset[str]


def read_marks(sentence: str) -> Reading:
    """Take a sentence apart."""
    text, label = strip_saying(sentence)
    plain = _NOW.sub(" ", text).strip()
    reasoned = _REASON.sub("", plain).strip()
    since = re.search(r"\bsince\b", plain[len(reasoned) :])
    now = plain != text or since is not None or _CHOSEN.search(text) is not None
    plain = reasoned if len(reasoned.split()) >= 3 else plain
    replaced, rest = _find_replaced(plain)
    over, rest = _find_over(rest)
    changes = _CHANGES & {table.root(match[0].casefold().split()[0]) for match in _CHANGED.finditer(text)}
    mark = "over" if over else "replaced" if replaced else "changed" if changes else "now" if now else ""
    denied = (*replaced, *over)
    return Reading(text, label, rest if denied else plain, denied, mark, changes)


def strip_saying(sentence: str) -> tuple[str, str]:
    """A sentence without bullets, times, greetings and "fyi", and the speaker or label before its colon."""
    text, label = sentence.strip(), ""
    for _ in range(6):
        shorter = _SAYING.sub("", text, count=1).strip()
        if not label and (match := _SPEAKER.match(shorter)):
            label, shorter = match[0].strip(" :"), shorter[match.end() :]
        if shorter == text or not shorter:
            break
        text = shorter
    text = _REPORTED.sub(r"\1", _RESOLVED.sub("we ", text))
    return text.rstrip(" .!"), label


def holds(sentence: str, reading: Reading) -> bool:
    """Whether a sentence says how things are: no question, plan or hypothesis, nothing past, no single
    event.
    """
    if sentence.rstrip().endswith("?") or _TENTATIVE.search(sentence):
        return False
    return not (
        (_PAST.search(reading.text) and not reading.denied) or (not reading.mark and _is_event(reading.text))
    )


def is_negated(text: str) -> bool:
    """Whether a sentence denies something."""
    return len(_NEGATION.findall(text)) % 2 == 1


def is_adding(text: str) -> bool:
    """Whether a sentence says that it adds something: also, another, as well."""
    return bool(_ADDING.search(text))


def is_change(word: str) -> bool:
    """Whether a word is a form of a verb of change that marks one: moved, and not the noun move."""
    return table.root(word) in table.CHANGE_VERBS and bool(_CHANGED.match(f"{word} to"))


def _is_event(text: str) -> bool:
    """Whether a sentence tells in the simple past what took place once."""
    match = _EVENT.search(text)
    if match is None:
        return False
    *before, last = match[0].casefold().split()
    if last not in ("was", "were") and set(text.casefold().split()) & {"is", "are", "must", "can", "may"}:
        return False
    behind = before[-1] if before else ""
    return not _PRESENT & set(before) and behind not in table.PREPOSITIONS | table.DETERMINERS


def _find_replaced(text: str) -> tuple[list[str], str]:
    """What a sentence says is replaced, and the sentence without it."""
    found, rest = [], text
    for pattern in _REPLACED:
        match = pattern.search(rest)
        if match is None or (pattern.pattern == _FROM_TO.pattern and not _has_change(rest)):
            continue
        found.append(match["old"])
        begin = match.start("verb" if "verb" in pattern.groupindex else "old")
        rest = f"{rest[:begin]} {rest[match.end('old') :]}"
    return found, rest


def _has_change(text: str) -> bool:
    words = re.findall(r"\w+", text.casefold())
    return "went" in words or any(table.root(word) in table.CHANGE_VERBS for word in words)


def _find_over(text: str) -> tuple[list[str], str]:
    """The clauses of a sentence that say that something is over, and the rest."""
    over: list[str] = []
    rest: list[str] = []
    for clause in filter(None, map(str.strip, _CLAUSE.split(text))):
        marks = [match[0].casefold() for match in _OVER.finditer(clause)]
        denies = any(map(_ANYMORE.fullmatch, marks)) and _NEGATION.search(clause)
        if denies or not all(map(_ANYMORE.fullmatch, marks)):
            over.append((_ANYMORE if denies else _OVER).sub(" ", clause))
        else:
            rest.append(clause)
    return over, ", ".join(rest)
