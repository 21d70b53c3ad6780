"""An agent's class made of what its profile names."""

import importlib

from shared.agent.base import Agent
from shared.errors import ConfigError
from shared.tasks.profile import Profile


def compose(base: type[Agent], profile: Profile) -> type[Agent]:
    """``base`` with the mixins the profile names; raises ConfigError for one that does not exist or fit."""
    mixins = [_mixin(path, profile) for path in profile.mixins]
    if not mixins:
        return base
    try:
        return type(base.__name__, (*mixins, base), {"__doc__": base.__doc__})
    except TypeError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"The skills of {profile.name!r} do not go together: {reason}",
            "Correct 'mixins' in its profile.yaml",
        ) from None


def _mixin(path: str, profile: Profile) -> type:
    module_name, _, class_name = path.rpartition(".")
    try:
        mixin = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"The profile of {profile.name!r} names the skill {path!r}, which does not exist: {error}",
            "Correct 'mixins' in its profile.yaml; the skills that come with Mailroom are in shared/skills",
        ) from None
    if not isinstance(mixin, type):
        raise ConfigError(f"The profile of {profile.name!r} names {path!r} as a skill, which is not a class")
    return mixin
