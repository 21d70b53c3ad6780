"""What speaks for a text taking the place of another: evidence of several kinds, each a number.

Nothing is parsed: words that both share and that each has alone, where they stand and what they look like,
signs of change, end and doubt, the cosine of both texts, and which of their words stand in notes beside them
too. ``chances`` weighs it all by fitted trees.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise, product

from services.memory.linking import claim_words as table
from services.memory.linking.statements import BEHIND, CUES, Reading, Statement, Term

ALIKE = 0.5  # The likeness from which two words are one

NEARLY_ALL = 0.85  # The share of what a text tells from which on another one tells it too

MAX_SWAP = 4  # The most words of a value that stands in the place of another

LONG_LABEL = len("number:99")
"""Longer keys are numbers of three digits or more: "dial 4892" tells no dial from others."""

SHORT = 3  # Terms of a sentence that says little

NEAR = 1  # Terms before what is one of several, in a sentence that begins with it: "The door of lift 1"

FURTHER = 0.1  # What a sentence further down has less, in choosing the two that are held against each other

MARKS = ("end", "change", "now")
DOUBTS = ("plan", "question")
_LIKING = frozenset(map(table.root, "like love hate enjoy want wish dislike".split()))
_SEVERAL = frozenset(
    map(table.root, "support accept allergic offer speak include contain allow visit know".split())
)
"""Words for what a thing has several of: it may support JSON and XML."""
_PREFERENCE = _LIKING | {table.root("prefer")}

_GENERIC = frozenset(map(table.root, table.GENERIC_NOUNS)) | table.GENERIC_VERBS

Evidence = dict[str, float]


def gather(new: Reading, old: Reading, cosine: float, beside: Sequence[frozenset[str]] = ()) -> Evidence:
    """The evidence for ``new`` taking the place of ``old``, by the two sentences that fit best.

    One of them is the first of its text: what stands further down in both is beside the point. ``beside``
    has the words (``Reading.keys``) of the notes that ``new`` may take the place of as well.
    """
    match, at_new, at_old = _find_match(new, old)
    found = {
        "cosine": cosine,
        "many_new": float(len(new.statements) > 1),
        "many_old": float(len(old.statements)),
        "further_new": float(at_new > 0),
        "further_old": float(at_old > 0),
    }
    found |= _weigh_words(match, new)
    found |= _weigh_places(match)
    found |= _weigh_values(match, found)
    found |= _weigh_signs(match, new, old, found)
    for side, terms in match.sides.items():
        found |= _describe(side, terms) | _weigh_rarity(side, terms, beside)
    return found | _weigh_rivals(match, beside)


class Match:
    """Two statements held against each other: how well each word of one is met by the other.

    ``share_new`` and ``share_old`` are the shares of what each tells that the other tells too. ``left_new``
    and ``left_old`` are the words that one alone has; ``shared`` and ``shared_new`` those of both, as the
    older and the newer one has them.
    """

    def __init__(self, new: Statement, old: Statement) -> None:
        self.new, self.old = new, old
        rows = [[_compare(one, other) for other in old.terms] for one in new.terms]
        met_new = [max(row, default=0.0) for row in rows]
        met_old = [max((row[place] for row in rows), default=0.0) for place in range(len(old.terms))]
        self.share_new, self.share_old = _share_met(new.terms, met_new), _share_met(old.terms, met_old)
        self.fit = self.share_new + self.share_old
        self.left_new, self.shared_new = _divide(new.terms, met_new)
        self.left_old, self.shared = _divide(old.terms, met_old)

    @property
    def sides(self) -> dict[str, list[Term]]:
        """The words by where they stand."""
        return {
            "left_new": self.left_new,
            "left_old": self.left_old,
            "shared": self.shared,
            "shared_new": self.shared_new,
        }


def say_the_same(one: Reading, other: Reading, newer: Reading) -> bool:
    """Whether one says nearly all that the other says, and ``newer`` has no word that one alone has.

    Of ten facts told twice in other words seven are the same by that, of ten pairs about two things none.
    """
    match, _, _ = _find_match(one, other)
    left = {term.key for term in (*match.left_new, *match.left_old)}
    return max(match.share_new, match.share_old) >= NEARLY_ALL and left.isdisjoint(newer.keys)


def _find_match(new: Reading, old: Reading) -> tuple[Match, int, int]:
    """The two statements that fit best, and their places."""
    places = product(range(len(new.statements)), range(len(old.statements)))
    matches = [(Match(new.statements[i], old.statements[j]), i, j) for i, j in places if not (i and j)]
    return max(matches, key=lambda entry: entry[0].fit - FURTHER * (entry[1] + entry[2]))


def _divide(terms: Sequence[Term], met: Sequence[float]) -> tuple[list[Term], list[Term]]:
    left = [term for term, share in zip(terms, met, strict=True) if share < ALIKE]
    return left, [term for term, share in zip(terms, met, strict=True) if share >= ALIKE]


def _share_met(terms: Sequence[Term], met: Sequence[float]) -> float:
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
    everywhere = [term for statement in new.statements for term in statement.terms]
    met = [max((_compare(other, term) for other in everywhere), default=0.0) for term in match.old.terms]
    return {
        "share_new": match.share_new,
        "share_old": match.share_old,
        "share_all": _share_met(match.old.terms, met),
        "both": match.share_new * match.share_old,
        "least": min(match.share_new, match.share_old),
        "common": sum(map(_weight, match.shared)),
        "common_words": float(sum(not term.type for term in match.shared)),
        "rest_new": float(sum(not (term.type or term.named) for term in match.left_new)),
        "rest_old": float(sum(not (term.type or term.named) for term in match.left_old)),
        "length": math.log((len(match.new.terms) + 1) / (len(match.old.terms) + 1)),
        "short_old": float(len(match.old.terms) <= SHORT),
    }


def _weigh_places(match: Match) -> Evidence:
    """In how many places the two differ, and where: one that is filled otherwise is a value or a subject."""
    old, new = match.old.sequence, match.new.sequence
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    same = sum(step[2] - step[1] for step in steps if step[0] == "equal")
    changed = [step for step in steps if step[0] != "equal"]
    sizes = [(step[2] - step[1], step[4] - step[3]) for step in changed]
    replaced = all(step[0] == "replace" for step in changed)
    one = len(changed) == 1 and replaced
    return {
        "ratio": 2 * same / max(1, len(old) + len(new)),
        "places": float(len(changed)),
        "changed_old": float(sum(size[0] for size in sizes)),
        "changed_new": float(sum(size[1] for size in sizes)),
        "swap": float(one and same > 1 and max(sizes[0]) <= MAX_SWAP),
        "two_swaps": float(len(changed) == 2 and replaced),
        "swap_old": float(sizes[0][0]) if one else 0.0,
        "swap_new": float(sizes[0][1]) if one else 0.0,
        "behind_several": float(one and bool(_SEVERAL.intersection(_read_before(old, changed[0][1])))),
        "swap_at": changed[0][1] / max(1, len(old)) if one else -1.0,
        "swap_to_end": float(len(old) - changed[0][2]) if one else -1.0,
    }


def _read_before(words: Sequence[str], place: int) -> list[str]:
    """The last words before a place, of which the nearer one may be a preposition."""
    return list(words[max(0, place - 2) : place])


def _weigh_values(match: Match, known: Evidence) -> Evidence:
    """What kind of words differ: a value against another, or a subject against another."""
    sides = (match.left_new, match.left_old)
    worth = [max(map(_worth, terms), default=0.0) for terms in (*sides, match.shared)]
    gap = min(worth[:2]) - worth[2] if all(sides) else 0.0
    families = [{table.FAMILIES.get(term.type, term.type) for term in side if term.type} for side in sides]
    typed = float(bool(families[0] & families[1]))
    hard = float(all(any(term.hard for term in side) for side in sides))
    definite = [any(term.definite and not (term.type or term.named) for term in side) for side in sides]
    return {
        "value_gap": gap,
        "both_gap": known["both"] * gap,
        "swap_gap": known["swap"] * gap,
        "several": known["swap"] * any(term.key in _SEVERAL | _LIKING for term in match.shared),
        "liking": known["swap"] * any(term.key in _LIKING for term in match.shared),
        "other_liking": float(
            known["swap_at"] == 0 and any(term.key in _PREFERENCE for term in match.shared)
        ),
        "value_old": worth[1],
        "names": float(all(any(term.named and not term.type for term in side) for side in sides)),
        "typed": typed,
        "hard": hard,
        "hard_both": hard * known["both"],
        "definite": float(all(definite)),
        "shared_definite": float(any(term.definite and not term.named for term in match.shared)),
        "typed_definite": typed * all(definite),
        **_weigh_labels(match),
    }


def _weigh_labels(match: Match) -> Evidence:
    """Whether the two are about another one of several: lift 1 and lift 2, team A and team B."""
    ours, theirs = (
        {
            (before.key, term.key): place
            for place, (before, term) in enumerate(pairwise(statement.terms))
            if term.type == "ident" or term.hard
        }
        for statement in (match.new, match.old)
    )
    nouns = {noun: place for (noun, label), place in ours.items() if (noun, label) not in theirs}
    others = {noun: place for (noun, label), place in theirs.items() if (noun, label) not in ours}
    places = [max(nouns[noun], others[noun]) for noun in nouns.keys() & others.keys()]
    long = any(term.type == "ident" and len(term.key) > LONG_LABEL for term in match.left_new)
    return {
        "labels": float(len(places)),
        "label_at": float(min(places, default=-1)),
        "label_long": float(long),
    }


def _weigh_signs(match: Match, new: Reading, old: Reading, known: Evidence) -> Evidence:
    """What both say of change, end, doubt and addition, and the newer one of the older one's values."""
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
        "end_old": signs["end"] * match.share_old,
        "end_all": signs["end"] * everywhere,
        "now_old": signs["now"] * match.share_old,
        "addition_both": signs["addition"] * both,
        "doubt_both": doubt * both,
        **_weigh_turn(match, known),
        "changing": float(any(term.key in table.CHANGE_VERBS for term in match.left_new)) * match.share_old,
        "denied_old": denied * match.share_old,
        "denied_both": float(denied != old.negations % 2) * both,
        **{f"new_{name}": sign for name, sign in signs.items()},
        **{f"old_{name}": float(count > 0) for name, count in old.cues.items()},
        **{f"said_{name}": float(name in match.new.cues) for name in CUES},
        **{f"told_{name}": float(name in match.old.cues) for name in CUES},
    }


def _weigh_turn(match: Match, known: Evidence) -> Evidence:
    """Whether what was liked is disliked, or the other way round: of two things both may hold."""
    turned = any(
        one in match.new.cues and other in match.old.cues and other not in match.new.cues
        for one, other in (("liking", "disliking"), ("disliking", "liking"))
    )
    only = turned and known["swap_old"] == 1
    return {"turned": float(only), "turned_both": turned * known["both"]}


def _describe(side: str, terms: Sequence[Term]) -> Evidence:
    """How many words of a side are of each kind, and what stands before them."""
    counts = Counter(kind for term in terms for kind in _read_kinds(term))
    counts[""] = len(terms)
    return {f"{side} {kind}": float(counts[kind]) for kind in ("", *_KINDS)}


_KINDS = ("typed", "named", "definite", "about", "plain", "verb", "generic", *BEHIND)


def _read_kinds(term: Term) -> Iterator[str]:
    yield term.behind
    if term.about:
        yield "about"
    if term.type:
        yield "typed"
        return
    if term.named:
        yield "named"
    elif term.definite:
        yield "definite"
    elif not term.about:
        yield "plain"
    if term.key in table.VERBS:
        yield "verb"
    if term.word in table.GENERIC_NOUNS:
        yield "generic"


def _weigh_rarity(side: str, terms: Sequence[Term], beside: Sequence[frozenset[str]]) -> Evidence:
    """In how many notes beside them the words of a side stand too: what several share is a form of words."""
    keys = {term.key for term in terms if not term.type}
    met = sorted(sum(key in words for words in beside) for key in keys)
    whole = sum(keys <= words for words in beside) if keys else -1
    return {
        f"{side} rarest": float(met[0]) if met else -1.0,
        f"{side} second": float(met[1]) if len(met) > 1 else -1.0,
        f"{side} commonest": float(met[-1]) if met else -1.0,
        f"{side} mean": sum(met) / len(met) if met else -1.0,
        f"{side} rare": float(met.count(0)),
        f"{side} together": float(whole),
        f"{side} together share": whole / (len(beside) + 1),
    }


def _weigh_rivals(match: Match, beside: Sequence[frozenset[str]]) -> Evidence:
    """How many notes beside them share as much with either one as these two with each other."""
    found = {"beside": math.log(1 + len(beside))}
    ours = len(match.shared) / max(1, len(match.old.terms))
    for side, terms in (("old", match.old.terms), ("new", match.new.terms)):
        keys = {term.key for term in terms}
        shares = [len(words & keys) / max(1, len(terms)) for words in beside]
        found[f"rivals_{side}"] = float(sum(share >= ours for share in shares))
        found[f"rival_{side}"] = max(shares, default=0.0) - ours
    return found


def are_apart(found: Evidence) -> bool:
    """Whether both hold whatever their chance: they say the same, begin with what is one of several and with
    another one ("Lift 1", "Lift 2"), tell of what there may be several of (who likes tea may like coffee
    too, but what accepts 50 requests accepts no 600), or of what two persons like.
    """
    same = not (found["left_new "] or found["left_old "] or found["new_end"] or found["denied_both"])
    near = found["label_at"] == 0 or (found["two_swaps"] > 0 and found["label_at"] <= NEAR)
    others = found["labels"] > 0 and near
    several = (found["behind_several"] and not found["typed"]) or found["liking"] or found["other_liking"]
    return bool(same or (others and not found["label_long"]) or several)


def is_ended(found: Evidence) -> bool:
    """Whether the newer one surely ends the older one: it says all of it with "no longer" or "any more"."""
    doubt = max(found[f"said_{name}"] for name in DOUBTS)
    return found["said_over"] > doubt and found["share_old"] == 1 and not found["told_over"]


def is_mere_denial(found: Evidence) -> bool:
    """Whether the newer one says the older one with a "not", and nothing of a change: one of them is wrong,
    and which one is for a person to say.
    """
    both = found["share_old"] == found["share_new"] == 1
    return bool(found["denied_both"] and both and not _tells_change(found))


def denies_another(found: Evidence) -> bool:
    """Whether one says with a "not" of another day, amount or name what the other says, and nothing of a
    change: who works on Mondays may not work on Fridays.
    """
    return bool(found["denied_both"] and (found["typed"] or found["names"]) and not _tells_change(found))


def is_mere_addition(found: Evidence) -> bool:
    """Whether the newer one says that it comes beside something ("also", "as well"), says it again or asks,
    and nothing of a change: whether the older one still holds is for a person to say.
    """
    again = found["said_same"] and not found["typed"]  # a reminder with another day is a change
    beside = found["said_addition"] or found["said_question"] or again
    return bool(beside and not (_tells_change(found) or found["denied_both"]))


def _tells_change(found: Evidence) -> bool:
    return any(found[f"said_{name}"] for name in MARKS)


_NOTHING = Reading((Statement((), (), False),), dict.fromkeys(CUES, 0), frozenset(), 0)
NAMES = tuple(gather(_NOTHING, _NOTHING, 0.0))  # The names of all evidence, in one order
