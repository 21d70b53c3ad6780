"""From what a thought means to parameters that fit: the cerebellum reads it, and asks where it is unclear."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec

from shared.errors import ActionError
from shared.llm.protocol import Message
from shared.reasoning.tool_parsing import find_mentions
from shared.tasks.actions import Action
from shared.text.excerpt import excerpt

MAX_TURNS = 5
"""How often it is asked for parameters before the action is given up."""
MAX_SAID = 2_000
"""Characters of what it answered that are kept or passed on."""

TASK = """\
Work out the parameters of an action from what an agent thought. Take them from the thought; make nothing up.

The action: {name} - {description}
Its parameters as JSON schema:
{schema}

Answer with one JSON object and nothing else:
{{"status": "READY", "params": {{...}}}} when the thought says all that is needed;
{{"status": "ASK", "question": "..."}} when something is unclear;
{{"status": "NOT_FEASIBLE", "reason": "..."}} when the action cannot do what is wanted.

The thought:
{thought}"""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What the cerebellum answered."""

    status: Literal["READY", "ASK", "NOT_FEASIBLE"]
    params: dict[str, Any] = {}
    question: str = ""
    reason: str = ""


Ask = Callable[[Sequence[Message]], Awaitable[Proposal]]
"""Asks the cerebellum."""
Clarify = Callable[[str], Awaitable[str]]
"""Asks the brain what it meant."""


async def negotiate(
    action: Action, thought: str, ask: Ask, clarify: Clarify, check: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """The parameters for ``action`` that ``thought`` means, as ``check`` accepts them.

    Raises ActionError where it is not feasible, or after MAX_TURNS without parameters that fit: an action
    is never run with parameters that do not.
    """
    schema = json.dumps(action.schema(), ensure_ascii=False)
    text = TASK.format(name=action.name, description=action.description, schema=schema, thought=thought)
    messages = [Message(role="user", text=text)]
    problem = "it stayed unclear"
    for _ in range(MAX_TURNS):
        proposal = await ask(messages)
        said = excerpt(msgspec.json.encode(proposal).decode(), MAX_SAID)
        messages.append(Message(role="assistant", text=said))
        if proposal.status == "NOT_FEASIBLE":
            reason = excerpt(proposal.reason, MAX_SAID) or "no reason given"
            raise ActionError(f"{action.name} is not feasible: {reason}")
        if proposal.status == "ASK":
            question = excerpt(proposal.question, MAX_SAID)
            answer = await clarify(f"About the parameters of {action.name}: {question}")
            messages.append(Message(role="user", text=f"The agent answers: {answer}"))
            continue
        try:
            return check(msgspec.json.encode(proposal.params).decode())
        except ActionError as error:
            problem = str(error)
            messages.append(Message(role="user", text=f"These do not fit: {problem}"))
    raise ActionError(f"No parameters for {action.name} after {MAX_TURNS} turns: {problem}")


def inline_arguments(thought: str, name: str) -> str:
    """The JSON object that follows the last mention of ``name`` in ``thought``; "" where none does."""
    said = find_mentions(thought, name)
    after = thought[said[-1].end() :] if said else ""
    start = after.find("{")
    if start < 0 or start > 40:
        return ""
    try:
        _, end = json.JSONDecoder().raw_decode(after[start:])
    except (ValueError, RecursionError):
        return ""
    return after[start : start + end]
