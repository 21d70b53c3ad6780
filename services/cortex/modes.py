"""Modes: how much a model reasons about a task, from one agent loop to all stages of a run."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from services.cortex import perception
from services.cortex.model_plans import MAX_SUBTASKS
from services.cortex.perception import Complexity
from services.cortex.run import MAX_ITERATIONS, Run
from services.cortex.run_state import Answer, Finding, Query, conclude, digest_of
from shared import subjects
from shared.agent.context import AgentContext
from shared.contracts import Task
from shared.errors import ActionError
from shared.llm.protocol import message_of
from shared.messaging.correspondence import history_of
from shared.reasoning import prompts
from shared.reasoning.loop import Conclusion
from shared.reasoning.prompts import frame_task
from shared.skills.mentions import open_mentions
from shared.tasks.actions import Action, Outcome
from shared.tasks.context import Opened
from shared.text.display import quote

PEER_ACTIONS = frozenset({"delegate_task", "write_to_colleague", "ask_everybody"})
"""The actions by which a model reaches other agents."""
MAX_QUERY = 60_000  # The most characters of a task with its context that is worked on


class Mode(StrEnum):
    """SIMPLE is one agent loop, REASONING adds plans and evaluation, COGNITIVE memory and stages."""

    SIMPLE = "simple"
    REASONING = "reasoning"
    COGNITIVE = "cognitive"


AUTO = "auto"  # The name of the mode if the complexity of the task decides
MODE_FOR: dict[Complexity, Mode] = {
    "simple": Mode.SIMPLE,
    "medium": Mode.REASONING,
    "complex": Mode.COGNITIVE,
}


class Level(NamedTuple):
    """A level of reasoning: subtasks of a plan (0: none), iterations, and the confidence that is enough."""

    name: str
    subtasks: int
    iterations: int
    enough: float


LEVELS = (
    Level("direct", 0, 1, 0.6),
    Level("light", 2, 1, 0.7),
    Level("deep", MAX_SUBTASKS, MAX_ITERATIONS, 0.5),
)
"""The levels in the order they are tried. The last needs the least confidence: none is left after it."""
FIRST_LEVEL: dict[Complexity, int] = {"simple": 0, "medium": 1, "complex": 2}


def parse_mode(name: str) -> Mode | None:
    """The mode called ``name``, None for "" and "auto"; raises ActionError for any other name."""
    wanted = name.strip().lower()
    if wanted in ("", AUTO):
        return None
    try:
        return Mode(wanted)
    except ValueError:
        names = ", ".join([AUTO, *Mode])
        raise ActionError(f"There is no mode {name[:40]!r}", f"The modes are {names}") from None


def find_mode(context: Mapping[str, Any], default: str) -> Mode | None:
    """The mode named in a task's context or its params, else ``default``; None for auto."""
    params = context.get("params")
    named = context.get("mode") or (params.get("mode") if isinstance(params, Mapping) else "")
    return parse_mode(str(named or default))


def query_of(task: Task, limit: int, references: Mapping[str, Opened]) -> Query:
    """What a task asks, with its context except the mode and its references, in ``limit`` characters."""
    context = {name: value for name, value in task.context.items() if name != "mode"}
    whole = frame_task(
        msgspec.structs.replace(task, context=context), "", min(limit, MAX_QUERY // 2), references
    )
    return Query(text=task.text, whole=whole[:MAX_QUERY], history=tuple(history_of(task.context)))


NO_STEPS = frozenset({"execute_plan", "execute_step", "process_overnight_job", "work_out"})
"""Own actions that a model does not call: they carry out plans, or work tasks out, themselves."""
NO_HANDS = frozenset(
    {"generate_plan", "queue_job", "queue_status", "run_job", "move_job", "cancel_job", "write_code"}
)
"""Own actions that a step in words does without: it is a part of a plan, and a model is at it already."""


def step_actions(context: AgentContext) -> Mapping[str, Action]:
    """The actions of cortex that can be steps of a model's plan, by name."""
    return {name: action for name, action in context.actions.items() if name not in NO_STEPS}


async def think(
    context: AgentContext, text: str, history: Sequence[Mapping[str, Any]] = (), *, may_rest: bool = False
) -> Conclusion:
    """Have a model work on ``text`` with own actions and other agents; raises ActionError."""
    # A step of cortex' own plan: what others do of it are steps of theirs.
    is_step = context.task.requester == subjects.CONDUCTOR and context.current_task.hops > 0
    names = set(step_actions(context)) - (NO_HANDS if is_step else frozenset())
    return await context.run_loop(
        text,
        actions={*names, *PEER_ACTIONS},
        history=[message_of(entry) for entry in history],
        may_rest=may_rest,
        alone=is_step,
    )


async def answer_simply(context: AgentContext, query: Query, *, may_rest: bool) -> Outcome:
    """Answer ``query`` by one agent loop, given what memory holds about it."""
    known, scores = await context.models.recall(query.text)
    if scores:
        context.current_task.facts["context"] = scores
    mentioned = await open_mentions(query.text, context.task, context.settings, context.memory)
    held = quote("What memory holds", known, "memory") if known else ""
    parts = filter(None, [query.whole, held, mentioned])
    concluded = await think(context, "\n\n".join(parts), query.history, may_rest=may_rest)
    outcome = prompts.conclude(concluded)
    return msgspec.structs.replace(outcome, data={**outcome.data, "mode": Mode.SIMPLE.value})


# --- levels of reasoning -------------------------------------------------------------------------


async def reason(run: Run, complexity: Complexity) -> Outcome:
    """Work out ``run`` from the level that fits its complexity upwards, until one is confident enough.

    The next level gets the findings of the one before, so that nothing is done twice, and what it was
    missing as a hint, but not its answer. Raises ActionError as Run.work_out.
    """
    async with run.recording_errors():
        await run.recall()
        names = [level.name for level in LEVELS]
        first = names.index(run.state.level) if run.state.level in names else FIRST_LEVEL[complexity]
        answer = None
        for level in LEVELS[first:]:
            run.state.begin_level(level.name, level.enough)
            answer = await (_try_plan(run, level) if level.subtasks else _try_directly(run, level))
            if answer is not None:
                break
        answer = answer or await run.synthesise()
        await run.store()
        return await run.close(answer)


async def _try_plan(run: Run, level: Level) -> Answer | None:
    """The answer by a plan; None if it is not good enough."""
    await run.plan(run.state.missed, level.subtasks)
    await run.iterate(level.iterations)
    return await run.synthesise() if run.state.is_complete else None


async def _try_directly(run: Run, level: Level) -> Answer | None:
    """The answer by one agent loop; None if it is not good enough."""
    state, name = run.state, run.context.profile.name
    await state.enter("execution", "answers directly")
    query = state.workspace.user_query
    known = perception.format_known(state.workspace)
    mentioned = str(state.workspace.memory_cache.get("mentioned", ""))
    asked = "\n\n".join(filter(None, [query, known, mentioned]))
    conclusion = await think(run.context, asked, state.workspace.conversation_history)
    finding = Finding(
        digest=digest_of(name, level.name, {}),
        iteration=1,
        level=level.name,
        action="answer directly",
        by=name,
        done=True,
        output=conclusion.result,
        evidence_refs=conclusion.evidence_refs,
        output_paths=conclusion.output_paths,
    )
    state.add(finding)
    await state.apply_evaluation(await conclude(run.context, query, [finding], answering=False), 1)
    if not state.is_complete:
        return None
    state.change(answer=conclusion.result)
    return Answer(answer=conclusion.result, evidence=conclusion.evidence_refs)
