"""Whether one text gives a new value for what another is about: "the port is 4222", "the port is 4333"."""

from services.memory.linking.text_comparison import (
    STOP_WORDS,
    Token,
    normalise_word,
    parse_text,
    strip_possessive,
)

MAX_VALUE = 3
"""The most words a value has, so that a whole sentence in place of another is no value."""

_DEFINITE = frozenset("the our my your his her its their".split())
_PASSED_OVER = frozenset("a an now currently already presently today still".split())
_BEING = frozenset("= is are was were be been equals".split())
_CHOOSING = frozenset(
    """
    use uses used using prefer prefers preferred choose chooses chose chosen pick picks picked adopt adopts
    adopted select selects selected
    """.split()
)
_SINGLE = frozenset(
    """
    live lives lived reside resides resided costs cost belongs named called located reports works worked
    """.split()
)
_OTHER = frozenset(
    """
    has have had listen listens listening run runs running take takes took expire expires last lasts lasted
    keep keeps kept allow allows need needs require requires contain contains support supports start starts
    started end ends ended open opens close closes happen happens happened retry retries wait waits store
    stores stored begin begins deploy deploys meet meets serve serves handle handles hold holds weighs
    measures
    """.split()
)
_VERBS = _BEING | _CHOOSING | _SINGLE | _OTHER

_ATTRIBUTES = frozenset(
    map(
        normalise_word,
        """
        name port colour color birthday address email phone number version owner lead manager role job
        language editor host url path password timezone deadline date time price cost budget size limit status
        state level capital region provider favourite favorite default main primary preferred official latest
        current
        """.split(),
    )
)
"""Words for what a thing has but one of at a time."""


def find_new_value(newer: str, older: str, *, nearly_same: bool = False) -> str:
    """Why ``newer`` replaces ``older``: the rule by which it gives another value for the same; empty if not.

    The two are the same but for one run of up to three words in the place of another, and what comes before
    it in its sentence, up to the verb or colon, names what both are about. What that thing can have but one
    of:

    - number: a number in the place of a number, "listens on port 4222"; also at the end of a text without a
      verb;
    - attribute: after is, a colon or a title, if its subject has a word such as port, status or favourite,
      or both values are names ("the main database is PostgreSQL", "the CEO is Anna");
    - single: after lives in, works at, costs, is called, reports to and their like;
    - choice: right after use, prefer, choose or adopt, with the purpose unchanged behind it;
    - same: any other verb, if the texts are ``nearly_same``.

    "Server 1" and "server 2" are two subjects, "likes tea" and "likes coffee" two likings.
    """
    ours, theirs = _tokens(newer), _tokens(older)
    start = _common(ours, theirs)
    end = _common(ours[start:][::-1], theirs[start:][::-1])
    new, old = ours[start : len(ours) - end], theirs[start : len(theirs) - end]
    if not 1 <= len(new) <= MAX_VALUE or not 1 <= len(old) <= MAX_VALUE:
        return ""
    if any(token.word in "=." for token in (*new, *old)):
        return ""
    before, after = _within_sentence(ours[:start], ours[len(ours) - end :])
    return _find_rule(before, new, old, after, nearly_same=nearly_same)


def _find_rule(
    before: list[Token], new: list[Token], old: list[Token], after: list[Token], *, nearly_same: bool
) -> str:
    numeric = _is_number(new) and _is_number(old)
    place = max((place for place, token in enumerate(before) if token.word in _VERBS), default=-1)
    if place < 0:
        return "number" if numeric and _is_last(before, after) else ""
    verb, subject, between = before[place].word, before[:place], before[place + 1 :]
    if not subject:
        return ""
    if numeric:
        return "number"
    if (
        verb in _BEING
        and not between
        and _is_number(new) == _is_number(old)
        and _is_attribute(subject, new, old)
    ):
        return "attribute"
    if verb in _SINGLE:
        return "single"
    if verb in _CHOOSING and not between and any(token.word not in STOP_WORDS for token in after):
        return "choice"
    return "same" if nearly_same else ""


def _tokens(text: str) -> list[Token]:
    tokens = [token for token in parse_text(text.strip()).tokens if token.word not in _PASSED_OVER]
    while tokens and tokens[-1].word in "=.":
        tokens.pop()
    return tokens


def _common(one: list[Token], other: list[Token]) -> int:
    count = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours.word != theirs.word:
            break
        count += 1
    return count


def _within_sentence(before: list[Token], after: list[Token]) -> tuple[list[Token], list[Token]]:
    begins = max((place + 1 for place, token in enumerate(before) if token.word == "."), default=0)
    ends = next((place for place, token in enumerate(after) if token.word in ".="), len(after))
    return before[begins:], after[:ends]


def _is_number(value: list[Token]) -> bool:
    return any(token.numeric for token in value)


def _is_attribute(subject: list[Token], new: list[Token], old: list[Token]) -> bool:
    words = {normalise_word(token.word) for token in subject}
    if words & _ATTRIBUTES:
        return True
    particular = subject[0].word in _DEFINITE or any(
        not token.named and strip_possessive(token.word) not in STOP_WORDS for token in subject[1:]
    )
    return particular and all(any(token.named for token in value) for value in (new, old))


def _is_last(before: list[Token], after: list[Token]) -> bool:
    """Whether a value is last, as in "broker port 4222", and no other number is before it."""
    words = [token for token in before if token.word not in STOP_WORDS]
    return not after and len(words) >= 2 and not any(token.numeric for token in words)
