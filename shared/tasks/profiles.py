"""Profiles of agents, as their profile.yaml has them, and specialists: agents created by the conductor."""

import contextlib
import difflib
import os
import re
import shutil
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from shared.contracts import NAME
from shared.errors import ActionError, ConfigError
from shared.files import write_atomically
from shared.settings import Settings
from shared.subjects import require_agent_name

_YamlLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the compiled one: 0.1 instead of 6 ms for each


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a profile.yaml.

    ``instructions`` are for agents that write to it, ``prompt`` is its system prompt, ``skills`` are the
    classes of its skills (``package.module.ClassName``). ``tools`` are the actions that a model gets in a
    loop, of its own and of those that reach other agents (empty: all); plans and people may name the others
    too. ``mcp`` are the MCP servers whose tools it gets. ``concurrency`` is how many messages one process
    handles at once, ``options`` are for the agent's own class.
    """

    name: str
    description: str
    instructions: str = ""
    prompt: str = ""
    skills: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
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
        loader = _YamlLoader(path.read_text("utf-8"))
        node = loader.get_single_node()
        values = loader.construct_document(node) if node is not None else None
    except OSError as error:
        raise ConfigError(f"The profile {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"The profile {path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(node, yaml.MappingNode) or not isinstance(values, dict):
        raise ConfigError(f"The profile {path} must be a mapping with the fields {', '.join(_fields())}")
    lines: dict[str, int] = {}
    for key, _ in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        _require_field(name, f"{path}:{line}")
        if name in lines:
            raise ConfigError(f"{path}:{line}: the field {name!r} is there twice")
        lines[name] = line
    try:
        profile = msgspec.convert(values, Profile)
    except msgspec.ValidationError as error:
        line = next((lines[name] for name in lines if name in str(error)), 1)
        raise ConfigError(f"{path}:{line}: {error}") from None
    try:
        require_agent_name(profile.name)
    except ConfigError as error:
        raise ConfigError(f"{path}:{lines['name']}: {error.cause}", error.cure) from None
    return profile


def _fields() -> tuple[str, ...]:
    return Profile.__struct_fields__


def _require_field(name: str, place: str) -> None:
    if name in _fields():
        return
    near = difflib.get_close_matches(name, _fields(), n=1)
    cure = f"Did you mean {near[0]!r}?" if near else f"The fields are {', '.join(_fields())}"
    raise ConfigError(f"{place}: unknown field {name!r}", cure)


PREFIX = "specialist-"  # The prefix of every specialist's name, and of no other agent's
SPECIALIST_NAME = re.compile(r"specialist-[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
MAX_WORDS = 4_000  # Characters of each text in a specialist's profile
MAX_SKILLS = 8
MOST_AT_ONCE = 8  # Tasks that one specialist may work on concurrently
KEPT_RETIRED = 32  # Retired specialists whose mailbox and records can still be read; older ones are deleted
SERVICES = Path(__file__).resolve().parents[2] / "services"
OPTIONS = frozenset({"domain", "requirements", "asker"})
"""The options of a specialist's profile: why, and for whom, it was created."""

SKILLS: Mapping[str, tuple[str, ...]] = {
    "shared.skills.memory.MemorySkill": ("memory", "remember", "recall", "know", "past", "knowledge"),
    "shared.skills.files.FilesSkill": ("file", "write", "read", "edit", "code", "draft", "text", "data"),
    "shared.skills.documents.DocumentsSkill": ("document", "pdf", "docx", "word", "contract", "manual"),
    "shared.skills.web.WebSkill": ("web", "page", "site", "url", "internet", "online", "fetch"),
    "shared.skills.search.SearchSkill": ("search", "find", "research", "web", "internet", "compare"),
    "shared.skills.papers.PapersSkill": ("paper", "arxiv", "study", "literature", "science", "research"),
    "shared.skills.news.NewsSkill": ("news", "feed", "headline", "current"),
    "shared.skills.weather.WeatherSkill": ("weather", "forecast", "rain", "temperature", "climate"),
    "shared.skills.shell.ShellSkill": ("shell", "command", "build", "compile", "run", "program"),
    "shared.skills.git.GitSkill": ("git", "commit", "branch", "repository", "version"),
    "shared.skills.python.PythonSkill": (
        "script",
        "python",
        "calculate",
        "statistics",
        "data",
        "plot",
    ),
    "shared.skills.lint.LintSkill": ("lint", "quality", "security", "vulnerability"),
}
"""The skills a specialist may have, with the words that call for them. Mail, reminders and the calendar are
not among them: they act towards people on another agent's behalf."""


class Supervision(msgspec.Struct, frozen=True, kw_only=True):
    """The process that starts specialists (``mailroom up``), or why it does not."""

    pid: int
    refusal: str = ""


def name_of(domain: str) -> str:
    """The name of a specialist for ``domain``; raises ActionError if it has no usable letter."""
    plain = unicodedata.normalize("NFKD", domain).encode("ascii", "ignore").decode()  # é is e
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:40].strip("-")
    if not slug:
        raise ActionError(f"{domain[:60]!r} gives a specialist no name", "Say the domain in Latin letters")
    return PREFIX + slug


def choose_skills(words: str) -> tuple[str, ...]:
    """The skills that ``words`` call for, by whole words without common endings; memory is always one."""
    found = set(re.findall(r"[a-z0-9]+", words.lower()))
    found |= {word.removesuffix(ending) for word in found for ending in ("s", "es", "ing")}
    found |= {f"{word[:-3]}y" for word in found if word.endswith("ies")}
    memory, *others = SKILLS
    return (memory, *(path for path in others if found & set(SKILLS[path])))[:MAX_SKILLS]


def check_profile(profile: Profile) -> str:
    """Why ``profile`` is not valid for a specialist, in one sentence; empty if it is."""
    if not SPECIALIST_NAME.fullmatch(profile.name):
        return f"its name {profile.name!r} is not {PREFIX!r} and up to 40 letters, digits or dashes"
    if foreign := [path for path in profile.skills if path not in SKILLS]:
        return f"it names the skill {foreign[0]!r}, which a specialist may not have"
    if len(profile.skills) > MAX_SKILLS:
        return f"it has {len(profile.skills)} skills, and {MAX_SKILLS} are allowed"
    if unknown := set(profile.options) - OPTIONS:
        return f"its option {min(unknown)!r} is not one of {', '.join(sorted(OPTIONS))}"
    if profile.mcp:
        return "it names MCP servers, which only [mcp.NAME] of mailroom.toml gives to specialists"
    texts = (profile.description, profile.instructions, profile.prompt, *map(str, profile.options.values()))
    if max(map(len, texts)) > MAX_WORDS:
        return f"one of its texts has more than {MAX_WORDS:,} characters"
    if profile.concurrency > MOST_AT_ONCE:
        return f"it would do {profile.concurrency} tasks at once, and {MOST_AT_ONCE} are allowed"
    return ""


# --- on disk -------------------------------------------------------------------------------------


def read_specialists(config: Settings) -> tuple[dict[str, Profile], dict[str, str]]:
    """The valid specialists by name, and why other folders are refused.

    At most ``max_specialists``, the oldest first. Other files in the folder are never run.
    """
    good: dict[str, Profile] = {}
    refused: dict[str, str] = {}
    for folder in _folders(config):
        try:
            profile = load_profile(folder / "profile.yaml")
        except ConfigError as error:
            refused[folder.name] = str(error)
            continue
        reason = check_profile(profile)
        if not reason and profile.name != folder.name:
            reason = f"its folder is named {folder.name!r} and its profile {profile.name!r}"
        if not reason and len(good) >= config.max_specialists:
            reason = f"there are {config.max_specialists} already (MAILROOM_MAX_SPECIALISTS)"
        if reason:
            refused[folder.name] = reason
        else:
            good[profile.name] = profile
    return good, refused


def read_names(config: Settings) -> set[str]:
    """The names of all agents with a valid profile on this machine, specialists included."""
    names = set(read_specialists(config)[0])
    for folder in filter(None, (SERVICES, config.agents_dir)):
        for path in folder.glob("*/profile.yaml"):
            with contextlib.suppress(ConfigError):
                names.add(load_profile(path).name)
    return names


def _folders(config: Settings) -> list[Path]:
    found = []
    for path in config.specialists.glob(f"{PREFIX}*/profile.yaml"):
        try:
            found.append((path.stat().st_mtime_ns, path.parent))
        except OSError:
            continue
    return [folder for _, folder in sorted(found)]


def write_profile(config: Settings, profile: Profile) -> None:
    """Write a specialist's profile atomically; raises ActionError if that fails."""
    text = yaml.safe_dump(msgspec.to_builtins(profile), allow_unicode=True, sort_keys=False)
    try:
        refusal_path(config, profile.name).unlink(missing_ok=True)
        write_atomically(config.specialists / profile.name / "profile.yaml", text)
    except OSError as error:
        raise ActionError(f"The profile of {profile.name} cannot be written: {error.strerror}") from None


def retire_profile(config: Settings, name: str) -> None:
    """Move a specialist's folder to the retired ones, and delete the oldest of these beyond KEPT_RETIRED."""
    retired = config.specialists / "retired"
    try:
        retired.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(retired / name, ignore_errors=True)
        (config.specialists / name).replace(retired / name)
        os.utime(retired / name)
        for forgotten in sorted(retired.iterdir(), key=lambda folder: -folder.stat().st_mtime)[KEPT_RETIRED:]:
            shutil.rmtree(forgotten, ignore_errors=True)
    except OSError as error:
        raise ActionError(f"The profile of {name} cannot be moved: {error.strerror}") from None


def read_retired(config: Settings) -> list[str]:
    """The names of the retired specialists whose mailbox is kept."""
    return sorted(path.name for path in (config.specialists / "retired").glob(f"{PREFIX}*") if path.is_dir())


def refusal_path(config: Settings, name: str) -> Path:
    """The file with the reason why a specialist is not started."""
    return config.specialists / name / "refused"


# --- the process that starts them ----------------------------------------------------------------


def write_supervision(config: Settings, supervision: Supervision) -> None:
    """Record that this process starts specialists, or why it does not; raises OSError."""
    write_atomically(_supervision_path(config), msgspec.json.encode(supervision))


def end_supervision(config: Settings) -> None:
    """Remove the record that this process starts specialists."""
    _supervision_path(config).unlink(missing_ok=True)


def require_supervision(config: Settings) -> None:
    """Raise ActionError, with the alternative, unless a process starts specialists here."""
    cure = "Run the office with 'mailroom up', or add an agent of your own in MAILROOM_AGENTS_DIR"
    try:
        supervision = msgspec.json.decode(_supervision_path(config).read_bytes(), type=Supervision)
        os.kill(supervision.pid, 0)
    except (OSError, msgspec.MsgspecError):
        raise ActionError(
            "Nobody starts new agents here: the office was not opened by 'mailroom up'", cure
        ) from None
    if supervision.refusal:
        raise ActionError(supervision.refusal, cure)


def _supervision_path(config: Settings) -> Path:
    return config.specialists / "supervision.json"
