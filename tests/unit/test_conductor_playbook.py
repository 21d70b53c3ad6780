"""Playbooks: read from files that may be wrong, filled in from what people write."""

from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from services.conductor.coverage import find_left_over
from services.conductor.periods import name_day, read_period
from services.conductor.planner import find_reservation, names_later_time, variants
from services.conductor.playbook import (
    Parameter,
    Playbook,
    PlaybookStep,
    apply_playbook,
    fill_parameters,
    find_places,
    load_counterexamples,
    load_playbooks,
    tasks_of,
)
from shared.contracts import Goal
from shared.errors import ActionError, ConfigError

VALID: dict[str, Any] = {
    "name": "look",
    "description": "Look at a folder.",
    "examples": ["Look at PATH"],
    "parameters": {"repo": {"kind": "folder", "description": "the folder"}},
    "tasks": [
        {
            "name": "a",
            "assignee": "scout",
            "action": "read",
            "text": "Read {repo}",
            "params": {"repo": "{repo}"},
        },
        {"name": "b", "assignee": "critic", "action": "lint", "text": "Lint {repo}", "depends_on": ["a"]},
    ],
}


def playbook(**parameters: dict[str, str]) -> Playbook:
    step = PlaybookStep(name="a", assignee="scout", action="read", text="Read")
    described = {name: Parameter(description=f"the {name}", **more) for name, more in parameters.items()}  # type: ignore[arg-type]
    return Playbook(name="p", description="d", examples=("e",), tasks=(step,), parameters=described)


FOLDER = playbook(repo={"kind": "folder"})
URL = playbook(url={"kind": "url"})


def write(folder: Path, file: str = "look.yaml", **changes: Any) -> Path:
    path = folder / file
    path.write_text(yaml.safe_dump({**VALID, **changes}))
    return path


# --- files ---------------------------------------------------------------------------------------


def test_the_playbooks_that_come_with_the_conductor_can_be_read() -> None:
    playbooks = load_playbooks()
    assert "checkup" in playbooks
    assert all(name == book.name for name, book in playbooks.items())
    assert load_counterexamples().desk


def test_a_playbook_is_read_from_its_file(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "notes.txt").write_text("no playbook")
    book = load_playbooks(tmp_path)["look"]
    assert [step.name for step in book.tasks] == ["a", "b"]
    assert book.report == "plain"


def changed(at: int, **changes: Any) -> list[dict[str, Any]]:
    tasks = [dict(task) for task in VALID["tasks"]]
    tasks[at].update(changes)
    return tasks


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"naem": "x"}, "unknown field `naem`"),
        ({"name": 5}, "Expected `str`, got `int` - at `$.name`"),
        ({"examples": []}, "a playbook needs examples and tasks"),
        ({"tasks": []}, "a playbook needs examples and tasks"),
        ({"report": "fancy"}, "Invalid enum value 'fancy' - at `$.report`"),
        ({"tasks": changed(0, asignee="x")}, "unknown field `asignee` - at `$.tasks[0]`"),
        ({"tasks": changed(0, assignee="The Scout")}, "assignee must be a name"),
        ({"tasks": changed(0, name="a b")}, "name must be 1 to 128 letters"),
        ({"tasks": changed(0, text=" ")}, "text must be a non-empty string - at `$.tasks[0]`"),
        ({"tasks": changed(0, name="review")}, "name must not be 'review'"),
        ({"tasks": changed(1, name="a", depends_on=[])}, "name of two tasks is 'a'"),
        ({"tasks": changed(1, depends_on=["c"])}, "depends_on of 'b': 'c' is no earlier task"),
        ({"tasks": changed(0, depends_on=["b"])}, "depends_on of 'a': 'b' is no earlier task"),
        ({"tasks": changed(0, depends_on=["a"])}, "depends_on of 'a': 'a' is no earlier task"),
        ({"parameters": {"n": {"kind": "number", "description": "x"}}}, "`$.parameters[...].kind`"),
        (
            {"parameters": {"n": {"kind": "text", "description": "x"}}},
            "pattern must have a group named 'value'",
        ),
        (
            {"parameters": {"n": {"kind": "text", "description": "x", "pattern": "(?P<value>"}}},
            "pattern is no regular expression",
        ),
    ],
)
def test_a_wrong_playbook_is_named_with_its_field(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(ConfigError) as raised:
        load_playbooks(tmp_path)
    assert str(raised.value).startswith(f"The playbook {path} is wrong: ")
    assert said in str(raised.value)


@pytest.mark.parametrize("field", ["name", "description", "examples", "tasks"])
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({k: v for k, v in VALID.items() if k != field}))
    with pytest.raises(ConfigError, match=rf"x\.yaml is wrong: .*missing required field `{field}`"):
        load_playbooks(tmp_path)


@pytest.mark.parametrize("data", [b"", b"- a\n", b"name: [", b"\xff\xfe\x00", b"a: b\n---\nc: d\n"])
def test_a_file_that_is_no_playbook_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.yaml").write_bytes(data)
    with pytest.raises(ConfigError, match=r"The playbook .*x\.yaml is wrong: ") as raised:
        load_playbooks(tmp_path)
    assert "\n" not in str(raised.value)


def test_two_playbooks_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    second = write(tmp_path, "other.yaml")
    with pytest.raises(ConfigError, match=f"{second} is wrong: another one is named 'look' too"):
        load_playbooks(tmp_path)


@pytest.mark.parametrize("data", [b"a: b\n", b"desk: [5]\n", b"- 5\n", b"", b"- [\n", b"\xff"])
def test_wrong_counterexamples_are_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "counterexamples.yaml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=f"The counterexamples in {path} are wrong"):
        load_counterexamples(path)


# --- what is said in a text ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Check up on {}",
        "Check up on {}.",
        "Is {}, in your opinion, any good?",
        "Check {}!?",
        "Check up on {}…",
        "Check up on ({}).",
        "Check up on [{}]",
        "Check up on <{}>;",
        "Check up on '{}'.",
        'Check up on "{}"',
        "Check up on `{}`:",
        "Check up on “{}”.",
        "Schau dir „{}“ an",
        "Regarde «{}» !",
        "Check **{}**",
        "What about {}'s tests?",
        "What about {}’s tests?",
        "repo={} please",
        "repo:{} please",
        "Run tests and/or lint of {}",
        "Run tests / lint of {}",
        "It takes ~ 5 minutes or ~10 to check {}",
        "As https://example.org/a/b says, check {}",
        "Check {} and not /tmp",
        "Check\t{}\nplease",
        "检查 {}。",
    ],
)
@pytest.mark.parametrize("name", ["kettle", "größe-日本", "v1.2_(old)", "a~b"])
def test_a_folder_is_found_in_a_sentence(tmp_path: Path, text: str, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    assert fill_parameters(FOLDER, text.format(folder), {}) == {"repo": str(folder)}


@pytest.mark.parametrize("text", ["Check '{}'", 'Check "{}".', "Check `{}`!", "Check “{}”"])
def test_a_quoted_folder_may_have_blanks(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "my best work"
    folder.mkdir()
    assert fill_parameters(FOLDER, text.format(folder), {}) == {"repo": str(folder)}


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "src" / "a b").mkdir(parents=True)
    assert fill_parameters(FOLDER, "Check ~/src, please", {}) == {"repo": str(tmp_path / "src")}
    assert fill_parameters(FOLDER, 'Check "~/src/a b"', {}) == {"repo": str(tmp_path / "src" / "a b")}
    assert fill_parameters(FOLDER, "x", {"repo": "~/src"}) == {"repo": str(tmp_path / "src")}


def test_a_folder_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert fill_parameters(FOLDER, f"Check {tmp_path}/a/../link/", {}) == {"repo": str(tmp_path / "a")}


def test_the_context_goes_before_the_text(tmp_path: Path) -> None:
    assert fill_parameters(FOLDER, "Check /nowhere", {"repo": str(tmp_path)}) == {"repo": str(tmp_path)}


@pytest.mark.parametrize(
    "text",
    ["Check it", "Check ./here or ../there", "Check https://example.org/a/b", "and/or", "a / b", "~", "1/2"],
)
def test_a_text_without_a_folder_is_answered_with_what_is_missing(text: str) -> None:
    with pytest.raises(ActionError) as raised:
        fill_parameters(FOLDER, text, {})
    assert str(raised.value) == (
        "The goal does not say the repo. Name it in the text by its absolute path, such as /home/me/project, "
        "or give it as context repo=..."
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("/no/such/folder", "There is no folder /no/such/folder"),
        ("/etc/passwd", "There is no folder /etc/passwd"),
        ("here", "'here' is not an absolute path"),
        ("/a\0b", "folder /a"),
        ("~nobody-of-that-name/x", "The folder ~nobody-of-that-name/x cannot be opened"),
        ("/" + "x" * 5_000, "cannot be opened: File name too long"),
    ],
)
def test_a_folder_that_cannot_be_used_is_said_in_a_sentence(value: str, said: str) -> None:
    with pytest.raises(ActionError) as raised:
        fill_parameters(FOLDER, "", {"repo": value})
    assert said in str(raised.value)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("Read https://example.org/a", "https://example.org/a"),
        ("Read https://example.org/a?b=c&d=%20#e.", "https://example.org/a?b=c&d=%20#e"),
        ("(see http://example.org/a).", "http://example.org/a"),
        ("[a page](https://example.org/a), please", "https://example.org/a"),
        ("<https://example.org/>", "https://example.org/"),
        ("“https://example.org/a”", "https://example.org/a"),
        ("'https://example.org/a'", "https://example.org/a"),
        ("Read https://example.org/A_(letter)", "https://example.org/A_(letter)"),
        ("(https://example.org/A_(letter))", "https://example.org/A_(letter)"),
        ("HTTPS://example.org/a!", "HTTPS://example.org/a"),
        ("https://例え.jp/å, https://second.example", "https://例え.jp/å"),
    ],
)
def test_an_address_is_found_in_a_sentence(text: str, url: str) -> None:
    assert fill_parameters(URL, text, {}) == {"url": url}


def test_a_text_parameter_is_what_its_pattern_finds() -> None:
    book = playbook(topic={"kind": "text", "pattern": r"\babout\s+(?P<value>[^.]+)"})
    assert fill_parameters(book, "Write ABOUT  graph memory . Soon", {}) == {"topic": "graph memory"}
    assert fill_parameters(book, "", {"topic": "tea"}) == {"topic": "tea"}
    with pytest.raises(ActionError, match="does not say the topic"):
        fill_parameters(book, "Write something", {})


# --- what is compared with examples --------------------------------------------------------------


def test_a_text_is_compared_without_its_paths_and_addresses() -> None:
    asked = variants("Check '/a b' and ~/c, then https://example.org/a/b?", {"p": FOLDER})
    assert asked == [("Check PATH and PATH then URL", None), ("Check PATH then URL", None)]
    assert variants("Run the tests of /a, /b and of /c.", {})[1] == ("Run the tests of PATH", None)
    assert variants("Move /a to /b", {}) == [("Move PATH to PATH", None)]


def test_a_topic_is_compared_as_a_topic_with_the_playbook_that_takes_it() -> None:
    book = playbook(topic={"kind": "text", "pattern": r"\babout\s+(?P<value>[^.]+)"})
    texts = variants("Write about tea in /a. Now", {"p": book, "f": FOLDER})
    assert texts == [
        ("Write about tea in PATH Now", None),
        ("Write about tea in PATH", None),
        ("Write about TOPIC", book),
    ]


def test_what_is_asked_for_is_compared_without_what_is_told_around_it() -> None:
    text = "They say it is fine, as always. Anyway, could you run the tests of /a so that I know? Thanks"
    compared = [each for each, _ in variants(text, {"f": FOLDER})]
    assert compared[-1] == "run the tests of PATH"
    book = playbook(topic={"kind": "text", "pattern": r"\bfor\s+(?P<value>[^.]+)"})
    assert all(only is None for _, only in variants("Look at /a for secrts", {"p": book}))
    assert variants("Write about /a", {"p": book}) == [("Write about PATH", None)]  # a place is no topic


@pytest.mark.parametrize(
    "text",
    [
        "Don't run the tests of /a",
        "Whatever you do, don't run the tests of /a",
        "Please do not scan /a for secrets",
        "ok so dont run the tests in /a please",
        "Never run the tests of /a again",
        "Stop running the tests of /a",
        "Tell Bob not to run the tests of /a",
        "Don't look at /a. Do not scan /b either.",
        "If CI is green, run the tests of /a",
        "Once Bob has merged, check up on /a",
        "Before you run the tests of /a, ask me",
        "Instead of running the tests of /a, read its documentation",
        "Run the tests of /a once Bob has merged",
        "Run the tests of /a only if CI is green",
    ],
)
def test_what_is_forbidden_or_has_a_condition_is_not_begun(text: str) -> None:
    assert find_reservation(text)


@pytest.mark.parametrize(
    "text",
    [
        "Run the tests of /a",
        "Check up on /a, don't change anything",
        "Check up on /a. Don't change anything.",
        "Lint /a. Do not look at /a/vendor.",
        "Lint /a but do not fix anything",
        "Search the web for leaking taps. Don't use forums.",
        "Why don't the tests of /a pass?",
        "Don't the tests of /a pass?",
        "Never mind the rest, run the tests of /a",
        "Don't run the tests, just lint /a",
        "If you can, run the tests of /a",
        "If possible check up on /a",
        "When you have a minute, scan /a for secrets",
        "Scan /a for secrets once more",
        "When did the tests of /a last pass?",
        "Tell me if the tests of /a pass",
        "What changed in /a before 2026-01-01",
        "Research how to stop a tap from leaking",
    ],
)
def test_what_may_begin_is_begun(text: str) -> None:
    assert not find_reservation(text)


@pytest.mark.parametrize(
    "text",
    [
        "Run the tests of /a tonight",
        "run the tests of ~/work/shop tomorrow morning, please",
        "Every night at 2, run the tests of /a",
        "every monday check up on /a",
        "Lint /a every day at 9:30",
        "Please scan /a for secrets at 9pm.",
        "check up on /a in 2 hours",
        "Tomorrow, lint /a",
        "tonight run the tests of /a",
        "Check up on /a next Friday",
        "Lint /a. Run the tests of /a after work.",
    ],
)
def test_a_later_time_is_seen(text: str) -> None:
    assert names_later_time(text)


@pytest.mark.parametrize(
    "text",
    [
        "Run the tests of /a",
        "Summarise what changed in /a on Monday",
        "Look at the nightly build of /a",
        "Explain the overnight queue of /a",
        "Find out why /a fails every night in CI",
        "What changed in /a since yesterday",
        "Did the tests of /a fail at 9?",
        "Check up on /a at 2.0.1",
        "Scan /tonight for secrets",
        "Write notes on /a for tomorrow's meeting",
        "Search the web for what is on tonight",
    ],
)
def test_what_names_no_later_time_is_begun(text: str) -> None:
    assert not names_later_time(text)


# --- tasks ---------------------------------------------------------------------------------------


def test_parameters_are_filled_in_and_other_braces_stay(tmp_path: Path) -> None:
    tasks = [
        {**VALID["tasks"][0], "params": {"repo": "{repo}", "format": "{a} {}", "deep": 3}},
        VALID["tasks"][1],
    ]
    write(tmp_path, tasks=tasks)
    first, second = tasks_of(load_playbooks(tmp_path)["look"], "g1", {"repo": "/r/{repo}"})
    assert first.text == "Read /r/{repo}"
    assert first.params == {"repo": "/r/{repo}", "format": "{a} {}", "deep": 3}
    assert (first.task_id, second.task_id, second.depends_on) == ("g1-a-1", "g1-b-1", ("a",))
    assert not first.issued


def test_a_folder_with_blanks_in_its_name_is_found_whole(tmp_path: Path) -> None:
    folder = tmp_path / "my old project"
    folder.mkdir()
    (tmp_path / "my").mkdir()
    playbook = load_playbooks()["checkup"]
    said = fill_parameters(playbook, f"Check up on the repository at {folder}, please.", {})
    assert said == {"repo": str(folder)}
    short = fill_parameters(playbook, f"Check up on the repository at {tmp_path / 'my'} and report", {})
    assert short == {"repo": str(tmp_path / "my")}


# --- several folders, and times ------------------------------------------------------------------


T = PlaybookStep(name="t", assignee="scout", action="read", text="Read {repo}", params={"repo": "{repo}"})


def of(tmp_path: Path, text: str, **context: Any) -> Goal:
    return Goal(
        goal_id="g", text=text, requester="user", context=context, submitted_at="2026-01-02T00:00:00Z"
    )


def test_each_folder_that_is_named_gets_its_tasks_or_a_reason(tmp_path: Path) -> None:
    for name in ("a", "b", "c/a"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "notes.txt").touch()
    text = "Run {0}/a, {0}/b and {0}/c/a, also {0}/a again, not {0}, {0}/gone, see {0}/notes.txt"
    text = text.format(tmp_path)
    book = msgspec.structs.replace(FOLDER, tasks=(T,))
    done = apply_playbook(book, of(tmp_path, text))
    assert [(task.name, task.params, str(task.status)) for task in done.tasks] == [
        ("t-a", {"repo": str(tmp_path / "a")}, "pending"),
        ("t-b", {"repo": str(tmp_path / "b")}, "pending"),
        ("t-a-2", {"repo": str(tmp_path / "c" / "a")}, "pending"),
        ("t-gone", {"repo": f"{tmp_path}/gone"}, "failed"),
    ]
    assert done.tasks[-1].summary.startswith(f"There is no folder {tmp_path}/gone")
    assert len({task.task_id for task in done.tasks}) == 4
    assert list(done.parameters["folders"]) == ["a", "b", "a-2", "gone"]
    given = apply_playbook(book, of(tmp_path, "Run", repo=[str(tmp_path / "a"), str(tmp_path / "b")]))
    assert [task.name for task in given.tasks] == ["t-a", "t-b"]
    with pytest.raises(ActionError, match=r"no folder /no/a.*no folder /no/b"):
        apply_playbook(book, of(tmp_path, "Run /no/a and /no/b"))


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("What changed last week?", ("2026-03-08", "")),
        ("in the last 10 days", ("2026-03-05", "")),
        ("over the past two months", ("2026-01-14", "")),
        ("3 days ago", ("2026-03-12", "")),
        ("since 2026-01-31", ("2026-01-31", "")),
        ("between 2026-01-01 and 2026-01-31", ("2026-01-01", "2026-01-31")),
        ("until 2026-01-31", ("", "2026-01-31")),
        ("on 2026-01-31", ("2026-01-31", "2026-01-31")),
        ("yesterday", ("2026-03-14", "2026-03-14")),
        ("today", ("2026-03-15", "")),
        ("in 2025", ("2025-01-01", "2025-12-31")),
        ("during 2025-12", ("2025-12-01", "2025-12-31")),
        ("since 2026-02-31", ("", "")),
        ("in August", ("2025-08-01", "2025-08-31")),
        ("since March 3rd", ("2026-03-03", "")),
        ("since Monday", ("2026-03-09", "")),
        ("after 3 May 2025", ("2025-05-04", "")),
        ("before May 2025", ("", "2025-04-30")),
        ("between June and August", ("2025-06-01", "2025-08-31")),
        ("since v2.11.0", ("v2.11.0", "")),
        ("since version 1.4", ("1.4", "")),
        ("since the 3.0.0rc1 release", ("3.0.0rc1", "")),
        ("since tag stable-2", ("stable-2", "")),
        ("between v1.0 and v1.1", ("v1.0", "v1.1")),
        ("from release 1.0.0 to 1.1.0", ("1.0.0", "1.1.0")),
        ("until 2.0", ("", "2.0")),
        ("since v1.2 until March 3rd", ("v1.2", "2026-03-03")),
        ("since Monday in python 3.11", ("2026-03-09", "")),
        ("the last hundred days", ("", "")),
        ("the last commits", ("", "")),
        ("it took 3 days", ("", "")),
        ("in the last 99999 years", ("", "")),
    ],
)
def test_the_days_that_a_text_names(text: str, days: tuple[str, str]) -> None:
    assert read_period(text, date(2026, 3, 15))[:2] == days


def test_the_folder_that_was_given_is_meant_where_the_text_names_none(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    given = {"folder": str(tmp_path)}
    assert fill_parameters(FOLDER, "Check it", given) == {"repo": str(tmp_path)}
    assert fill_parameters(FOLDER, f"Check {tmp_path}/other", given) == {"repo": f"{tmp_path}/other"}


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ("What did Hugo van Kemenade change in /tmp since 3.9.0?", "Hugo van Kemenade"),
        ("What changed in /tmp by Ana?", "Ana"),
        ("Show Ana Silva's latest commits in /tmp", "Ana Silva"),
        ("Show the commits from bot@example.com in /tmp in August", "bot@example.com"),
        ("commits of Ana-Maria in /tmp", "Ana-Maria"),
        ("Which changes by @octocat are in /tmp?", "@octocat"),
        ("Who changed /tmp yesterday?", ""),
        ("What has changed in /tmp since 2026-01-31?", ""),
        ("Show the latest commits of /tmp", ""),
        ("What did somebody change in /tmp?", ""),
    ],
)
def test_whose_commits_are_meant(text: str, author: str) -> None:
    history = load_playbooks()["history"]
    assert fill_parameters(history, text, {})["author"] == author
    assert find_left_over(text, find_places(history, text), history.vocabulary).phrases in ((), ("somebody",))


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("What changed in PATH since v1.2?", "What changed in PATH since 2026-01-31?"),
        ("What happened in PATH after version 2.0.0?", "What happened in PATH since 2026-01-31?"),
        ("List the changes in PATH since the tag v2", "List the changes in PATH since 2026-01-31"),
        ("PATH between 1.0 and 1.1", "PATH between 2026-01-01 and 2026-01-31"),
        ("Upgrade PATH to 2.0", "Upgrade PATH to 2.0"),
        ("Does PATH run from 3.9 on?", "Does PATH run from 3.9 on?"),
        ("What changed in PATH since 2026-02-01?", "What changed in PATH since 2026-02-01?"),
    ],
)
def test_versions_are_compared_as_days(text, day):
    assert name_day(text) == day


def test_what_is_asked_since_a_version_is_for_playbooks_that_take_a_time():
    playbooks = load_playbooks()
    asked = variants("Show what was done in /work since release 2.0.0", playbooks)
    assert {only.name for _, only in asked if only} == {"history"}
    assert "Show what was done in PATH since 2026-01-31" in {text for text, _ in asked}
    assert any(only is None for _, only in variants("Show what was done in /work", playbooks))
