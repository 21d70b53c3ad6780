"""What one text says beyond another: what must not be lost when the two count as one."""

from services.memory.linking.negation import opposed
from services.memory.linking.wording import MAX_CHARACTERS, Reading, read

MAX_TURNED = 12
"""The most content words of sentences that are tried for turned roles; longer ones do not just turn them."""


def find_news(new: str, old: str, allowed: float = 0.2) -> str:
    """What ``new`` says that ``old`` does not: negation, numbers, names, roles, words; empty where nothing.

    - negation: one denies what the other says;
    - numbers: one that is not there, or in another order ("from 3 to 5");
    - names: one that is not there, or in another order ("Alice gave Bob");
    - roles: the same words the other way round ("dogs chase cats"), unless one is in the passive;
    - words: some stand in the place of others ("likes", "hates"), or more than the ``allowed`` share of the
      content words is new.

    Texts of more than 8,000 characters are the same only as a whole. Not symmetrical: less is no news.
    """
    if _flat(new) == _flat(old):
        return ""
    if max(len(new), len(old)) > MAX_CHARACTERS:
        return "words"
    ours, theirs = read(new), read(old)
    if opposed(new, old):
        return "negation"
    if not _is_within(ours.numbers, theirs.numbers):
        return "numbers"
    if not ours.names <= set(theirs.content) or _order_of_names(ours, theirs):
        return "names"
    if _turned(ours, theirs):
        return "roles"
    return "words" if _has_other_words(ours, theirs, allowed) else ""


def _flat(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!")


def _is_within(some: tuple[str, ...], all_of_them: tuple[str, ...]) -> bool:
    rest = iter(all_of_them)
    return all(number in rest for number in some)


def _order_of_names(ours: Reading, theirs: Reading) -> bool:
    names = (ours.names | theirs.names) & set(ours.content) & set(theirs.content)
    return [word for word in dict.fromkeys(ours.content) if word in names] != [
        word for word in dict.fromkeys(theirs.content) if word in names
    ]


def _turned(ours: Reading, theirs: Reading) -> bool:
    """Whether a sentence "A does B" faces a "B does A"."""
    one, other = ours.words, theirs.words
    if not 3 <= len(one) <= MAX_TURNED or sorted(one) != sorted(other) or one == other:
        return False
    if _passives(ours) != _passives(theirs):
        return False
    return any(
        one[end:] + one[start:end] + one[:start] == other
        for start in range(1, len(one) - 1)
        for end in range(start + 1, len(one))
    )


def _passives(reading: Reading) -> int:
    return sum(token.word == "by" for token in reading.tokens)


def _has_other_words(ours: Reading, theirs: Reading, allowed: float) -> bool:
    if _is_swapped(dict.fromkeys(ours.words), dict.fromkeys(theirs.words)):
        return True
    mine, others = set(ours.content), set(theirs.content)
    return not mine or len(mine - others) > allowed * len(mine)


def _is_swapped(mine: dict[str, None], others: dict[str, None]) -> bool:
    """Whether both have words of their own in an otherwise equal order: "likes dark mode", "hates dark
    mode".
    """
    common = [word for word in mine if word in others]
    if len(common) in {len(mine), len(others)}:
        return False
    return common == [word for word in others if word in mine]
