"""Whether one text takes the place of what another says: the same subject and attribute, another value.

Two claims are compared by the words in which they differ. What both say is their topic; what stands behind
verb or preposition in each, and is no part of the topic, is its value. Without a mark of change ("moved
to", "now") nothing else may differ; with one, words beyond the value may.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from services.memory.linking import claim_words as table
from services.memory.linking.claims import ABOUT, Claim, read_claims
from services.memory.linking.sentence_words import Word

MAX_VALUE = 4
"""The most words of a value, so that a whole sentence in the place of another is none."""

FEW_CLAIMS = 3
"""An older text of more claims does not end because one of them does, unless it is the first: that is asked
about."""


class Verdict(NamedTuple):
    """``rule``: over, replaced, changed, number, value, role; empty if nothing. Not ``certain``: to be
    asked about.
    """

    rule: str
    certain: bool = True


NOTHING = Verdict("", certain=False)


def compare_texts(newer: str, older: str) -> Verdict:
    """What the claims of ``newer`` do to those of ``older``: the surest verdict of all pairs of sentences.

    Sentences further down count with each other only if the texts begin with the same topic, and are asked
    about.
    """
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


def have_other_values(one: str, other: str) -> bool:
    """Whether texts that look the same give other amounts, days or times, or one changes what the other
    says.
    """
    ours, theirs = _typed_values(one), _typed_values(other)
    if {family for family, _ in ours - theirs} & {family for family, _ in theirs - ours}:
        return True
    return bool(compare_texts(one, other).rule or compare_texts(other, one).rule)


def _typed_values(text: str) -> set[tuple[str, str]]:
    claims = read_claims(text)
    phrases = (words for claim in claims for words in (claim.words, *claim.denied))
    return {(_family(word), word.key.partition(":")[2]) for words in phrases for word in words if word.type}


def compare_claims(new: Claim, old: Claim) -> Verdict:
    """What one claim does to an older one."""
    if not (new.holds and old.holds) or new.text.casefold() == old.text.casefold():
        return NOTHING
    if new.denied:
        named = map(_names_first, new.denied if new.mark == "replaced" else ())
        phrases = filter(None, (*new.denied, *named))
        verdicts = (_judge_denial(new, old, phrase) for phrase in phrases)
        return next((verdict for verdict in verdicts if verdict.rule), NOTHING)
    return _judge_change(new, old)


def _judge_denial(new: Claim, old: Claim, phrase: Sequence[Word]) -> Verdict:
    """Whether ``old`` says what ``new`` says is over: all that counts of the phrase, and nothing else of
    that.
    """
    if old.mark == "over":
        return NOTHING
    hit = {word.key for word in phrase} & old.keys
    needed = [word for word in old.words if not word.optional]
    matched = [word for word in needed if word.key in hit]
    if not matched or not _is_told_of(phrase, hit, matched):
        return NOTHING
    known = hit | new.keys
    missing = [word for word in phrase if word.key not in hit and word.slot != "verb"]
    added = [*missing, *(w for w in _about(new.words) if w.key not in old.keys and not w.optional)]
    added = [word for word in added if table.root(word.word) not in table.CHANGE_VERBS]  # "the move"
    apart = [word for word in added if word.slot != "subject" or not word.hard]
    core = _core(needed)
    same_core = bool(core) and core == _core((*new.words, *phrase))
    if apart and not same_core and _about(word for word in needed if word.key not in known):
        return NOTHING  # each is about something of its own
    if new.mark == "over":  # what was done with it is over, whoever did it
        known |= {word.key for word in needed if word.slot == "subject" and not _is_scope(word)}
    left = [word for word in needed if word.key not in known]
    shared = (new.keys & old.keys) - hit
    if not (
        shared
        or _is_most(matched, needed, new)
        or (_is_named_value(matched, old, phrase) and _only_names(new, old))
    ):
        return NOTHING
    if not any(map(_is_qualifier, left)):
        return Verdict(new.mark)
    return NOTHING if any(word.hard for word in added) else Verdict(new.mark, certain=False)


def _names_first(phrase: Sequence[Word]) -> Sequence[Word]:
    """The names that a phrase begins with, if it goes on: "Grafana" of "Grafana collects the metrics"."""
    end = next((place for place, word in enumerate(phrase) if not word.hard or word.type), 0)
    return phrase[:end]


def _core(words: Iterable[Word]) -> set[str]:
    """The keys of what stands behind of, for and about: "the channel for build failures"."""
    return {word.key for word in words if word.slot.removeprefix("before ") in table.PURPOSES}


def _is_told_of(phrase: Sequence[Word], hit: set[str], matched: Sequence[Word]) -> bool:
    """Whether what is over is what the ``matched`` words of a claim say: its head, and twice as many words
    as miss.

    Verbs may differ, unless there is nothing else: "we no longer deploy on Fridays". A head may, if the
    rest names the value.
    """
    things = [word for word in phrase if word.slot != "verb"]
    counted = things if any(not word.type for word in things) else list(phrase)
    missing = [word for word in counted if word.key not in hit]
    if any(word.hard for word in missing) or len(hit) < 2 * len(missing):
        return False
    return _head(counted).key in hit or any(word.hard for word in _says(matched))


def _is_most(matched: Sequence[Word], needed: Sequence[Word], new: Claim) -> bool:
    """Whether the words are most of a claim, and it says nothing else; or all that it is about."""
    subject = _of_slots(needed, "subject")
    if new.mark == "over" and subject and matched == subject:
        return True
    if new.mark == "over" and _says(needed) and all(word in matched for word in _says(needed)):
        return True
    said = _says(matched) or _of_slots(matched, "verb")
    says_more = not said and bool(_says(word for word in needed if word not in matched))
    return matched == needed or (2 * len(matched) >= len(needed) and len(matched) > 1 and not says_more)


def _only_names(new: Claim, old: Claim) -> bool:
    """Whether a claim says nothing that the older one does not say, but names."""
    return all(word.hard or word.slot == "verb" or word.key in old.keys for word in new.words)


def _is_scope(word: Word) -> bool:
    return bool(word.type) or word.word in table.HARD


def _is_named_value(words: Sequence[Word], claim: Claim, phrase: Sequence[Word]) -> bool:
    """Whether words are what a claim says of its subject, and name it."""
    named = [word for word in words if word.hard] or (words if any(word.hard for word in phrase) else [])
    return bool(named) and (not _about(named) or _has_role(claim, named))


def _judge_change(new: Claim, old: Claim) -> Verdict:
    """Whether ``new`` gives another value for what ``old`` is about."""
    common = {key for key in new.keys & old.keys if ":" not in key}
    ours = [word for word in new.words if word.key not in old.keys and not word.optional]
    theirs = [word for word in old.words if word.key not in new.keys and not word.optional]
    marked = bool(new.mark) and not (new.mark == "changed" and new.changes <= old.changes)
    if not (common and ours and theirs) or new.negated != old.negated:
        return NOTHING
    if not marked and (new.adding or (_of_slots(ours, "verb") and _of_slots(theirs, "verb"))):
        return NOTHING
    if families := _families(ours) & _families(theirs):
        return _judge_typed((new, ours), (old, theirs), families, common, marked=marked)
    if _has_many(new, old, ours, common):
        return NOTHING
    if _value_types(ours) != _value_types(theirs):
        plain = marked and len(common) > 1 and not _about((*ours, *theirs))
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
    values = [(claim, word) for claim, words in sides for word in words if _family(word) in families]
    if any(_says_which(word, claim) for claim, word in values):
        return NOTHING
    extras = [[w for w in words if _family(w) not in families and w.slot != "verb"] for _, words in sides]
    if marked:
        return _weigh(extras[0], extras[1], common)
    if not any(extras):
        return Verdict("number")
    in_place = all(extras) and all(
        _is_one_piece(words, claim) and not _about(words) for claim, words in sides
    )
    return Verdict("number") if in_place else NOTHING


def _says_which(word: Word, claim: Claim) -> bool:
    """Whether a value says which one is meant: "server 1", "week 14", "deploys on Fridays are forbidden"."""
    if word.type not in ("ident", "version"):
        early = word.type in ("day", "date", "daypart", "frequency") and word.slot == "subject"
        return early or word.slot.startswith("before")
    if word == claim.words[-1] and all(other.slot == "subject" for other in claim.words):
        return False  # "broker port 4222"
    before = next((other.key for other in claim.words if other.place == word.place - 1), "")
    return (word.slot in ABOUT and not _is_identified(claim)) or before in table.SCOPES


def _judge_marked(new: Side, old: Side, common: set[str]) -> Verdict:
    """``new`` marks a change: what of each is its value, and what beyond it?"""
    value, value_extras = _find_value(new, old[0], common)
    gone, gone_extras = _find_value(old, new[0], common)
    if not value or not gone or {value[0].slot, gone[0].slot} in table.SLOTS_APART:
        return NOTHING
    if any(_is_head(word, new[0]) for word in value_extras if word.slot.startswith(("moved", "before"))):
        return NOTHING
    beside = {
        word.key for word in old[0].words if word.slot == gone[0].slot and word.slot in table.PREPOSITIONS
    }
    if not common - beside:
        return NOTHING
    if len(common) == 1:
        heads = [(word, new[0]) for word in _of_slots(value_extras, "subject", "moved")]
        heads += [(word, old[0]) for word in _of_slots(gone_extras, "subject", "object")]
        if heads:
            other = any(_is_head(word, claim) for word, claim in heads)
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
    subject = _of_slots(words, "subject")
    turned = any(
        word.slot in ("by", "with", "through", "via") and word.key not in common for word in other.words
    )
    same_verb = claim.verb == other.verb or any(w.key in common for w in _of_slots(claim.words, "verb"))
    acts = turned and same_verb
    if subject and not any(word.hard for word in value) and (acts or _has_role(claim, subject)):
        value = subject
    return value, [word for word in words if word not in value]


def _weigh(ours: list[Word], theirs: list[Word], common: set[str]) -> Verdict:
    """A verdict by what the two say beyond value and topic.

    A qualifier on one side is to be asked about, one on each side is another subject. Words on one side are
    a detail; as many words on both sides as in the topic are not, and up to two more are to be asked about.
    """
    hard = [any(map(_is_qualifier, words)) for words in (ours, theirs)]
    count = len(ours) + len(theirs)
    if any(hard):
        return NOTHING if all(hard) or (ours and theirs) else Verdict("changed", certain=False)
    if ours and theirs:
        if count <= len(common):
            return Verdict("changed")
        return Verdict("changed", certain=False) if 1 < len(common) >= count - 2 else NOTHING
    about = len(_about((*ours, *theirs)))
    narrower = any(word.slot in table.PURPOSES or word.slot.startswith("before") for word in theirs)
    few = about <= 1 and count <= len(common) + 1
    certain = not narrower and (few or count < len(common))
    return Verdict("changed", certain=certain) if about <= len(common) + 1 else NOTHING


def _judge_alike(new: Side, old: Side) -> Verdict:
    """The two differ in a few words each: are these the value, at its place?"""
    sides = (new, old)
    if any(len(words) > MAX_VALUE or not _is_one_piece(words, claim) for claim, words in sides):
        return NOTHING
    roles = [_has_role(claim, words) for claim, words in sides]
    at_value = [_is_at_value(words, claim) for claim, words in sides]
    topic = len(new[0].keys & old[0].keys)
    if all(roles):
        return Verdict("role")
    if any(roles):
        return Verdict("role") if any(at_value) and topic > 1 else NOTHING
    same_slot = new[1][0].slot == old[1][0].slot
    if not all(at_value) or not (same_slot or topic > 1):
        return NOTHING
    place = new[1][0].place
    said = [word for word in _says(new[0].words) if word.key in old[0].keys and word.place < place]
    same = {word.type for word in said if word.type and word.word not in table.OFTEN}
    if same & _AMOUNTS:
        return NOTHING  # the same is said of something else
    return Verdict("value", certain=not same - {"ident"})


def _is_at_value(words: Sequence[Word], claim: Claim) -> bool:
    """Whether words stand where a claim says its value: not those of its topic, of a purpose, of one among
    many.
    """
    first = words[0]
    if first.slot in ABOUT or first.slot in ("verb", "to do"):
        return False
    if first.slot == "copula":
        subject = {table.root(part) for part in claim.text.casefold().split()}
        return bool(first.verb or first.hard or subject & table.ATTRIBUTES)
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


def _has_role(claim: Claim, words: Sequence[Word]) -> bool:
    """Whether the words are a subject in a role that one at a time has: "Carla is the release manager"."""
    if any(word.slot != "subject" for word in words):
        return False
    acts = any(word.slot in _OF_DUTY for word in claim.words) and not _BEING & set(
        claim.text.casefold().split()
    )
    return _is_identified(claim) or (acts and _is_head(words[-1], claim) and claim.verb in table.DUTY_VERBS)


_ASKING = frozenset("where who what when how".split())
_ROLES = ("responsible", "on call", "on-call", "in charge", "on duty", "on watch")


def _is_identified(claim: Claim) -> bool:
    """Whether a claim says which one its subject is: "is the release manager", "is on call"."""
    parts = claim.text.casefold().split()
    place = next((place for place, part in enumerate(parts[:-1]) if part in table.COPULAS), -1)
    return place >= 0 and (
        parts[place + 1] in table.POSSESSIVES | _ASKING or " ".join(parts[place + 1 :]).startswith(_ROLES)
    )


def _is_one_piece(words: Sequence[Word], claim: Claim) -> bool:
    """Whether words stand in one slot of a claim, with no other telling words between them."""
    taken = {word.place for word in words}
    inside = [word.place in taken for word in claim.words if not word.optional]
    pieces = sum(here and not before for before, here in zip([False, *inside], inside, strict=False))
    return pieces == 1 and len({word.slot for word in words}) == 1


def _is_qualifier(word: Word) -> bool:
    """Whether a word says which one of several is meant."""
    return word.word in table.HARD or word.type in ("ident", "version") or (word.hard and not word.type)


def _head(words: Sequence[Word]) -> Word:
    """The last word of the first slot: the plants of "the office plants on the first floor"."""
    return _of_slots(words, words[0].slot)[-1]


def _is_head(word: Word, claim: Claim) -> bool:
    own = [other for other in claim.words if not other.optional and other.slot == word.slot]
    return bool(own) and word == own[-1]


def _of_slots(words: Iterable[Word], *slots: str) -> list[Word]:
    return [word for word in words if word.slot in slots]


def _says(words: Iterable[Word]) -> list[Word]:
    """Those of words that say something of the subject."""
    return [word for word in words if word.slot not in ABOUT and word.slot != "verb"]


def _about(words: Iterable[Word]) -> list[Word]:
    return [word for word in words if word.slot in ABOUT]


def _family(word: Word) -> str:
    return table.FAMILIES.get(word.type, word.type)


def _families(words: Iterable[Word]) -> set[str]:
    return {_family(word) for word in words if word.type}


def _value_types(words: Iterable[Word]) -> set[str]:
    """The types of what words say of their subject; a number that names something counts as a name."""
    return {_family(word) for word in words if word.slot not in ABOUT and word.type not in ("", "ident")}
