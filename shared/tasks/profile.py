"""An agent's profile, as its profile.yaml has it."""

import difflib
from pathlib import Path
from typing import Any

import msgspec
import yaml

from shared.contracts import NAME
from shared.errors import ConfigError
from shared.subjects import require_agent_name

FORMER_NAMES = {"mixins": "skills"}
"""Names of fields in older profiles, and their present names."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a profile.yaml.

    ``instructions`` are for agents that write to it, ``prompt`` is its system prompt, ``skills`` are the
    classes of its skills (``package.module.ClassName``), ``concurrency`` is how many messages one process
    handles at once, ``options`` are for the agent's own class.
    """

    name: str
    description: str
    instructions: str = ""
    prompt: str = ""
    skills: tuple[str, ...] = ()
    concurrency: int = 4
    options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(
                f"name must be 1 to 64 lower-case letters, digits, '_' or '-', not {self.name!r}"
            )
        if not self.description.strip():
            raise ValueError("description must be a non-empty string")
        if not 1 <= self.concurrency <= 1_000:
            raise ValueError(f"concurrency must be between 1 and 1000, not {self.concurrency}")


def load_profile(path: Path) -> Profile:
    """Read a profile; raises ConfigError with the file, the line and the nearest valid name."""
    try:
        text = path.read_text("utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"The profile {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"The profile {path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(node, yaml.MappingNode) or not isinstance(values, dict):
        raise ConfigError(f"The profile {path} must be a mapping with the fields {', '.join(_fields())}")
    lines: dict[str, int] = {}
    for key, _ in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        name = FORMER_NAMES.get(name, name)
        _require_field(name, f"{path}:{line}")
        if name in lines:
            raise ConfigError(f"{path}:{line}: the field {name!r} is there twice")
        lines[name] = line
    values = {FORMER_NAMES.get(name, name): value for name, value in values.items()}
    try:
        profile = msgspec.convert(values, Profile)
    except msgspec.ValidationError as error:
        line = next((lines[name] for name in lines if name in str(error)), 1)
        raise ConfigError(f"{path}:{line}: {error}") from None
    try:
        require_agent_name(profile.name)
    except ConfigError as error:
        raise ConfigError(f"{path}:{lines['name']}: {error.cause}", error.cure) from None
    return msgspec.structs.replace(profile, skills=tuple(map(_renamed, profile.skills)))


def _renamed(path: str) -> str:
    """The present name of a skill: ``FilesSkillMixin`` of older profiles is ``FilesSkill``."""
    return path.removesuffix("Mixin") if path.startswith("shared.skills.") else path


def _fields() -> tuple[str, ...]:
    return Profile.__struct_fields__


def _require_field(name: str, place: str) -> None:
    if name in _fields():
        return
    near = difflib.get_close_matches(name, _fields(), n=1)
    cure = f"Did you mean {near[0]!r}?" if near else f"The fields are {', '.join(_fields())}"
    raise ConfigError(f"{place}: unknown field {name!r}", cure)
