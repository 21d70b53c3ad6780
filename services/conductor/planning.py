"""How a goal becomes tasks without asking a model: what its context names, else the nearest playbook."""

import asyncio
import shlex
import time
from collections.abc import Mapping, Sequence

import msgspec

from services.conductor.playbook import Playbook, fill_parameters, load_counterexamples, tasks_of, variants
from shared.contracts import Goal, GoalTask
from shared.contracts.base import require_name
from shared.errors import ActionError, BusError, BusUnavailable
from shared.memory import Memory

NEAR_ENOUGH = 0.72
"""Cosine similarity from which a playbook's example counts as the same request, provided that no
counterexample is nearer. Measured with bge-small-en-v1.5 in tests/flow/test_planning.py: rephrasings
lie above .73, requests for something else below .70 or nearer to a counterexample."""
DESK, NOBODY = "desk", "nobody"
"""Who carries out what the counterexamples ask for."""
NAMED = "named action"
"""What stands as the playbook of a goal whose context says who is to do what."""
PATIENCE = 30.0
"""Seconds for which a goal waits for a memory daemon that is away: one that was killed is back by then."""
LOOK_AGAIN = 0.5
"""Seconds between two tries meanwhile."""


class NoPlaybook(ActionError):
    """No playbook is near enough to what is asked, or none can be looked for; a model may plan it still.

    Its sentence says what can be done without one.
    """


class Planner:
    """Chooses playbooks by example, in the embedding space of the memory daemon."""

    def __init__(self, playbooks: Mapping[str, Playbook], memory: Memory) -> None:
        self._playbooks = playbooks
        self._memory = memory
        self._examples: list[tuple[Playbook | str, list[float]]] = []

    async def plan(self, goal: Goal) -> Goal:
        """``goal`` with its tasks; raises ActionError where it cannot be planned, with what can be done.

        That is a NoPlaybook where a model might still plan it.
        """
        named = goal.context
        if named.get("action") or named.get("assignee"):
            return msgspec.structs.replace(goal, playbook=NAMED, tasks=(_named_task(goal),))
        playbook = await self._choose(goal)
        values = fill_parameters(playbook, goal.text, goal.context)
        tasks = tasks_of(playbook, goal.goal_id, values)
        return msgspec.structs.replace(goal, playbook=playbook.name, parameters=dict(values), tasks=tasks)

    async def _choose(self, goal: Goal) -> Playbook:
        name = goal.context.get("playbook")
        if name is None:
            return await self._nearest(goal.text)
        if str(name) not in self._playbooks:
            raise ActionError(
                f"There is no playbook {str(name)[:60]!r}", f"There are {', '.join(self._playbooks)}"
            )
        return self._playbooks[str(name)]

    async def _nearest(self, text: str) -> Playbook:
        if not self._examples:
            self._examples = await self._embed_examples()
        asked = variants(text[:2_000], self._playbooks)
        vectors = await self._embed([sentence for sentence, _ in asked])
        score, nearest = max(
            (
                (_dot(vector, example), book)
                for vector, (_, only) in zip(vectors, asked, strict=True)
                for book, example in self._examples
                if only is None or isinstance(book, str) or book is only
            ),
            key=lambda pair: pair[0],
        )
        if nearest == DESK and score >= NEAR_ENOUGH:
            asked_so = shlex.quote(" ".join(text[:2_000].split()))
            raise NoPlaybook(
                "Reminders and the weather are the front desk's", f"Ask it with: mailroom ask {asked_so}"
            )
        if isinstance(nearest, str) or score < NEAR_ENOUGH:
            raise NoPlaybook(self._cannot())
        return nearest

    async def _embed_examples(self) -> list[tuple[Playbook | str, list[float]]]:
        against = load_counterexamples()
        pairs: list[tuple[Playbook | str, str]] = [
            (book, example) for book in self._playbooks.values() for example in book.examples
        ]
        pairs += [(DESK, sentence) for sentence in against.desk]
        pairs += [(NOBODY, sentence) for sentence in against.nobody]
        vectors = await self._embed([sentence for _, sentence in pairs])
        return [(book, vector) for (book, _), vector in zip(pairs, vectors, strict=True)]

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return await self._memory.embed(*texts)
            except BusError as error:
                if not isinstance(error, BusUnavailable) or time.monotonic() > deadline:
                    raise NoPlaybook(error.cause, error.cure) from None
            await asyncio.sleep(LOOK_AGAIN)

    def _cannot(self) -> str:
        offers = "\n".join(
            f"- {book.description} For example: “{book.examples[0]}”" for book in self._playbooks.values()
        )
        return (
            "No model is configured, and none of the playbooks is near enough to what was asked. "
            f"Without a model the office can:\n{offers}\n"
            "An action of an agent can also be named: context assignee=engineer action=git_log. "
            "Answers to open questions need a model: set MAILROOM_BRAIN, such as openai:MODEL"
        )


def _named_task(goal: Goal) -> GoalTask:
    """The one task of a goal whose context says who is to do what."""
    context = goal.context
    try:
        assignee = str(context.get("assignee", "")).strip().lower()
        require_name("assignee", assignee)
    except ValueError as error:
        raise ActionError(f"The context names an action, but {error}", "Add assignee=AGENT") from None
    params = context.get("params", {})
    if not isinstance(params, dict):
        raise ActionError("params in the context must be an object", 'Such as {"repo": "/path"}')
    rest = {key: value for key, value in context.items() if key not in ("assignee", "action", "params")}
    return GoalTask(
        name="task",
        task_id=f"{goal.goal_id}-task-1",
        text=goal.text,
        assignee=assignee,
        action=str(context.get("action", "")),
        params={**rest, **params},
    )


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
