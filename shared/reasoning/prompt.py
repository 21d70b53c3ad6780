"""How a task is written as a prompt, and how a loop's conclusion becomes a result."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from shared.contracts import Email, Task
from shared.reasoning.loop import Conclusion
from shared.reasoning.recall import KNOWN
from shared.tasks.actions import Outcome
from shared.tasks.context import Opened
from shared.text.excerpt import excerpt, quote

MAX_INPUT = 20_000
"""Characters of one earlier result that are quoted."""
MAX_INPUTS = 100_000
"""Characters of everything quoted together; if there is more, the longest texts are shortened most."""
MAX_NAME = 200
"""Characters of a reference in the title of what it names."""
TITLES = {"memory": "Memory node", "file": "File", "task": "Result of task"}
NO_REFERENCES: Mapping[str, Opened] = MappingProxyType({})


def frame_task(
    task: Task, known: str, max_inputs: int = MAX_INPUTS, references: Mapping[str, Opened] = NO_REFERENCES
) -> str:
    """The prompt for a task: its text, then earlier results, review feedback and memories, quoted as data.

    The quoted parts of the task's context and its ``references`` have at most ``max_inputs`` characters
    together.
    """
    inputs = _inputs_of(task.context)
    for name, opened in references.items():
        inputs[f"{TITLES[opened.kind]} {' '.join(name.split())[:MAX_NAME]}"] = _format_opened(opened)
    limit = _fair_share(map(len, inputs.values()), min(max_inputs, MAX_INPUTS))
    parts = [task.text, *(quote(title, excerpt(text, limit)) for title, text in inputs.items())]
    if known:
        parts.append(quote(KNOWN, known))
    return "\n\n".join(parts)


def _inputs_of(context: Mapping[str, Any]) -> dict[str, str]:
    """The texts that go with a task, by title."""
    results = context.get("inputs")
    inputs = {}
    if isinstance(results, dict):
        inputs = {f"Result of {name}": _format(value) for name, value in results.items()}
    if feedback := context.get("feedback"):
        inputs["The reviewer sent it back, because"] = _format(feedback)
    if told := context.get("instructions"):
        inputs["What the person who asked for it added later"] = _format(told)
    rest = {
        key: value
        for key, value in context.items()
        if key not in ("inputs", "feedback", "instructions", "letter", "history", "session_id", "hops")
    }
    if rest:
        inputs["What goes with it"] = _format(rest)
    return inputs


def _fair_share(sizes: Iterable[int], total: int) -> int:
    """The most characters one text may have so that all together have at most ``total``."""
    ascending = sorted(min(size, MAX_INPUT) for size in sizes)
    for position, size in enumerate(ascending):
        share = total // (len(ascending) - position)
        if size > share:
            return share
        total -= size
    return MAX_INPUT


def conclude(conclusion: Conclusion) -> Outcome:
    """The outcome of a task that an agent loop concluded."""
    text = conclusion.result
    if conclusion.doubts:
        text += "\n\nNot known:\n" + "\n".join(f"- {doubt}" for doubt in conclusion.doubts)
    data: dict[str, Any] = {"steps": conclusion.steps}
    if conclusion.doubts:
        data["unknown"] = list(conclusion.doubts)
    if conclusion.rested:
        data["rested"] = True
    return Outcome(
        output=text,
        data=data,
        evidence_refs=conclusion.evidence_refs[:200],
        output_paths=conclusion.output_paths[:200],
    )


def decline(email: Email, actions: tuple[str, ...]) -> Email:
    """The answer to an email if no model is configured."""
    can = f"Without one I only do tasks that name an action: {', '.join(actions)}. " if actions else ""
    return email.reply(
        f"I cannot work on emails: no model is configured. {can}"
        "Set MAILROOM_BRAIN to connect one, or ask nexus."
    )


def _format_opened(opened: Opened) -> str:
    return f"It ended as {opened.status}.\n\n{opened.output}" if opened.status else opened.output


def _format(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("output"), str):
        value = {
            key: value[key] for key in ("status", "output", "error_message", "output_paths") if value.get(key)
        }
    return msgspec.json.encode(value).decode("utf-8", "replace")
