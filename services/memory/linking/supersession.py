"""Whether one text takes the place of what another says: the same subject and attribute, another value.

Two claims are compared by the words in which they differ. What both say is their topic; what stands behind
verb or preposition in each, and is no part of the topic, is its value. Without a mark of change ("moved
to", "now") nothing else may differ; with one, words beyond the value may.
"""

from collections.abc import Sequence
from functools import lru_cache

from services.memory.linking import claim_words as table
from services.memory.linking.claim_parts import (
    about,
    families_of,
    family_of,
    has_role,
    is_at_value,
    is_head,
    is_identified,
    is_one_piece,
    is_qualifier,
    of_slots,
    said_by,
    value_types,
)
from services.memory.linking.claims import ABOUT, Claim, read_claims
from services.memory.linking.denial import NOTHING, Verdict, judge_denial, names_first
from services.memory.linking.sentence_words import Word
from services.memory.linking.statements import read_text

MAX_VALUE = 4
"""The most words of a value, so that a whole sentence in the place of another is none."""


FEW_CLAIMS = 3
"""An older text of more claims does not end because one of them does, unless it is the first: that is asked
about."""


@lru_cache(16_384)
def compare_texts(newer: str, older: str) -> Verdict:
    """What the claims of ``newer`` do to those of ``older``: the surest verdict of all pairs of sentences.

    Sentences further down count with each other only if the texts begin with the same topic, and are asked
    about.
    """
    if _words_of(newer).isdisjoint(_words_of(older)):
        return NOTHING
    ours, theirs = read_claims(newer), read_claims(older)
    best = NOTHING
    same_topic = bool(ours and theirs and {key for key in ours[0].keys & theirs[0].keys if ":" not in key})
    for number, new in enumerate(ours):
        for place, old in enumerate(theirs):
            if number and place and not same_topic:
                continue
            verdict = compare_claims(new, old)
            if verdict.certain and not (number and place) and (not place or len(theirs) <= FEW_CLAIMS):
                return verdict
            if verdict.rule and not best.rule:
                best = Verdict(verdict.rule, certain=False)
    return best


@lru_cache(4_096)
def _words_of(text: str) -> frozenset[str]:
    """The keys of all that a text says and denies, without values."""
    claims = read_claims(text)
    phrases = (words for claim in claims for words in (claim.words, *claim.denied))
    return frozenset(word.key for words in phrases for word in words if not word.type)


def have_other_values(one: str, other: str) -> bool:
    """Whether texts that look the same give other amounts, days or times, or one changes or ends what the
    other says.
    """
    signs, others = read_text(one).cues, read_text(other).cues
    if bool(signs["end"]) != bool(others["end"]):
        return True
    ours, theirs = _typed_values(one), _typed_values(other)
    if {family for family, _ in ours - theirs} & {family for family, _ in theirs - ours}:
        return True
    return bool(compare_texts(one, other).rule or compare_texts(other, one).rule)


def _typed_values(text: str) -> set[tuple[str, str]]:
    claims = read_claims(text)
    phrases = (words for claim in claims for words in (claim.words, *claim.denied))
    return {(family_of(word), word.key.partition(":")[2]) for words in phrases for word in words if word.type}


def compare_claims(new: Claim, old: Claim) -> Verdict:
    """What one claim does to an older one."""
    if not (new.holds and old.holds) or new.text.casefold() == old.text.casefold():
        return NOTHING
    if new.denied:
        named = map(names_first, new.denied if new.mark == "replaced" else ())
        phrases = filter(None, (*new.denied, *named))
        verdicts = (judge_denial(new, old, phrase) for phrase in phrases)
        return next((verdict for verdict in verdicts if verdict.rule), NOTHING)
    return _judge_change(new, old)


def _judge_change(new: Claim, old: Claim) -> Verdict:
    """Whether ``new`` gives another value for what ``old`` is about."""
    common = {key for key in new.keys & old.keys if ":" not in key}
    ours = [word for word in new.words if word.key not in old.keys and not word.optional]
    theirs = [word for word in old.words if word.key not in new.keys and not word.optional]
    marked = bool(new.mark) and not (new.mark == "changed" and new.changes <= old.changes)
    if not (common and ours and theirs) or new.negated != old.negated:
        return NOTHING
    if not marked and (new.adding or (of_slots(ours, "verb") and of_slots(theirs, "verb"))):
        return NOTHING
    if families := families_of(ours) & families_of(theirs):
        return _judge_typed((new, ours), (old, theirs), families, common, marked=marked)
    if _has_many(new, old, ours, common):
        return NOTHING
    if value_types(ours) != value_types(theirs):
        plain = marked and len(common) > 1 and not about((*ours, *theirs))
        return Verdict("changed", certain=False) if plain else NOTHING
    if marked:
        return _judge_marked((new, ours), (old, theirs), common)
    return _judge_alike((new, ours), (old, theirs))


_AMOUNTS = frozenset({"number", "money", "percent", "size", "duration", "clock"})


def _has_many(new: Claim, old: Claim, ours: Sequence[Word], common: set[str]) -> bool:
    """Whether it is something of which a subject may have several: likings, languages, what it works on."""
    verbs, slots = {new.verb, old.verb}, {word.slot for word in ours}
    works_on = bool(slots & {"on", "after", "about"}) and bool(verbs & table.SET_VERBS_WITH)
    has = bool(verbs & table.SET_VERBS) and bool(slots & {"object", "to do", "subject"})
    inclined = any(word.slot == "copula" and word.key in common & table.SET_WORDS for word in old.words)
    return has or inclined or works_on


Side = tuple[Claim, list[Word]]
"""A claim, and its words that the other one does not have."""


def _judge_typed(new: Side, old: Side, families: set[str], common: set[str], *, marked: bool) -> Verdict:
    """Both give a value of one type: a day, a time, an amount."""
    sides = (new, old)
    values = [(claim, word) for claim, words in sides for word in words if family_of(word) in families]
    if any(_says_which(word, claim) for claim, word in values):
        return NOTHING
    extras = [[w for w in words if family_of(w) not in families and w.slot != "verb"] for _, words in sides]
    if marked:
        return _weigh(extras[0], extras[1], common)
    if not any(extras):
        return Verdict("number")
    in_place = all(extras) and all(is_one_piece(words, claim) and not about(words) for claim, words in sides)
    return Verdict("number") if in_place else NOTHING


def _says_which(word: Word, claim: Claim) -> bool:
    """Whether a value says which one is meant: "server 1", "week 14", "deploys on Fridays are forbidden"."""
    if word.type not in ("ident", "version"):
        early = word.type in ("day", "date", "daypart", "frequency") and word.slot == "subject"
        return early or word.slot.startswith("before")
    if word == claim.words[-1] and all(other.slot == "subject" for other in claim.words):
        return False  # "broker port 4222"
    before = next((other.key for other in claim.words if other.place == word.place - 1), "")
    return (word.slot in ABOUT and not is_identified(claim)) or before in table.SCOPES


def _judge_marked(new: Side, old: Side, common: set[str]) -> Verdict:
    """``new`` marks a change: what of each is its value, and what beyond it?"""
    value, value_extras = _find_value(new, old[0], common)
    gone, gone_extras = _find_value(old, new[0], common)
    if not value or not gone or {value[0].slot, gone[0].slot} in table.SLOTS_APART:
        return NOTHING
    if any(is_head(word, new[0]) for word in value_extras if word.slot.startswith(("moved", "before"))):
        return NOTHING
    beside = {
        word.key for word in old[0].words if word.slot == gone[0].slot and word.slot in table.PREPOSITIONS
    }
    if not common - beside:
        return NOTHING
    if len(common) == 1:
        heads = [(word, new[0]) for word in of_slots(value_extras, "subject", "moved")]
        heads += [(word, old[0]) for word in of_slots(gone_extras, "subject", "object")]
        if heads:
            other = any(is_head(word, claim) for word, claim in heads)
            return NOTHING if other else Verdict("changed", certain=False)
    return _weigh(value_extras, gone_extras, common)


_ONE_OBJECT = table.CHOICE_VERBS | table.SINGLE_VERBS


def _find_value(side: Side, other: Claim, common: set[str]) -> tuple[list[Word], list[Word]]:
    """The words of a side that are its value, and the others.

    Of what stands behind the verb it is what follows a preposition, else the rest; it is the subject if
    that has a role, or does what ``other`` says is done by another.
    """
    claim, words = side[0], [word for word in side[1] if word.slot != "verb"]
    said = [word for word in words if word.slot not in ABOUT]
    value = [word for word in said if word.slot not in ("object", "copula")] or said
    subject = of_slots(words, "subject")
    turned = any(
        word.slot in ("by", "with", "through", "via") and word.key not in common for word in other.words
    )
    same_verb = claim.verb == other.verb or any(w.key in common for w in of_slots(claim.words, "verb"))
    acts = turned and same_verb
    if subject and not any(word.hard for word in value) and (acts or has_role(claim, subject)):
        value = subject
    return value, [word for word in words if word not in value]


def _weigh(ours: list[Word], theirs: list[Word], common: set[str]) -> Verdict:
    """A verdict by what the two say beyond value and topic.

    A qualifier on one side is to be asked about, one on each side is another subject. Words on one side are
    a detail; as many words on both sides as in the topic are not, and up to two more are to be asked about.
    """
    hard = [any(map(is_qualifier, words)) for words in (ours, theirs)]
    count = len(ours) + len(theirs)
    if any(hard):
        return NOTHING if all(hard) or (ours and theirs) else Verdict("changed", certain=False)
    if ours and theirs:
        if count <= len(common):
            return Verdict("changed")
        return Verdict("changed", certain=False) if 1 < len(common) >= count - 2 else NOTHING
    beyond = len(about((*ours, *theirs)))
    narrower = any(word.slot in table.PURPOSES or word.slot.startswith("before") for word in theirs)
    few = beyond <= 1 and count <= len(common) + 1
    certain = not narrower and (few or count < len(common))
    return Verdict("changed", certain=certain) if beyond <= len(common) + 1 else NOTHING


def _judge_alike(new: Side, old: Side) -> Verdict:
    """The two differ in a few words each: are these the value, at its place?"""
    sides = (new, old)
    if any(len(words) > MAX_VALUE or not is_one_piece(words, claim) for claim, words in sides):
        return NOTHING
    roles = [has_role(claim, words) for claim, words in sides]
    at_value = [is_at_value(words, claim) for claim, words in sides]
    topic = len(new[0].keys & old[0].keys)
    if all(roles):
        return Verdict("role")
    if any(roles):
        return Verdict("role") if any(at_value) and topic > 1 else NOTHING
    same_slot = new[1][0].slot == old[1][0].slot
    if not all(at_value) or not (same_slot or topic > 1):
        return NOTHING
    place = new[1][0].place
    said = [word for word in said_by(new[0].words) if word.key in old[0].keys and word.place < place]
    same = {word.type for word in said if word.type and word.word not in table.OFTEN}
    if same & _AMOUNTS:
        return NOTHING  # the same is said of something else
    return Verdict("value", certain=not same - {"ident"})
