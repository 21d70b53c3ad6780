"""Skills: objects with actions, constructed from the names in a profile and handed the agent's context."""

import importlib

from shared.agent.context import AgentContext
from shared.errors import ConfigError
from shared.tasks.profile import Profile

CURE = "Correct 'skills' in its profile.yaml"


def load_skills(context: AgentContext) -> list[object]:
    """The skills that the agent's profile names.

    Raises ConfigError for one that does not exist, is listed twice, or cannot be constructed from a context.
    """
    profile = context.profile
    twice = [path for position, path in enumerate(profile.skills) if path in profile.skills[:position]]
    if twice:
        raise ConfigError(f"The profile of {profile.name!r} lists the skill {twice[0]!r} twice", CURE)
    return [_make(path, context) for path in profile.skills]


def _make(path: str, context: AgentContext) -> object:
    try:
        return _skill_class(path, context.profile)(context)
    except TypeError as error:
        raise ConfigError(
            f"The profile of {context.profile.name!r} names {path!r}, which is no skill: {error}", CURE
        ) from None


def _skill_class(path: str, profile: Profile) -> type:
    module_name, _, class_name = path.rpartition(".")
    try:
        skill = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"The profile of {profile.name!r} names the skill {path!r}, which does not exist: {error}",
            f"{CURE}; the skills that come with Mailroom are in shared/skills",
        ) from None
    if not isinstance(skill, type):
        raise ConfigError(f"The profile of {profile.name!r} names {path!r} as a skill, which is not a class")
    return skill
