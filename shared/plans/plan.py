"""Plans and their steps, and what is wrong with a plan that cannot be carried out."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from shared.plans.agents import AgentPage
from shared.plans.order import find_circle
from shared.plans.references import referenced_steps

MAX_TEXT = 8_000
"""Characters of the text of one step."""
MAX_NAME = 40
MAX_PARAMS = 200_000
"""Bytes of the parameters of one step."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step: a short ``name``, a ``text`` that is clear by itself, who does it, and what it builds on.

    ``action`` and ``params`` only if one of the assignee's actions does exactly this; otherwise the assignee
    works out by itself how to do what the text says. ``success_criteria`` says what must hold in the end.
    """

    name: str
    text: str
    assignee: str
    action: str = ""
    params: dict[str, Any] = {}
    depends_on: tuple[str, ...] = ()
    success_criteria: str = ""

    @property
    def key(self) -> str:
        """The name as it is used in ids."""
        return step_key(self.name)

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the steps it waits for, each once."""
        return tuple(dict.fromkeys(map(step_key, self.depends_on)))

    @property
    def agent(self) -> str:
        """The name of the assignee."""
        return self.assignee.strip().lower()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that wait for each other. ``noun`` is what the planner calls one, ``naming`` what names it."""

    steps: tuple[Step, ...]
    noun: str = "step"
    naming: str = "name"


class PlanLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan may consist of.

    ``agents`` may be given steps, except those in ``no_steps``; ``new_agents`` do not exist yet. ``done`` are
    completed steps of an earlier plan, which may be built on; ``reserved`` are keys that no step may have.
    With ``references``, ``${2}`` in a step stands for the output of step 2.
    """

    agents: Mapping[str, AgentPage]
    max_steps: int
    no_steps: frozenset[str] = frozenset()
    new_agents: Collection[str] = ()
    done: Collection[str] = ()
    reserved: Collection[str] = ()
    references: bool = False


def step_key(name: str) -> str:
    """A step's name as it is used in ids: letters, digits and dashes; 'task' if none is left."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:MAX_NAME].strip("-").lower() or "task"


def find_fault(plan: Plan, limits: PlanLimits) -> str | None:
    """What is wrong with a plan, in a sentence for the model that made it; None if it can be carried out."""
    if not plan.steps:
        return f"the plan is empty: give at least one {plan.noun}"
    if len(plan.steps) > limits.max_steps:
        return f"the plan has {len(plan.steps):,} {plan.noun}s, and {limits.max_steps} are allowed"
    taken = {*limits.done, *limits.reserved}
    for step in plan.steps:
        if step.key in taken:
            return f"the {plan.naming} {step.name[:60]!r} is taken: each {plan.noun} needs one of its own"
        taken.add(step.key)
    known = {*limits.done, *(step.key for step in plan.steps)}
    for step in plan.steps:
        if fault := _fault_of_step(step, known, plan.noun, limits):
            return f"{plan.noun} {step.name[:60]}: {fault}"
    if circle := find_circle({step.key: step.needs for step in plan.steps}):
        return f"{plan.noun}s wait for each other in a circle: {', '.join(circle)[:300]}"
    return None


def _fault_of_step(step: Step, known: Collection[str], noun: str, limits: PlanLimits) -> str:
    if not step.text.strip() or len(step.text) > MAX_TEXT:
        return f"its text must have 1 to {MAX_TEXT:,} characters"
    if missing := [name for name in step.depends_on if step_key(name) not in known]:
        return f"it depends on {missing[0][:60]!r}, which is no {noun} of the plan"
    if limits.references and (foreign := referenced_steps([step.text, step.params]) - set(step.needs)):
        return f"it refers to ${{{min(foreign, key=int)}}}, which is not among its dependencies"
    if len(msgspec.json.encode(step.params)) > MAX_PARAMS:
        return f"its params have more than {MAX_PARAMS:,} bytes"
    return _fault_of_assignee(step, limits)


def _fault_of_assignee(step: Step, limits: PlanLimits) -> str:
    name, page = step.agent, limits.agents.get(step.agent)
    if name in limits.no_steps:
        return f"{name!r} takes no tasks from a plan"
    if page is None and name not in limits.new_agents:
        there = ", ".join(sorted({*limits.agents, *limits.new_agents} - limits.no_steps))
        return f"there is no agent {name[:60]!r}; there are {there}"
    if not step.action.strip():
        return "" if page is None or page.thinks else f"{name} needs a named action"
    if page is None or not page.at_work:
        return f"the actions of {name} are not known yet: leave the action out, and say it in the text"
    return _fault_of_action(step.action.strip(), step.params, page)


def _fault_of_action(action: str, params: Mapping[str, Any], page: AgentPage) -> str:
    if action not in page.actions:
        there = ", ".join(sorted(page.actions)) or "none"
        return f"{page.name} has no action {action[:60]!r}; it has {there}. Or leave the action out"
    schema = page.schemas.get(action, {})
    known, required = schema.get("properties", {}), schema.get("required", ())
    if unknown := [name for name in params if name not in known]:
        return f"{action} has no parameter {unknown[0][:60]!r}; it has {', '.join(known) or 'none'}"
    if missing := [name for name in required if name not in params]:
        return f"{action} needs the parameter {missing[0]!r}"
    return ""
