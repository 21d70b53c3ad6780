"""What short messages refer to: "the second one", "why?", "and who decided that?"."""

import re

from services.nexus.conversation.effects import ENDING, ENDS, end, has_effect, is_reading, stay
from services.nexus.conversation.ellipsis import find_subject
from services.nexus.conversation.mentions import find_goal, find_mentioned
from services.nexus.conversation.pending import Resolved
from shared.contracts import Conversation, ConversationTurn, Mentioned, Response
from shared.language.sayings import read_sayings
from shared.language.times.time_phrases import MONTH_NAMES, WEEKDAY_NAMES
from shared.language.utterance import Utterance, read_utterance

WAYS = read_sayings(__file__, "references")

MAX_WORDS = 14  # The most words of a question that is read for its pronouns
PERSON_TURNS = 3  # The turns, from the last one back, in which the person is looked for that a pronoun means
NOTHING_HELD = "Memory holds nothing"  # How an answer begins that has none: what it names besides is advice
_CITED = re.compile(r"\((?P<source>(?:[^()]*,\s*)?\d{4}-\d\d-\d\d)\)")
_DESK_WORDS = frozenset(
    f"tool:{name}"
    for name in "statement unclear refuse small_talk capabilities language correct remember forget".split()
)
"""The routes of answers in the desk's own words, which name nobody."""
_SOURCE = re.compile(r"\s*\((?:[^()]*,\s*)?\d{4}-\d\d-\d\d\)|\s*\[[\w-]+\]")
_DATE = re.compile(r"\((?:[^()]*,\s*)?(?P<day>\d{4}-\d\d-\d\d)\)")


_EVENT = re.compile(
    r"\w{3} (?P<day>\d{4}-\d\d-\d\d)(?: (?:to )?(?:\w{3} [\d-]+|\d\d:\d\d|\(all day\)))* (?P<title>\S.*)"
)
"""How an answer of the calendar tells an event."""


def ask_of_event(said: Utterance, conversation: Conversation) -> Resolved | None:
    """A question about the event that the calendar told of first: "how long is it?", "and after that?"."""
    turn = conversation.turns[-1]
    named = _EVENT.fullmatch(conversation.mentioned[0].text) if conversation.mentioned else None
    if turn.route != "tool:calendar" or named is None or said.length > MAX_WORDS:
        return None
    event = f"“{named['title']}” on {named['day']}"
    if beside := WAYS["beside"].fullmatch(said.plain):
        whole = f"What is {'before' if beside['before'] else 'after'} {event}?"
    elif (it := WAYS["of_event"].search(said.bare)) and not said.is_time:
        whole = f"{said.bare[: it.start()]}{event}{said.bare[it.end() :]}"
    else:
        return None
    return stay(whole, turn)


def find_numbered(said: Utterance, conversation: Conversation) -> Resolved | None:
    """A message that names by number what the last answer listed, with its id in place of the number."""
    text = said.text
    if other := _find_other(said, conversation):
        return other
    found = WAYS["named"].search(text)
    listed = conversation.mentioned
    alone = WAYS["alone"].fullmatch(said.plain)
    if not (found or alone) or said.length > MAX_WORDS:
        return None
    if not listed:
        return None
    word = found[0] if found else alone["place"] if alone else ""
    position = _position(word, len(listed))
    if position is None and len(listed) == 1 and has_effect(conversation.turns[-1]) and ENDING.match(text):
        position = 0  # "scratch that second one", after it was set as the second
    if position is None:
        return _not_listed(text, conversation) if found else None
    named = listed[position]
    if alone:
        whole = f"Show goal {named.ref}" if named.what == "goal" else f"Tell me more about {_describe(named)}"
    else:
        assert found
        if named.what in ENDS and ENDING.match(text):
            return end(named)
        whole = _name_in(text, found, _describe(named))
    return Resolved(text=whole, understood=whole)


def _find_other(said: Utterance, conversation: Conversation) -> Resolved | None:
    """A message about "the other one": what was told of before that which the last answer named alone."""
    found = WAYS["other"].search(said.text)
    last = [each for each in conversation.mentioned if each.what in ENDS]
    if found is None or len(last) != 1 or said.length > MAX_WORDS:
        return None
    what, ref = last[0].what, last[0].ref
    told = (find_mentioned(Response(text=turn.answer)) for turn in reversed(conversation.turns[:-1]))
    others = [each for named in told for each in named if each.what == what and each.ref != ref]
    if not others:
        return None
    if ENDING.match(said.text):
        return end(others[0])
    whole = f"{said.text[: found.start()]}{_describe(others[0])}{said.text[found.end() :]}"
    return Resolved(text=whole, understood=whole)


def _name_in(text: str, found: re.Match[str], named: str) -> str:
    """``text`` with ``named`` for what ``found`` names by number, also if "it" stands for that afterwards."""
    fronted = WAYS["front"].fullmatch(text[: found.start()]) and re.match(
        r"\s*[,:;–—-]\s*", text[found.end() :]
    )
    rest = text[found.end() + fronted.end() :] if fronted else ""
    if rest and (it := re.search(r"(?i)\b(?:it|that|this)\b", rest)):
        return f"{rest[: it.start()]}{named}{rest[it.end() :]}"
    return f"{text[: found.start()]}{named}{text[found.end() :]}"


def _not_listed(text: str, conversation: Conversation) -> Resolved:
    """That there is no such thing, said by what was to have listed it."""
    count = len(conversation.mentioned)
    named = f"only {count}" if count else "nothing"
    reply = f"My last answer named {named}, so I do not know what that is."
    last = conversation.turns[-1].route
    route = "tool:stop" if last in _STOPPED and ENDING.match(text) else last
    return Resolved(text=text, reply=reply, route=route)


_STOPPED = frozenset({"tool:queue", "tool:goals", "tool:schedule", "tool:night_job"})
"""The routes of answers that name what is stopped."""


def _position(word: str, count: int) -> int | None:
    named = read_utterance(word.replace("#", " "))
    if "last" in named.plain.split():
        return count - 1
    return named.ordinal - 1 if 1 <= named.ordinal <= count else None


def _describe(named: Mentioned) -> str:
    return (
        f"{named.what} {named.ref}"
        if named.what in ("goal", "reminder", "approval", "job", "schedule")
        else f"“{_SOURCE.sub('', named.text)[:200]}”"
    )


def refer(said: Utterance, conversation: Conversation) -> Resolved | None:
    """A question about what was said, with that in place of its pronoun; None for any other message."""
    text, words, turn = said.text, said.plain, conversation.turns[-1]
    if WAYS["again"].fullmatch(words):
        return Resolved(text=text, reply=turn.answer or "I had not answered yet.")
    if WAYS["whence"].fullmatch(words) and (source := _find_source(turn)):
        return Resolved(text=text, reply=source)
    if WAYS["more"].fullmatch(words):
        return _tell_more(turn)
    if re.fullmatch(r"(?:and )?who(?: is|'s) (?:that|this|he|she|it)", words):
        person = _find_person(conversation)
        return _ask(f"Who is {person}?") if person else None
    if bare := WAYS["bare"].fullmatch(words):
        return _expand(bare["word"], words, turn)
    asks = WAYS["asks"].fullmatch(said.bare)
    if not asks or said.length > MAX_WORDS or (WAYS["idiom"].search(text) and not find_goal(conversation)):
        return None
    if WAYS["orders"].match(asks["rest"]) and turn.route != "nexus" and not find_goal(conversation):
        return None
    whole = _replace_pronoun(asks["rest"], conversation)
    return _ask(whole[0].upper() + whole[1:]) if whole else None


def _find_source(turn: ConversationTurn) -> str:
    """Where the last answer has it from; empty if it names no source."""
    if turn.route in ("tool:remember", "tool:correct") and not turn.failed:
        return "You told me, in this conversation."
    source = _CITED.search(turn.answer) if turn.route == "nexus" else None
    if source and source["source"].startswith("nexus, "):
        return f"A person told me at the front desk, on {source['source'].removeprefix('nexus, ')}."
    return f"Memory has it from: {source['source']}" if source else ""


def _tell_more(turn: ConversationTurn) -> Resolved | None:
    """What more there is of the topic of the last answer: from memory if memory gave it."""
    topic = find_subject(turn.meant or turn.text) or find_statement(turn)
    whole = f"Tell me more about {topic}"
    if topic and turn.route == "nexus":
        return Resolved(text=f"/memory {whole}", understood=whole)
    return _ask(whole) if topic else None


def _expand(word: str, words: str, turn: ConversationTurn) -> Resolved | None:
    """A bare "why?" as a whole question about the last answer."""
    if turn.goal_id:
        return _ask(f"{word.capitalize()} did goal {turn.goal_id} end as it did?") if word == "why" else None
    if turn.route != "nexus":
        return None
    if (said := _DATE.search(turn.answer)) and re.search(r"\bwhen\b", words):
        return Resolved(text=words, reply=f"Memory has it from {said['day']}.")
    fact = find_statement(turn)
    if not fact:
        return None
    told = {"how come": "Why", "by whom": "Who", "how so": "How", "why not": "Why"}.get(
        word, word.capitalize()
    )
    return _ask(f"{told} is it that {fact}?" if told != "Who" else f"Who decided that {fact}?")


def _find_subject(conversation: Conversation) -> str:
    """What was talked about last: the subject of the last message that has one other than a pronoun."""
    subjects = (find_subject(turn.meant or turn.text) for turn in reversed(conversation.turns))
    return next((each for each in subjects if each and not WAYS["no_subject"].fullmatch(each)), "")


def _replace_pronoun(question: str, conversation: Conversation) -> str:
    turn, subject = conversation.turns[-1], _find_subject(conversation)
    if (said := WAYS["said"].search(question)) and (turn.route == "nexus" or not is_reading(turn)):
        fact = find_statement(turn)
        return f"{question[: said.start('it')]}that {fact}{question[said.end('it') :]}" if fact else ""
    if (goal := find_goal(conversation)) and (it := WAYS["it"].search(question)):
        return f"{question[: it.start()]}goal {goal}{question[it.end() :]}"
    if (person := WAYS["person"].search(question)) and (name := _find_person(conversation)):
        ending = "'s" if person["it"].lower() in ("his", "hers") or _is_possessive(question, person) else ""
        return f"{question[: person.start()]}{name}{ending}{question[person.end() :]}"
    if subject and (it := WAYS["it"].search(question) or WAYS["people"].search(question)):
        ending = "'s" if it[0].lower() == "their" else ""
        return f"{question[: it.start()]}{subject}{ending}{question[it.end() :]}"
    if (there := WAYS["there"].search(question)) and (
        place := re.search(r"\bin\s+[A-ZÀ-Þ]\w+", turn.meant or turn.text)
    ):
        return f"{question[: there.start()]}{place[0]}{question[there.end() :]}"
    return ""


def _is_possessive(question: str, person: re.Match[str]) -> bool:
    return person["it"].lower() == "her" and bool(re.match(r"\s+\w", question[person.end() :]))


def _find_person(conversation: Conversation) -> str:
    """The name in the last answer, or else in the last message, or in those before: "Ana decided it"."""
    return next(filter(None, map(_find_name, conversation.turns[: -PERSON_TURNS - 1 : -1])), "")


def _find_name(turn: ConversationTurn) -> str:
    is_desk = turn.route in _DESK_WORDS or turn.answer.startswith(NOTHING_HELD)
    told = "" if is_desk else _SOURCE.sub("", turn.answer)
    for answer in (told.partition("\n")[0], told):  # what is older, or beside it, comes after the first line
        if name := _find_name_in(answer, turn.meant or turn.text):
            return name
    return ""


def _find_name_in(answer: str, message: str) -> str:
    names = [
        *re.findall(
            r"\b[A-ZÀ-Þ][a-zà-ÿ]+(?:\s+[A-ZÀ-Þ][a-zà-ÿ]+)*(?=\s+(?:is|was|has|does|did|said|decided"
            r"|will|can|owns|wrote|runs|keeps)\b)",
            answer,
        )
    ]
    named = [*WAYS["name"].finditer(answer), *WAYS["name"].finditer(message)]
    named = [each for each in named if not WAYS["in_place"].search(each.string[: each.start()])]
    named.sort(key=lambda each: bool(WAYS["placed"].search(each.string[: each.start()])))
    names += [each[0] for each in named]
    names += [begins["name"]] if (begins := WAYS["begins"].match(message)) else []
    names = [each for each in names if each.split()[0] not in _NOT_NAMES and not WAYS["street"].search(each)]
    return names[0] if names else ""


_NOT_NAMES = frozenset(
    "The A An We I It They He She This That There Our My Your Who What When Where Why How Is Are"
    " Memory".split()
) | {name.capitalize() for name in (*WEEKDAY_NAMES, *MONTH_NAMES)}


def find_statement(turn: ConversationTurn) -> str:
    """The first sentence of the last answer, as a clause without its source."""
    if not turn.answer or turn.state != "answered":
        return ""
    line = next((line for line in turn.answer.splitlines() if line.strip()), "")
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-ZÀ-Þ])", _SOURCE.sub("", line).strip())[0].strip(" .!")
    if (
        not sentence
        or sentence.endswith((":", "?"))
        or len(sentence) > 300
        or sentence.startswith((NOTHING_HELD, "Shall I"))
    ):
        return ""
    first, _, rest = sentence.partition(" ")
    begins = first in _NOT_NAMES or (first[:5].lower() in turn.text and first not in turn.text)
    lowered = first.lower() if begins and first != "I" else first
    return f"{lowered} {rest}".strip()


def _ask(whole: str) -> Resolved:
    whole = whole if whole.endswith(("?", ".")) or whole.startswith("Tell") else f"{whole}?"
    return Resolved(text=whole, understood=whole)
