"""Plans: their steps and the order of these, references to outputs of steps, agents that can do them."""

import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

import msgspec

from shared import subjects
from shared.contracts import Presence, TaskPlan, TaskStep
from shared.errors import ActionError

K = TypeVar("K", int, str)


def find_circle(waits_for: Mapping[K, Iterable[K]]) -> tuple[K, ...]:
    """Keys in a circle, each before the one it waits for and the first again at the end; empty for none."""
    try:
        TopologicalSorter(waits_for).prepare()
    except CycleError as error:
        return tuple(reversed(error.args[1]))  # the sorter lists what is waited for first
    return ()


def sort_steps(steps: Sequence[TaskStep]) -> TopologicalSorter[int]:
    """A prepared sorter over the step numbers; raises ActionError that names the steps of a circle."""
    waits_for = {step.step_number: step.dependencies for step in steps}
    if circle := find_circle(waits_for):
        names = {step.step_number: f"{step.step_number} ({step.action[:40]!r})" for step in steps}
        raise ActionError(
            f"The steps can never be done: {' waits for '.join(names[number] for number in circle)}",
            "Remove one of these dependencies",
        )
    sorter = TopologicalSorter(waits_for)
    sorter.prepare()
    return sorter


def group_steps(steps: Sequence[TaskStep]) -> tuple[tuple[int, ...], ...]:
    """The step numbers in groups: those of one can run at once, and each group after the one before."""
    sorter = sort_steps(steps)
    groups = []
    while sorter.is_active():
        group = tuple(sorted(sorter.get_ready()))
        groups.append(group)
        sorter.done(*group)
    return tuple(groups)


def plan_of(values: Any, task_id: str, agent: str) -> TaskPlan:
    """The plan in ``values``, which may omit task_id and agent; raises ActionError for an invalid one."""
    try:
        whole = {"task_id": task_id, "agent": agent, **values}
        # The contract reports a circle by numbers, this by the steps' texts.
        sort_steps(msgspec.convert(whole.get("steps", ()), tuple[TaskStep, ...]))
        return msgspec.convert(whole, TaskPlan)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise ActionError(
            f"This is not a plan: {error}", "A plan has steps with a step_number and an action"
        ) from None


def step_name(number: int) -> str:
    """The name of the task that a step of a plan becomes."""
    return f"step-{number}"


def number_of(name: str) -> int:
    """The number of the step whose task is called ``name``; 0 for a task that is none."""
    number = name.removeprefix("step-")
    return int(number) if name.startswith("step-") and number.isdigit() else 0


REFERENCE = re.compile(r"\$\{(\d+)(\.path)?\}")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What a step executes: ``action`` of ``assignee`` with ``params``, or, without an action, ``text``."""

    assignee: str
    action: str = ""
    params: dict[str, Any] = {}
    text: str = ""


class StepOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What an earlier step left for later ones."""

    output: str = ""
    output_paths: tuple[str, ...] = ()


def referenced_steps(value: Any) -> set[str]:
    """The numbers of the steps that ``value``, any JSON, refers to."""
    return {found[1] for found in REFERENCE.finditer(msgspec.json.encode(value).decode())}


def fill_references(value: Any, outputs: Mapping[int, StepOutput], *, partly: bool = False) -> Any:
    """``value`` with its references replaced; raises ActionError for one that ``outputs`` cannot fill.

    With ``partly``, references to other steps stay as they are.
    """
    if isinstance(value, dict):
        return {name: fill_references(entry, outputs, partly=partly) for name, entry in value.items()}
    if isinstance(value, list):
        return [fill_references(entry, outputs, partly=partly) for entry in value]
    if not isinstance(value, str):
        return value

    def resolve(found: re.Match[str]) -> str:
        step = outputs.get(int(found[1]))
        if step is None and partly:
            return found[0]
        if step is None:
            raise ActionError(f"{found[0]} refers to step {found[1]}, which this step does not depend on")
        if found[2] and not step.output_paths:
            raise ActionError(f"{found[0]} refers to a file, but step {found[1]} left none")
        return step.output_paths[0] if found[2] else step.output

    return REFERENCE.sub(resolve, value)


MAX_SHOWN = 12_000  # Characters of the agents in a prompt; of more, descriptions are left out first
MAX_INTRODUCTION = 320  # Characters of an agent's own description in a prompt
MAX_BRIEF = 200  # Characters of it in a plan's list
MAX_LINE = 120  # Characters of it where no actions are listed


class AgentPage(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a planner sees it; the actions of one that is not ``at_work`` are not known."""

    name: str
    description: str = ""
    instructions: str = ""
    skills: tuple[str, ...] = ()
    actions: Mapping[str, str] = {}
    schemas: Mapping[str, Mapping[str, Any]] = {}
    unplanned: tuple[str, ...] = ()
    at_work: bool = False

    @property
    def planned(self) -> list[str]:
        """The actions that a plan may name."""
        return sorted(self.actions.keys() - set(self.unplanned))

    @property
    def thinks(self) -> bool:
        """Whether it can do a step that names no action, given a model: every agent but memory can."""
        return self.name != subjects.MEMORY_DAEMON

    def offers(self, action: str, parameter: str = "") -> bool:
        """Whether it has the action, and the action the parameter."""
        known = self.schemas.get(action, {}).get("properties", {})
        return action in self.actions and (not parameter or parameter in known)


def page_of(presence: Presence) -> AgentPage:
    """The page of an agent at work."""
    return AgentPage(
        name=presence.agent,
        description=presence.description,
        instructions=presence.instructions,
        skills=presence.skills,
        actions=presence.actions,
        schemas=presence.schemas,
        unplanned=presence.unplanned,
        at_work=True,
    )


def pages_of(present: Mapping[str, Presence], known: Iterable[str] = ()) -> dict[str, AgentPage]:
    """A page for each agent that is at work, or ``known`` by its profile alone; sorted by name."""
    pages = {name: AgentPage(name=name) for name in known}
    return dict(sorted((pages | {name: page_of(presence) for name, presence in present.items()}).items()))


def format_agents(
    pages: Iterable[AgentPage], *, actions: bool = True, limit: int = MAX_SHOWN, brief: bool = False
) -> str:
    """The agents for a prompt, in at most ``limit`` characters, and with ``actions`` what each can do.

    In ``brief`` an agent has a line, with the actions that are its own and take plain values: those that
    several have are tools of their loops, and what a program makes is no plan's to give.

    An action that several agents have is described once, at the end. Agents made for one field are last, and
    with too little room descriptions go before any name does.
    """
    pages = sorted(pages, key=lambda page: page.name.startswith("specialist-"))
    if brief:
        text = "\n".join(_format_briefly(pages))
        return text if len(text) <= limit else "\n".join(_format_briefly(pages, parameters=False))[:limit]
    for introduction, described in ((MAX_INTRODUCTION, 120), (160, 60), (80, 0)):
        if actions:
            text = _format_pages(pages, introduction, described)
        else:  # for a letter or a task to one of them a line each is enough, which every request pays for
            named = (msgspec.structs.replace(page, instructions="") for page in pages)
            text = "\n".join(_introduce(page, MAX_LINE) for page in named)
        if len(text) <= limit:
            return text
    return f"{text[:limit].rpartition(chr(10))[0]}\n(cut off here)"


def _format_briefly(pages: Sequence[AgentPage], *, parameters: bool = True) -> Iterator[str]:
    counts = Counter(name for page in pages for name in page.actions)
    for page in pages:
        if page.at_work and not page.thinks:
            continue  # its actions are not for plans
        own = [
            _format_action(page, name, 0) if parameters else name
            for name in page.planned
            if counts[name] == 1 and _is_plain(page.schemas.get(name, {}))
        ]
        does = f" Actions: {', '.join(own)}" if own and page.at_work else ""
        yield f"{_introduce(msgspec.structs.replace(page, instructions=''), MAX_BRIEF)}{does}"


def _is_plain(schema: Mapping[str, Any]) -> bool:
    """Whether it requires no object, and nothing of any type."""
    known = schema.get("properties", {})
    return all(known.get(name, {}).get("type", "object") != "object" for name in schema.get("required", ()))


def _format_pages(pages: Sequence[AgentPage], introduction: int, described: int) -> str:
    signatures = {
        (page.name, name): _format_action(page, name, described)
        for page in pages
        if page.at_work
        for name in page.planned
    }
    counts = Counter(signatures.values())
    rows = []
    for page in pages:
        rows.append(_introduce(page, introduction))
        own = {name: signatures[page.name, name] for name in page.planned if page.at_work}
        rows += [f"  - {text}" for text in own.values() if counts[text] == 1]
        if shared := [name for name, text in own.items() if counts[text] > 1]:
            rows.append(f"  - as below: {', '.join(shared)}")
    if several := sorted(text for text, count in counts.items() if count > 1):
        rows += ["Actions that several of them have:", *(f"- {text}" for text in several)]
    return "\n".join(rows)


def _introduce(page: AgentPage, limit: int = MAX_INTRODUCTION) -> str:
    if not page.at_work:
        return f"- {page.name}: not at work at present; a step without an action waits for it."
    words = f"{page.description} {page.instructions}" if page.thinks else "It takes named actions only."
    return f"- {page.name}: {textwrap.shorten(words, limit, placeholder=' …')}".rstrip()


def _format_action(page: AgentPage, name: str, described: int) -> str:
    schema = page.schemas.get(name, {})
    required = schema.get("required", ())
    params = ", ".join(
        f"{param}{'' if param in required else '?'}{_format_type(values)}"
        for param, values in schema.get("properties", {}).items()
    )
    about = textwrap.shorten(page.actions[name], described, placeholder=" …") if described else ""
    return f"{name}({params}){f': {about}' if about else ''}"


def _format_type(values: Mapping[str, Any]) -> str:
    kind = values.get("type", "any")
    return "" if kind == "string" else f": {kind}"


MAX_TEXT = 8_000  # Characters of the text of one step
MAX_NAME = 40
MAX_PARAMS = 200_000  # Bytes of the parameters of one step


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
    if action not in page.planned:
        there = ", ".join(page.planned) or "none"
        return f"{page.name} has no action {action[:60]!r}; it has {there}. Or leave the action out"
    schema = page.schemas.get(action, {})
    known, required = schema.get("properties", {}), schema.get("required", ())
    if unknown := [name for name in params if name not in known]:
        return f"{action} has no parameter {unknown[0][:60]!r}; it has {', '.join(known) or 'none'}"
    if missing := [name for name in required if name not in params]:
        return f"{action} needs the parameter {missing[0]!r}"
    return ""
