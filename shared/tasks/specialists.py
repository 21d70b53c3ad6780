"""Specialists: agents that the conductor has made, as folders with a profile, and what they may be."""

import os
import re
import shutil
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from shared.errors import ActionError, ConfigError
from shared.settings import Settings
from shared.tasks.profile import Profile, load_profile

PREFIX = "specialist-"
"""What every specialist's name begins with, and no other agent's."""
NAME = re.compile(r"specialist-[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
MAX_WORDS = 4_000
"""Characters of what is asked of a specialist, and of its prompt."""
MAX_SKILLS = 8
MOST_AT_ONCE = 8
"""Tasks that one specialist does side by side."""
KEPT_RETIRED = 32
"""Retired specialists whose mailbox and records can still be read; older ones are deleted."""
OPTIONS = frozenset({"domain", "requirements", "asker"})
"""What a profile's options may say: what it was made for, and for whom."""

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
"""The skills a specialist may have, with the words that call for them. Not among them: what speaks to people
or to the future on somebody's behalf (mail, reminders, the calendar)."""


class Supervision(msgspec.Struct, frozen=True, kw_only=True):
    """Who starts specialists: the process of ``mailroom up``, or why it does not."""

    pid: int
    refusal: str = ""


def name_of(domain: str) -> str:
    """The name of a specialist for ``domain``; raises ActionError where no letter of it can stand in one."""
    plain = unicodedata.normalize("NFKD", domain).encode("ascii", "ignore").decode()  # é is e
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:40].strip("-")
    if not slug:
        raise ActionError(f"{domain[:60]!r} gives a specialist no name", "Say the domain in Latin letters")
    return PREFIX + slug


def choose_skills(words: str) -> tuple[str, ...]:
    """The skills that ``words`` call for, by whole words and their usual endings; memory always is one."""
    said = set(re.findall(r"[a-z0-9]+", words.lower()))
    said |= {word.removesuffix(ending) for word in said for ending in ("s", "es", "ing")}
    said |= {f"{word[:-3]}y" for word in said if word.endswith("ies")}
    memory, *others = SKILLS
    return (memory, *(path for path in others if said & set(SKILLS[path])))[:MAX_SKILLS]


def check_profile(profile: Profile) -> str:
    """Why ``profile`` can be no specialist's, in a sentence; empty where it can."""
    if not NAME.fullmatch(profile.name):
        return f"its name {profile.name!r} is not {PREFIX!r} and up to 40 letters, digits or dashes"
    if foreign := [path for path in profile.skills if path not in SKILLS]:
        return f"it names the skill {foreign[0]!r}, which a specialist may not have"
    if len(profile.skills) > MAX_SKILLS:
        return f"it has {len(profile.skills)} skills, and {MAX_SKILLS} are allowed"
    if unknown := set(profile.options) - OPTIONS:
        return f"its option {min(unknown)!r} is not one of {', '.join(sorted(OPTIONS))}"
    texts = (profile.description, profile.instructions, profile.prompt, *map(str, profile.options.values()))
    if max(map(len, texts)) > MAX_WORDS:
        return f"one of its texts has more than {MAX_WORDS:,} characters"
    if profile.concurrency > MOST_AT_ONCE:
        return f"it would do {profile.concurrency} tasks at once, and {MOST_AT_ONCE} are allowed"
    return ""


# --- on disk -------------------------------------------------------------------------------------


def read_specialists(config: Settings) -> tuple[dict[str, Profile], dict[str, str]]:
    """The specialists there are by name, and why the other folders hold none.

    No more than ``max_specialists`` of them, the oldest first. What the folder says beside the profile is
    never run.
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


def _folders(config: Settings) -> list[Path]:
    found = []
    for path in config.specialists.glob(f"{PREFIX}*/profile.yaml"):
        try:
            found.append((path.stat().st_mtime_ns, path.parent))
        except OSError:
            continue
    return [folder for _, folder in sorted(found)]


def write_profile(config: Settings, profile: Profile) -> None:
    """Put a specialist's profile in place, whole or not at all; raises ActionError where that fails."""
    values: dict[str, Any] = msgspec.to_builtins(profile)
    folder = config.specialists / profile.name
    partial = folder / "profile.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            yaml.safe_dump(values, file, allow_unicode=True, sort_keys=False)
            file.flush()
            os.fsync(file.fileno())
        refusal_path(config, profile.name).unlink(missing_ok=True)
        partial.replace(folder / "profile.yaml")
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
    """Where the office writes why it does not start a specialist."""
    return config.specialists / name / "refused"


# --- who starts them -----------------------------------------------------------------------------


def tell_supervision(config: Settings, supervision: Supervision) -> None:
    """Say that this process starts specialists, or why it does not; raises OSError."""
    config.specialists.mkdir(parents=True, exist_ok=True)
    _supervision_path(config).write_bytes(msgspec.json.encode(supervision))


def end_supervision(config: Settings) -> None:
    """Say that nobody starts specialists any more."""
    _supervision_path(config).unlink(missing_ok=True)


def require_supervision(config: Settings) -> None:
    """Raise ActionError where nobody starts specialists here, with what to do instead."""
    cure = "Run the office with 'mailroom up', or add an agent of your own in MAILROOM_AGENTS_DIR"
    try:
        found = msgspec.json.decode(_supervision_path(config).read_bytes(), type=Supervision)
        os.kill(found.pid, 0)
    except (OSError, msgspec.MsgspecError):
        raise ActionError(
            "Nobody starts new agents here: the office was not opened by 'mailroom up'", cure
        ) from None
    if found.refusal:
        raise ActionError(found.refusal, cure)


def _supervision_path(config: Settings) -> Path:
    return config.specialists / "supervision.json"
