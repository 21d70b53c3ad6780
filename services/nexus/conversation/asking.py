"""Asking back: how an action says what it needs to know, so that a short answer settles it.

An action of nexus raises what ``ask_back`` returns::

    raise ask_back(self.context, "At what time?", template="Remind me {answer} to call Ana", expects="time")

The answer to the person is the question with its choices; the next message of the conversation ("at 9",
"2", "yes") becomes a whole message again, which is routed as any other.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from shared.agent.context import AgentContext
from shared.contracts import AskedBack, Choice
from shared.errors import ActionError

ASKS = "asks"  # The key of a task's metadata that holds what it asks back


def ask_back(
    context: AgentContext,
    question: str,
    *,
    choices: Sequence[Choice] = (),
    template: str = "",
    expects: Literal["choice", "time", "text"] = "choice",
) -> ActionError:
    """The error to raise in an action that needs to know more; see AskedBack for what settles it."""
    asks = AskedBack(choices=tuple(choices), template=template, expects=expects)
    context.current_task.facts[ASKS] = asks.to_dict()
    return ActionError(format_question(question, asks))


def format_question(question: str, asks: AskedBack) -> str:
    """``question`` with the numbered choices below it."""
    choices = [f"{number}. {each.label}" for number, each in enumerate(asks.choices, 1)]
    return "\n".join([question, *choices])


def read_asked(metadata: Mapping[str, Any]) -> AskedBack | None:
    """What a task asks back, by the metadata of its result."""
    found = metadata.get(ASKS)
    try:
        return AskedBack.from_dict(found) if isinstance(found, dict) else None
    except ValueError:  # another agent's result may hold anything
        return None
