"""How likely a text takes the place of another: evidence of several kinds, weighed by fitted trees.

``compare_texts`` reads sentences by rules and is sure of what it sees; it is blind to wordings that the
rules do not know. Here nothing is parsed: shared and left words, what kind of words differ, signs of change
and end, and the cosine of both texts each count a little. ``python -m tests.bench.claims --fit`` fits the
trees.
"""

import math
import tomllib
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from services.memory.linking import claim_words as table
from services.memory.linking.statements import Reading, Statement, Term, read_text

SURE = 0.8
"""The chance from which a text takes the place of another."""

ASKED = 0.65
"""The chance from which that is asked about."""

LEAST = 4
"""One of so many words of the shorter text stands in the other one too, or the two are not compared."""

ALIKE = 0.5
"""The likeness from which two words are one."""

MAX_SWAP = 4
"""The most words of a value that stands in the place of another."""

SHORT = 3
"""Terms of a sentence that says little."""

MARKS = ("end", "change", "now", "correction")
DOUBTS = ("plan", "past", "question")
_LIKING = frozenset(map(table.root, "prefer like love hate enjoy want wish favour favor dislike".split()))
_GENERIC = frozenset(map(table.root, table.GENERIC_NOUNS)) | table.GENERIC_VERBS

Evidence = dict[str, float]


class _Tree(NamedTuple):
    """Two questions after one another: each a kind of evidence and a threshold; four answers in log-odds."""

    first: str
    at: float
    low: str
    low_at: float
    low_low: float
    low_high: float
    high: str
    high_at: float
    high_low: float
    high_high: float


_WEIGHTS = tomllib.loads(Path(__file__).with_name("weights.toml").read_text("utf-8"))
_TREES = tuple(_Tree(*row) for row in _WEIGHTS["trees"])
_START: float = _WEIGHTS["start"]


@lru_cache(32_768)
def estimate(newer: str, older: str, cosine: float) -> float:
    """The chance, 0 to 1, that ``newer`` takes the place of ``older``.

    0 if they share few words, and if both hold whatever else they say (see ``_holds_beside``).
    """
    new, old = read_text(newer), read_text(older)
    shared = len(new.keys & old.keys)
    if not shared or LEAST * shared < min(len(new.keys), len(old.keys)):
        return 0.0
    evidence = gather(new, old, cosine)
    if _holds_beside(evidence):
        return 0.0
    odds = _START
    for tree in _TREES:
        if evidence[tree.first] <= tree.at:
            odds += tree.low_low if evidence[tree.low] <= tree.low_at else tree.low_high
        else:
            odds += tree.high_low if evidence[tree.high] <= tree.high_at else tree.high_high
    return 1 / (1 + math.exp(-odds))


def _holds_beside(evidence: Evidence) -> bool:
    """Whether a text without a sign of change denies, is of likings or another one, or has no new value."""
    if evidence["end_old"] or evidence["mark_both"]:
        return False
    apart = ("liking", "hard", "denied_both", "kept")
    return not evidence["left_new"] or any(evidence[name] for name in apart)


def gather(new: Reading, old: Reading, cosine: float) -> Evidence:
    """The evidence for ``new`` taking the place of ``old``, by the two sentences that fit best.

    One of them is the first of its text: what stands further down in both is beside the point.
    """
    pairs = ((i, j) for i in range(len(new.statements)) for j in range(len(old.statements)) if not (i and j))
    matches = [(Match(new.statements[i], old.statements[j]), i, j) for i, j in pairs]
    match, _, later = max(matches, key=lambda entry: entry[0].fit - 0.1 * (entry[1] + entry[2]))
    words = _weigh_words(match, new)
    words |= {"cosine": cosine, "many_new": float(len(new.statements) > 1), "later_old": float(later > 0)}
    words |= _weigh_values(match, words["both"])
    return words | _weigh_signs(match, new, old, words)


class Match:
    """Two statements held against each other: how well each word of one is met by the other."""

    def __init__(self, new: Statement, old: Statement) -> None:
        self.new, self.old = new, old
        rows = [[_compare(one, other) for other in old.terms] for one in new.terms]
        met_new = [max(row, default=0.0) for row in rows]
        met_old = [max((row[place] for row in rows), default=0.0) for place in range(len(old.terms))]
        self.share_new, self.share_old = share_met(new.terms, met_new), share_met(old.terms, met_old)
        self.fit = self.share_new + self.share_old
        self.left_new = [term for term, met in zip(new.terms, met_new, strict=True) if met < ALIKE]
        self.left_old = [term for term, met in zip(old.terms, met_old, strict=True) if met < ALIKE]
        self.shared = [term for term, met in zip(old.terms, met_old, strict=True) if met >= ALIKE]


def share_met(terms: Sequence[Term], met: Sequence[float]) -> float:
    """The share of what ``terms`` tell that is ``met`` elsewhere, 0 to 1."""
    weights = list(map(_weight, terms))
    return sum(w * m for w, m in zip(weights, met, strict=True)) / max(0.1, sum(weights))


def _weight(term: Term) -> float:
    """How much a word tells of what a sentence is about."""
    if term.type:
        return 0.8
    return 0.4 if term.key in _GENERIC else 1.0


def _compare(one: Term, other: Term) -> float:
    """How alike two words are: of one root, or names of which one is part of the other."""
    if one.key == other.key:
        return 1.0
    if one.type or other.type or not (one.named and other.named):
        return 0.0
    short, long = sorted((one.word, other.word), key=len)
    return 0.9 if len(short) > SHORT and short in long else 0.0


def _worth(term: Term) -> float:
    """How much a word looks like a value, and not like what a sentence is about."""
    if term.type or term.named:
        return 1.0 if term.type else 0.8
    if term.about:
        return 0.15
    return 0.2 if term.definite else 0.5


def _weigh_words(match: Match, new: Reading) -> Evidence:
    """How much the two have in common, and what is left of each."""
    met = [
        max((_compare(other, term) for s in new.statements for other in s.terms), default=0.0)
        for term in match.old.terms
    ]
    rest = [
        [term for term in left if not (term.type or term.named)] for left in (match.left_new, match.left_old)
    ]
    return {
        "share_new": match.share_new,
        "share_old": match.share_old,
        "share_all": share_met(match.old.terms, met),
        "both": match.share_new * match.share_old,
        "least": min(match.share_new, match.share_old),
        "common": sum(map(_weight, match.shared)),
        "common_words": float(sum(not term.type for term in match.shared)),
        "left_new": float(len(match.left_new)),
        "left_old": float(len(match.left_old)),
        "rest_new": float(len(rest[0])),
        "rest_old": float(len(rest[1])),
        "length": math.log((len(match.new.terms) + 1) / (len(match.old.terms) + 1)),
        "short_old": float(len(match.old.terms) <= SHORT),
    }


def _weigh_values(match: Match, both: float) -> Evidence:
    """What kind of words differ and where: a value in the place of another, or another subject."""
    sides = (match.left_new, match.left_old)
    worth = [max(map(_worth, terms), default=0.0) for terms in (*sides, match.shared)]
    gap = min(worth[:2]) - worth[2] if all(sides) else 0.0
    names, typed = (all(any(kind(term) for term in side) for side in sides) for kind in (_is_name, _is_typed))
    families = [{table.FAMILIES.get(term.type, term.type) for term in side if term.type} for side in sides]
    hard = all(any(term.hard for term in side) for side in sides)
    definite = [any(term.definite and not (term.type or term.named) for term in side) for side in sides]
    return {
        **_weigh_places(match, gap),
        "value_gap": gap,
        "both_gap": both * gap,
        "value_old": worth[1],
        "names": float(names),
        "typed": float(typed and bool(families[0] & families[1])),
        "hard": float(hard),
        "hard_both": hard * both,
        "definite_old": float(definite[1]),
        "definite": float(all(definite)),
        "shared_definite": float(any(term.definite and not term.named for term in match.shared)),
    }


def _is_name(term: Term) -> bool:
    return term.named and not term.type


def _is_typed(term: Term) -> bool:
    return bool(term.type)


def _weigh_places(match: Match, gap: float) -> Evidence:
    """In how many places the two differ: one that is filled otherwise is a value or a subject."""
    old, new = match.old.sequence, match.new.sequence
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    same = sum(step[2] - step[1] for step in steps if step[0] == "equal")
    changed = [step for step in steps if step[0] != "equal"]
    replaced = all(step[0] == "replace" for step in changed)
    swap = (
        len(changed) == 1
        and replaced
        and same > 1
        and max(changed[0][2] - changed[0][1], changed[0][4] - changed[0][3]) <= MAX_SWAP
    )
    return {
        "swap": float(swap),
        "swap_gap": swap * gap,
        "liking": float(swap and any(table.root(t.word) in _LIKING for t in match.old.terms)),
        "swap_end": float(swap and changed[0][2] == len(old)),
        "two_swaps": float(len(changed) == 2 and replaced),
        "ratio": 2 * same / max(1, len(old) + len(new)),
    }


def _weigh_signs(match: Match, new: Reading, old: Reading, known: Evidence) -> Evidence:
    """What the newer one says of change, end, doubt and addition, and of the older one's values."""
    signs = {name: float(count > 0) for name, count in new.cues.items()}
    mark, doubt = (max(signs[name] for name in names) for names in (MARKS, DOUBTS))
    both, everywhere = known["both"], known["share_all"]
    values = [term for term in match.old.terms if term.type or term.named]
    named = sum(term.key in new.keys for term in values) / len(values) if values else 0.0
    kept = float(bool(values) and named == 1 and not signs["end"])
    denied = new.negations % 2
    return {
        "mark_both": mark * both,
        "mark_all": mark * everywhere * (1 - doubt),
        "mark_cosine": mark * known["cosine"],
        "mark_value": mark * named,
        "plain_value": (1 - mark) * named,
        "plain_names": (1 - mark) * known["names"] * both,
        "plain_typed": (1 - mark) * known["typed"] * both,
        "kept": kept,
        "kept_plain": kept * (1 - mark),
        "kept_definite": kept * known["definite"],
        "typed_definite": known["typed"] * known["definite"],
        "end_old": signs["end"] * match.share_old,
        "end_all": signs["end"] * everywhere,
        "ended_old": float(old.cues["end"] > 0),
        "now": signs["now"],
        "now_old": signs["now"] * match.share_old,
        "correction": signs["correction"] * everywhere,
        "change_left": signs["change"] * match.share_old * any(map(_is_typed, match.left_new)),
        "addition": signs["addition"],
        "addition_both": signs["addition"] * both,
        "same_both": signs["same"] * both,
        "doubt_both": doubt * both,
        "denied_old": denied * match.share_old,
        "denied_both": float(denied != old.negations % 2) * both,
    }
