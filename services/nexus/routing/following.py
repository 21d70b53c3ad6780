"""What can follow an answer: which tools are then likelier, and what says only a part of a message."""

import re
from collections.abc import Mapping

FOLLOWS: Mapping[str, Mapping[str, float]] = {
    "reminder_set": {"reminder_change": 6, "reminder_cancel": 8, "reminder_list": 2},
    "reminder_change": {"reminder_change": 6, "reminder_cancel": 8, "reminder_list": 3},
    "reminder_list": {"reminder_change": 6, "reminder_cancel": 16, "reminder_set": 2},
    "reminder_cancel": {"reminder_list": 3, "reminder_cancel": 2, "reminder_set": 2},
    "calendar": {"calendar": 2, "calendar_add": 2},
    "calendar_add": {"calendar_add": 3, "calendar": 2},
    "remember": {"correct": 4, "forget": 3, "remember": 2, "memory": 2},
    "correct": {"correct": 3, "forget": 2, "memory": 2},
    "forget": {"forget": 3, "memory": 3, "remember": 2},
    "memory": {"memory": 3, "correct": 3, "forget": 2, "remember": 2},
    "work": {"goals": 3, "stop": 4, "work": 2, "spending": 2},
    "goals": {"goals": 2, "work": 3, "stop": 2, "spending": 2},
    "night_job": {"queue": 3, "stop": 4, "night_job": 2, "spending": 2},
    "schedule": {"schedule": 3, "queue": 3, "stop": 4, "spending": 2},
    "queue": {"queue": 2, "stop": 3, "night_job": 2, "schedule": 2},
    "stop": {"queue": 2, "goals": 2, "work": 2},
    "waiting": {"approve": 4, "waiting": 2},
    "approve": {"waiting": 3, "approve": 3},
    "mail": {"mail": 2, "send_mail": 3},
    "send_mail": {"send_mail": 3, "mail": 2, "waiting": 2},
    "news": {"news": 2, "web": 2},
    "papers": {"papers": 2, "web": 2},
    "web": {"web": 2, "remember": 2},
    "weather": {"weather": 2},
    "small_talk": {"small_talk": 2, "capabilities": 2},
    "capabilities": {"capabilities": 2, "small_talk": 2},
}
"""How many times likelier a tool is after the answer of another; what is not named is as likely as ever."""
ALTERS: Mapping[str, str] = {
    "reminder_set": "reminder_change",
    "reminder_list": "reminder_change",
    "remember": "correct",
}
"""What alters that which another tool did; the others alter it themselves."""
ANSWERS: Mapping[str, str] = {"waiting": "approve", "goals": "work"}
"""What a request is for after what another tool told."""
MAX_WORDS = 12
"""The most words of a message that is read as following another."""
_LEAD = r"\W*(?:(?:no|ok|okay|and|but|so|oh|well|yes|sorry|actually|please|then|also|just|or)\b[\s,.!:]*)*"
_PART = re.compile(
    rf"(?i){_LEAD}(?:"
    r"(?:to|that)\s+(?!(?:is|was|be|will|would|can|should|one|it|you|me|the|my|our|all|both)\b)(?:\w|['’-])+\s+\w"
    r"|(?:(?:the|a|an|my|our|your|his|her|their|all|both|only|just|in|on|at|by|from|for|with|without|about|of|till|until"
    r"|not|every|each|next|half|quarter|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|to(?:day|morrow|night))\b"
    r"|\d)(?!.*\b(?:is|are|was|were|am|be|has|have|had|do|does|did|can|could|will|would|should|shall|(?-i:may)|might|must"
    r"|\w+['’](?:s|re|ve|ll|d|t)\s+\w+ing|remind|send|tell|show|why|who|what|when|where|how)\b))"
)
_ASKS = re.compile(r"\?\W*$")


def find_next(last: str, text: str, *, asks: bool) -> str:
    """The tool of a short message that goes on from an answer of ``last``; ``asks`` is whether it asks."""
    if asks:
        return last
    return ALTERS.get(last) or (last if is_part(text) else ANSWERS.get(last, last))


def is_part(text: str) -> bool:
    """Whether ``text`` is no sentence: "to pay the tuner, Monday", "the one in lab 2", "from May sorry"."""
    return len(text.split()) <= MAX_WORDS and bool(_PART.match(text)) and not _ASKS.search(text)
