"""The parts of a claim: what it is about, what it says of that, who is in a role, where its value stands."""

from collections.abc import Iterable, Sequence

from services.memory.linking import claim_words as table
from services.memory.linking.claims import ABOUT, Claim
from services.memory.linking.sentence_words import Word


def is_at_value(words: Sequence[Word], claim: Claim) -> bool:
    """Whether words stand where a claim says its value: not those of its topic, of a purpose, of one among
    many.
    """
    first = words[0]
    if first.slot in ABOUT or first.slot in ("verb", "to do"):
        return False
    if first.slot == "copula":
        subject = {table.root(part) for part in claim.text.casefold().split()}
        return bool(first.verb or first.hard or subject & table.ATTRIBUTES or first.word in table.COLOURS)
    if first.slot == "object":
        before = [word for word in claim.words if word.place < first.place]
        behind = [word for word in claim.words if word.place > words[-1].place]
        if any(word.hard and word.slot == "object" for word in behind):
            return False  # "we call the release Marble"
        if any(word.slot == "object" and table.root(word.word) in table.ATTRIBUTES for word in before):
            return True  # "has the colour blue"
        purpose = bool(behind) or any(word.slot.startswith("before") for word in before)
        return first.verb in table.SINGLE_VERBS or (first.verb in table.CHOICE_VERBS and purpose)
    return True


_OF_DUTY = frozenset({"object", "with", "after", "of", "to do", "before as"})


_BEING = frozenset("is are was were be been being".split())


def has_role(claim: Claim, words: Sequence[Word]) -> bool:
    """Whether the words are a subject in a role that one at a time has: "Carla is the release manager"."""
    if any(word.slot != "subject" for word in words):
        return False
    acts = any(word.slot in _OF_DUTY for word in claim.words) and not _BEING & set(
        claim.text.casefold().split()
    )
    return is_identified(claim) or (acts and is_head(words[-1], claim) and claim.verb in table.DUTY_VERBS)


_ASKING = frozenset("where who what when how".split())


_ROLES = ("responsible", "on call", "on-call", "in charge", "on duty", "on watch")


def is_identified(claim: Claim) -> bool:
    """Whether a claim says which one its subject is: "is the release manager", "is on call"."""
    parts = claim.text.casefold().split()
    place = next((place for place, part in enumerate(parts[:-1]) if part in table.COPULAS), -1)
    return place >= 0 and (
        parts[place + 1] in table.POSSESSIVES | _ASKING or " ".join(parts[place + 1 :]).startswith(_ROLES)
    )


def is_one_piece(words: Sequence[Word], claim: Claim) -> bool:
    """Whether words stand in one slot of a claim, with no other telling words between them."""
    taken = {word.place for word in words}
    inside = [word.place in taken for word in claim.words if not word.optional]
    pieces = sum(here and not before for before, here in zip([False, *inside], inside, strict=False))
    return pieces == 1 and len({word.slot for word in words}) == 1


def is_qualifier(word: Word) -> bool:
    """Whether a word says which one of several is meant."""
    return word.word in table.HARD or word.type in ("ident", "version") or (word.hard and not word.type)


def find_head(words: Sequence[Word]) -> Word:
    """The last word of the first slot: the plants of "the office plants on the first floor"."""
    return of_slots(words, words[0].slot)[-1]


def is_head(word: Word, claim: Claim) -> bool:
    """Whether a word is the last of those in its slot of a claim: the plants of "the office plants"."""
    own = [other for other in claim.words if not other.optional and other.slot == word.slot]
    return bool(own) and word == own[-1]


def of_slots(words: Iterable[Word], *slots: str) -> list[Word]:
    """Those of words that stand in one of the slots."""
    return [word for word in words if word.slot in slots]


def said_by(words: Iterable[Word]) -> list[Word]:
    """Those of words that say something of the subject."""
    return [word for word in words if word.slot not in ABOUT and word.slot != "verb"]


def about(words: Iterable[Word]) -> list[Word]:
    """Those of words that say what a claim is about."""
    return [word for word in words if word.slot in ABOUT]


def family_of(word: Word) -> str:
    """The type of a word, one for all types whose values stand in for each other."""
    return table.FAMILIES.get(word.type, word.type)


def families_of(words: Iterable[Word]) -> set[str]:
    """The types of the typed ones among words."""
    return {family_of(word) for word in words if word.type}


def value_types(words: Iterable[Word]) -> set[str]:
    """The types of what words say of their subject; a number that names something counts as a name."""
    return {family_of(word) for word in words if word.slot not in ABOUT and word.type not in ("", "ident")}
