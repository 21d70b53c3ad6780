"""How a task is put to a brain, and how what it concluded becomes a result."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from shared.contracts import Email, Task
from shared.reasoning.loop import Conclusion
from shared.tasks.actions import Outcome
from shared.text.excerpt import excerpt
from shared.text.quoting import quote

MAX_INPUT = 20_000
"""Characters of one earlier result that are quoted."""
MAX_INPUTS = 100_000
"""Characters of all that is quoted together: where it is more, the longest is shortened most."""


def frame_task(task: Task, known: str, room: int = MAX_INPUTS) -> str:
    """The task in words, with what it builds on, what the reviewer said and what memory holds, as data.

    What goes with the task has at most ``room`` characters, all of it together.
    """
    given = _read_given(task.context)
    limit = _share(map(len, given.values()), min(room, MAX_INPUTS))
    parts = [task.text, *(quote(title, excerpt(text, limit)) for title, text in given.items())]
    if known:
        parts.append(quote("What memory holds that may bear on it", known))
    return "\n\n".join(parts)


def _read_given(context: Mapping[str, Any]) -> dict[str, str]:
    """What goes with a task, by title."""
    inputs = context.get("inputs")
    given = {}
    if isinstance(inputs, dict):
        given = {f"Result of {name}": _tell(value) for name, value in inputs.items()}
    if feedback := context.get("feedback"):
        given["The reviewer sent it back, because"] = _tell(feedback)
    rest = {
        key: value
        for key, value in context.items()
        if key not in ("inputs", "feedback", "letter", "history", "session_id", "hops")
    }
    if rest:
        given["What goes with it"] = _tell(rest)
    return given


def _share(sizes: Iterable[int], room: int) -> int:
    """The most characters one text may have, so that all together have ``room``."""
    ascending = sorted(min(size, MAX_INPUT) for size in sizes)
    for position, size in enumerate(ascending):
        share = room // (len(ascending) - position)
        if size > share:
            return share
        room -= size
    return MAX_INPUT


def conclude(conclusion: Conclusion) -> Outcome:
    """The outcome of a task that was thought about."""
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


def decline(email: Email, name: str, actions: tuple[str, ...]) -> Email:
    """The answer to a letter where there is no model to read it."""
    can = f"Without one I do what a task names as its action: {', '.join(actions)}. " if actions else ""
    return Email(
        sender=name,
        recipient=email.sender,
        subject=f"Re: {email.subject}"[:500] if email.subject else "",
        body=f"I cannot work from a letter: no model is configured. {can}"
        "Set MAILROOM_BRAIN to connect one, or ask nexus.",
        in_reply_to=email.id,
        user_session_id=email.user_session_id,
        cause=email.id,
        goal_id=email.goal_id,
    )


def _tell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("output"), str):
        value = {
            key: value[key] for key in ("status", "output", "error_message", "output_paths") if value.get(key)
        }
    return _encode(value)


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")
