"""What a specialist may be: its name, its skills, its limits, on disk."""

import importlib
import json
import os
from pathlib import Path

import msgspec
import pytest

from shared import settings
from shared.errors import ActionError
from shared.settings import Settings
from shared.tasks.profiles import (
    KEPT_RETIRED,
    MAX_SKILLS,
    MAX_WORDS,
    SKILLS,
    Profile,
    Supervision,
    check_profile,
    choose_skills,
    end_supervision,
    name_of,
    read_retired,
    read_specialists,
    require_supervision,
    retire_profile,
    write_profile,
    write_supervision,
)


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    return settings.load({"MAILROOM_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)})


def profile(name: str = "specialist-tax-law", **fields: object) -> Profile:
    return Profile(name=name, description="Knows.", **fields)  # type: ignore[arg-type]


def test_every_skill_of_the_list_is_there() -> None:
    for path in SKILLS:
        module, _, name = path.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), name), type)


@pytest.mark.parametrize(
    ("domain", "name"),
    [
        ("Tax law", "specialist-tax-law"),
        ("  C++ & Rust! ", "specialist-c-rust"),
        ("../../etc/passwd", "specialist-etc-passwd"),
        ("Übersetzung à la carte", "specialist-ubersetzung-a-la-carte"),
        ("x" * 200, "specialist-" + "x" * 40),
    ],
)
def test_the_name_follows_from_the_domain(domain: str, name: str) -> None:
    assert name_of(domain) == name
    assert check_profile(profile(name)) == ""


def test_a_domain_without_letters_gives_no_name() -> None:
    with pytest.raises(ActionError, match="no name"):
        name_of("税法")


def test_skills_are_chosen_by_whole_words() -> None:
    chosen = choose_skills("Searches the web for studies, and writes scripts")
    assert {path.split(".")[-2] for path in chosen} >= {"memory", "search", "web", "papers", "python"}
    assert "shared.skills.shell.ShellSkill" not in chosen
    assert choose_skills("Greets") == ("shared.skills.memory.MemorySkill",)
    assert len(choose_skills(" ".join(word for words in SKILLS.values() for word in words))) == MAX_SKILLS


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (profile("engineer"), "its name 'engineer' is not"),
        (profile("specialist-"), "its name"),
        (profile(skills=("os.path.join",)), "names the skill 'os.path.join'"),
        (profile(skills=("shared.skills.mail.MailSkill",)), "which a specialist may not have"),
        (profile(skills=tuple(SKILLS)), "8 are allowed"),
        (profile(options={"shell": "yes"}), "its option 'shell' is not one of"),
        (profile(prompt="x" * (MAX_WORDS + 1)), "more than 4,000 characters"),
        (profile(concurrency=1_000), "1000 tasks at once"),
    ],
)
def test_a_profile_beyond_the_limits_is_refused(wrong: Profile, reason: str) -> None:
    assert reason in check_profile(wrong)


def test_what_was_written_is_read_again(config: Settings) -> None:
    made = profile(
        prompt="You know: everything\n# and more",
        skills=tuple(SKILLS)[:2],
        options={"domain": "Tax", "requirements": "{x}", "asker": "user"},
    )
    write_profile(config, made)
    assert read_specialists(config) == ({made.name: made}, {})
    assert [path.name for path in (config.specialists / made.name).iterdir()] == ["profile.yaml"]


def test_no_more_than_allowed_and_the_oldest_stay(config: Settings) -> None:
    few = msgspec.structs.replace(config, max_specialists=2)
    for number, name in enumerate(["specialist-c", "specialist-a", "specialist-b"]):
        write_profile(config, profile(name))
        os.utime(config.specialists / name / "profile.yaml", (number, number))
    good, refused = read_specialists(few)
    assert list(good) == ["specialist-c", "specialist-a"]
    assert refused == {"specialist-b": "there are 2 already (MAILROOM_MAX_SPECIALISTS)"}


def test_a_broken_profile_does_not_hide_the_others(config: Settings) -> None:
    write_profile(config, profile())
    for name, text in {"specialist-x": "][", "specialist-y": "name: specialist-z\ndescription: z\n"}.items():
        (config.specialists / name).mkdir()
        (config.specialists / name / "profile.yaml").write_text(text)
    good, refused = read_specialists(config)
    assert list(good) == ["specialist-tax-law"]
    assert "not valid YAML" in refused["specialist-x"]
    assert "its folder is named" in refused["specialist-y"]


def test_the_retired_are_kept_for_a_while(config: Settings) -> None:
    for number in range(KEPT_RETIRED + 2):
        write_profile(config, profile(f"specialist-{number}"))
        retire_profile(config, f"specialist-{number}")
        stamp = 1_000 + number
        os.utime(config.specialists / "retired" / f"specialist-{number}", (stamp, stamp))
    assert len(read_retired(config)) == KEPT_RETIRED + 1 - 1
    assert "specialist-0" not in read_retired(config)
    assert read_specialists(config) == ({}, {})
    # one of the same name can be made, and retired, again
    write_profile(config, profile("specialist-9"))
    retire_profile(config, "specialist-9")


def test_nobody_starts_them_without_mailroom_up(config: Settings) -> None:
    with pytest.raises(ActionError, match="was not opened by 'mailroom up'"):
        require_supervision(config)
    write_supervision(config, Supervision(pid=os.getpid()))
    require_supervision(config)
    write_supervision(config, Supervision(pid=os.getpid(), refusal="The server is another's"))
    with pytest.raises(ActionError, match="The server is another's"):
        require_supervision(config)
    end_supervision(config)
    with pytest.raises(ActionError):
        require_supervision(config)
    # left behind by one that was killed
    (config.specialists / "supervision.json").write_text(json.dumps({"pid": 2**22 + 1}))
    with pytest.raises(ActionError):
        require_supervision(config)
