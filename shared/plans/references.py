"""References: ``${2}`` in a step stands for the output of step 2, ``${2.path}`` for its first file."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from shared.errors import ActionError

REFERENCE = re.compile(r"\$\{(\d+)(\.path)?\}")


class StepOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What an earlier step left for later ones."""

    output: str = ""
    output_paths: tuple[str, ...] = ()


def referenced_steps(value: Any) -> set[str]:
    """The numbers of the steps that ``value``, any JSON, refers to."""
    return {found[1] for found in REFERENCE.finditer(msgspec.json.encode(value).decode())}


def fill_references(value: Any, outputs: Mapping[int, StepOutput]) -> Any:
    """``value`` with its references replaced; raises ActionError for one that ``outputs`` cannot fill."""
    if isinstance(value, dict):
        return {name: fill_references(entry, outputs) for name, entry in value.items()}
    if isinstance(value, list):
        return [fill_references(entry, outputs) for entry in value]
    if not isinstance(value, str):
        return value
    return REFERENCE.sub(lambda found: _resolve(found, outputs), value)


def _resolve(found: re.Match[str], outputs: Mapping[int, StepOutput]) -> str:
    step = outputs.get(int(found[1]))
    if step is None:
        raise ActionError(f"{found[0]} refers to step {found[1]}, which this step does not depend on")
    if not found[2]:
        return step.output
    if not step.output_paths:
        raise ActionError(f"{found[0]} refers to a file, but step {found[1]} left none")
    return step.output_paths[0]
