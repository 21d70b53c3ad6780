"""What kind of thing a question asks for (a person, a time, a number, a list), and if a sentence has it."""

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from shared.contracts import Hit
from shared.language.times.time_phrases import MONTH_NAMES, WEEKDAY_NAMES
from shared.text.prose import EMPTY_WORDS, find_stems, find_terms, stem_term

CALENDAR = frozenset({*MONTH_NAMES, *WEEKDAY_NAMES, "christmas", "easter"})
"""Words with a capital that name times."""
_TIME = re.compile(
    rf"\d|\b(?:{'|'.join(CALENDAR)})s?\b|\b(?:(?:week)?days?|weeks?|weekends?|months?|quarters?|years?|sprints?|hours?|minutes?"
    r"|seconds?|noon|midnight|mornings?|afternoons?|evenings?|nights?|spring|summer|autumn|fall|winter|easter|christmas|daily"
    r"|weekly|monthly|yearly|hourly|annually|today|tomorrow|yesterday|now|soon|later|before|after|when|once|until|since|never"
    r"|always|during|half|past|o.?clock|second|third|fourth|fifth|sixth|last|first)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:no|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand"
    r"|million|dozen|half|quarter|double|twice|none|both|all)\b",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"[€$£]|\b(?:eur|usd|euros?|dollars?|pounds?|francs?|cents?|free|gratis|budget)\b", re.IGNORECASE
)
_AGE = re.compile(r"\b(?:years?|born|aged?|months?|old|since)\b", re.IGNORECASE)
_DIGITS = re.compile(r"\d(?:[ /-]?\d){2}")
_WEIGHT = re.compile(
    r"(?i)\d\s*(?:kg|g|t|lbs?)\b|\b(?:kilos?|kilograms?|grams?|tons?|tonnes?|pounds?|ounces?|light|heavy)\b"
)
_COLOUR = re.compile(
    r"\b(?:red|green|blue|yellow|orange|purple|violet|pink|brown|black|white|gr[ae]y|beige|teal|navy|cyan|magenta|gold"
    r"|silver|ivory|turquoise|#[0-9a-f]{3,8})\b",
    re.IGNORECASE,
)
_PEOPLE = re.compile(
    r"\b(?:team|group|staff|finance|legal|marketing|sales|support|everyone|everybody|nobody|anyone|people|users?|customers?"
    r"|administrators?|engineers?|developers?|designers?|managers?|volunteers?|colleagues?|interns?|company|agency"
    r"|departments?|partners?|sister|brother|i|we|he|she|they)\b",
    re.IGNORECASE,
)
_SPEAKER = re.compile(r"^\W*(?:\d+:\d+\W+)?(?:FYI|(?:\w+\s+from\s+)?[A-ZÀ-Þ]\w*):\s+")
"""What stands before a message: who wrote it says nothing about what it says."""
_CAPITAL = re.compile(r"\b[A-ZÀ-Þ][\w’'-]*")
_WORD = re.compile(r"[\w-]+")
_HOW_MANY = re.compile(r"\bhow\s+many\s+([\w-]+)", re.IGNORECASE)
_BETWEEN = 3  # Words from a number to what it counts


def _has_person(question: str, sentence: str) -> bool:
    asked = {word.lower() for word in _WORD.findall(question)}
    sentence = _SPEAKER.sub("", sentence)
    named = (word.lower() for word in _CAPITAL.findall(sentence))
    return bool(_PEOPLE.search(sentence)) or any(
        word not in asked and word not in EMPTY_WORDS and word.removesuffix("s") not in CALENDAR
        for word in named
    )


def _has_count(question: str, sentence: str) -> bool:
    """A number; if the sentence names what is counted, the number stands before it."""
    asked = _HOW_MANY.search(question)
    if not _NUMBER.search(sentence):
        return False
    if not asked or stem_term(asked[1]) not in find_stems(sentence):
        return True
    words = _WORD.findall(sentence)
    return any(
        _NUMBER.search(word) and stem_term(asked[1]) in map(stem_term, words[place : place + _BETWEEN + 1])
        for place, word in enumerate(words)
    )


def _holds(pattern: re.Pattern[str]) -> Callable[[str, str], bool]:
    return lambda _, sentence: bool(pattern.search(sentence))


_PLACE = re.compile(
    r"\b(?:in|on|at|under|below|behind|beside|above|over|near|next\s+to|between|inside|outside|from|to|into|onto|opposite"
    r"|against|around|with)\s+(?:(?:the|our|an?|his|her|its|their|my|your|room)\s+)?(?P<where>[\w-]+)"
    r"|\b(?:upstairs|downstairs|here|there|home|street|road|floor|basement|cellar|room|https?)\b|\w/\w|#\w",
    re.IGNORECASE,
)
_NO_PLACE = re.compile(
    rf"(?:\d.*|(?:{'|'.join(CALENDAR)})s?|one|two|three|four|five|six|seven|eight|nine|ten|half|noon|midnight|first|least|most"
    r"|once|all|any|each|every|times?|order|case|this|that|it|them|us|me|him|days?|weeks?|months?|morning|evening|afternoon"
    r"|night|spring|summer|autumn|winter)",
    re.IGNORECASE,
)
"""What may stand behind "at" or "on" and is no place: a time, an amount, "it"."""


def _has_place(question: str, sentence: str) -> bool:
    """A word of place, or what "in" or "at" stands before; not a time, and not what the question has."""
    asked = {stem_term(word) for word in _WORD.findall(question)}
    return any(
        not found["where"]
        or not (_NO_PLACE.fullmatch(found["where"]) or stem_term(found["where"].lower()) in asked)
        for found in _PLACE.finditer(_SPEAKER.sub("", sentence))
    )


_AMOUNT = re.compile(
    r"^\W*(?:how\s+(?:many|old|heavy)|what(?:['’]s|\s+(?:is|are|was|does|do|did))\b.*\b"
    r"(?:(?:phone|telephone|fax)\s+number|extension|costs?|price|salary|wage|rent))\b",
    re.IGNORECASE,
)
"""What only a number answers."""
_EXPECTED: tuple[tuple[str, re.Pattern[str], Callable[[str, str], bool]], ...] = tuple(
    (kind, re.compile(asked, re.IGNORECASE), has)
    for kind, asked, has in (
        ("exact", r"\b(?:phone|telephone|fax)\s+number\b|\bextension\b", _holds(_DIGITS)),
        ("exact", r"\b(?:cost|costs|price|salary|wage|earn|earns|paid\s+for|rent)\b", _holds(_MONEY)),
        ("exact", r"^\W*how\s+much\s+(?:is|are|was|were)\s+(?:the|our|an?|my|\w+)\b", _holds(_MONEY)),
        ("exact", r"\bhow\s+old\b", lambda _, text: bool(_AGE.search(text) and _NUMBER.search(text))),
        ("exact", r"\bhow\s+(?:heavy|much\s+does\b.*\bweigh)\b", _holds(_WEIGHT)),
        ("exact", r"\bwhat\s+(?:colou?r)\b", _holds(_COLOUR)),
        ("time", r"\bhow\s+(?:long|soon|often|frequently)\b", _holds(_TIME)),
        (
            "time",
            r"^\W*(?:since\s+|until\s+|till\s+|by\s+)?when\b|\b(?:what|which)\s+(?:time|date|hour|day|weekday|month|year)\b"
            r"|\bbirthday\b",
            _holds(_TIME),
        ),
        (
            "count",
            r"\bhow\s+(?:many|much|tall|high|large|big|far|heavy|wide|deep|fast|cold|warm|hot)\b",
            _has_count,
        ),
        ("person", r"^\W*(?:(?:with|to|from|by|for|of)\s+)?who(?:m|se|['’]s)?\b", _has_person),
        ("place", r"^\W*where\b", _has_place),
    )
)
KINDS = ("exact", "time", "count", "person", "place")
"""The kinds of things that questions ask for; "exact" are prices, ages, colours and the like."""


def find_type(question: str, sentence: str) -> tuple[str, bool]:
    """The kind of thing that a question asks for, one of KINDS or empty, and whether ``sentence`` has it."""
    for kind, asked, has in _EXPECTED:
        if asked.search(question):
            return kind, has(question, sentence)
    return "", True


def lacks_amount(question: str, sentence: str) -> bool:
    """Whether a question can only be answered with a number (a price, a telephone number, how many), and
    ``sentence`` has none.
    """
    told = _SPEAKER.sub("", sentence)
    if (asked := _HOW_MANY.search(question)) and stem_term(asked[1]) in find_stems(told):
        return not (_has_count(question, told) or re.search(rf"(?i)\b{asked[1]}:?\s+\d", told))
    return bool(_AMOUNT.search(question)) and not (_NUMBER.search(told) or find_type(question, told)[1])


_YES_NO = re.compile(
    r"^\W*(?:(?:so|and|but|or|hey|please|ok)\W+)*(?:do|does|did|is|are|was|were|has|have|had|can|could|may|might|must|should"
    r"|will|would|got|any)\b(?!\s+(?:you|we|i|they)\s+(?:know|remember|recall|tell)\b)",
    re.IGNORECASE,
)
NEAR = 0.7
"""How near a sentence comes at least to the last word of meaning of a question for yes or no: with 20 of them
.77 to .99 where it speaks of that, and .45 to .67 where it does not."""
_PASSING = frozenset(map(stem_term, ("today", "already", "currently", "anymore", "yet", "nowadays")))


def lacks_object(question: str, near: Mapping[str, float]) -> bool:
    """Whether a question is for yes or no ("Do we ship by FedEx?"), and a sentence does not speak of its last
    word of meaning; ``near`` is how near it comes to each word.
    """
    words = [word.lower() for stem, word in find_terms(question).items() if stem not in _PASSING]
    return bool(_YES_NO.match(question) and words) and near.get(words[-1], 1.0) < NEAR


def adds_nothing(question: str, sentence: str) -> bool:
    """Whether a sentence has no word beside those of a question for more than yes or no: a bare heading."""
    told = find_terms(_SPEAKER.sub("", sentence)).keys()
    wants = not _YES_NO.match(question) and find_type(question, "")[0] != "time"
    return wants and told <= find_terms(question).keys()


def fits_type(question: str, sentence: str) -> bool:
    """Whether ``sentence`` has what ``question`` asks for: a person for "who", a time for "when", a number
    for "how many", a place for "where". True for questions that tell no type, such as those with "what".
    """
    return find_type(question, sentence)[1]


_TOPIC = re.compile(
    r"\W*(?:what\s+(?:else\s+)?(?:should|must|do|can|does|did)\s+(?:i|we|you|memory)\s+(?:need\s+to\s+|have\s+to\s+)?"
    r"(?:know|have|remember|hold|keep)\s+(?:about|of|on)|what\s+is\s+known\s+(?:about|of)"
    r"|what\s+did\s+we\s+(?:decide|agree)\s+(?:about|on|for)|what\s+(?:was|has\s+been)\s+(?:decided|agreed)\s+(?:about|on|for))"
    r"\s+(?P<topic>[^?]{2,80}?)\W*",
    re.IGNORECASE,
)
MOST = 100  # Hits among which those of a month are looked for


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched for, in which kinds (in all, if none); what is kept has all ``terms``."""

    text: str
    kinds: tuple[str, ...] = ()
    terms: frozenset[str] = frozenset()

    def keep(self, hits: Sequence[Hit]) -> list[Hit]:
        """The hits that belong to it."""
        return [
            hit
            for hit in hits
            if self.terms <= find_stems(f"{hit.node.title} {hit.node.body} {' '.join(hit.node.tags)}")
        ]


def read_listed(question: str) -> Listed | None:
    """What a question wants listed about a topic; None if it asks for one thing."""
    if (asked := _TOPIC.fullmatch(question)) and (terms := find_terms(asked["topic"])):
        decided = re.search(r"(?i)\b(?:decide|agree)", question[: asked.start("topic")])
        return Listed(text=asked["topic"], kinds=("decision",) if decided else (), terms=frozenset(terms))
    return None
