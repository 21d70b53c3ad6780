"""What a short message adds to the one before: "only those of today", "by when?", "do it now"."""

import re

from services.nexus.conversation.effects import EFFECTS
from services.nexus.conversation.ellipsis import find_subject
from services.nexus.conversation.mentions import JOB
from services.nexus.conversation.phrases import CLOCK, DAY, plain
from services.nexus.conversation.resolved import Resolved
from shared.contracts import ConversationTurn

MAX_WORDS = 9
"""The most words of a message that adds to the one before."""
_ALONE = ("tool:small_talk", "tool:unclear", "tool:refuse", "tool:language", "tool:statement", "conductor")
"""The routes of answers that nothing is added to."""
_NARROWS = re.compile(
    r"(?i)(?:but|and|no|ok|well|or|then|hm+|,|\s)*(?:only|just|without|except|excluding|more|fewer"
    r"|less|also|plus|with"
    r"|sorted|as\s+(?:a|an)|in\s+(?:more|less)\s+detail|not\s+(?:the|in|from)"
    r"|(?:the\s+)?\w+(?:er|est)\s+ones?|while)\b(?P<rest>.*)"
)
_TOO = re.compile(r"(?i)[\w\s'’-]{2,40}\s+(?:as\s+well|too|also)(?:\s+please)?[.! ]*")
_IT = re.compile(r"(?i)\b(?:it|that|this|them|these|those)\b")
_TALK = re.compile(
    r"(?i)\b(?:kidding|joking|testing|asking|checking|saying|wondering|wanted|curious|a\s+(?:sec"
    r"|second|moment|minute)"
    r"|thanks|thank\s+you|fine|ok|great|me|great|love|sorry)\b"
)
_WHICH = re.compile(
    r"(?:(?:and|but|so|ok)\s+)*(?:by|until|till|since|from|for)?\s*(?:when|what|who|whom|where|why"
    r"|how|how\s+(?:long|often|many|much|far|big)"
    r"|which(?:\s+one)?)(?:\s+(?:exactly|then|though|else))?"
)
_PRONOUN = re.compile(
    r"(?i)(?:(?:and|but|so|ok)[,\s]+)*(?:what|when|where|how|which|is|are|was|were|does|did|do|has|have)\b.*"
    r"\b(?:it|that|they|them|these|those|one|ones)\b.*"
)
_NOW = re.compile(
    r"(?:(?:on\s+second\s+thoughts?|actually|no|ok|please|wait|then|well)\s+)*(?:(?:do|start|run"
    r"|begin|make)\s+(?:it|that|this)"
    r"|let'?s\s+do\s+it)\s+(?:now|right\s+(?:now|away)|at\s+once|immediately|today)(?:\s+(?:please"
    r"|instead|then))*"
)
_VALUE = re.compile(
    r"(?i)(?:it|that|they)\s*(?:['’](?:s|re)|\s+is|\s+are)\s+"
    r"(?!(?:wrong|right|not|true|false|out|old|outdated|all|it|ok|okay|fine|great"
    r"|good|enough|perfect|nice|cool|bad)\b)(?P<value>[^?]{1,80}?)[.! ]*"
)
_TOLD = re.compile(
    r"(?:(?:and|so)\s+)?what\s+(?:did|was\s+it)\s+(?:that\s+)?i\s+(?:(?:just\s+)?(?:say|tell\s+you"
    r"|ask(?:\s+you)?|write)|said)"
    r"(?:\s+(?:you|just\s+now|before|last))*|what\s+was\s+my\s+(?:last\s+)?(?:question|message)"
)


def add(text: str, turn: ConversationTurn) -> Resolved | None:
    """What ``text`` adds to the last message, for the tool that answered it; None for any other message."""
    words = plain(text)
    if _TOLD.fullmatch(words):
        return Resolved(text=text, reply=f"You wrote: “{turn.text}”")
    before = (turn.meant or turn.text).strip().rstrip("?.! ")
    if _NOW.fullmatch(words):
        if turn.route == "tool:night_job" and (job := JOB.search(turn.answer)):
            return Resolved(text=f"/queue run {job[0]}", understood=f"run job {job[0]} now")
        whole = f"{_without_time(before)} now"
        return Resolved(text=whole, understood=whole)
    if (
        (given := _VALUE.fullmatch(text.strip()))
        and (subject := find_subject(before))
        and _found_nothing(turn)
    ):
        whole = f"Remember that {subject} is {given['value']}"
        return Resolved(text=whole, understood=whole)
    if len(words.split()) > MAX_WORDS or not is_reading(turn):
        return None
    adds = _TOO.fullmatch(text.strip()) and not _IT.search(text)
    narrows = (_NARROWS.fullmatch(text.strip()) or adds) and not _TALK.search(text)
    refers = turn.route != "nexus" and _PRONOUN.fullmatch(text.strip())
    if narrows or refers or _WHICH.fullmatch(words):
        whole = f"{before}, {text.strip()}"
        return Resolved(text=text, joined=whole) if refers else stay(whole, turn)
    return None


def stay(whole: str, turn: ConversationTurn) -> Resolved:
    """``whole`` for the tool that answered last."""
    tool = turn.route.removeprefix("tool:") if turn.route.startswith("tool:") else "memory"
    return Resolved(text=f"/{tool} {whole}", understood=whole)


def is_reading(turn: ConversationTurn) -> bool:
    """Whether the last answer told something, so that more can be asked of the tool that told it."""
    return not turn.goal_id and turn.route not in EFFECTS and turn.route not in _ALONE


def _found_nothing(turn: ConversationTurn) -> bool:
    return turn.route == "nexus" and turn.answer.startswith("Memory holds nothing")


def _without_time(message: str) -> str:
    bare = re.sub(rf"(?i)\b(?:for|until|till|on|at)?\s*(?:{DAY}|{CLOCK})", " ", message)
    return " ".join(re.sub(r"(?i)\b(?:for|until|on|at|in)\s*$", "", bare.strip()).split())
