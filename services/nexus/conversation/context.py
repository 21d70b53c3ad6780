"""What a short message adds to the one before: "only those of today", "by when?", "do it now"."""

import re

from services.nexus.conversation.effects import EFFECTS
from services.nexus.conversation.ellipsis import find_subject
from services.nexus.conversation.mentions import JOB
from services.nexus.conversation.resolved import Resolved
from shared.contracts import ConversationTurn
from shared.language.sayings import read_sayings
from shared.language.utterance import Utterance

WAYS = read_sayings(__file__, "context")

MAX_WORDS = 9  # The most words of a message that adds to the one before
_ALONE = ("tool:small_talk", "tool:unclear", "tool:refuse", "tool:language", "tool:statement", "conductor")
"""The routes of answers that nothing is added to."""


def add(said: Utterance, turn: ConversationTurn) -> Resolved | None:
    """What ``said`` adds to the last message, for the tool that answered it; None for any other message."""
    text, words = said.bare, said.plain
    if WAYS["told"].fullmatch(words):
        return Resolved(text=text, reply=f"You wrote: “{turn.text}”")
    before = (turn.meant or turn.text).strip().rstrip("?.! ")
    if WAYS["now"].fullmatch(words):
        if turn.route == "tool:night_job" and (job := JOB.search(turn.answer)):
            return Resolved(text=f"/queue run {job[0]}", understood=f"run job {job[0]} now")
        whole = f"{_without_time(before)} now"
        return Resolved(text=whole, understood=whole)
    if (
        (given := WAYS["value"].fullmatch(text))
        and (subject := find_subject(before))
        and (turn.route == "nexus" and turn.answer.startswith("Memory holds nothing"))
    ):
        whole = f"Remember that {subject} is {given['value']}"
        return Resolved(text=whole, understood=whole)
    if len(words.split()) > MAX_WORDS or not is_reading(turn):
        return None
    adds = WAYS["too"].fullmatch(text) and not WAYS["it"].search(text)
    narrows = (WAYS["narrows"].fullmatch(text) or adds) and not WAYS["talk"].search(text)
    refers = turn.route != "nexus" and WAYS["pronoun"].fullmatch(text)
    if narrows or refers or WAYS["which"].fullmatch(words):
        whole = f"{before}, {text}"
        return Resolved(text=said.text, joined=whole) if refers else stay(whole, turn)
    return None


def stay(whole: str, turn: ConversationTurn) -> Resolved:
    """``whole`` for the tool that answered last."""
    tool = turn.route.removeprefix("tool:") if turn.route.startswith("tool:") else "memory"
    return Resolved(text=f"/{tool} {whole}", understood=whole)


def is_reading(turn: ConversationTurn) -> bool:
    """Whether the last answer told something, so that more can be asked of the tool that told it."""
    return not turn.goal_id and turn.route not in EFFECTS and turn.route not in _ALONE


def _without_time(message: str) -> str:
    bare = WAYS["any_time"].sub(" ", message)
    return " ".join(re.sub(r"(?i)\b(?:for|until|on|at|in)\s*$", "", bare.strip()).split())
