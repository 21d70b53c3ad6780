"""Relative paths in what people submit."""

from pathlib import Path

import click
import pytest

from services.cli.commands.options import (
    FolderType,
    find_repository_here,
    names_path,
    parse_context,
    print_resolved,
    resolve_context,
    resolve_text,
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with two projects and a file; the home folder has one as well."""
    for name in ("here/app", "here/two words", "home/src/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "here" / "notes.md").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Run the tests of .", "Run the tests of {}/here"),
        ("Run the tests of ..", "Run the tests of {}"),
        ("Compare . and ./app.", "Compare {}/here and {}/here/app."),
        ("Lint ./app, then (../home/src)!", "Lint {}/here/app, then ({}/home/src)!"),
        ("check up on ~/src/x", "check up on {}/home/src/x"),
        ("Lint './app'", "Lint '{}/here/app'"),
        ('Lint "./two words"', 'Lint "{}/here/two words"'),
        ("Explain ./notes.md", "Explain {}/here/notes.md"),
        ("repo=./app", "repo={}/here/app"),
    ],
)
def test_relative_paths_in_a_text_become_absolute(here: Path, text: str, expected: str) -> None:
    assert resolve_text(text)[0] == expected.replace("{}", str(here))


@pytest.mark.parametrize(
    "text",
    [
        "Well ... that depends",
        "It took ~ 5 s. Why?",
        "Read ./nothing/here and app",
        "What is in .gitignore, a/./b and http://x.example/../app",
        "Use version 1.2 of x./app",
        "Lint '~nobody-of-that-name/x'",
        "The end. The next",
    ],
)
def test_other_words_stay(here: Path, text: str) -> None:
    kept, resolved = resolve_text(text)
    assert (kept, any(resolved.values())) == (text, False)


@pytest.mark.parametrize(
    "text",
    [
        "$ cat ./app/nope\ncat: ./app/nope: No such file",
        "ada@box:~/nope$ make test",
        "> see ./nope for that",
        "the log says: 'cannot open ./nope'",
        "```\nopen ../nope\n```",
    ],
)
def test_paths_of_what_was_pasted_stay_and_are_not_missed(here: Path, text: str) -> None:
    assert resolve_text(text) == (text, {})


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Run the tests of ./nope", "./nope"),
        ("Lint ../nope.", "../nope"),
        ("Check up on './no such folder'", "./no such folder"),
        ("check ~/nope, please", "~/nope"),
        ("Compare ./nope/deep and ./app", "./nope/deep"),
    ],
)
def test_a_path_that_does_not_exist_is_told(
    text: str, missing: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resolved = resolve_text(text)[1]
    assert [written for written, path in resolved.items() if not path] == [missing]
    print_resolved({missing: resolved[missing]})
    assert capsys.readouterr().err == f"{missing} does not exist in {here / 'here'}\n"


def test_a_path_that_gets_a_space_gets_quotes_and_is_told(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here / "here" / "two words")
    place = str(here / "here" / "two words")
    assert resolve_text("Lint .") == (f"Lint '{place}'", {".": place})


def test_the_repository_of_a_context_may_be_relative(here: Path) -> None:
    given = {"repo": "app", "note": "app", "limit": 3}
    resolved = str(here / "here" / "app")
    assert resolve_context(given) == ({**given, "repo": resolved}, {"repo=app": resolved})
    assert resolve_context({"repo": "/some/where"}) == ({"repo": "/some/where"}, {})
    assert resolve_context({"folder": "app"})[0]["folder"] == resolved
    # An action's folder may be one of its workspace.
    assert resolve_context({"folder": "app", "action": "test_changes"})[0]["folder"] == "app"
    with pytest.raises(click.UsageError, match="repo=nope: there is no such folder"):
        resolve_context({"repo": "nope"})


def test_a_folder_may_be_relative_to_the_home_folder(here: Path) -> None:
    kind = FolderType()
    assert kind.convert("~/src/x", None, None) == here / "home" / "src" / "x"
    assert kind.convert(".", None, None) == here / "here"
    for wrong, reason in (("nope", "is not a folder here"), ("notes.md", "is a file, not a folder")):
        with pytest.raises(click.BadParameter, match=reason):
            kind.convert(wrong, None, None)


def test_context_takes_numbers_and_truth_values() -> None:
    context, option = click.Context(click.Command("x")), click.Option(["-c"])
    pairs = ("limit:=3", "deep:=true", "name=3", 'params={"a": 1}', "equation=a:=b")
    assert parse_context(context, option, pairs) == {
        "limit": 3,
        "deep": True,
        "name": "3",
        "params": {"a": 1},
        "equation": "a:=b",
    }
    for wrong, reason in (("limit:=three", "is not JSON.*limit=three"), (":=3", "not of the form")):
        with pytest.raises(click.BadParameter, match=reason):
            parse_context(context, option, (wrong,))
    with pytest.raises(click.BadParameter, match="'name' is given twice"):
        parse_context(context, option, ("name=1", "name=2"))


def test_a_goal_may_be_about_the_repository_around(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.cli.api.find_office_elsewhere", lambda _: "")
    assert find_repository_here({}) == "", "there is no repository"
    (here / "here" / ".git").mkdir()
    monkeypatch.chdir(here / "here" / "app")
    assert find_repository_here({"priority": "x"}) == str(here / "here")
    for name in ("repo", "folder", "action", "assignee"):
        assert find_repository_here({name: "x"}) == ""
    monkeypatch.setattr("services.cli.api.find_office_elsewhere", lambda _: "https://office.example.org")
    assert find_repository_here({}) == ""


def test_the_home_folder_is_no_repository_that_is_meant(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.cli.api.find_office_elsewhere", lambda _: "")
    (here / "home" / ".git").mkdir()
    monkeypatch.chdir(here / "home" / "src")
    assert find_repository_here({}) == ""


def test_a_text_names_what_is_there(here: Path) -> None:
    assert names_path(f"Run the tests of '{here}/here/two words'")
    assert names_path(f"Explain {here}/here/notes.md, please")
    assert not names_path("Add a /health endpoint\0 to it")
    assert not names_path("Run the tests")
