"""Reasoning: as little thinking as will do - an answer straight away, then a light plan, then a deep one."""

from typing import NamedTuple

from services.cortex.cognition.evaluation import evaluate_with_model
from services.cortex.cognition.executive import MOST_SUBTASKS, Answer
from services.cortex.cognition.material import Finding, digest_of
from services.cortex.cognition.perception import Complexity
from services.cortex.cognition.run import MOST_ITERATIONS, Run
from services.cortex.stepping import tell
from shared.tasks.actions import Outcome


class Level(NamedTuple):
    """How hard is thought: subtasks of a plan (0: none), iterations, and the confidence that is enough."""

    name: str
    subtasks: int
    iterations: int
    enough: float


LEVELS = (
    Level("direct", 0, 1, 0.6),
    Level("light", 2, 1, 0.7),
    Level("deep", MOST_SUBTASKS, MOST_ITERATIONS, 0.5),
)
"""What is tried one after another; the thresholds are those of the documents this descends from. The last is
the lowest: after it there is nothing left to try, and what it misses is said."""
START: dict[Complexity, int] = {"simple": 0, "medium": 1, "complex": 2}
"""The first level that is tried for a task of that complexity."""


async def reason(run: Run, complexity: Complexity) -> Outcome:
    """Work ``run`` out, from the level its complexity suggests upwards until one is confident enough.

    An attempt that was not leaves what it did, so that the same is not done twice, and what it missed, as a
    hint; its answer and its thoughts are not shown to the next. Raises ActionError as Run.work_out.
    """
    async with run.telling_errors():
        names = [level.name for level in LEVELS]
        first = names.index(run.state.level) if run.state.level in names else START[complexity]
        answer = None
        for level in LEVELS[first:]:
            run.state.begin_level(level.name, level.enough)
            answer = await (_attempt(run, level) if level.subtasks else _answer_directly(run, level))
            if answer is not None:
                break
        return await run.close(answer or await run.put_together())


async def _attempt(run: Run, level: Level) -> Answer | None:
    """The answer by a plan, None where it is not good enough."""
    await run.plan(run.state.missed, level.subtasks)
    await run.iterate(level.iterations)
    return await run.put_together() if run.state.is_complete else None


async def _answer_directly(run: Run, level: Level) -> Answer | None:
    """The answer by one train of thought, None where it is not good enough."""
    state = run.state
    await state.move("execution", "answers directly")
    conclusion = await run.stepper.think(state.context.user_query, state.context.conversation_history)
    told = tell(conclusion.result, conclusion.evidence_refs, conclusion.output_paths)
    finding = Finding(
        digest=digest_of(run.agent.profile.name, level.name, {}),
        iteration=1,
        level=level.name,
        action="answer directly",
        by=run.agent.profile.name,
        done=True,
        output=told.output,
        evidence_refs=told.evidence_refs,
        output_paths=told.output_paths,
    )
    state.add(finding)
    evaluation = await evaluate_with_model(run.agent, state.context.user_query, [finding])
    await state.judge(evaluation, 1)
    return Answer(answer=told.output, evidence=told.evidence_refs) if state.is_complete else None
