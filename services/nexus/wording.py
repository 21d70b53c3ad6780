"""Words: what a text is about, in a form in which test, tests and testing are one word."""

import re

EMPTY_WORDS = frozenset(
    """a about again all also am an and any anyone anything are as ask at be been before being but by can
    could did do does doing done down for from get give had has have he her here him his how i if in
    into is it its just know let like many me mean might more most much must my need no not now of off
    on once one or our out over own please recall regarding remember say shall she should so some
    someone something still such tell than that the their them then there these they thing things think
    this those to too under until up us very want was we were what when where which while who whom whose
    why will with would yet you your""".split()
)
"""Words that do not say what a text is about, question words among them."""

WORD = re.compile(r"[^\W_]+")
IRREGULAR = {
    "found": "find",
    "built": "build",
    "ran": "run",
    "wrote": "write",
    "written": "write",
    "chose": "choose",
    "chosen": "choose",
    "broke": "break",
    "broken": "break",
    "made": "make",
    "said": "say",
    "sent": "send",
    "kept": "keep",
    "left": "leave",
    "met": "meet",
    "paid": "pay",
}
"""Forms that no ending gives away, of words that offices use."""

ENDINGS = ("ations", "ation", "ings", "ing", "edly", "ed", "es", "s", "ly")


def stem(word: str) -> str:
    """``word`` without its commonest English endings: rough, but the same for the simple forms of a word."""
    word = IRREGULAR.get(word.lower(), word.lower())
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(ending)
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def find_terms(text: str) -> dict[str, str]:
    """The words that say what ``text`` is about, by their stems, in the order in which they stand there."""
    terms: dict[str, str] = {}
    for word in WORD.findall(re.sub(r"['’]s\b", "", text)):
        if word.lower() not in EMPTY_WORDS and (len(word) > 1 or word.isdigit()):
            terms.setdefault(stem(word), word)
    return terms


def find_stems(text: str) -> frozenset[str]:
    """The stems of all words of ``text``."""
    return frozenset(stem(word) for word in WORD.findall(text))


def split_sentences(text: str) -> list[str]:
    """The sentences and lines of ``text``, without the marks of headings, lists and quotes before them."""
    parts = re.split(r"(?<=[.!?])\s+|\n+", text)
    return [sentence for part in parts if (sentence := re.sub(r"^\s*(?:[-*•#>]+\s+)+", "", part).strip())]
