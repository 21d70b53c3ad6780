"""The parts of the hands' skills that touch nothing."""

from shared.contracts import Task
from shared.settings import Settings
from shared.skills.workspace import LONGEST_NOTE, shorten, slug, snapshots_path
from shared.tasks.context import goal_of, workspace_path
from shared.text.display import escape_invisible


def task(**fields: str) -> Task:
    return Task(task_id="task_1", text="x", assignee="engineer", requester="user", **fields)


def test_a_goal_has_one_workspace_and_its_snapshots_lie_outside(tmp_path) -> None:
    settings = Settings(state_dir=tmp_path)
    assert goal_of(task()) == "task_1"
    assert goal_of(task(goal_id="goal_1")) == "goal_1"
    own = task(goal_id="goal_1")
    assert workspace_path(settings, own) == tmp_path / "workspaces" / "goal_1" / "task_1"
    again = task(goal_id="goal_1", workspace="task_0")
    assert workspace_path(settings, again) == tmp_path / "workspaces" / "goal_1" / "task_0"
    assert not snapshots_path(settings, own).is_relative_to(settings.workspaces)


def test_notes_of_different_commands_differ() -> None:
    assert shorten("run: ls -la") == "run: ls -la"
    long = "x" * 1_000
    assert (
        len({shorten(long), shorten(f"{long}y"), shorten(f" {long}"), shorten("a\nb"), shorten("a b")}) == 5
    )
    assert len(shorten(long)) < LONGEST_NOTE + 20
    assert "\n" not in shorten("a\nb")


def test_what_a_person_approves_hides_nothing() -> None:
    assert escape_invisible("ls\n\x1b[2J\u202e\u200bé") == "ls\n\\u{1b}[2J\\u{202e}\\u{200b}é"


def test_names_are_made_of_anything() -> None:
    assert slug("My Project (2)!") == "my-project-2"
    assert slug("../..") == "untitled"
