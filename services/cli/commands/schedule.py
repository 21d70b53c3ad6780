"""``mailroom schedule``: goals that run again and again, which nexus begins."""

from typing import Any

import click

from services.cli.commands.actions import perform_action
from services.cli.commands.options import TextType, format_examples, json_option, print_resolved, resolve_text
from services.cli.output.console import open_console, print_block, print_json
from shared import subjects
from shared.contracts import TaskResult
from shared.text.printable import clean_block

id_argument = click.argument("schedule", metavar="ID")


@click.group()
def schedule() -> None:
    """Goals on a schedule: each run is a goal of its own.

    A run that was missed because Mailroom was stopped begins when it starts again, unless it is more than a
    day late. A run is left out if the goal of the run before still works.
    """


@schedule.command(epilog=format_examples('mailroom schedule add "every weekday at 7" "Check up on ."'))
@click.argument("when", type=TextType())
@click.argument("text", metavar="GOAL", type=TextType())
@json_option
def add(when: str, text: str, as_json: bool) -> None:
    """Put a goal on a schedule.

    WHEN is in plain words, such as 'every weekday at 7', 'every night at 2' or 'tomorrow at 6', which is a
    single run; or a rule of RFC 5545, as 'RRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=7;BYMINUTE=0'. GOAL is as for
    'mailroom submit'.
    """
    text, resolved = resolve_text(text)
    print_resolved(resolved)
    _perform("schedule_goal", {"text": text, "when": when}, f"{when}: {text}", as_json)


@schedule.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Include those that ended or were removed.")
@json_option
def list_schedules(everything: bool, as_json: bool) -> None:
    """List the goals on a schedule, the next one first."""
    _perform("list_schedules", {"everything": everything}, "List the goals on a schedule", as_json)


@schedule.command()
@id_argument
@json_option
def show(schedule: str, as_json: bool) -> None:
    """Show a goal on a schedule, with its next runs.

    ID is its id, the beginning of it, or words of its goal.
    """
    _perform("show_schedule", {"schedule": schedule}, f"Show {schedule}", as_json)


@schedule.command()
@id_argument
@json_option
def remove(schedule: str, as_json: bool) -> None:
    """Remove a goal from the schedule; a run that has begun goes on.

    ID is its id, the beginning of it, or words of its goal.
    """
    _perform("remove_schedule", {"schedule": schedule}, f"Remove {schedule}", as_json)


@schedule.command()
@id_argument
@json_option
def pause(schedule: str, as_json: bool) -> None:
    """Pause a goal on a schedule until 'resume'.

    What it misses meanwhile is not made up for.
    """
    _perform("pause_schedule", {"schedule": schedule}, f"Pause {schedule}", as_json)


@schedule.command()
@id_argument
@json_option
def resume(schedule: str, as_json: bool) -> None:
    """Have a goal that is paused go on with its next run."""
    _perform("resume_schedule", {"schedule": schedule}, f"Resume {schedule}", as_json)


@schedule.command()
@id_argument
@json_option
def run(schedule: str, as_json: bool) -> None:
    """Begin a run now; the further runs stay as they are."""
    _perform("run_schedule", {"schedule": schedule}, f"Run {schedule}", as_json)


def _perform(action: str, params: dict[str, Any], text: str, as_json: bool) -> None:
    result = perform_action(subjects.NEXUS, action, params, text)
    if as_json:
        print_json(_data(result))
        return
    console = open_console()
    for line in clean_block(result.output).rstrip().splitlines():
        print_block(line, console, hang=4 if line[:1] not in ("", " ", "-") else 6)


def _data(result: TaskResult) -> Any:
    return result.metadata.get("schedules", result.metadata.get("schedule"))
