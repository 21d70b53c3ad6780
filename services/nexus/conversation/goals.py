"""The goal that a conversation is about, and what else is to be done in its folder."""

import re

from services.nexus.conversation.resolved import Resolved
from shared.contracts import Conversation
from shared.language.sayings import read_sayings
from shared.language.utterance import Utterance

WAYS = read_sayings(__file__, "goals")

_PATH = re.compile(r"(?<![\w/.])(?:~|\.{1,2})?/[^\s\"'`,;]+")


def find_goal(conversation: Conversation) -> str:
    """The goal that the last answer started, or told of alone."""
    turn = conversation.turns[-1]
    named = [each.ref for each in conversation.mentioned if each.what == "goal"]
    return turn.goal_id or (named[0] if turn.route == "tool:goals" and len(named) == 1 else "")


def look_at(said: Utterance, conversation: Conversation) -> Resolved | None:
    """An order about the folder of the last work, with its path in place of "it": "and lint it too"."""
    found = WAYS["look"].fullmatch(said.bare)
    if not found or not find_goal(conversation):
        return None
    work = next((each for each in reversed(conversation.turns) if each.goal_id), None)
    paths = list(dict.fromkeys(_PATH.findall(work.meant or work.text))) if work else []
    if len(paths) != 1:
        return None
    whole = f"{found['order']} {paths[0].rstrip('.,;:!?')}{found['rest']}".strip()
    return Resolved(text=whole, understood=whole)
