"""Calls: what a step of a plan executes, written out as a line or given in its context."""

import json
import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from shared.contracts import TaskStep
from shared.errors import ActionError

LINE = re.compile(r"(?:(?P<assignee>[a-z0-9][a-z0-9_-]*)\.)?(?P<action>[a-z]\w*)(?P<params>\s.*)?", re.DOTALL)
REFERENCE = re.compile(r"\$\{(\d+)(\.path)?\}")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """``action`` of ``assignee`` with ``params``."""

    assignee: str
    action: str
    params: dict[str, Any] = {}


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """What an earlier step leaves for later ones."""

    output: str = ""
    output_paths: tuple[str, ...] = ()


def find_call(step: TaskStep, own_name: str, own_actions: Collection[str]) -> Call | None:
    """What ``step`` executes: the assignee, action and params of its context, or its text read as a call.

    None where it names nothing that can be executed as it stands; raises ActionError for a context that is
    wrong.
    """
    if step.context.get("action"):
        try:
            return msgspec.convert({"assignee": own_name, **step.context}, Call)
        except msgspec.ValidationError as error:
            raise ActionError(f"The context of step {step.step_number} is wrong: {error}") from None
    return read_call(step.action, own_name, own_actions)


def read_call(text: str, own_name: str, own_actions: Collection[str]) -> Call | None:
    """``agent.action name=value ...``, or an own action without the agent; None where it is anything else.

    Values are JSON where they can be, else text. One with blanks stands in quotes, a number that is meant
    as text in both kinds: ``year='"2026"'``.
    """
    found = LINE.fullmatch(text.strip())
    if found is None or (not found["assignee"] and found["action"] not in own_actions):
        return None
    params = _read_params(found["params"] or "")
    if params is None:
        return None
    return Call(assignee=found["assignee"] or own_name, action=found["action"], params=params)


def _read_params(text: str) -> dict[str, Any] | None:
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    params = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            return None
        params[name] = _read_value(value)
    return params


def _read_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def fill_params(value: Any, inputs: Mapping[int, Material]) -> Any:
    """``value`` with ``${2}`` replaced by the output of step 2, ``${2.path}`` by its first output path.

    Raises ActionError for a step that is not among ``inputs``, or left no file.
    """
    if isinstance(value, dict):
        return {name: fill_params(entry, inputs) for name, entry in value.items()}
    if isinstance(value, list):
        return [fill_params(entry, inputs) for entry in value]
    if not isinstance(value, str):
        return value
    return REFERENCE.sub(lambda found: _look_up(found, inputs), value)


def _look_up(found: re.Match[str], inputs: Mapping[int, Material]) -> str:
    material = inputs.get(int(found[1]))
    if material is None:
        raise ActionError(f"{found[0]} refers to step {found[1]}, which this step does not depend on")
    if not found[2]:
        return material.output
    if not material.output_paths:
        raise ActionError(f"{found[0]} refers to a file, but step {found[1]} left none")
    return material.output_paths[0]
