"""What a message means in its conversation: a short one becomes the whole message that it stands for."""

import re
from datetime import datetime

from services.nexus.conversation.context import add, is_reading, stay
from services.nexus.conversation.effects import (
    EFFECTS,
    KEPT,
    PART_OF_HOUR,
    alter,
    amend,
    find_ended,
    has_effect,
)
from services.nexus.conversation.ellipsis import find_subject, swap
from services.nexus.conversation.goals import find_goal, look_at
from services.nexus.conversation.mentions import find_mentioned
from services.nexus.conversation.pending import settle
from services.nexus.conversation.phrases import CLOCK, DAY, is_time, plain
from services.nexus.conversation.references import find_numbered, refer
from services.nexus.conversation.resolved import Resolved
from shared.contracts import AskedBack, Choice, Conversation, ConversationTurn, Response
from shared.contracts.conversation import CUT

MAX_WORDS = 9
"""The most words of an ellipsis; a longer message stands for itself."""
_WHAT_ABOUT = re.compile(
    r"(?i)(?:ok(?:ay)?|and|so|but|hm+|right|great|thanks|thank you|,|\s)*"
    r"(?:(?:and\s+)?(?:what|how)\s+about|and(?:\s+(?:what|how)\s+about)?"
    r"|(?:the\s+)?same\s+(?:question\s+)?(?:for|with|about)|also\s+for|now)"
    r"\s+(?P<other>.+?)\s*(?:instead|then|too|as well|please)?[?.! ]*"
)
_CHANGE = re.compile(
    r"(?i)(?:(?:no|oh|actually|wait|sorry|hm+|well|ok|please|rather|better)[,\s]+)*"
    r"(?:(?:(?:can|could)\s+you\s+)?(?:make|change|move|push|shift|set|put)\s+(?:it|that"
    r"|this)(?:\s+(?:to|on|at|for))?|i\s+(?:meant|mean|said|want)|rather|let'?s\s+(?:say|make\s+it)"
    r"|not\s+\S+\s*,?\s*but|better)\s+(?P<other>.+?)\s*(?:instead|please|rather|then)?[?.! ]*"
)
_INSTEAD = re.compile(
    r"(?i)(?:(?:no|actually|oh|wait|sorry)[,\s]+)?(?P<other>.+?)\s+(?:instead|rather|would be better"
    r"|is better)[.! ]*"
)
_BARE = re.compile(
    r"(?i)(?P<other>(?:in|for|on|about|from|near|with|before|after)\s+\S+(?:\s+\S+){0,2}?)\s*\?"
)
_TIMED = re.compile(
    r"(?i)(?:no|actually|oh|wait|sorry|rather|better)(?:[,\s]+(?:no|wait|sorry|rather|better))*[,\s]+"
    rf"(?P<other>{CLOCK}|{DAY})[.! ]*"
)
_AGAIN = re.compile(
    r"(?:(?:please\s+)?(?:once\s+more|again|do\s+(?:it|that)\s+again|try\s+again|same\s+again"
    r"|repeat))(?:\s+please)?"
)
_EARLIER = re.compile(
    r"(?:and\s+)?(?:before(?:\s+(?:that|then|it))?|previously|earlier|until\s+then|in\s+the\s+past)"
)
"""What asks for what held earlier, and names nothing that the question could be about instead."""
_FIRST = re.compile(
    r"(?:(?:and|so)\s+)?what\s+(?:did\s+i\s+(?:ask|say|write|want)|(?:was|is)\s+it\s+(?:that\s+)?i\s+(?:asked|said|wrote))(?:\s+you)?\s+(?:at\s+)?first"
    r"|what\s+was\s+(?:my|the)\s+(?:very\s+)?first\s+(?:question|message)"
)
_MOVES = re.compile(r"(?i)\b(?:change|move|push|shift|put)\s+(?:it|that|this)\b")
"""What is said of an appointment or a reminder, not of the words of a question."""
_ASIDE = re.compile(
    r"(?i)\W*(?:never\s*mind|forget\s+it|thanks(?:\s+a\s+lot)?|thank\s+you|thx|cheers|ok(?:ay)?\s+(?:thanks|cool|great)"
    r"|great|cool|perfect|lovely|good|fine|nice|right|alright|super|understood|i\s+see|haha|lol)\s*[.,;!:]+\s*(?=(?:\S+\s+){2}\S)"
)
"""What is said before a message, and is no part of it."""
_VERB = re.compile(
    r"(?i)(?:who|when|where|why|what|which|how|is|are|was|were|does|did|do|has|have|can|could|will"
    r"|would|should|if|because|then"
    r"|remind|show|list|find|tell|give|send|run|check|fix|set|add|remember|forget|search|look|read"
    r"|write|brief|stop|cancel|make|move|push|shift|change|put|start|begin|have|let|lint|scan|compare|test|i|we|you|he|she|they|it|that|this|thanks|thank|bye|now)\b"
)

_YES = re.compile(
    r"(?:(?:yes|yep|yeah|yup)(?:\s+(?:please|do|sure|of\s+course))?|yes\s+yes|go\s+ahead|please\s+do)"
)
NOT_ASKED = "I had asked nothing, so nothing was done. Say it in a sentence."
"""What is said to a yes to nothing."""
_COMPARES = re.compile(
    r"(?i)(?:(?:a\s+(?:bit|little|lot)|much|even|slightly|far)\s+)?(?:(?:more|less)\s+\w+|\w{3,}er)"
)
"""How something is to become, which no word of the message before stands for: "a bit shorter"."""
_TOLD = re.compile(
    r"(?:(?:and|so|ok) )?what (?:all )?(?:did i|have i|i) (?:tell|told)(?: you| you all)?"
    r"(?: today| so far| until now| just now| here| before| already)*"
)


def resolve(text: str, conversation: Conversation, now: datetime, *, with_model: bool = False) -> Resolved:
    """The whole message that ``text`` stands for, which is then routed as any other.

    It is ``text`` itself unless it answers what was asked back, or refers to what was said. A model reads the
    conversation itself: ``with_model`` only what was asked back is settled, and what was named by number.
    """
    whole = Resolved(text=text)
    if conversation.asks and (settled := settle(text, conversation.asks)):
        return settled
    if aside := _ASIDE.match(text):
        return resolve(text[aside.end() :], conversation, now, with_model=with_model)
    if not conversation.turns or text.lstrip().startswith("/"):
        instead = None if with_model else _INSTEAD.fullmatch(text)
        return (instead and _ask_whose(text, instead["other"], conversation)) or whole
    if found := find_ended(text, conversation) or find_numbered(text, conversation):
        return found
    if with_model:
        return whole
    if told := _tell_of_talk(text, conversation):
        return told
    turn = conversation.turns[-1]
    if len(turn.meant or turn.text) >= CUT or turn.state != "answered":
        return whole
    if altered := alter(text, conversation) or amend(text, turn) or look_at(text, conversation):
        return altered
    if turn.route == "nexus" or find_goal(conversation):
        return complete(text, conversation) or refer(text, conversation) or add(text, turn) or whole
    if found := complete(text, conversation) or add(text, turn):
        return found
    referred = refer(text, conversation)
    if referred and referred.understood and turn.route != "tool:statement":
        return Resolved(text=text, joined=referred.text) if is_reading(turn) or has_effect(turn) else whole
    return referred or whole


def _tell_of_talk(text: str, conversation: Conversation) -> Resolved | None:
    """What is answered about the conversation itself; None for any other message."""
    words = plain(text)
    if not conversation.asks and _YES.fullmatch(words):
        return Resolved(text=text, reply=NOT_ASKED, route="tool:small_talk")
    if _FIRST.fullmatch(words):
        return Resolved(text=text, reply=f"Your first message here was: “{conversation.title}”")
    if conversation.told and _TOLD.fullmatch(words):
        return Resolved(text=text, reply=_list_told(conversation))
    return None


def _list_told(conversation: Conversation) -> str:
    """What the person told, in its order."""
    lines = "\n".join(f"- {each.text}" for each in conversation.told)
    return f"You told me here, and it is not kept:\n{lines}"


def complete(text: str, conversation: Conversation) -> Resolved | None:
    """An ellipsis as the message before with its words changed; None for any other message."""
    turn = conversation.turns[-1]
    before = turn.meant or turn.text
    if _AGAIN.fullmatch(plain(text)):
        return _repeat(before, turn)
    if len(text.split()) > MAX_WORDS:
        return None
    if changed := _CHANGE.fullmatch(text) or _INSTEAD.fullmatch(text) or _TIMED.fullmatch(text):
        if is_reading(turn) and _MOVES.search(text):
            return None
        return _ask_whose(text, changed["other"], conversation) or _change(changed["other"], turn)
    asked = _WHAT_ABOUT.fullmatch(text) or _BARE.fullmatch(text)
    other = re.sub(r"(?i)^there\s+", "", asked["other"]) if asked else text if is_time(plain(text)) else ""
    if turn.route in _REMINDED:
        other = re.sub(r"(?i)^(?:an)?other(?:\s+one)?\s+|^one\s+", "", other)
    if _EARLIER.fullmatch(plain(other) if asked else plain(text)) and turn.route == "nexus":
        return _repeat(f"{before.rstrip(' ?.!')} before?", turn)
    about = bool(re.search(r"(?i)\b(?:about|same)\b", text))
    begins = re.match(r"(?i)(?:while|if|when|because|that|to)\b|.*\s(?:it|them)$", other) or (
        not about and _VERB.match(other) and not is_time(plain(other))
    )
    if not other or begins or _is_topic(other, before) or (has_effect(turn) and _ORDERED.search(other)):
        return None
    if turn.route in _REMINDED and is_time(plain(other)):
        before = next(
            (each.meant or each.text for each in reversed(conversation.turns) if each.route == _SET), before
        )
    elif is_reading(turn) and not find_subject(before):
        before = _find_asked(conversation) or before
    return _repeat(
        swap(before, other),
        turn,
        asked=text.rstrip().endswith("?") or bool(re.search(r"(?i)\babout\b", text)),
    )


def _ask_whose(text: str, time: str, conversation: Conversation) -> Resolved | None:
    """What a time is for if the last message did nothing and named none: it asks, and changes nothing."""
    part = PART_OF_HOUR.fullmatch(time)
    if not part and not (is_time(plain(time)) and _is_timeless(time, conversation)):
        return None
    last = next((each for each in reversed(conversation.turns) if each.route in _REMINDED), None)
    named = find_mentioned(Response(text=last.answer)) if last else ()
    if last is None or len(named) != 1 or named[0].what != "reminder":
        reply = "What is to be at that time? Say it as a whole: 'move the reminder about the bank to 10'."
        return Resolved(text=text, reply=reply, route="tool:unclear")
    whole = f"Move the reminder {named[0].ref} to {re.sub(r'(?i)^(?:at|to|on) ', '', time)}"
    asks = AskedBack(choices=(Choice(label="Yes", text=whole), Choice(label="No")))
    return Resolved(
        text=whole, reply=f"Shall I do this: {whole}\n1. Yes\n2. No", route="tool:reminder_change", asks=asks
    )


def _is_timeless(time: str, conversation: Conversation) -> bool:
    """Whether nothing that was said last can be at ``time`` instead."""
    turn = conversation.turns[-1] if conversation.turns else None
    if turn is None:
        return True
    before = turn.meant or turn.text
    if (
        turn.goal_id
        or turn.route in EFFECTS
        or (_WITH_TIME.search(before) and not _INSTEAD.fullmatch(before))
    ):
        return False
    return not is_reading(turn) or turn.route in _TIMELESS or bool(re.search(CLOCK, time, re.IGNORECASE))


_WITH_TIME = re.compile(rf"(?i)\b(?:{CLOCK}|{DAY}|at\s+\d)")
_TIMELESS = frozenset({"nexus", "tool:goals", "tool:waiting", "tool:project", "tool:papers"})
"""The routes of answers that no day belongs to unless the question names one."""


def _find_asked(conversation: Conversation) -> str:
    """The latest message to the tool of the last one that names what it is about."""
    route = conversation.turns[-1].route
    asked = (each.meant or each.text for each in reversed(conversation.turns) if each.route == route)
    return next(filter(find_subject, asked), "")


_SET = "tool:reminder_set"
_REMINDED = (_SET, "tool:reminder_change")
_ORDERED = re.compile(r"(?i)^\S+(?:\s+\S+)?\s+to\s+\w+\s+\S")
"""Another and what is to do: "cortex to check the pump logs"."""


def _is_topic(other: str, before: str) -> bool:
    """Whether ``other`` is about something else: "the weather in Bern" after a question on deploys."""
    words = set(plain(other).split())
    linked = re.search(r"\s(?:in|of|on|for|at|from|with|about)\s", other)
    return bool(linked) and not is_time(plain(other)) and not words & set(plain(before).split()) - _SMALL


_SMALL = frozenset("the a an in of on for at from with about to is are and our my your".split())


def _repeat(whole: str, turn: ConversationTurn, *, asked: bool = True) -> Resolved:
    """The changed message; what had an effect is done again only after a yes, if it was put as a question."""
    if asked and has_effect(turn):
        asks = AskedBack(choices=(Choice(label="Yes", text=whole), Choice(label="No")))
        return Resolved(
            text=whole, reply=f"Shall I do this: {whole}\n1. Yes\n2. No", route=turn.route, asks=asks
        )
    return stay(whole, turn) if is_reading(turn) else Resolved(text=whole, understood=whole)


def _change(other: str, turn: ConversationTurn) -> Resolved | None:
    """What "make it Tom" changes: the message before."""
    if not is_time(plain(other)) and (_VERB.match(other) or _COMPARES.fullmatch(other)):
        return None
    if turn.route in KEPT or turn.route == "tool:stop":
        return None
    return _repeat(swap(turn.meant or turn.text, other), turn)
