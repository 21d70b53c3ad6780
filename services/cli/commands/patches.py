"""``mailroom diff`` and ``mailroom apply``: a goal's patches, shown, and applied to the person's folders."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePath

import click

from services.cli import api
from services.cli.commands.options import FolderType, format_examples, goal_argument, json_option
from services.cli.output.console import colour, open_console, print_json
from shared import settings
from shared.errors import MailroomError
from shared.files import write_atomically
from shared.operations.patches import (
    Fitting,
    apply_fitting,
    describe_patch,
    fit_delivered,
    read_stat,
)
from shared.text.display import clean_block
from shared.views.listed import Applied, DeliveredPatch, GoalPatches, PatchFile

names_argument = click.argument("names", metavar="[PROJECT]...", nargs=-1)


@click.command(epilog=format_examples("mailroom diff last", "mailroom diff last | git apply"))
@goal_argument
@names_argument
@json_option
def diff(name: str, names: tuple[str, ...], as_json: bool) -> None:
    """Print the patches of GOAL, or those of the projects named.

    In a pipe they are printed unchanged, so that git apply can read them.
    """
    found = _read(name, names)
    if as_json:
        print_json([describe_patch(_place(each, found.goal_id)) for each in found.patches])
        return
    for patch in found.patches:
        if sys.stdout.isatty():
            _print_patch(patch)
        else:
            sys.stdout.buffer.write(patch.data)


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
    found = _read(name, names)
    if folder and len(found.patches) > 1:
        listed = ", ".join(each.name for each in found.patches)
        raise click.UsageError(f"--to takes one patch; name a project: {listed}")
    done = [_apply(each, folder, found.goal_id, ask=not yes, quiet=as_json) for each in found.patches]
    if applied := [each for each in done if each.done == "applied"]:
        try:
            api.post(f"{api.goal_path(found.goal_id)}/applied", type(None), {"patches": applied})
        except MailroomError as error:
            click.echo(f"That it was applied is not on record: {error}", err=True)
    if as_json:
        print_json({"goal_id": found.goal_id, "patches": done})
    if any(each.done in ("refused", "declined") for each in done):
        raise SystemExit(1)


def _read(name: str, names: Sequence[str]) -> GoalPatches:
    """The patches of the goal, or those of the projects named."""
    return api.get(f"{api.goal_path(name)}/patches", GoalPatches, {"project": tuple(names)})


def _place(patch: PatchFile, goal_id: str) -> DeliveredPatch:
    """The patch as a file of this machine: that of the agents if it is here, else one in the state folder."""
    with suppress(OSError):
        if Path(patch.path).read_bytes() == patch.data:
            return patch
    path = settings.load().state_dir / "patches" / goal_id / PurePath(patch.path).name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, patch.data)
    except OSError as error:
        raise MailroomError(
            f"{path} cannot be written: {error.strerror}", "Make its folder writable"
        ) from None
    return DeliveredPatch(path=str(path), folder=patch.folder)


def _print_patch(patch: PatchFile) -> None:
    click.secho(f"{patch.name}, for {patch.folder or 'an unknown folder'}", bold=True)
    for line in clean_block(patch.data.decode("utf-8", "replace")).splitlines():
        click.echo(colour(line, _line_colour(line)))


def _line_colour(line: str) -> str | None:
    if line.startswith(("+++", "---", "diff --git")):
        return "yellow"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])


# --- applying --------------------------------------------------------------------------------------


def _apply(patch: PatchFile, folder: Path | None, goal_id: str, *, ask: bool, quiet: bool) -> Applied:
    fitting = fit_delivered(_place(patch, goal_id), folder, goal_id)
    if refused := fitting.refused:
        click.echo(f"{patch.name} was not applied. {refused.problem}. {refused.cure}", err=True)
        return refused
    if not quiet:
        _print_patch(patch)
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
