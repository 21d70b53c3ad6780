"""``mailroom diff`` and ``mailroom apply``: a goal's patches, shown, and applied to the person's folders."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from services.cli.commands.options import FolderType, format_examples, goal_argument, json_option
from services.cli.connection import run_connected
from services.cli.output.console import colour, open_console, print_json
from shared.contracts import Goal
from shared.operations.patches import (
    Applied,
    Fitting,
    apply_fitting,
    describe_patch,
    fit_delivered,
    read_goal_patches,
    read_patch,
    read_stat,
    record_applied,
)
from shared.queries.results import DeliveredPatch
from shared.text.display import clean_block

names_argument = click.argument("names", metavar="[PROJECT]...", nargs=-1)


@click.command(epilog=format_examples("mailroom diff last", "mailroom diff last | git apply"))
@goal_argument
@names_argument
@json_option
def diff(name: str, names: tuple[str, ...], as_json: bool) -> None:
    """Print the patches of GOAL, or those of the projects named.

    In a pipe they are printed unchanged, so that git apply can read them.
    """
    _, patches = _read(name, names)
    if as_json:
        print_json([describe_patch(each) for each in patches])
        return
    for patch in patches:
        data = read_patch(patch)
        if sys.stdout.isatty():
            _print_patch(patch, data)
        else:
            sys.stdout.buffer.write(data)


@click.command(epilog=format_examples("mailroom apply last"))
@goal_argument
@names_argument
@click.option("--to", "folder", type=FolderType(), help="Apply it to this folder.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def apply(name: str, names: tuple[str, ...], folder: Path | None, yes: bool, as_json: bool) -> None:
    """Apply the patches of GOAL to the folders they were made for.

    Shows each one and asks. One that does not fit is merged if git can do that without conflicts, else
    refused. Prints the command that undoes it.
    """
    if as_json and not yes:
        raise click.UsageError("--json needs --yes: there is nobody to ask")
    goal, patches = _read(name, names)
    if folder and len(patches) > 1:
        listed = ", ".join(each.name for each in patches)
        raise click.UsageError(f"--to takes one patch; name a project: {listed}")
    done = [_apply(each, folder, goal, ask=not yes, quiet=as_json) for each in patches]
    if applied := [each for each in done if each.done == "applied"]:
        run_connected(lambda bus: record_applied(bus, goal, applied))
    if as_json:
        print_json({"goal_id": goal.goal_id, "patches": done})
    if any(each.done in ("refused", "declined") for each in done):
        raise SystemExit(1)


def _read(name: str, names: Sequence[str]) -> tuple[Goal, list[DeliveredPatch]]:
    """The goal and its patches, or those of the projects named."""
    return run_connected(lambda bus: read_goal_patches(bus, name, names))


def _print_patch(patch: DeliveredPatch, data: bytes) -> None:
    click.secho(f"{patch.name}, for {patch.folder or 'an unknown folder'}", bold=True)
    for line in clean_block(data.decode("utf-8", "replace")).splitlines():
        click.echo(colour(line, _line_colour(line)))


def _line_colour(line: str) -> str | None:
    if line.startswith(("+++", "---", "diff --git")):
        return "yellow"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])


# --- applying --------------------------------------------------------------------------------------


def _apply(patch: DeliveredPatch, folder: Path | None, goal: Goal, *, ask: bool, quiet: bool) -> Applied:
    fitting = fit_delivered(patch, folder, goal)
    if refused := fitting.refused:
        click.echo(f"{patch.name} was not applied. {refused.problem}. {refused.cure}", err=True)
        return refused
    if not quiet:
        _print_patch(patch, read_patch(patch))
        click.echo(f"\n{read_stat(fitting.fit.patch)}")
    return _apply_fitting(fitting, ask=ask, quiet=quiet)


def _apply_fitting(fitting: Fitting, *, ask: bool, quiet: bool) -> Applied:
    """Apply a patch that fits, if the person agrees; returns what became of it."""
    folder, undo = fitting.folder, f"Undo: {fitting.undo}"
    if fitting.fit.applied:
        _say(quiet, f"{folder} has these changes already.\n{undo}")
        return fitting.result("already applied")
    if fitting.fit.adapted:
        _say(
            quiet, f"{folder} has changed since; git merged the patch without conflicts: {fitting.fit.patch}"
        )
    if ask and not click.confirm(f"Apply this to {folder}?"):
        return fitting.result("declined")
    applied = apply_fitting(fitting)
    _say(quiet, f"Applied to {folder}; nothing was committed.\n{undo}")
    return applied


def _say(quiet: bool, text: str) -> None:
    if not quiet:
        open_console().print(text, soft_wrap=True)
