"""``mailroom diff`` and ``mailroom apply``: a goal's patches, shown, and applied to the person's folders."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from services.cli.commands.options import FolderType, goal_argument, json_option
from services.cli.commands.patch_files import (
    Fit,
    apply_patch,
    fit_patch,
    format_undo,
    read_files,
    read_stat,
)
from services.cli.connection import run_connected
from services.cli.output.console import colour, open_console, print_json
from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import AgentReport, Goal, generate_task_id
from shared.errors import MailroomError
from shared.queries.results import DeliveredPatch, find_goal, read_patches
from shared.skills.repository import find_any
from shared.text.printable import clean_block

names_argument = click.argument("names", metavar="[PROJECT]...", nargs=-1)


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A patch and what became of it: ``done`` is applied, already applied, declined or refused.

    ``undo`` is the command that takes it out again, ``problem`` why it was refused.
    """

    project: str
    patch: str
    folder: str
    done: str
    files: list[str] = []
    undo: str = ""
    problem: str = ""


@click.command()
@goal_argument
@names_argument
@json_option
def diff(name: str, names: tuple[str, ...], as_json: bool) -> None:
    """Print the patches of GOAL, or those of the projects named.

    In a pipe they are printed unchanged, so that git apply can read them.
    """
    _, patches = _read(name, names)
    if as_json:
        print_json([_describe(each) for each in patches])
        return
    for patch in patches:
        data = _read_patch(patch)
        if sys.stdout.isatty():
            _print_patch(patch, data)
        else:
            sys.stdout.buffer.write(data)


@click.command()
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
        run_connected(lambda bus: _record(bus, goal, applied))
    if as_json:
        print_json({"goal_id": goal.goal_id, "patches": done})
    if any(each.done in ("refused", "declined") for each in done):
        raise SystemExit(1)


def _read(name: str, names: Sequence[str]) -> tuple[Goal, list[DeliveredPatch]]:
    """The goal and its patches, or those of the projects named."""

    async def read(bus: Bus) -> tuple[Goal, list[DeliveredPatch]]:
        goal, seq = await find_goal(bus, name)
        return goal, await read_patches(bus, goal, seq)

    goal, found = run_connected(read)
    if not found:
        more = "" if goal.status.final else f"; it is {goal.status}"
        raise MailroomError(f"The goal {goal.goal_id} has no patch{more}", f"mailroom show {goal.goal_id}")
    known = {each.name for each in found}
    if missing := [each for each in names if each not in known]:
        listed = ", ".join(sorted(known))
        raise MailroomError(f"There is no patch for {missing[0][:80]!r}", f"There is one for {listed}")
    return goal, [each for each in found if not names or each.name in names]


def _read_patch(patch: DeliveredPatch) -> bytes:
    try:
        return Path(patch.path).read_bytes()
    except OSError as error:
        raise MailroomError(
            f"The patch {patch.path} cannot be read: {error.strerror}",
            "It is on the machine where the agents run; run this command there",
        ) from None


def _describe(patch: DeliveredPatch) -> dict[str, object]:
    text = _read_patch(patch).decode("utf-8", "replace")
    files = read_files(Path(patch.path))
    return {"project": patch.name, "path": patch.path, "folder": patch.folder, "files": files, "diff": text}


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
    data = _read_patch(patch)
    place = folder or (Path(patch.folder) if patch.folder else None)
    problem = _find_problem(place)
    if problem or place is None:
        return _refuse(patch, str(place or ""), problem, "Name a folder with --to")
    fit = fit_patch(Path(patch.path), place)
    if fit.problem:
        cure = (
            f"The folder has changed since it was copied. Do it again on what is there now: mailroom retry "
            f"{goal.goal_id}, or apply it by hand: mailroom diff {goal.goal_id} {patch.name}"
        )
        return _refuse(patch, str(place), f"It does not fit {place}: {fit.problem}", cure)
    if not quiet:
        _print_patch(patch, data)
        click.echo(f"\n{read_stat(fit.patch)}")
    done = _apply_fitting(fit, place, ask=ask, quiet=quiet)
    files, undo = read_files(fit.patch), format_undo(fit.patch, place)
    return Applied(
        project=patch.name, patch=str(fit.patch), folder=str(place), done=done, files=files, undo=undo
    )


def _refuse(patch: DeliveredPatch, folder: str, problem: str, cure: str) -> Applied:
    click.echo(f"{patch.name} was not applied. {problem}. {cure}", err=True)
    return Applied(project=patch.name, patch=patch.path, folder=folder, done="refused", problem=problem)


def _apply_fitting(fit: Fit, folder: Path, *, ask: bool, quiet: bool) -> str:
    """Apply a patch that fits, if the person agrees; returns what became of it."""
    undo = f"Undo: {format_undo(fit.patch, folder)}"
    if fit.applied:
        _say(quiet, f"{folder} has these changes already.\n{undo}")
        return "already applied"
    if fit.adapted:
        _say(quiet, f"{folder} has changed since; git merged the patch without conflicts: {fit.patch}")
    if ask and not click.confirm(f"Apply this to {folder}?"):
        return "declined"
    apply_patch(fit.patch, folder)
    _say(quiet, f"Applied to {folder}; nothing was committed.\n{undo}")
    return "applied"


def _say(quiet: bool, text: str) -> None:
    if not quiet:
        open_console().print(text, soft_wrap=True)


def _find_problem(folder: Path | None) -> str:
    """Why no patch can be applied to a folder at all; empty if one can be tried."""
    if folder is None:
        return "The folder it was made for is not recorded"
    if not folder.is_dir():
        return f"There is no folder {folder} on this machine"
    repository = find_any(folder)
    return f"{folder} is a bare repository, without files" if repository and repository.bare else ""


async def _record(bus: Bus, goal: Goal, applied: Sequence[Applied]) -> None:
    """Record in the trail what was applied."""
    where = "; ".join(f"{each.patch} to {each.folder}" for each in applied)
    note = AgentReport(
        sender=subjects.USER,
        recipient=subjects.USER,
        goal_id=goal.goal_id,
        report_id=generate_task_id("applied"),
        agent=subjects.USER,
        report_type="applied",
        summary=f"Applied {where}",
        metadata={"patches": [msgspec.to_builtins(each) for each in applied]},
    )
    entry = seal(subjects.mail(subjects.USER, subjects.USER), note)
    await bus.store(entry.subject, entry.payload, headers={"Nats-Msg-Id": note.id})
