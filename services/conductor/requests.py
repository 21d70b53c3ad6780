"""What a request says: what is compared with the examples of playbooks, and whether it may begin at all."""

import re
from collections.abc import Mapping

from services.conductor.playbook import Playbook
from shared.text.places import PATH_IN_TEXT, URL_IN_TEXT
from shared.text.sentences import split_sentences

SEVERAL = re.compile(
    r"PATH(?:(?:\s*(?:\b(?:and|or)\b|&)\s*(?:\b(?:of|in|at|also|for|those|the tests)\b\s*)*|\s+)PATH)+"
)
"""Several paths in a row: such a request is compared as if it named one, too."""
_PLACE = re.compile(r"\b(?:PATH|URL)\b")
_COURTESY = re.compile(
    r"(?i)^\W*(?:(?:hey|hi|hello|ok(?:ay)?|so|please|pls|kindly|just|also|then|now|well|and"
    r"|(?:can|could|would|will)\s+(?:you|u|someone|somebody|we)|(?:it\s+would|['’]?d|would)\s+be\s+\w+\s+if"
    r"|(?:i|we)(?:['’]?d|\s+would)?\s+(?:want|need|like|love)(?:\s+(?:you|it))?\s+(?:to|if|that\s+you)"
    r"|(?:get|have|ask|tell|let)\s+(?:the\s+)?(?:engineer|critic|scout|team|agents?|someone|somebody)(?:\s+to)?|go\s+ahead\s+and)\b[\s,!:]*)+"
)
_TOLD_BEFORE = re.compile(r"^.*(?:[,;:]|\s[–—-])\s+(?=(?:\S+\s+){1,9}PATH)")
"""What comes before the last clause that names the folder: "long story short, run the tests of PATH"."""
_TOLD_AFTER = re.compile(
    r"(?i)(?<=PATH)(?:[\s,]+(?:again|please|pls|thanks|thx|for\s+me|now|asap|today|first|ok|once\s+more|so\s+(?:that\s+)?(?:i|we)\b.*"
    r"|because\b.*|since\b.*|would\s+you|will\s+you|will\s+ya))+\W*$"
)
"""What comes after it and asks for nothing."""
_FORBIDS = re.compile(
    r"(?i)\W*(?:(?:please|pls|just|ok(?:ay)?|so|and|but|now|you)\b[\s,]*)*(?:(?:do\s+not|don['’]?t|dont|must\s+not|mustn['’]?t"
    r"|should\s+not|shouldn['’]?t|never(?!\s+mind)|stop|avoid|refrain\s+from|hold\s+off|no\s+need\s+to)\b"
    r"|(?:tell|ask|remind)\s+\S+\s+not\s+to\b)"
)
_EASY = (
    r"(?!\s+(?:possible|necessary|needed"
    r"|(?:you|u)\s+(?:can|could|would|have|get|want|like|don['’]?t\s+mind|are\s+able))\b)"
)
"""What makes no condition: "if you can"."""
_CONDITION = re.compile(
    rf"(?i)\W*(?:(?:if|when|whenever|once){_EASY}|unless|until|as\s+soon\s+as|before|after|instead\s+of|rather\s+than)\s+[^,]+"
    r"(?:,|PATH\s+\w)"
)
_CONDITION_AFTER = re.compile(
    rf"(?i)\bPATH\S*\s+(?:(?:only\s+)?(?:if|when){_EASY}|unless|until|as\s+soon\s+as|once\s+\w+\s+\w+)\b"
)
_CLOCK = r"(?:[01]?\d|2[0-3])(?:[:.][0-5]\d)?(?:\s*[ap]\.?m\b\.?)?"
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_LATER = (
    rf"(?:tonight|tomorrow(?:\s+(?:morning|afternoon|evening|night))?|overnight|after\s+work|while\s+i\s+sleep|at\s+{_CLOCK}"
    rf"|(?:every|each)\s+(?:\w+\s+)?(?:hours?|days?|nights?|mornings?|evenings?|weekdays?|weeks?|months?|{_DAY})"
    rf"|in\s+(?:\d+|an?|half\s+an)\s+hours?|next\s+(?:week|{_DAY}))"
)
_LATER_FIRST = re.compile(rf"(?i)\W*{_LATER}(?:,|\s+(?:at\s+)?{_CLOCK}\b|\s+(?=\w+\b.*\bPATH))")
_LATER_LAST = re.compile(
    rf"(?i)\bPATH\b.*\b{_LATER}(?:\s+(?:at\s+)?{_CLOCK})?(?:[\s,]+(?:please|pls|thanks))?\W*$"
)


def variants(text: str, playbooks: Mapping[str, Playbook]) -> list[tuple[str, Playbook | None]]:
    """``text`` with placeholders, to be compared with examples: once with PATH and URL, once as if it named
    one path if it names several, once the request alone if more is said around it, and
    once more with TOPIC for each playbook that takes a topic.
    """
    general = URL_IN_TEXT.sub("URL", text)
    general = PATH_IN_TEXT.sub("PATH", general)
    asked: list[tuple[str, Playbook | None]] = [(general, None)]
    if (single := SEVERAL.sub("PATH", general)) != general:
        asked.append((single, None))
    asked += [(request, None) for request in _find_requests(single) if request != single]
    for playbook in playbooks.values():
        for parameter in playbook.parameters.values():
            found = re.search(parameter.pattern, general, re.IGNORECASE) if parameter.kind == "text" else None
            # A place is no topic: "the documents of PATH" does not ask for papers, nor does "PATH for ...".
            if (
                found
                and not found["value"].startswith(("PATH", "URL"))
                and "PATH" not in general[: found.start()]
            ):
                start, end = found.span("value")
                asked.append((general[:start] + "TOPIC" + general[end:], playbook))
    return asked


def find_reservation(text: str) -> str:
    """Why ``text`` asks for nothing that can begin now: it forbids it, or has a condition; else empty.

    Sentences are compared by what they are about: "do not run the tests of PATH" would run them. The front
    desk starts no work if any part of a message forbids something; of a submission the clause that names the
    place decides, so that "lint PATH, but do not fix anything" is done.
    """
    told = split_sentences(URL_IN_TEXT.sub("URL", PATH_IN_TEXT.sub("PATH", text)))
    named = [sentence for sentence in told if _PLACE.search(sentence)] or told[:1]
    orders = [sentence for sentence in named if not sentence.rstrip().endswith("?")]
    if any(_CONDITION.match(_COURTESY.sub("", each)) or _CONDITION_AFTER.search(each) for each in orders):
        return "The request has a condition, and without a model nothing waits for it"
    forbidden = [each for each in orders if _FORBIDS.match((_find_requests(each) or [each])[-1])]
    return "The request says what is not to be done" if forbidden and forbidden == named else ""


def names_later_time(text: str) -> bool:
    """Whether ``text`` says at its beginning or end that work on a place is to begin later, or repeatedly."""
    told = split_sentences(PATH_IN_TEXT.sub("PATH", URL_IN_TEXT.sub("URL", text)))
    orders = [each for each in told if "PATH" in each and not each.rstrip().endswith("?")]
    return any(_LATER_FIRST.match(_COURTESY.sub("", each)) or _LATER_LAST.search(each) for each in orders)


def _find_requests(text: str) -> list[str]:
    """What is asked for in a place, without what is told before and after it, and without courtesies."""
    found = []
    for sentence in split_sentences(text):
        if not _PLACE.search(sentence):
            continue
        bare = _TOLD_AFTER.sub("", _TOLD_BEFORE.sub("", _COURTESY.sub("", sentence))).strip(" .,!?")
        bare = _COURTESY.sub("", bare)
        found += [each for each in dict.fromkeys((sentence, bare)) if "PATH" in each or "URL" in each]
    return found
