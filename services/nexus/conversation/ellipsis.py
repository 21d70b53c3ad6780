"""Ellipses: "and tomorrow?" is the message before with another day, "what about Ana?" with another name."""

import math
import re

from services.nexus.routing.request import GOAL
from shared.language.sayings import read_sayings
from shared.language.utterance import read_utterance

WAYS = read_sayings(__file__, "ellipsis")

_STOP = frozenset(
    "a an the my our your his her their its this that these those is are was were be been am do does"
    " did has have had can"
    " could will would should shall may might must not no who whom whose what which when where why"
    " how many much any some all"
    " i we you he she it they there me us him them of for on in at to from by with about into over"
    " and or but if so then"
    " please just also only still yet again today tomorrow yesterday tonight now ever".split()
)


def swap(before: str, other: str) -> str:
    """The message ``before`` with ``other`` in place of what is of its kind: a time, a number, a name."""
    before, other = before.strip(), other.strip(" ?.!,")
    if read_utterance(other).is_time:
        span = _find_time(before, other)
    else:
        span = _find_quantity(before, other) or _find_name(before, other)
    if span:
        start, end, new = span
        return f"{before[:start]}{new}{before[end:]}"
    body, mark = re.fullmatch(r"(.*?)([?.!]*)", before, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"{body} {other}{mark}"


Span = tuple[int, int, str]  # Where to replace, and by what


def swap_alike(before: str, other: str) -> str:
    """The statement ``before`` with ``other`` for a time, a number or a thing of the same noun; or "".

    Nothing is replaced unless exactly one part of ``before`` is of its kind.
    """
    other = other.strip(" ?.!,")
    if read_utterance(other).is_time:
        kinds = (("clock", "clock_begins"), ("day", "day_begins"))
        named = [len(WAYS[begins].findall(before)) for kind, begins in kinds if WAYS[kind].search(other)]
        span = _find_time(before, other) if named and max(named) == 1 else None
    elif re.fullmatch(r"\d[\d.,]*\s*(?:%|percent)?", other):
        span = _find_quantity(before, other) if len(WAYS["quantity"].findall(before)) == 1 else None
    else:
        span = _find_same_noun(before, other)
    return f"{before[: span[0]]}{span[2]}{before[span[1] :]}" if span else ""


def _find_same_noun(before: str, other: str) -> Span | None:
    """The noun phrase of ``before`` with the last word of ``other``, which has another one before it."""
    words = other.lower().split()
    if not WAYS["determined"].match(other) or len(words) > MAX_PHRASE:
        return None
    phrases = [span for span in map(_trim, WAYS["nouns"].finditer(before)) if span]
    alike = [(start, end) for start, end in phrases if before[start:end].lower().split()[-1] == words[-1]]
    return (*alike[0], other) if len(alike) == 1 else None


MAX_PHRASE = 5


def find_subject(message: str) -> str:
    """What a message is about, with what belongs to it ("Ana's birthday"); empty if it names nothing."""
    if goal := GOAL.search(message):
        return goal[0]
    for find in (_linked_noun, _phrase_noun, _name_noun, _subject_noun, _asked_noun):
        if found := find(message):
            return message[found[0] : _end_of_possession(message, found[1])]
    return ""


def _end_of_possession(message: str, end: int) -> int:
    """Where a noun phrase ends that may end in "Ana's": behind what she has."""
    if not re.search(r"['’]s$", message[:end]):
        return end
    for word in WAYS["word"].finditer(message[end:]):
        if word[0].lower() in (*_STOP, *_VERBS) or message[end:][: word.start()].strip(" -'’"):
            break
        return end + word.end()
    return end


def _find_time(before: str, other: str) -> Span | None:
    has_clock = WAYS["clock"].search(other)
    has_day = WAYS["day"].search(WAYS["clock"].sub(" ", other))
    whole = WAYS["whole_clock" if has_clock and not has_day else "whole_day"]
    found = whole.search(before)
    if not found and has_clock and not has_day:
        found = re.search(r"\bat\s+\d{1,2}\b", before, re.IGNORECASE)
    if not found:
        return None
    new, end = other, found.end()
    if has_clock and has_day and (clock := WAYS["then_clock"].match(before[end:])):
        end += clock.end()
    if other.lower() == "the day after" and found[0].lower() == "tomorrow":
        return found.start(), found.end(), "the day after tomorrow"
    if other.lower() == "the day after":
        named = re.sub(r"(?i)^(?:on|at|by|until|this|next)\s+", "", found[0])
        return found.start(), found.end(), f"the day after {named}"
    lead = re.match(r"(?:on|at|by|until)\s+", found[0], re.IGNORECASE)
    if lead and not re.match(
        r"(?:on|at|by|until|in|next|this|last|tomorrow|today|now|every)\b", new, re.IGNORECASE
    ):
        new = lead[0] + new
    return found.start(), end, new


def _find_quantity(before: str, other: str) -> Span | None:
    if not re.fullmatch(r"\d[\d.,]*\s*(?:%|percent)?", other):
        return None
    amounts = list(WAYS["quantity"].finditer(before))
    percent = "%" in other or "percent" in other
    alike = [each for each in amounts if ("%" in each[0] or "percent" in each[0]) == percent]
    if not alike:
        return None
    chosen = alike[-1]
    if not percent and len(amounts) > 1 and "%" in amounts[0][0]:  # "and 20?" after "15% of 860"
        chosen = min(amounts, key=lambda each: abs(math.log10((_number(each[0]) + 1) / (_number(other) + 1))))
        other += "%" * ("%" in chosen[0])
    return chosen.start(), chosen.start() + len(chosen[0].rstrip()), other


def _number(amount: str) -> float:
    return float(re.sub(r"[^\d.]", "", amount).strip(".") or 0)


def _find_name(before: str, other: str) -> Span | None:
    if linked := WAYS["preposition"].match(other):
        found = re.search(rf"\b{linked['prep']}\s+(?:{WAYS.expand('linked_name')})", before)
        if found and not read_utterance(found[0]).is_time:
            return found.start(), found.end(), other
        if linked["prep"].lower() not in ("of", "for", "about"):
            return None
    if one := WAYS["one"].fullmatch(other):
        found = WAYS["kind_of_thing"].search(before)
        return (found.start("kind"), found.end("kind"), one["kind"]) if found else None
    bare = re.sub(r"(?i)^(?:for|of|about|on|with|from|by|at)\s+", "", other)
    return _find_noun(before, bare)


def _find_noun(before: str, other: str) -> Span | None:
    """The noun phrase of ``before`` that is most like ``other``: of the same head, or a name."""
    words = [word.lower() for word in WAYS["word"].findall(other)]
    phrases = [span for span in map(_trim, WAYS["nouns"].finditer(before)) if span]
    if words:
        head = words[-1].rstrip("s")
        for start, end in phrases:
            if before[start:end].lower().split()[-1].rstrip("s") == head:
                return start, end, other
    name = _name_noun(before)
    if name and not WAYS["determined"].match(other):
        return (*name, other)
    for find in (_linked_noun, _asked_noun, _phrase_noun, _subject_noun):
        if found := find(before):
            return (*found, _with_determiner(before[found[0] : found[1]], other))
    return None


def _with_determiner(old: str, new: str) -> str:
    """``new`` with what it leaves out of ``old``: "silver" for "the gold plan" is "the silver plan"."""
    first, *rest = old.split()
    if not rest or not re.fullmatch(r"[a-z][\w-]*", new) or not WAYS["determiner"].fullmatch(first):
        return new
    return " ".join([first, new, *rest[1:]])


def _trim(found: re.Match[str]) -> tuple[int, int] | None:
    """The phrase up to its last noun: it ends before a verb, a preposition or a time."""
    start, end = found.start("name"), found.start("name")
    for word in WAYS["word"].finditer(found["name"]):
        lower = word[0].lower().strip(".")
        if lower in _STOP or lower in _VERBS or (end > start and lower.endswith(("ed", "ing"))):
            break
        end = found.start("name") + word.start() + len(word[0].rstrip("."))
    return (found.start(), end) if end > start else None


_VERBS = frozenset(
    "run runs use uses used ship ships start starts end ends close closes open opens go goes come"
    " comes live lives stand stands"
    " work works need needs cost costs take takes happen happens mean means say says called done due"
    " failed fail fails"
    " deploy deploys".split()
)


def _name_noun(before: str) -> tuple[int, int] | None:
    days = [each.span() for each in WAYS["whole_day"].finditer(before)]
    names = [
        each
        for each in WAYS["names"].finditer(before)
        if not read_utterance(each[0]).is_time and not any(start <= each.start() < end for start, end in days)
    ]
    return names[-1].span() if names else None


def _asked_noun(before: str) -> tuple[int, int] | None:
    found = WAYS["asked"].search(before)
    if not found or found["name"].lower() in (*_STOP, "time", "day", "date"):
        return None
    second = re.match(r"\s+(?P<head>\w+s)\b", before[found.end() :])
    if second and second["head"].lower() not in (*_STOP, *_VERBS):
        return found.end() + second.start("head"), found.end() + second.end("head")
    return found.span("name")


def _linked_noun(before: str) -> tuple[int, int] | None:
    """The noun behind the last preposition, if it ends the message."""
    found = WAYS["linked"].search(WAYS["time_at_end"].sub("", before))
    if (
        not found
        or read_utterance(f"{found['prep']} {found['name']}").is_time
        or read_utterance(found["name"]).is_time
    ):
        return None
    return found.span("name")


def _phrase_noun(before: str) -> tuple[int, int] | None:
    phrases = [span for span in map(_trim, WAYS["nouns"].finditer(before)) if span]
    return phrases[-1] if phrases else None


def _subject_noun(before: str) -> tuple[int, int] | None:
    found = WAYS["subject"].search(before)
    if not found or found["name"].lower() in _STOP:
        return None
    return found.span("name")
