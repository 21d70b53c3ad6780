"""Drafts: plans as a model writes them, checked until they are plans that can be carried out."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import msgspec

from services.cortex.call import REFERENCE
from services.cortex.colleagues import Colleagues
from shared.agent.context import AgentContext
from shared.contracts import TaskPlan, TaskStep
from shared.llm.protocol import Message
from shared.tasks.actions import Action

MOST_DRAFTED = 20
"""The most steps a model's plan may have: more are a sign that it lists instead of planning."""
Estimate = Literal["", "low", "medium", "high"]


class DraftStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step as a model writes it: what is to be done, who does it, and the action where one fits."""

    step_number: int
    description: str
    assignee: str = ""
    action: str = ""
    params: dict[str, Any] = {}
    dependencies: tuple[int, ...] = ()
    estimated_complexity: Estimate = ""
    success_criteria: str = ""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as a model writes it."""

    steps: tuple[DraftStep, ...]
    overall_complexity: Estimate = ""
    required_tools: tuple[str, ...] = ()
    estimated_duration: str = ""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan may be made of: the planner, its ``actions`` that can be steps, its colleagues."""

    agent: str
    actions: Mapping[str, Action]
    colleagues: Colleagues
    most_steps: int = MOST_DRAFTED


async def draft_plan(agent: AgentContext, words: str, task_id: str, frame: Frame) -> TaskPlan:
    """The plan the model makes of ``words``, asked again where it is none; raises ModelError."""
    question = f"{words}\n\n{describe_frame(frame)}"
    draft = await agent.models.ask_model_for(
        [Message(role="user", text=question)], Draft, checker(task_id, frame)
    )
    return make_task_plan(draft, task_id, frame)


def checker(task_id: str, frame: Frame) -> Callable[[Draft], str | None]:
    """What says of a draft why it is no plan, or None where it is one."""

    def check(draft: Draft) -> str | None:
        if len(draft.steps) > frame.most_steps:
            return f"steps has {len(draft.steps)} steps; the most are {frame.most_steps}"
        try:
            make_task_plan(draft, task_id, frame)
        except ValueError as error:
            return str(error)
        return next(filter(None, (_fault(step, frame) for step in draft.steps)), None)

    return check


def make_task_plan(draft: Draft, task_id: str, frame: Frame) -> TaskPlan:
    """``draft`` as a TaskPlan; raises ValueError where it is none, as with steps that wait in a circle."""
    return TaskPlan(
        task_id=task_id,
        agent=frame.agent,
        steps=tuple(_make_step(step, frame.agent) for step in draft.steps),
        overall_complexity=draft.overall_complexity,
        required_tools=draft.required_tools,
        estimated_duration=draft.estimated_duration,
    )


def describe_frame(frame: Frame) -> str:
    """What the model is told of who can do what, and how steps refer to each other."""
    own = "\n".join(
        f"- {name}({', '.join(action.param_infos)}): {action.description}"
        for name, action in frame.actions.items()
    )
    return (
        f"Make a plan of 1 to {frame.most_steps} steps, as JSON. Each step has a step_number from "
        "1, a description, "
        "dependencies (the numbers of the steps it waits for), success_criteria, and an assignee. "
        "Name an action with "
        "its params where one below does it; leave action empty where the assignee is to work it "
        "out from the "
        'description. In params and descriptions "${2}" stands for the output of step 2, which '
        "must be among the "
        f"dependencies.\n\nYou are {frame.agent}. Your own actions:\n{own or '- none'}\n\nYour colleagues:\n"
        f"{frame.colleagues.describe() or '- none are at work'}"
    )


def _make_step(step: DraftStep, own_name: str) -> TaskStep:
    context: dict[str, Any] = {"assignee": step.assignee.strip().lower() or own_name}
    if step.action.strip():
        context |= {"action": step.action.strip(), "params": step.params}
    return TaskStep(
        step_number=step.step_number,
        action=step.description,
        dependencies=step.dependencies,
        estimated_complexity=step.estimated_complexity,
        success_criteria=step.success_criteria,
        context=context,
    )


def _fault(step: DraftStep, frame: Frame) -> str | None:
    assignee, action = step.assignee.strip().lower() or frame.agent, step.action.strip()
    where = f"step {step.step_number}"
    if fault := _foreign_reference(step, where):
        return fault
    if assignee == frame.agent:
        return _fault_of_own(step, action, where, frame.actions) if action else None
    actions = frame.colleagues.actions_of(assignee)
    if actions is None:
        names = ", ".join([frame.agent, *frame.colleagues.names])
        return f"{where}: there is no agent {assignee[:60]!r}; there are {names}"
    if action and action not in actions:
        has = f"it has {_named(actions)}, or leave action empty"
        return f"{where}: {assignee} has no action {action[:60]!r}; {has}"
    return None


def _foreign_reference(step: DraftStep, where: str) -> str | None:
    text = f"{step.description} {msgspec.json.encode(step.params).decode()}"
    foreign = {int(found[1]) for found in REFERENCE.finditer(text)} - set(step.dependencies)
    return (
        f"{where}: it refers to ${{{min(foreign)}}}, which is not among its dependencies" if foreign else None
    )


def _fault_of_own(step: DraftStep, action: str, where: str, own: Mapping[str, Action]) -> str | None:
    if action not in own:
        return f"{where}: you have no action {action[:60]!r} that can be a step; you have {_named(own)}"
    if REFERENCE.search(msgspec.json.encode(step.params).decode()):
        return None  # what it will hold is not known yet
    try:
        msgspec.convert(step.params, own[action].params)
    except msgspec.ValidationError as error:
        return f"{where}: params of {action}: {error}"
    return None


def _named(actions: Collection[str]) -> str:
    return ", ".join(actions) or "none"
