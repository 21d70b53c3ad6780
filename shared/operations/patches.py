"""The patches of a goal, and applying them to the person's folders."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import AgentReport, Goal, generate_task_id
from shared.errors import MailroomError, NotFound
from shared.operations.patch_files import Fit, apply_patch, fit_patch, format_undo, read_files
from shared.queries.results import DeliveredPatch, find_goal, read_patches
from shared.skills.repository import find_any


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A patch and what became of it: ``done`` is applied, already applied, declined or refused.

    ``undo`` is the command that takes it out again, ``problem`` why it was refused and ``cure`` what helps.
    """

    project: str
    patch: str
    folder: str
    done: str
    files: list[str] = []
    undo: str = ""
    problem: str = ""
    cure: str = ""


class PatchView(msgspec.Struct, frozen=True, kw_only=True):
    """A patch as people read it: ``diff`` is its text, ``files`` are the files it changes."""

    project: str
    path: str
    folder: str
    files: list[str]
    diff: str


async def read_goal_patches(
    bus: Bus, name: str, projects: Sequence[str] = ()
) -> tuple[Goal, list[DeliveredPatch]]:
    """The goal ``name`` and its patches, or those of the projects named; raises NotFound without any."""
    goal, seq = await find_goal(bus, name)
    found = await read_patches(bus, goal, seq)
    if not found:
        more = "" if goal.status.final else f"; it is {goal.status}"
        raise NotFound(
            f"The goal {goal.goal_id} has no patch{more}", f"'mailroom show {goal.goal_id}' shows what it did"
        )
    known = {each.name for each in found}
    if missing := [each for each in projects if each not in known]:
        listed = ", ".join(sorted(known))
        raise NotFound(f"There is no patch for {missing[0][:80]!r}", f"There is one for {listed}")
    return goal, [each for each in found if not projects or each.name in projects]


def read_patch(patch: DeliveredPatch) -> bytes:
    """The content of a patch; raises MailroomError if it cannot be read here."""
    try:
        return Path(patch.path).read_bytes()
    except OSError as error:
        raise MailroomError(
            f"The patch {patch.path} cannot be read: {error.strerror}",
            "It is on the machine where the agents run; run this command there",
        ) from None


def describe_patch(patch: DeliveredPatch) -> PatchView:
    """A patch with its text; raises MailroomError if it cannot be read here."""
    text = read_patch(patch).decode("utf-8", "replace")
    files = read_files(Path(patch.path))
    return PatchView(project=patch.name, path=patch.path, folder=patch.folder, files=files, diff=text)


class Fitting(msgspec.Struct, frozen=True, kw_only=True):
    """A patch and how it fits ``folder``; ``refused`` is set if it cannot be applied there."""

    patch: DeliveredPatch
    folder: Path
    fit: Fit
    refused: Applied | None = None

    def result(self, done: str) -> Applied:
        """What became of it."""
        return Applied(
            project=self.patch.name,
            patch=str(self.fit.patch),
            folder=str(self.folder),
            done=done,
            files=read_files(self.fit.patch),
            undo=self.undo,
        )

    @property
    def undo(self) -> str:
        """The command that takes the patch out again."""
        return format_undo(self.fit.patch, self.folder)


def fit_delivered(patch: DeliveredPatch, folder: Path | None, goal: Goal) -> Fitting:
    """How a goal's patch fits ``folder`` (None: the one it was made for); nothing in it is changed.

    Raises MailroomError if the patch cannot be read here.
    """
    read_patch(patch)
    place = folder or (Path(patch.folder) if patch.folder else None)
    fit = Fit(patch=Path(patch.path))
    if problem := _find_problem(place):
        return _refuse(patch, place or Path(), fit, problem, "Name a folder with --to")
    assert place is not None
    fit = fit_patch(Path(patch.path), place)
    if fit.problem:
        cure = (
            f"The folder has changed since it was copied. Do it again on what is there now: mailroom retry "
            f"{goal.goal_id}, or apply it by hand: mailroom diff {goal.goal_id} {patch.name}"
        )
        return _refuse(patch, place, fit, f"It does not fit {place}: {fit.problem}", cure)
    return Fitting(patch=patch, folder=place, fit=fit)


def _refuse(patch: DeliveredPatch, folder: Path, fit: Fit, problem: str, cure: str) -> Fitting:
    shown = "" if folder == Path() else str(folder)
    refused = Applied(
        project=patch.name, patch=patch.path, folder=shown, done="refused", problem=problem, cure=cure
    )
    return Fitting(patch=patch, folder=folder, fit=fit, refused=refused)


def apply_fitting(fitting: Fitting) -> Applied:
    """Apply a patch unless it was refused or its folder has the changes; returns what became of it."""
    if fitting.refused is not None:
        return fitting.refused
    if fitting.fit.applied:
        return fitting.result("already applied")
    apply_patch(fitting.fit.patch, fitting.folder)
    return fitting.result("applied")


def _find_problem(folder: Path | None) -> str:
    """Why no patch can be applied to a folder at all; empty if one can be tried."""
    if folder is None:
        return "The folder it was made for is not recorded"
    if not folder.is_dir():
        return f"There is no folder {folder} on this machine"
    repository = find_any(folder)
    return f"{folder} is a bare repository, without files" if repository and repository.bare else ""


async def record_applied(bus: Bus, goal: Goal, applied: Sequence[Applied], *, person: str = "") -> None:
    """Record in the trail what ``person`` applied."""
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
        person=person,
    )
    entry = seal(subjects.mail(subjects.USER, subjects.USER), note)
    await bus.store(entry.subject, entry.payload, headers={"Nats-Msg-Id": note.id})
