"""What a request says: what is compared with the examples of playbooks, and whether it may begin at all."""

import re
from collections.abc import Mapping

from services.conductor.playbook import Playbook
from shared.language.sayings import read_sayings
from shared.text.prose import PATH_IN_TEXT, URL_IN_TEXT, split_sentences

WAYS = read_sayings(__file__, "requests")
SEVERAL = WAYS["several"]


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
    named = [sentence for sentence in told if WAYS["place"].search(sentence)] or told[:1]
    orders = [sentence for sentence in named if not sentence.rstrip().endswith("?")]
    begins = [WAYS["courtesy"].sub("", each) for each in orders]
    if any(map(WAYS["condition"].match, begins)) or any(map(WAYS["condition_after"].search, orders)):
        return "The request has a condition, and without a model nothing waits for it"
    forbidden = [each for each in orders if WAYS["forbids"].match((_find_requests(each) or [each])[-1])]
    return "The request says what is not to be done" if forbidden and forbidden == named else ""


def names_later_time(text: str) -> bool:
    """Whether ``text`` says at its beginning or end that work on a place is to begin later, or repeatedly."""
    told = split_sentences(PATH_IN_TEXT.sub("PATH", URL_IN_TEXT.sub("URL", text)))
    orders = [each for each in told if "PATH" in each and not each.rstrip().endswith("?")]
    begins = [WAYS["courtesy"].sub("", each) for each in orders]
    return any(map(WAYS["later_first"].match, begins)) or any(map(WAYS["later_last"].search, orders))


def _find_requests(text: str) -> list[str]:
    """What is asked for in a place, without what is told before and after it, and without courtesies."""
    found = []
    for sentence in split_sentences(text):
        if not WAYS["place"].search(sentence):
            continue
        bare = WAYS["told_before"].sub("", WAYS["courtesy"].sub("", sentence))
        bare = WAYS["courtesy"].sub("", WAYS["told_after"].sub("", bare).strip(" .,!?"))
        found += [each for each in dict.fromkeys((sentence, bare)) if "PATH" in each or "URL" in each]
    return found
