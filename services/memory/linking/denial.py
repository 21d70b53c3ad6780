"""Whether a claim ends an older one: "no longer", "instead of", "dropped", "took over from"."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from services.memory.linking import claim_words as table
from services.memory.linking.claim_parts import about, find_head, has_role, is_qualifier, of_slots, said_by
from services.memory.linking.claims import Claim
from services.memory.linking.sentence_words import Word


class Verdict(NamedTuple):
    """``rule``: over, replaced, changed, number, value, role; empty if nothing. Not ``certain``: to be
    asked about.
    """

    rule: str
    certain: bool = True


NOTHING = Verdict("", certain=False)


def judge_denial(new: Claim, old: Claim, phrase: Sequence[Word]) -> Verdict:
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
    added = [*missing, *(w for w in about(new.words) if w.key not in old.keys and not w.optional)]
    added = [word for word in added if table.root(word.word) not in table.CHANGE_VERBS]  # "the move"
    apart = [word for word in added if word.slot != "subject" or not word.hard]
    core = _core(needed)
    same_core = bool(core) and core <= known
    if apart and not same_core and about(word for word in needed if word.key not in known):
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
    if not any(map(is_qualifier, left)):
        return Verdict(new.mark)
    return NOTHING if any(word.hard for word in added) else Verdict(new.mark, certain=False)


def names_first(phrase: Sequence[Word]) -> Sequence[Word]:
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
    return find_head(counted).key in hit or any(word.hard for word in said_by(matched))


def _is_most(matched: Sequence[Word], needed: Sequence[Word], new: Claim) -> bool:
    """Whether the words are most of a claim, and it says nothing else; or all that it is about."""
    subject = of_slots(needed, "subject")
    if new.mark == "over" and subject and matched == subject:
        return True
    if new.mark == "over" and said_by(needed) and all(word in matched for word in said_by(needed)):
        return True
    said = said_by(matched) or of_slots(matched, "verb")
    says_more = not said and bool(said_by(word for word in needed if word not in matched))
    return matched == needed or (2 * len(matched) >= len(needed) and len(matched) > 1 and not says_more)


def _only_names(new: Claim, old: Claim) -> bool:
    """Whether a claim says nothing that the older one does not say, but names."""
    return all(word.hard or word.slot == "verb" or word.key in old.keys for word in new.words)


def _is_scope(word: Word) -> bool:
    return bool(word.type) or word.word in table.HARD


def _is_named_value(words: Sequence[Word], claim: Claim, phrase: Sequence[Word]) -> bool:
    """Whether words are what a claim says of its subject, and name it."""
    names = {word.key for word in phrase if word.hard}
    named = [word for word in words if word.hard or word.key in names]
    return bool(named) and (not about(named) or has_role(claim, named))
