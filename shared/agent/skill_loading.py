"""The skills of an agent, from Mailroom or from the agent's own folder."""

import importlib
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from shared.agent.context import AgentContext
from shared.errors import ConfigError
from shared.tasks.profiles import Profile

CURE = "Correct 'skills' in its profile.yaml"
OWN = "mailroom_own_agent"
"""The package of the modules in the agent's own folder: none of them hides a module of another package."""


def offer_modules(folder: Path) -> None:
    """Have ``load_skills`` look for modules in ``folder`` first, for this process."""
    package = ModuleType(OWN)
    package.__path__ = [str(folder)]
    sys.modules[OWN] = package


def load_skills(context: AgentContext) -> list[object]:
    """The skills that the agent's profile names.

    Raises ConfigError for one that does not exist, is listed twice, or cannot be constructed from a context.
    """
    profile = context.profile
    if twice := [path for path, times in Counter(profile.skills).items() if times > 1]:
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
        skill = getattr(importlib.import_module(_place(module_name)), class_name)
    except SyntaxError as error:
        raise ConfigError(f"The skill {path!r} of {profile.name!r} is not valid Python: {error}") from None
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"The profile of {profile.name!r} names the skill {path!r}, which does not exist: {error}",
            f"{CURE}; the skills that come with Mailroom are in shared/skills",
        ) from None
    if not isinstance(skill, type):
        raise ConfigError(f"The profile of {profile.name!r} names {path!r} as a skill, which is not a class")
    return skill


def _place(module: str) -> str:
    """The full name of ``module``, which is in the agent's folder, or else importable as it is named."""
    first = module.partition(".")[0]
    own = OWN in sys.modules and first not in {"", "shared"} and find_spec(f"{OWN}.{first}") is not None
    return f"{OWN}.{module}" if own else module
