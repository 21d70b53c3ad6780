"""The options of cortex in its profile."""

from typing import Annotated, Any, Literal

import msgspec

from shared.errors import ConfigError


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``queue_workers`` (1 to 10) jobs of the night and ``steps_at_once`` steps of a plan run at a time.

    ``queue_poll`` is the seconds between looks at the queue, ``job_timeout`` those a job may take,
    ``step_timeout`` those another agent may take over a step, ``work_timeout`` those that working a task out
    may take. ``mode`` is how much thinking a task gets that
    does not say: simple, reasoning, cognitive, or auto, which goes by its complexity.
    """

    queue_workers: Annotated[int, msgspec.Meta(ge=1, le=10)] = 10
    queue_poll: float = 5.0
    job_timeout: float = 28_800.0
    step_timeout: float = 3_600.0
    work_timeout: float = 7_200.0
    steps_at_once: Annotated[int, msgspec.Meta(ge=1, le=16)] = 4
    mode: Literal["auto", "simple", "reasoning", "cognitive"] = "auto"


def read_options(values: dict[str, Any]) -> Options:
    """The options in ``values``; raises ConfigError naming the one that is wrong."""
    try:
        return msgspec.convert(values, Options)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The options of the cortex profile are wrong: {error}") from None
