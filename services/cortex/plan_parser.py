"""Parses plans and calls: a text with several steps becomes steps; the tools and the time it needs."""

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any, NamedTuple

import msgspec

from shared.contracts import Task, TaskPlan, TaskRequest, TaskStep, generate_task_id
from shared.errors import ActionError
from shared.language.sayings import read_sayings
from shared.plans import AgentPage, Call, StepOutput, fill_references, sort_steps
from shared.text.display import format_list

MAX_STEPS = 200  # Steps of a plan that is written out; more are a mistake

CALL = re.compile(r"(?:(?P<assignee>[a-z0-9][a-z0-9_-]*)\.)?(?P<action>[a-z]\w*)(?P<params>\s.*)?", re.DOTALL)
NUMBERED = re.compile(r"\s{0,3}(?:step\s+)?(\d{1,4})\s*[.):]\s+(.*)", re.IGNORECASE)
BULLET = re.compile(r"\s{0,3}[-*•+]\s+(?:\[[ xX]\]\s+)?(.*)")
INLINE = re.compile(
    r"(?:^|(?<=[\s,;.:]))(?:and\s+|then\s+)*(?:step\s+)?\(?(\d{1,3})\s*[.):]\)?\s+(?=\S)", re.IGNORECASE
)
"""The number of a step in a list that is written in one line."""
WAYS = read_sayings(__file__, "steps")
RANGE = re.compile(r"(\d+)\s*(?:-|–|to|through)\s*(?:steps?\s+)?#?(\d+)")
QUOTED = re.compile(r'"[^"]*"|`[^`]*`|“[^”]*”')
SEPARATOR = re.compile(
    r"\s*;\s*(?:and\s+)?(?:then\s+)?"
    r"|(?:\s*[,.])?\s+(?:and\s+)?(?:then|after\s+that|afterwards)\b,?\s+",
    re.IGNORECASE,
)
NOT_NEXT = re.compile(
    r"\b(?:if|when|whenever|once|unless)\b[^;]*$|\b(?:since|until|by|now|back)\s*$", re.IGNORECASE
)


class _Item(NamedTuple):
    """A step in the text; ``number`` is the one it has there, 0 for none."""

    number: int
    text: str
    waits: bool


def parse_plan(
    request: str | TaskRequest, *, agent: str = "cortex", own_actions: Collection[str] = ()
) -> TaskPlan:
    """The plan that a text or request spells out, made without a model.

    Numbered lists and parts joined by ";" or "then" are steps that wait for the one before; bullets wait for
    nothing. "(after 1 and 2)" names other steps to wait for, "(in parallel)" none. Anything else is a single
    step. A step written as a call (see parse_call) gets a context that can be executed; a request whose
    context names an action is one step with that context. ``overall_complexity`` is low up to 2 steps, medium
    up to 5. Raises ActionError if the text is empty or its steps wait for each other.
    """
    text = request.task_description if isinstance(request, TaskRequest) else request
    context = request.context if isinstance(request, TaskRequest) else {}
    if not text.strip():
        raise ActionError("There is nothing to plan: the text is empty", "Say what is to be done")
    if context.get("action"):
        steps = [TaskStep(step_number=1, action=text.strip(), context=context)]
    else:
        steps = _parse_steps(_split(text), agent, own_actions)
    return TaskPlan(
        task_id=request.task_id if isinstance(request, TaskRequest) else generate_task_id("plan"),
        agent=agent,
        steps=tuple(steps),
        overall_complexity="low" if len(steps) <= 2 else "medium" if len(steps) <= 5 else "high",
        required_tools=tuple(sorted({tool for step in steps if (tool := _tool(step.context))})),
    )


def _parse_steps(items: Sequence[_Item], agent: str, own_actions: Collection[str]) -> list[TaskStep]:
    if len(items) > MAX_STEPS:
        raise ActionError(f"The plan has {len(items)} steps", f"Cut it into plans of at most {MAX_STEPS}")
    named = [item.number for item in items]
    places = {number: place for place, number in enumerate(named, start=1)}
    if len(places) < len(items):
        places = {place: place for place in range(1, len(items) + 1)}
    steps = [
        _parse_step(place, item, places, agent, own_actions) for place, item in enumerate(items, start=1)
    ]
    sort_steps(steps)
    return steps


def _parse_step(
    place: int, item: _Item, places: dict[int, int], agent: str, own_actions: Collection[str]
) -> TaskStep:
    text, after = _cut_waits(item.text, earlier={number for number, at in places.items() if at < place})
    free = WAYS["free"].search(text)
    text = WAYS["free"].sub("", text).strip(" ,;:–—") or item.text
    for number in after:
        if places.get(number, place) == place:
            raise ActionError(
                f"Step {place} ({text[:60]!r}) is to wait for step {number}, which is no other step"
            )
    waits_for = [places[number] for number in after]
    if not waits_for and item.waits and place > 1 and not free:
        waits_for = [place - 1]
    call = parse_call(text, agent, own_actions)
    context: dict[str, Any] = (
        {"assignee": call.assignee, "action": call.action, "params": call.params} if call else {}
    )
    return TaskStep(
        step_number=place, action=text, dependencies=tuple(dict.fromkeys(waits_for)), context=context
    )


def _cut_waits(text: str, earlier: Set[int]) -> tuple[str, list[int]]:
    """``text`` without what says which steps it waits for, and their numbers; nothing in quotes says so.

    A bare "after 2" at the end counts for an ``earlier`` step alone: it may as well be a time.
    """
    masked = QUOTED.sub(lambda found: "_" * len(found[0]), text)
    spans = [found.span() for found in WAYS["after"].finditer(masked)]
    if not spans and (found := WAYS["after_at_end"].search(masked)) and _numbers_in(found[0]) <= earlier:
        spans = [found.span()]
    numbers = sorted(_numbers_in(" ".join(masked[start:end] for start, end in spans)))
    for start, end in reversed(spans):
        text = f"{text[:start]} {text[end:]}"
    return " ".join(text.split()) if spans else text, numbers


def _numbers_in(text: str) -> set[int]:
    """The numbers of the steps that ``text`` names: "1, 3 and 5-7"."""
    named = {int(number) for number in re.findall(r"\d+", text)}
    for first, last in RANGE.findall(text):
        named |= set(range(int(first), min(int(last), int(first) + MAX_STEPS) + 1))
    return named


def _tool(context: dict[str, Any]) -> str:
    return f"{context.get('assignee', '')}.{context['action']}".lstrip(".") if context.get("action") else ""


def _split(text: str) -> list[_Item]:
    lines = text.splitlines()
    if sum(bool(NUMBERED.fullmatch(line)) for line in lines) == 1 and (inline := _split_inline(text)):
        return inline
    if any(NUMBERED.fullmatch(line) for line in lines):
        return _parse_list(lines, NUMBERED, waits=True)
    if sum(bool(BULLET.fullmatch(line)) for line in lines) > 1:
        return _parse_list(lines, BULLET, waits=False)
    if inline := _split_inline(" ".join(text.split())):
        return inline
    return [_Item(0, part, True) for part in _split_sentence(text)]


def _split_inline(text: str) -> list[_Item]:
    """The items of a list that is written in one line, as "1. do this 2. do that"; none if it is no list.

    Its numbers are 1, 2, 3 ...; others, as of versions and times, belong to the text. Before the first is
    nothing, or an introduction that ends like one.
    """
    flat = " ".join(text.split())
    masked = QUOTED.sub(lambda found: "_" * len(found[0]), flat)
    marks: list[re.Match[str]] = []
    for found in INLINE.finditer(masked):
        if int(found[1]) == len(marks) + 1:
            marks.append(found)
    if len(marks) < 2 or not re.search(r"(^|[:.!?;,–-])$", flat[: marks[0].start()].strip()):
        return []
    ends = [*(mark.start() for mark in marks[1:]), len(flat)]
    texts = [flat[mark.end() : end].strip(" ,;") for mark, end in zip(marks, ends, strict=True)]
    return [_Item(number, text, True) for number, text in enumerate(texts, start=1)] if all(texts) else []


def _parse_list(lines: Sequence[str], mark: re.Pattern[str], *, waits: bool) -> list[_Item]:
    """The items of a list; text before it is an introduction, text after an item belongs to the item."""
    items: list[_Item] = []
    for line in lines:
        found = mark.fullmatch(line)
        if found and found[found.lastindex or 0].strip():
            number = int(found[1]) if mark is NUMBERED else 0
            items.append(_Item(number, found[found.lastindex or 0].strip(), waits))
        elif items and line.strip():
            items[-1] = items[-1]._replace(text=f"{items[-1].text} {line.strip()}")
    return items or [_Item(0, " ".join(" ".join(lines).split()), waits)]


def _split_sentence(text: str) -> list[str]:
    """The parts of ``text`` between ";" and "then", except in quotes and in a condition."""
    flat = " ".join(text.split())
    masked = QUOTED.sub(lambda found: "_" * len(found[0]), flat)
    parts, start = [], 0
    for found in SEPARATOR.finditer(masked):
        if ";" in found[0] or not NOT_NEXT.search(masked[start : found.start()]):
            parts.append(flat[start : found.start()])
            start = found.end()
    parts.append(flat[start:])
    cleaned = [part.strip(" ,;") for part in parts]
    return [
        re.sub(r"^(?:first|finally|and)\b,?\s+", "", part, flags=re.IGNORECASE) for part in cleaned if part
    ]


def call_of(step: TaskStep, own_name: str, own_actions: Collection[str]) -> Call:
    """What ``step`` executes: the action that its context or its text names, else its text, by its assignee.

    Raises ActionError for an invalid context.
    """
    context = {"assignee": own_name, **step.context}
    if not context.get("action"):
        named = parse_call(step.action, own_name, own_actions)
        return named or Call(assignee=str(context["assignee"] or own_name).strip().lower(), text=step.action)
    try:
        return msgspec.convert(context, Call)
    except msgspec.ValidationError as error:
        raise ActionError(f"The context of step {step.step_number} is wrong: {error}") from None


def address_step(step: TaskStep, own_name: str, own_actions: Collection[str]) -> TaskStep:
    """``step`` as the conductor carries it out, with its assignee, and its action if it names one."""
    call = call_of(step, own_name, own_actions)
    context = {"assignee": call.assignee, "action": call.action, "params": call.params}
    return msgspec.structs.replace(step, context=context)


def call_in(step: TaskStep) -> Call:
    """What an addressed step executes."""
    return Call(**step.context, text=step.action)


def build_on(step: TaskStep, outputs: Mapping[int, StepOutput]) -> TaskStep:
    """An addressed ``step`` whose references to ``outputs`` are filled in, and which waits for none of them.

    One without an action gets them with its text.
    """
    params = fill_references(step.context["params"], outputs, partly=True)
    if outputs and not step.context["action"]:
        params = {"brought_before": {f"step {number}": left.output for number, left in outputs.items()}}
    waits = tuple(number for number in step.dependencies if number not in outputs)
    return msgspec.structs.replace(step, dependencies=waits, context={**step.context, "params": params})


def parse_call(text: str, own_name: str, own_actions: Collection[str]) -> Call | None:
    """``agent.action name=value ...``, or an own action without the agent; None for any other text.

    Values are JSON if they can be read as such, else text. One with spaces is quoted, a number that is meant
    as text in both kinds of quotes: ``year='"2026"'``.
    """
    found = CALL.fullmatch(text.strip())
    if found is None or (not found["assignee"] and found["action"] not in own_actions):
        return None
    params = _parse_params(found["params"] or "")
    if params is None:
        return None
    return Call(assignee=found["assignee"] or own_name, action=found["action"], params=params)


def _parse_params(text: str) -> dict[str, Any] | None:
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    params = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            return None
        params[name] = _parse_value(value)
    return params


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def request_of(values: dict[str, Any], task: Task) -> TaskRequest:
    """The request in ``values``, completed from ``task``; raises ActionError."""
    known = {"task_id": task.task_id, "requester": task.requester, "priority": task.priority.value}
    try:
        return msgspec.convert({**known, **values}, TaskRequest)
    except (msgspec.ValidationError, ValueError) as error:
        raise ActionError(f"This is not a request: {error}", "A request has a task_description") from None


def step_of(values: dict[str, Any], context: Mapping[str, Any]) -> tuple[TaskStep, dict[int, StepOutput]]:
    """The step in ``values`` and the outputs of earlier steps; raises ActionError for an invalid one."""
    try:
        step = msgspec.convert({"step_number": 1, **values}, TaskStep)
        inputs = {
            int(number): StepOutput(output=left)
            if isinstance(left, str)
            else msgspec.convert(left, StepOutput)
            for number, left in context.items()
        }
    except (msgspec.ValidationError, ValueError) as error:
        raise ActionError(f"This is not a step: {error}", "A step has an action") from None
    return step, inputs


def find_needed_agents(plan: TaskPlan, own_name: str) -> frozenset[str]:
    """The other agents whose actions the plan needs: they do steps, or its tools name them."""
    assigned = {str(step.context.get("assignee", "")) for step in plan.steps}
    tools = {agent for agent, dot, action in map(_parts, plan.required_tools) if dot and agent in assigned}
    return frozenset(tools - {own_name})


def require_tools(
    plan: TaskPlan, own_name: str, own_actions: Collection[str], pages: Mapping[str, AgentPage]
) -> None:
    """Raise ActionError if a tool of the plan is an action that its agent does not have.

    A tool is written ``agent.action``, or as one of cortex's own. Others, such as programs, are not checked:
    those who use them say what is missing. Nor is an agent who is not at work: a step waits in its mailbox.
    """
    needed, missing = find_needed_agents(plan, own_name), []
    for tool in plan.required_tools:
        agent, dot, action = _parts(tool)
        if not dot or agent not in {own_name, *needed}:
            continue
        page = pages.get(agent)
        known: Collection[str] = page.actions if page and page.at_work else (action,)
        if action not in (own_actions if agent == own_name else known):
            missing.append(f"an action '{action}' that {agent} does not have")
    if missing:
        raise ActionError(
            f"No step was begun: the plan needs {format_list(list(dict.fromkeys(missing)), 10)}",
            "'mailroom agents NAME' lists what each can do",
        )


def _parts(tool: str) -> tuple[str, str, str]:
    return tool.strip().partition(".")
