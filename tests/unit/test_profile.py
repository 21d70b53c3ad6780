"""Profiles: what they may say, and where a wrong one is wrong."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ConfigError
from shared.subjects import RESERVED_NAMES
from shared.tasks.profiles import Profile, load_profile

ROOT = Path(__file__).resolve().parents[2]
FIELDS = ", ".join(Profile.__struct_fields__)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "profile.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def wrong(folder: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as raised:
        load_profile(write(folder, text))
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("services/*/profile.yaml")), ids=lambda path: path.parent.name
)
def test_the_profiles_of_the_services_can_be_read(path: Path) -> None:
    profile = load_profile(path)
    assert profile.name == path.parent.name
    assert profile.instructions
    assert profile.prompt or profile.name == "gateway"  # which thinks nothing


def test_a_name_and_a_description_are_enough(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, "name: clerk\ndescription: Files things.\n"))
    assert profile == Profile(name="clerk", description="Files things.")
    assert (profile.concurrency, profile.skills, profile.options) == (4, (), {})


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    text = """
        name: clerk-2_b
        description: Dépose les lettres. 整理
        instructions: >
          Say it
          nicely.
        prompt: |
          You are a clerk.
        skills: [shared.skills.files.FilesSkill]
        concurrency: 1000
        options: {deep: {er: [1, null]}}
        """
    profile = load_profile(write(tmp_path, text))
    assert profile.description == "Dépose les lettres. 整理"
    assert profile.instructions.strip() == "Say it nicely."
    assert profile.skills == ("shared.skills.files.FilesSkill",)
    assert profile.options == {"deep": {"er": [1, None]}}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("descripton: x", 3, "unknown field 'descripton'. Did you mean 'description'?"),
        ("Concurrency: 3", 3, "unknown field 'Concurrency'. Did you mean 'concurrency'?"),
        ("skill: []", 3, "unknown field 'skill'. Did you mean 'skills'?"),
        ("xyzzy: x", 3, f"unknown field 'xyzzy'. The fields are {FIELDS}"),
        ("1: x", 3, f"unknown field '1'. The fields are {FIELDS}"),
        ("\n# a remark\nxyzzy: x", 5, "unknown field 'xyzzy'"),
        ("description: Again.", 3, "the field 'description' is there twice"),
        ("concurrency: many", 3, "Expected `int`, got `str` - at `$.concurrency`"),
        ("concurrency: 0", 3, "concurrency must be between 1 and 1000, not 0"),
        ("prompt: x\nconcurrency: 1001", 4, "concurrency must be between 1 and 1000, not 1001"),
        ("concurrency: 1.5", 3, "Expected `int`, got `float` - at `$.concurrency`"),
        ("skills: a.b.C", 3, "Expected `array`, got `str` - at `$.skills`"),
        ("skills: [a.b.C, 5]", 3, "Expected `str`, got `int` - at `$.skills[1]`"),
        ("options: [1]", 3, "Expected `object`, got `array` - at `$.options`"),
        ("options: {1: 2}", 3, "`$.options`"),
        ("prompt: 5", 3, "Expected `str`, got `int` - at `$.prompt`"),
        ("instructions:", 3, "Expected `str`, got `null` - at `$.instructions`"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    told = wrong(tmp_path, f"name: clerk\ndescription: Files.\n{text}\n")
    assert told.startswith(f"{tmp_path / 'profile.yaml'}:{line}: ")
    assert said in told


@pytest.mark.parametrize(
    "name", ["The Clerk", "clerk.one", "Clerk", "-clerk", "''", "x" * 65, "clérk", "'>'", "'*'"]
)
def test_a_name_that_cannot_stand_in_a_subject_is_refused(tmp_path: Path, name: str) -> None:
    told = wrong(tmp_path, f"description: Files.\nname: {name}\n")
    assert told.startswith(f"{tmp_path / 'profile.yaml'}:2: name must be 1 to 64 lower-case letters")


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_a_reserved_name_is_refused(tmp_path: Path, name: str) -> None:
    told = wrong(tmp_path, f"description: Files.\nname: {name}\n")
    assert told.startswith(
        f"{tmp_path / 'profile.yaml'}:2: {name!r} cannot be an agent's name: it is reserved."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: clerk", ":1: Object missing required field `description`"),
        ("description: Files.", ":1: Object missing required field `name`"),
        ("name: clerk\ndescription: ' '", ":2: description must be a non-empty string"),
        ("name: yes\ndescription: x", ":1: Expected `str`, got `bool` - at `$.name`"),
    ],
)
def test_what_is_required_is_asked_for(tmp_path: Path, text: str, said: str) -> None:
    assert wrong(tmp_path, text) == f"{tmp_path / 'profile.yaml'}{said}"


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing", "- a\n- b", "just words", "5", "null"])
def test_a_file_without_fields_is_told_which_there_are(tmp_path: Path, text: str) -> None:
    assert wrong(tmp_path, text) == (
        f"The profile {tmp_path / 'profile.yaml'} must be a mapping with the fields {FIELDS}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "name: [",
        "\tname: clerk",
        "name: clerk\n---\nname: other",
        "? [a]\n: b",
        "options: !!python/object/apply:os.system [ls]",
        b"\xff\xfe\x00",
        "name: \x00",
        "*unknown",
    ],
)
def test_what_is_no_yaml_is_said_so(tmp_path: Path, text: str | bytes) -> None:
    assert wrong(tmp_path, text).startswith(f"The profile {tmp_path / 'profile.yaml'} is not valid YAML: ")


def test_a_profile_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.yaml", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=f"The profile {path} cannot be read: {reason}"):
            load_profile(path)


@given(text=st.text(st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_a_profile_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = write(tmp_path_factory.mktemp("any"), text)
    try:
        load_profile(path)
    except ConfigError as error:
        assert str(path) in str(error)
