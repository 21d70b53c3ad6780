"""English prose: sentences, words and their stems, paths and addresses, and what a question is about."""

import re
import threading
from collections.abc import Callable
from functools import cache, lru_cache

from shared.text.display import shorten

MAX_STEMMED = 20  # Longer words, and words with a digit, are names of things: they are not stemmed

STOP_WORDS = frozenset(
    """
    a an and are as at be been but by did do does for from had has have he her his i in is it its me my of on
    or our she that the their them they this to was we were what when which who will with would you your
    """.split()
)
"""Articles, pronouns, auxiliaries, prepositions and the commonest question words. A module that needs more
adds them to this set, and says why."""

EMPTY_WORDS = STOP_WORDS | frozenset(
    """
    about again all also am any anyone anything ask before being can could doing done down get give here
    him how if into just know let like many mean might more most much must need no not now off once one
    out over own please recall regarding remember say shall should so some someone something still such
    tell than then there these thing things think those too under until up us very want where while whom
    whose why yet
    """.split()
)
"""The stop words, and words of which requests and questions are made."""

IRREGULAR = dict(
    pair.split(":")
    for pair in "found:find built:build ran:run wrote:write written:write chose:choose chosen:choose "
    "broke:break broken:break made:make said:say sent:send kept:keep left:leave met:meet paid:pay".split()
)
"""Irregular forms of verbs that are common in requests."""

_WORD = re.compile(r"[^\W_]+")

_lock = threading.Lock()  # Held while a word is stemmed: the stemmer keeps the word it works on in itself


def stem(word: str) -> str:
    """The Snowball (English) stem of a lower-case word, so that deploy, deploys and deployed are one.

    Takes about 30 us; callers that stem the same words again should cache. Safe in any thread.
    """
    if len(word) > MAX_STEMMED or any(map(str.isdigit, word)):
        return word
    with _lock:
        return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    import snowballstemmer

    stem_word: Callable[[str], str] = snowballstemmer.stemmer("english").stemWord
    return stem_word


@lru_cache(maxsize=20_000)
def stem_term(word: str) -> str:
    """The stem of a word in any case, cached; irregular forms have that of their verb."""
    lower = word.lower()
    return stem(IRREGULAR.get(lower, lower))


def find_terms(text: str) -> dict[str, str]:
    """The words of ``text`` that are not EMPTY_WORDS, by their stems, in their order."""
    terms: dict[str, str] = {}
    for word in _WORD.findall(re.sub(r"['’]s\b", "", text)):
        if word.lower() not in EMPTY_WORDS and (len(word) > 1 or word.isdigit()):
            terms.setdefault(stem_term(word), word)
    return terms


def find_stems(text: str) -> frozenset[str]:
    """The stems of all words of ``text``."""
    return frozenset(map(stem_term, _WORD.findall(text)))


SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")  # The white space between two sentences

_END = re.compile(r"[.!?](?=\s)")
_LIST_MARKS = re.compile(r"^\s*(?:[-*•#>]+\s+)+")


def split_sentences(text: str) -> list[str]:
    """The sentences and lines of ``text``, without leading marks of headings, lists and quotations."""
    parts = SENTENCE_BREAK.split(text)
    return [sentence for part in parts if (sentence := _LIST_MARKS.sub("", part).strip())]


def last_sentence_end(text: str, limit: int) -> int:
    """The length of the whole sentences within the first ``limit`` characters; 0 if not even one fits."""
    return max((match.end() for match in _END.finditer(text[: limit + 1])), default=0)


MAX_TITLE = 256  # The longest title of a node, in characters
MIN_TITLE = 10  # A shorter first sentence is joined with the next one

_TITLE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[^a-z\s])|(?<=[。！？])(?=.)|\n+")


def split_title(text: str) -> tuple[str, str]:
    """A title made of the first sentence, and the body: the whole text if that is longer, else "".

    Line breaks end a sentence too. A sentence of more than 256 characters is cut between words.
    """
    whole = text.strip()
    title = " ".join(_first_sentence(whole).split())
    title = shorten(title, MAX_TITLE)
    return title, "" if title == whole else whole


def _first_sentence(text: str) -> str:
    for end in _TITLE_END.finditer(text):
        sentence = text[: end.end()].strip()
        if len(sentence) >= MIN_TITLE:
            return sentence
    return text


_FACTS = re.compile(r"\d[\d.,]*|\b[A-Z][\w-]*[A-Z0-9][\w-]*\b")
"""What a sentence must have from its sources: numbers, and names such as GPT-5."""
LEAST_SHARED = 0.5  # The least share of a sentence's words that its sources must have


def is_supported(sentence: str, known: str) -> bool:
    """Whether ``known``, all that it cites, has its numbers and names, and half of its words."""
    if any(fact.rstrip(".,") not in known for fact in _FACTS.findall(sentence)):
        return False
    said, held = find_terms(sentence).keys(), find_terms(known).keys()
    return bool(said) and len(said & held) >= LEAST_SHARED * len(said)


PATH_IN_TEXT = re.compile(
    r"""["'`“„«‘](?P<quoted>[/~][^"'`“”„«»‘’]+)["'`“”»’]"""
    r"""|(?<![\w/.])(?!(?<=:)//)(?P<bare>(?:~[\w.-]*)?/[^\s"'`“”„«»‘’]+|~/)"""
)
"""An absolute path: in quotes, or up to a space; not a slash alone, nor one inside a word or an address."""
URL_IN_TEXT = re.compile(r"(?i:https?)://[^\s\"'<>`“”„«»‘’]+")


def leave_out_places(text: str) -> str:
    """``text`` without paths and addresses; ``text`` itself if nothing else is in it.

    Two requests about one folder are alike for an embedding model whatever they ask for: of pairs of examples
    of different playbooks with one path, 4,124 of 6,700 have a cosine above .7, and without it 316.
    """
    left = " ".join(PATH_IN_TEXT.sub(" ", URL_IN_TEXT.sub(" ", text)).split())
    return left if re.search(r"\w", left) else text


_PAST = re.compile(
    r"\bused\s+to\b(?!\s+\w+ing\b)|\b(?:previous(?:ly)?|former(?:ly)?|originally|at\s+first|back\s+then|in\s+the\s+past"
    r"|history\s+of|no\s+longer|the\s+old|any\s*more)\b"
    r"|\bbefore\s*(?:that|then|now|the\s+change|it\s+changed|[?.!]*\s*$)"
    r"|\b(?:did|was|were|had)\b.{1,200}?\bbefore\b"
    r"|\b(?:what|who|whom|whose|which|when|where|how)\s+(?:[\w'’-]+\s+){0,4}?(?:was|were)\b(?!\s+(?:[\w'’-]+\s+){0,4}?"
    r"(?:\w{2,}ed|said|found|done|made|built|written|drawn|taken|chosen|set|sent|told|given|born|wrong)\b)",
    re.IGNORECASE,
)
"""Words that ask for the past. "What was decided" is left out: it asks for what holds."""


def asks_past(text: str) -> bool:
    """Whether ``text`` asks for what held once: "what was", "before", "used to", "previously"."""
    return bool(_PAST.search(text))


_AGENTS = r"(?:conductor|engineer|scout|critic|cortex|frontier|nexus)"
_WORK = re.compile(
    rf"\b(?:goals?|tasks?|check-?\s?ups?|episodes?|overnight|happened|worked\s+on|{_AGENTS}"
    r"|what\s+(?:did|has|have)\s+(?:you|the\s+(?:office|team|agents?)))\b",
    re.IGNORECASE,
)


def asks_about_work(text: str) -> bool:
    """Whether ``text`` asks what the office did: about goals, tasks, check-ups, or one of its agents."""
    return bool(_WORK.search(text))


LONGEST = 5  # The most words of a phrase

_NUMBERED = re.compile(r"\b([A-Za-z]{3,})[ -](\d{1,3}|[B-HJ-Z])\b(?![:.,]\d)")
"""A thing with its number or letter: lift 1, team B."""
_NAME_WORD = re.compile(r"[\w#@](?:[\w#@./:'’-]*\w)?")
_ARTICLES = frozenset("a an the our my your his her their its this that these those".split())
FUNCTION_WORDS = _ARTICLES | frozenset(
    """
    of in on at to for from by with without into over under is are was were be been being and or not as do
    does did has have had need needs take takes go goes get gets we you i it they he she who what which when
    where how
    """.split()
)
"""Words that end a phrase: it does not end with one of them."""
_UNNUMBERED = FUNCTION_WORDS | frozenset(
    """
    about above after all and any before below but can could did every few how just last least less more most
    next only over per some such than then till until under was what will would within
    january february march april may june july august september october november december
    """.split()
)
"""Words that have no number of their own."""


def find_phrases(question: str, text: str) -> frozenset[str]:
    """The phrases of ``question`` that stand in ``text`` as well, in lower case.

    A phrase is what follows an article or a pronoun such as "our", as many words of it as ``text`` has in the
    same order, or a name: a capitalised word within the question, or a thing with its number. "How many
    approvals does a release branch need?" and "A release branch needs two" share "release branch".
    """
    words, starts, names = _read_question(question)
    if not starts and not names:
        return frozenset()
    held = f" {' '.join(split_words(text))} "
    found = {_longest_run(words, start, held) for start in starts}
    found |= {name for name in names if f" {name} " in held}
    return frozenset(found - {""})


@lru_cache(256)
def _read_question(question: str) -> tuple[list[str], list[int], list[str]]:
    """Its words in lower case, the places where a phrase may begin, and its names."""
    words = [_strip(word) for word in _NAME_WORD.findall(question)]
    lower = [word.lower() for word in words]
    starts = [place + 1 for place, word in enumerate(lower) if word in _ARTICLES]
    names = [
        *map(" ".join, find_numbered(question)),
        *(word.lower() for word in words[1:] if word[0].isupper()),
    ]
    return lower, starts, names


def find_numbered(text: str) -> frozenset[tuple[str, str]]:
    """The things with a number or letter behind them, in lower case: "lift 1", "team B"."""
    found = {(thing.lower(), number.lower()) for thing, number in _NUMBERED.findall(text)}
    return frozenset(each for each in found if each[0] not in _UNNUMBERED)


def find_names(question: str) -> tuple[str, ...]:
    """The capitalised words within ``question``, without the first one."""
    words = [_strip(word) for word in _NAME_WORD.findall(question)[1:]]
    return tuple(word for word in words if word[0].isupper() and word != "I")


def count_missing(phrases: frozenset[str], text: str) -> int:
    """How many words the phrases have that do not stand in ``text``."""
    held = f" {' '.join(split_words(text))} "
    return sum(len(phrase.split()) for phrase in phrases if f" {phrase} " not in held)


def split_words(text: str) -> list[str]:
    """The words of a text in lower case, without "'s"."""
    return [_strip(word).lower() for word in _NAME_WORD.findall(text)]


def _strip(word: str) -> str:
    """A word without "'s"."""
    return word[:-2] if word.endswith(("'s", "’s")) else word


def _longest_run(words: list[str], start: int, held: str) -> str:
    end = start
    while end < min(len(words), start + LONGEST) and f" {' '.join(words[start : end + 1])} " in held:
        end += 1
    while end > start and words[end - 1] in FUNCTION_WORDS:
        end -= 1
    return " ".join(words[start:end])
