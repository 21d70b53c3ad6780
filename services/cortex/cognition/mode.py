"""Modes: how much thinking a task gets."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from services.cortex.cognition.perception import Complexity
from shared.errors import ActionError


class Mode(StrEnum):
    """SIMPLE is one train of thought, REASONING adds plans and evaluation, COGNITIVE memory and stages."""

    SIMPLE = "simple"
    REASONING = "reasoning"
    COGNITIVE = "cognitive"


AUTO = "auto"
"""The mode's name where it is chosen by the complexity of the task."""
CHOSEN: dict[Complexity, Mode] = {
    "simple": Mode.SIMPLE,
    "medium": Mode.REASONING,
    "complex": Mode.COGNITIVE,
}


def read_mode(name: str) -> Mode | None:
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
    """The mode a task's context, or the params in it, name, else ``default``; None where it is auto."""
    params = context.get("params")
    named = context.get("mode") or (params.get("mode") if isinstance(params, Mapping) else "")
    return read_mode(str(named or default))
