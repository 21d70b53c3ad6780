"""What a message means in its conversation: a short one becomes the whole message that it stands for."""

import re
from datetime import datetime

from services.nexus.conversation.effects import (
    EFFECTS,
    KEPT,
    PART_OF_HOUR,
    add,
    alter,
    amend,
    find_ended,
    has_effect,
    is_reading,
    remind_before,
    stay,
)
from services.nexus.conversation.ellipsis import find_subject, swap
from services.nexus.conversation.mentions import find_goal, find_mentioned, find_paths, look_at
from services.nexus.conversation.pending import Resolved, settle
from services.nexus.conversation.references import ask_of_event, find_numbered, refer
from services.nexus.conversation.replying import reply
from shared.contracts import AskedBack, Choice, Conversation, ConversationTurn, Response
from shared.contracts.emails import CUT
from shared.language.sayings import read_sayings
from shared.language.times.time_parser import choose
from shared.language.utterance import Act, Utterance, read_utterance

WAYS = read_sayings(__file__, "resolve")

MAX_AGAIN = 12  # The most words of a message that has work done once more
MAX_WORDS = 9  # The most words of an ellipsis; a longer message stands for itself

NOT_ASKED = "I had asked nothing, so nothing was done. Say it in a sentence."
"""What is said to a yes to nothing."""


def resolve(
    said: Utterance, conversation: Conversation, now: datetime, *, with_model: bool = False
) -> Resolved:
    """The whole message that ``said`` stands for, which is then routed as any other.

    It is ``said`` itself unless it answers what was asked back, or refers to what was said. A model reads the
    conversation itself: ``with_model`` only what was asked back is settled, and what was named by number.
    """
    text, whole = said.text, Resolved(text=said.text)
    if conversation.asks and (settled := settle(said, conversation.asks)):
        return settled
    if aside := WAYS["aside"].match(text):
        return resolve(read_utterance(text[aside.end() :]), conversation, now, with_model=with_model)
    if not conversation.turns or text.lstrip().startswith("/"):
        instead = None if with_model else WAYS["instead"].fullmatch(text)
        return (instead and _ask_whose(text, instead["other"], conversation)) or whole
    if ended := (None if with_model else reply(said, conversation)) or find_ended(said, conversation):
        return ended
    numbered = find_numbered(said, conversation)
    if with_model:  # a model knows more than what was named last
        return numbered if numbered and not numbered.reply else whole
    if numbered:
        return numbered
    if told := _tell_of_talk(said, conversation):
        return told
    turn = conversation.turns[-1]
    if len(turn.meant or turn.text) >= CUT or turn.state != "answered":
        return whole
    if altered := (
        remind_before(said, conversation)
        or ask_of_event(said, conversation)
        or alter(said, conversation)
        or amend(said, turn)
        or look_at(said, conversation)
        or go_again(said, turn)
        or ask_of_done(said, conversation)
    ):
        return altered
    if turn.route == "nexus" or find_goal(conversation):
        return complete(said, conversation) or refer(said, conversation) or add(said, turn) or whole
    if found := complete(said, conversation) or add(said, turn):
        return found
    referred = refer(said, conversation)
    if referred and referred.understood and turn.route != "tool:statement":
        return Resolved(text=text, joined=referred.text) if is_reading(turn) or has_effect(turn) else whole
    return referred or whole


def _tell_of_talk(said: Utterance, conversation: Conversation) -> Resolved | None:
    """What is answered about the conversation itself; None for any other message."""
    words = said.plain
    if not conversation.asks and WAYS["yes"].fullmatch(words):
        return Resolved(text=said.text, reply=NOT_ASKED, route="tool:small_talk")
    if WAYS["first"].fullmatch(words):
        return Resolved(text=said.text, reply=f"Your first message here was: “{conversation.title}”")
    if conversation.told and WAYS["told"].fullmatch(words):
        # What the person told, in its order
        lines = "\n".join(f"- {each.text}" for each in conversation.told)
        return Resolved(text=said.text, reply=(f"You told me here, and it is not kept:\n{lines}"))
    return None


def complete(said: Utterance, conversation: Conversation) -> Resolved | None:
    """An ellipsis as the message before with its words changed; None for any other message."""
    text, turn = said.text, conversation.turns[-1]
    before = turn.meant or turn.text
    if WAYS["again"].fullmatch(said.plain):
        told = [each.text for each in conversation.mentioned if each.what == "goal"]
        ended = _ENDED.search(told[0]) if len(told) == 1 and turn.route == "tool:goals" else None
        return Resolved(text=ended["text"], understood=ended["text"]) if ended else _repeat(before, turn)
    if said.length > MAX_WORDS:
        return None
    if (
        changed := WAYS["change"].fullmatch(text)
        or WAYS["instead"].fullmatch(text)
        or WAYS["timed"].fullmatch(text)
    ):
        if is_reading(turn) and WAYS["moves"].search(text):
            return None
        return _ask_whose(text, changed["other"], conversation) or _change(changed["other"], turn)
    asked = WAYS["what_about"].fullmatch(text) or WAYS["bare"].fullmatch(text)
    other = re.sub(r"(?i)^there\s+", "", asked["other"]) if asked else text if said.is_time else ""
    if turn.route in _REMINDED:
        other = re.sub(r"(?i)^(?:an)?other(?:\s+one)?\s+|^one\s+", "", other)
    if (
        WAYS["earlier"].fullmatch(read_utterance(other).plain if asked else said.plain)
        and turn.route == "nexus"
    ):
        return _repeat(f"{before.rstrip(' ?.!')} before?", turn)
    about = bool(re.search(r"(?i)\b(?:about|same)\b", text))
    begins = re.match(r"(?i)(?:while|if|when|because|that|to)\b|.*\s(?:it|them)$", other) or (
        not about and WAYS["verb"].match(other) and not read_utterance(other).is_time
    )
    whole = read_utterance(other)  # "the address can go" is no other value
    if (
        not other
        or begins
        or (has_effect(turn) and whole.act is Act.STATEMENT and not whole.is_part)
        or (has_effect(turn) and choose(other).chosen and not read_utterance(other).is_time)
        or _is_topic(other, before)
        or (has_effect(turn) and WAYS["ordered"].search(other))
    ):
        return None
    if turn.route in _REMINDED and read_utterance(other).is_time:
        before = next(
            (each.meant or each.text for each in reversed(conversation.turns) if each.route == _SET), before
        )
    elif is_reading(turn) and not find_subject(before):
        before = _find_asked(conversation) or before
    return _repeat(
        swap(before, other),
        turn,
        asked=said.asks or bool(re.search(r"(?i)\babout\b", text)),
    )


_ENDED = re.compile(r", after [^:]+: (?P<text>.+?)(?: - .*)?(?: \(goal_\w+\)|…)?$")
"""How an answer tells a goal that ended."""
_BEGUN = ("conductor", "tool:work", "tool:night_job", "tool:schedule")  # Routes of answers that began work


def go_again(said: Utterance, turn: ConversationTurn) -> Resolved | None:
    """The work that was begun last once more: at another time, regularly, or in another folder.

    The message says nothing else than that, and a time or a path that takes the place of the one before.
    """
    if (
        turn.route not in _BEGUN
        or turn.failed
        or said.asks
        or said.length > MAX_AGAIN
        or WAYS["declines"].search(said.plain)
    ):
        return None
    before, paths = (turn.meant or turn.text).strip().rstrip(" .!?"), find_paths(said.bare)
    text = WAYS["the_one"].sub(" ", said.bare)
    for path in paths:
        text = text.replace(path, " ")
    when = choose(text)
    rest = WAYS["about_work"].sub(" ", read_utterance(when.rest).plain).split()
    if rest or not (paths or when.chosen or WAYS["once_more"].search(said.plain)):
        return None
    if paths:
        known = find_paths(before)
        if len(paths) > 1 or len(known) != 1:
            return None
        before = before.replace(known[0], paths[0])
    if when.chosen:
        begin, end = when.chosen[0].match.start(), when.chosen[-1].match.end()
        before = f"{' '.join(choose(before).rest.split())} {text[begin:end].strip()}"
        repeats = any(each.kind == "repeat" for each in when.chosen)
        return Resolved(text=f"/{'schedule' if repeats else 'night_job'} {before}", understood=before)
    return Resolved(text=before, understood=before)


def ask_of_done(said: Utterance, conversation: Conversation) -> Resolved | None:
    """What came of the work that was begun last ("result?"), or why something was done."""
    turn, goal = conversation.turns[-1], find_goal(conversation)
    if goal and not said.has_pronoun and WAYS["came_of_it"].fullmatch(said.plain):
        whole = f"How does goal {goal} stand?"
        return Resolved(text=f"/goals {whole}", understood=whole)
    if has_effect(turn) and not goal and WAYS["why"].fullmatch(said.plain):
        return Resolved(
            text=said.text, reply=f"You wrote “{turn.text}”, and I took it as: {turn.meant or turn.text}"
        )
    return None


def _ask_whose(text: str, time: str, conversation: Conversation) -> Resolved | None:
    """What a time is for if the last message did nothing and named none: it asks, and changes nothing."""
    part = PART_OF_HOUR.fullmatch(time)
    if not part and not (read_utterance(time).is_time and _is_timeless(time, conversation)):
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
        or (WAYS["with_time"].search(before) and not WAYS["instead"].fullmatch(before))
    ):
        return False
    return not is_reading(turn) or turn.route in _TIMELESS or bool(WAYS["clock"].search(time))


_TIMELESS = frozenset({"nexus", "tool:goals", "tool:waiting", "tool:project", "tool:papers"})
"""The routes of answers that no day belongs to unless the question names one."""


def _find_asked(conversation: Conversation) -> str:
    """The latest message to the tool of the last one that names what it is about."""
    route = conversation.turns[-1].route
    asked = (each.meant or each.text for each in reversed(conversation.turns) if each.route == route)
    return next(filter(find_subject, asked), "")


_SET = "tool:reminder_set"
_REMINDED = (_SET, "tool:reminder_change")


def _is_topic(other: str, before: str) -> bool:
    """Whether ``other`` is about something else: "the weather in Bern" after a question on deploys."""
    words = set(read_utterance(other).plain.split())
    linked = re.search(r"\s(?:in|of|on|for|at|from|with|about)\s", other)
    return (
        bool(linked)
        and not read_utterance(other).is_time
        and not words & set(read_utterance(before).plain.split()) - _SMALL
    )


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
    if not read_utterance(other).is_time and (
        WAYS["verb"].match(other)
        or WAYS["compares"].fullmatch(other)
        or (has_effect(turn) and choose(other).chosen)
    ):
        return None
    if turn.route in KEPT or turn.route == "tool:stop":
        return None
    return _repeat(swap(turn.meant or turn.text, other), turn)
