"""Answers in few words to what the last answer told: a letter ("tell him yes"), or what a goal asks."""

import re

from services.nexus.conversation.pending import Resolved, format_question
from shared.contracts import AskedBack, Choice, Conversation
from shared.language.sayings import read_sayings
from shared.language.utterance import Utterance

WAYS = read_sayings(__file__, "replying")
_LETTER = re.compile(
    r"^- (?:[^\n]{,20}\d\d:\d\d, )?(?P<agent>[a-z]+)(?: asks)?: [^\n]*\(mailroom mail show ", re.MULTILINE
)
_ASKING = re.compile(r"\(mailroom resume (?P<goal>goal_\w+) --say '\.\.\.'\)")
MAX_WORDS = 30  # The most words of an answer


def reply(said: Utterance, conversation: Conversation) -> Resolved | None:
    """The whole message for an answer to the sender of the letter, or to the goal, that was told of last."""
    turn = conversation.turns[-1]
    if said.length > MAX_WORDS or said.asks:
        return None
    goals = list(dict.fromkeys(_ASKING.findall(turn.answer)))
    agents = list(dict.fromkeys(_LETTER.findall(turn.answer)))
    to = WAYS["to_sender"].fullmatch(said.bare)
    if agents and to:
        orders = [f"reply to {agent}: {to['body'].strip()}" for agent in agents]
        if len(agents) == 1:
            return Resolved(text=f"/send_mail {orders[0]}", understood=orders[0])
        choices = zip(agents, orders, strict=True)
        asks = AskedBack(
            choices=tuple(Choice(label=agent, text=f"/send_mail {order}") for agent, order in choices)
        )
        question = format_question("Whom? Answer with a number.", asks)
        return Resolved(text=said.text, reply=question, route="tool:send_mail", asks=asks)
    if len(goals) == 1 and not agents and WAYS["to_question"].fullmatch(said.bare):
        words = WAYS["answer"].sub("", said.bare)
        return Resolved(
            text=f"/approve answer {goals[0]}: {words}",
            understood=f"answer the question of the goal: {words}",
        )
    return None
