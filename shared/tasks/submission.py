"""What is published on tasks.submit, by people and by agents that submit goals."""

import re
from typing import Annotated, Any, Literal

import msgspec

from shared.contracts import TOKEN, GoalBudget, Said, TaskPriority
from shared.contracts.base import MAX_TEXT, require_name, require_person, require_text, require_timestamp
from shared.contracts.records import MAX_INSTRUCTION

MAX_BYTES = 1_000_000  # Bytes of a submission, whose content is repeated in the goal's record and its tasks
MAX_GOAL_ID = 80  # Characters of a goal's id, with which the ids of its tasks begin


OVER_BUDGET = "over_budget"
"""The fact of a task whose model was not asked because of the budget of a goal: the goal's id."""
UNREACHED = "unreached"  # The fact of a task that names hosts to which the network did not lead


def parse_budget(text: str) -> GoalBudget:
    """``200k`` tokens, ``$1.50``, or both with a comma; raises ValueError for anything else."""
    found: dict[str, float] = {}
    for part in text.split(","):
        read = re.fullmatch(r"(\$)?\s*(\d+(?:[._]\d+)*)\s*([kKmM])?(?:\s*tokens?)?", part.strip())
        name = "cost" if read and read[1] else "tokens"
        if read is None or name in found or (read[1] and read[3]):
            raise ValueError(
                f"{text[:40]!r} is no budget: write tokens, dollars or both, as 200k or 200k,$1.50"
            )
        scale = {"k": 1e3, "m": 1e6}.get((read[3] or "").lower(), 1)
        found[name] = float(read[2].replace("_", "")) * scale
    return GoalBudget(tokens=int(found.get("tokens", 0)), cost=found.get("cost", 0.0))


def format_budget(budget: GoalBudget, times: int = 1) -> str:
    """A budget, so many ``times`` over, as ``parse_budget`` reads it."""
    parts = [str(times * budget.tokens)] if budget.tokens else []
    return ",".join([*parts, f"'${times * budget.cost:.2f}'"] if budget.cost else parts)


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wants of an agent."""

    agent: str
    do: Literal["pause", "resume", "restart"]


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A goal as text; ``{"text": "..."}`` is enough.

    The sender may choose ``goal_id``, so that sending it again starts no second goal. ``said`` is what
    a person said to the agent that submits it. People may instead name a goal to ``retry`` as a new one, or
    to ``resume`` with ``text`` (``request_id`` then tells repetitions apart), or an agent to ``control``.
    ``context_refs`` and ``evidence_refs`` name what the goal's tasks are shown, as those of a Task.
    ``person`` is who of the people submits it; it does not count in what agents submit. ``budget`` limits
    what models use for the goal, or for one that is resumed from now on. ``part_of``, ``cause``,
    ``starts_from``, ``depth`` and ``asker`` are those of a Goal, for agents that submit one for a task.
    """

    text: str = ""
    retry: str = ""
    resume: str = ""
    request_id: str = ""
    goal_id: str = ""
    requester: str = "user"
    context: dict[str, Any] = {}
    context_refs: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    priority: TaskPriority = TaskPriority.MEDIUM
    deadline: str = ""
    said: Said | None = None
    person: str = ""
    control: Control | None = None
    part_of: str = ""
    cause: str = ""
    starts_from: tuple[str, ...] = ()
    depth: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    asker: str = ""
    budget: GoalBudget | None = None

    def __post_init__(self) -> None:
        if self.retry and (self.resume or self.text or self.context):
            raise ValueError("retry goes without resume, text and context: the goal has them")
        if self.control is not None:
            require_name("control.agent", self.control.agent)
            if self.retry or self.resume or self.text or self.context:
                raise ValueError("control goes without retry, resume, text and context")
        elif self.text or not (self.retry or self.resume):
            require_text("text", self.text, MAX_INSTRUCTION if self.resume else MAX_TEXT)
        for field in ("retry", "resume", "request_id", "part_of", "cause"):
            if (value := getattr(self, field)) and not TOKEN.fullmatch(value):
                raise ValueError(f"{field} must be 1 to 128 letters, digits, '_' or '-'")
        if not all(map(TOKEN.fullmatch, self.starts_from)):
            raise ValueError("starts_from must name workspaces")
        require_name("requester", self.requester)
        if self.asker:
            require_name("asker", self.asker)
        if self.goal_id and not TOKEN.fullmatch(self.goal_id):
            raise ValueError("goal_id must be 1 to 128 letters, digits, '_' or '-'")
        if len(self.goal_id) > MAX_GOAL_ID:
            raise ValueError(f"goal_id has more than {MAX_GOAL_ID} characters")
        if self.deadline:
            require_timestamp("deadline", self.deadline)
        if self.person:
            require_person("person", self.person)
