"""Asking a model about a goal: for a plan, for another one, for an answer; each comes back as a decision."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from services.conductor.course import REPAIR, end
from services.conductor.draft import Draft, find_fault, newcomers, tasks_of
from services.conductor.learning import MetaLearner
from services.conductor.prompts import (
    Synthesis,
    ask_for_answer,
    ask_for_plan,
    ask_for_repair,
    find_fault_in_answer,
)
from services.conductor.recruiting import Recruiter
from services.conductor.repair import PLAN, give_up_repair, take_answer, take_plan
from services.conductor.yellow_pages import Page
from shared.contracts import Goal, GoalTask, TaskStatus
from shared.errors import ActionError
from shared.llm.protocol import Message
from shared.log import logger
from shared.reasoning.model import ModelSession

Decision = Callable[[Goal], Goal]
"""From how a goal stands to how it stands after what the model said, whatever happens meanwhile."""

log = logger(__name__)


class Deliberation:
    """Asks a model about goals; ``read_pages`` says who is there."""

    def __init__(
        self,
        models: ModelSession,
        recruiter: Recruiter,
        learner: MetaLearner,
        read_pages: Callable[[], Awaitable[dict[str, Page]]],
    ) -> None:
        self._models = models
        self._recruiter = recruiter
        self._learner = learner
        self._read_pages = read_pages

    async def decide(self, goal: Goal, results: Mapping[str, Any]) -> Decision:
        """What becomes of ``goal`` by what the model says to what it is asked (``goal.thinking``)."""
        if goal.thinking == PLAN:
            return await self._plan(goal)
        if goal.thinking == REPAIR:
            return await self._repair(goal, results)
        answer = await self._answer(goal, results)
        return lambda now: take_answer(now, answer)

    async def _plan(self, goal: Goal) -> Decision:
        try:
            tasks = await self._draft(goal, lambda pages, room: ask_for_plan(goal, pages, room))
        except ActionError as error:
            reason = f"it could not be planned: {error}"
            log.warning("not_planned", goal_id=goal.goal_id, reason=str(error))
            return lambda now: end(now, TaskStatus.FAILED, reason, answer=reason, thinking="")
        return lambda now: take_plan(now, tasks)

    async def _repair(self, goal: Goal, results: Mapping[str, Any]) -> Decision:
        try:
            tasks = await self._draft(goal, lambda pages, room: ask_for_repair(goal, pages, room, results))
        except ActionError as error:
            reason = str(error)
            log.warning("not_planned_anew", goal_id=goal.goal_id, reason=reason)
            return lambda now: give_up_repair(now, reason)
        return lambda now: take_plan(now, tasks)

    async def _draft(
        self, goal: Goal, ask: Callable[[Mapping[str, Page], int], list[Message]]
    ) -> tuple[GoalTask, ...]:
        """The tasks of a plan without faults, its specialists at work; raises ActionError for none."""
        pages = await self._read_pages()
        room = await self._recruiter.room()
        kept = {task.name for task in goal.tasks if task.status is TaskStatus.COMPLETED}
        draft = await self._models.ask_model_for(
            ask(pages, room), Draft, lambda drafted: find_fault(drafted, pages, kept, room)
        )
        for wanted in newcomers(draft, pages).values():
            await self._recruiter.create(wanted.domain, wanted.requirements, goal.requester)
        return self._learner.route(tasks_of(draft, goal), pages)

    async def _answer(self, goal: Goal, results: Mapping[str, Any]) -> str:
        """An answer from the results, labelled and with its sources; empty where the model gives none."""
        completed = {task.name: task for task in goal.tasks if task.status is TaskStatus.COMPLETED}
        try:
            said = await self._models.ask_model_for(
                ask_for_answer(goal, results),
                Synthesis,
                lambda synthesis: find_fault_in_answer(synthesis, set(completed)),
            )
        except ActionError as error:
            log.warning("no_answer_from_the_model", goal_id=goal.goal_id, reason=str(error))
            return ""
        sources = "\n".join(
            f"[{name}] {completed[name].assignee}, task {completed[name].task_id}"
            for name in dict.fromkeys(said.citations)
        )
        label = f"(Written by the model {self._models.model.name} from the results of the tasks.)"
        return f"{said.answer.strip()[:40_000]}\n\n{label}\n{sources}".strip()
