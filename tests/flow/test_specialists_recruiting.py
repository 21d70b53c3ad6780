"""What a specialist is made of: never more than whoever asks for it has, whatever a model says."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from services.conductor.specialist_factory import SpecialistFactory
from shared import settings
from shared.contracts import Presence
from shared.errors import ActionError
from shared.llm import LanguageModel, Message, OfflineModel, ask_for
from shared.llm.scripted import ScriptedModel
from shared.settings import Settings
from shared.tasks.profiles import Supervision, read_specialists, write_profile, write_supervision

T = TypeVar("T")
SEARCH, SHELL, MAIL = (
    f"shared.skills.{module}.{module.title()}Skill" for module in ("search", "shell", "mail")
)


class Models:
    """A model session with this model."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    async def ask_model_for(
        self, messages: Sequence[Message], kind: type[T], check: Callable[[T], str | None] | None = None
    ) -> T:
        answer, _ = await ask_for(self.model, messages, kind, check=check)
        return answer


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)})
    write_supervision(config, Supervision(pid=os.getpid()))
    return config


def factory(config: Settings, tmp_path: Path, *replies: dict[str, Any]) -> SpecialistFactory:
    async def skills_of(name: str) -> set[str]:
        return {SEARCH, MAIL} if name == "nexus" else set()

    model: LanguageModel = OfflineModel()
    if replies:
        path = tmp_path / "script.yaml"
        path.write_text(json.dumps([{"match": "", "replies": replies}]))
        model = ScriptedModel(path)
    return SpecialistFactory(config, None, Models(model), skills_of)  # type: ignore[arg-type]


def description(*skills: str) -> dict[str, Any]:
    return {"json": {"description": "Finds.", "prompt": "You find.", "skills": skills}}


async def test_a_person_may_have_all_of_the_list_and_an_agent_what_it_has_itself(
    config: Settings, tmp_path: Path
) -> None:
    words = "Searches, runs shell commands, writes mail"
    made = await factory(config, tmp_path)._make("Finding", words, "user")
    assert {SEARCH, SHELL} < set(made.skills)
    assert MAIL not in made.skills
    for asker, skills in {"nexus": (SEARCH,), "cortex": ()}.items():
        made = await factory(config, tmp_path)._make("Finding", words, asker)
        assert made.skills == skills
        assert read_specialists(config)[0][made.name] == made


@pytest.mark.parametrize("wrong", [description("shell"), description("os.path.join"), description("mail")])
async def test_a_model_cannot_give_it_more(config: Settings, tmp_path: Path, wrong: dict[str, Any]) -> None:
    made = await factory(config, tmp_path, wrong, description("search"))._make("Finding", "Finds", "nexus")
    assert (made.skills, made.description) == ((SEARCH,), "Finds.")
    # one that insists is not asked any more
    made = await factory(config, tmp_path, wrong)._make("Finding", "Searches", "nexus")
    assert (made.skills, made.description) == ((SEARCH,), "Specialist for Finding.")


async def test_nonsense_is_refused(config: Settings, tmp_path: Path) -> None:
    maker = factory(config, tmp_path)
    for domain, requirements, reason in (
        ("Finding", " ", "must have 1 to 4,000 characters"),
        ("Finding", "x" * 5_000, "must have 1 to 4,000 characters"),
        ("!!", "Finds", "gives a specialist no name"),
    ):
        with pytest.raises(ActionError, match=reason):
            await maker.create(domain, requirements, "user")
    with pytest.raises(ActionError, match="There is no specialist 'engineer'"):
        await maker.retire("engineer")
    assert read_specialists(config) == ({}, {})


async def test_what_the_office_refuses_to_start_is_told_and_taken_away(
    config: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(*_: object) -> list[Presence]:
        return []

    monkeypatch.setattr("services.conductor.specialist_factory.read_presences", nobody)
    maker = factory(config, tmp_path)
    made = await maker._make("Finding", "Finds", "user")
    write_profile(config, made)
    (config.specialists / made.name / "refused").write_text("The server does not take it in\n")
    with pytest.raises(ActionError, match="start specialist-finding: The server does not take it in"):
        await maker._await_at_work(made.name)
    assert await maker.count_free() == config.max_specialists
