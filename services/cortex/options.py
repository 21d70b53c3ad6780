"""The options of cortex in its profile."""

from typing import Any

import msgspec

from shared.errors import ConfigError


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``queue_workers`` jobs of the overnight queue and ``steps_at_once`` steps of a plan run at a time.

    ``queue_poll`` is the seconds between looks at the queue, ``job_timeout`` those a job may take,
    ``step_timeout`` those another agent may take over a step.
    """

    queue_workers: int = 2
    queue_poll: float = 5.0
    job_timeout: float = 28_800.0
    step_timeout: float = 3_600.0
    steps_at_once: int = 4


def read_options(values: dict[str, Any]) -> Options:
    """The options in ``values``; raises ConfigError naming the one that is wrong."""
    try:
        return msgspec.convert(values, Options)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The options of the cortex profile are wrong: {error}") from None
