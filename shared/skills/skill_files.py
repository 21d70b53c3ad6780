"""Skills as files, in the form of agentskills.io: found, offered by description, read if one fits."""

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import msgspec
import yaml

from shared.errors import ActionError
from shared.log import logger
from shared.sandbox.confined import ConfinedFolder
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action
from shared.text.display import flatten

FILE = "SKILL.md"
PLACES = (".agents/skills", ".claude/skills", ".github/skills", "skills")
"""Where a repository keeps them, as the agents that read them expect."""
MOST = 50  # The most skills of a folder that are offered
SIZE = 200_000  # The most bytes of a file that is read: a model reads at most some 40,000 characters
DESCRIBED = 400  # Characters of a description that are shown; the form allows 1,024
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_HEAD = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)

log = logger(__name__)


class SkillFile(msgspec.Struct, frozen=True, kw_only=True):
    """A skill: its name, which is its folder's, what it is for, and its file beneath the folder searched."""

    name: str
    description: str
    path: str


def find_skill_files(root: Path, places: Iterable[str] = (".",)) -> list[SkillFile]:
    """The skills in ``places`` beneath ``root``, by name; of two of one name the first counts.

    One whose head cannot be read is left out and logged. No link leads out of ``root``.
    """
    found: dict[str, SkillFile] = {}
    with ConfinedFolder(root) as confined:
        for place in places:
            try:
                names = sorted(name for name, _ in confined.entries(place))
            except ActionError:  # there is no such folder
                continue
            for name in filter(NAME.fullmatch, names):
                path = str(PurePosixPath(place, name, FILE))
                try:
                    text = confined.read(path, SIZE).decode("utf-8", "replace")
                except ActionError:
                    continue
                if described := _describe(text):
                    found.setdefault(name, SkillFile(name=name, description=described, path=path))
                else:
                    log.warning(
                        "skill_not_offered", path=str(root / path), reason="its head has no description"
                    )
    return list(found.values())[:MOST]


def _describe(text: str) -> str:
    head = _HEAD.match(text)
    try:
        values = yaml.safe_load(head[1]) if head else None
    except yaml.YAMLError:  # as other readers do, for a description with a colon in it
        line = re.search(r"(?m)^description:[ \t]*(.+)$", head[1]) if head else None
        values = {"description": line[1]} if line else None
    described = values.get("description") if isinstance(values, dict) else None
    return flatten(described, DESCRIBED) if isinstance(described, str) else ""


def format_skills(skills: Iterable[SkillFile], prefix: str = "") -> str:
    """A line for each skill; with its file below ``prefix`` if there is one."""
    return "\n".join(
        f"- {each.name}: {each.description}{f' ({prefix}/{each.path})' if prefix else ''}" for each in skills
    )


class SkillFiles(Skill):
    """The skills in the folder that the setting ``skills_dir`` names, as they were when the agent started."""

    def describe_action(self, name: str, description: str) -> str:
        """It lists the skills, so that a model knows which there are without reading one."""
        root = self.context.settings.skills_dir
        return f"{description}:\n{format_skills(find_skill_files(root))}" if root else description

    @register_action(
        "Read how something is done in this office, and do it so, for a task that one of these skills is for",
        {"name": "Its name", "file": "Another file of it, relative to its folder; empty: the skill itself"},
        planned=False,
    )
    async def read_skill(self, name: str, file: str = "") -> Outcome:
        """The text of the file in the output; raises ActionError for a skill or file that is not there."""
        root = self.context.settings.skills_dir
        if root is None or not NAME.fullmatch(name):
            raise ActionError(f"There is no skill {name[:80]!r}")
        text = await asyncio.to_thread(_read, root, f"{name}/{file or FILE}")
        place = "" if file else f"\n\n[The files of this skill are in {root / name}.]"
        return Outcome(output=f"{text}{place}", evidence_refs=(f"{root / name / (file or FILE)}:1",))


def _read(root: Path, path: str) -> str:
    with ConfinedFolder(root) as confined:
        return confined.read(path, SIZE).decode("utf-8", "replace")
