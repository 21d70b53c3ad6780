"""The arguments of an action that a model named in plain text, filled in by the small model."""

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
"""How often the small model is asked before the call fails."""
MAX_ANSWER = 2_000
"""Characters of its answer that are kept or passed on."""

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
    """The small model's answer."""

    status: Literal["READY", "ASK", "NOT_FEASIBLE"]
    params: dict[str, Any] = {}
    question: str = ""
    reason: str = ""


Ask = Callable[[Sequence[Message]], Awaitable[Proposal]]
"""Asks the small model."""
Clarify = Callable[[str], Awaitable[str]]
"""Asks the model a question about its message."""


async def fill_arguments(
    action: Action, thought: str, ask: Ask, clarify: Clarify, check: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """The parameters for ``action`` that ``thought`` describes, as ``check`` returns them.

    ``check`` takes JSON and raises ActionError if it is invalid. Raises ActionError if the small model says
    the call is not feasible, or after MAX_TURNS without valid parameters.
    """
    schema = json.dumps(action.schema(), ensure_ascii=False)
    text = TASK.format(name=action.name, description=action.description, schema=schema, thought=thought)
    messages = [Message(role="user", text=text)]
    problem = "it stayed unclear"
    for _ in range(MAX_TURNS):
        proposal = await ask(messages)
        answer = excerpt(msgspec.json.encode(proposal).decode(), MAX_ANSWER)
        messages.append(Message(role="assistant", text=answer))
        if proposal.status == "NOT_FEASIBLE":
            reason = excerpt(proposal.reason, MAX_ANSWER) or "no reason given"
            raise ActionError(f"{action.name} is not feasible: {reason}")
        if proposal.status == "ASK":
            question = excerpt(proposal.question, MAX_ANSWER)
            reply = await clarify(f"About the parameters of {action.name}: {question}")
            messages.append(Message(role="user", text=f"The agent answers: {reply}"))
            continue
        try:
            return check(msgspec.json.encode(proposal.params).decode())
        except ActionError as error:
            problem = str(error)
            messages.append(Message(role="user", text=f"These do not fit: {problem}"))
    raise ActionError(f"No parameters for {action.name} after {MAX_TURNS} turns: {problem}")


def inline_arguments(thought: str, name: str) -> str:
    """The JSON object that follows the last mention of ``name`` in ``thought``; "" if none does."""
    mentions = find_mentions(thought, name)
    after = thought[mentions[-1].end() :] if mentions else ""
    start = after.find("{")
    if start < 0 or start > 40:
        return ""
    try:
        _, end = json.JSONDecoder().raw_decode(after[start:])
    except (ValueError, RecursionError):
        return ""
    return after[start : start + end]
