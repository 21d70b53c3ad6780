"""A patch of a goal: how it fits a folder, and applying it there.

git runs without a repository, so that neither hooks, filters nor monitors of the folder's repository run, and
no file is skipped because the folder lies within another repository.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

from shared import settings
from shared.errors import MailroomError, StartError
from shared.files import write_atomically
from shared.skills.clones import ENVIRONMENT
from shared.skills.git import find_any
from shared.text.display import clean
from shared.views.listed import Applied, DeliveredPatch

NOWHERE = "/dev/null/no-repository"
"""A git folder that cannot exist: git then works as outside of any repository."""
TIMEOUT = 120.0  # Seconds that git may take


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How a patch fits a folder: ``patch`` is what to apply, which a merge may have ``adapted``.

    ``applied`` is True if the folder has its changes already; ``problem`` is why it does not fit.
    """

    patch: Path
    adapted: bool = False
    applied: bool = False
    problem: str = ""


def fit_patch(patch: Path, folder: Path) -> Fit:
    """How ``patch`` fits ``folder``; nothing in it is changed."""
    checked = _apply(patch, folder, "--check")
    if checked.returncode == 0:
        return Fit(patch=patch)
    if _apply(patch, folder, "--check", "-R").returncode == 0:
        return Fit(patch=patch, applied=True)
    problem = _first_error(checked)
    merged = _merge(patch, folder)
    if not merged:
        return Fit(patch=patch, problem=problem)
    path = patch.with_name(f"{patch.stem}.merged{patch.suffix}")
    write_atomically(path, merged)
    fits = _apply(path, folder, "--check").returncode == 0
    return Fit(patch=path, adapted=True) if fits else Fit(patch=patch, problem=problem)


def apply_patch(patch: Path, folder: Path) -> None:
    """Apply ``patch``, all of it or nothing; raises MailroomError with git's reason."""
    done = _apply(patch, folder)
    if done.returncode:
        raise MailroomError(f"The patch {patch} was not applied to {folder}: {_first_error(done)}")


def read_stat(patch: Path) -> str:
    """The files that a patch changes and by how many lines, as git prints them."""
    return _git(["apply", "--stat", "--summary", str(patch)], patch.parent).stdout.decode("utf-8", "replace")


def read_files(patch: Path) -> list[str]:
    """The files that a patch changes, relative to its folder."""
    rows = _git(["apply", "--numstat", "-z", str(patch)], patch.parent).stdout.decode("utf-8", "replace")
    return [row.split("\t", 2)[2] for row in rows.split("\0") if row.count("\t") >= 2]


def format_undo(patch: Path, folder: Path) -> str:
    """The command that takes the patch out again, to be pasted into a shell."""
    repository = find_any(folder)
    top = repository.top if repository else folder
    within = [] if folder == top else [f"--directory={folder.relative_to(top)}"]
    return shlex.join(["git", "-C", str(top), "apply", "-R", *within, str(patch)])


def _apply(patch: Path, folder: Path, *options: str) -> "subprocess.CompletedProcess[bytes]":
    return _git(["apply", "--whitespace=nowarn", *options, str(patch)], folder)


def _git(
    arguments: list[str], folder: Path, git_folder: str = NOWHERE
) -> "subprocess.CompletedProcess[bytes]":
    bare = {name: text for name, text in settings.environment().items() if not name.startswith("GIT_")}
    env = {**bare, **ENVIRONMENT, "GIT_DIR": git_folder, "LC_ALL": "C"}
    command = ["git", *arguments]
    try:
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=TIMEOUT, check=False)
    except FileNotFoundError:
        raise StartError("git is not installed", "Install it: apt install git, or brew install git") from None
    except subprocess.TimeoutExpired:
        raise MailroomError(f"git {arguments[0]} took longer than {TIMEOUT:g} s in {folder}") from None


def _first_error(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    errors = [line.partition(": ")[2] for line in lines if line.startswith(("error: ", "fatal: "))]
    return clean((errors or [*lines, f"git ended with exit code {done.returncode}"])[0])


# --- merging ---------------------------------------------------------------------------------------


def _merge(patch: Path, folder: Path) -> bytes:
    """The patch as a three-way merge with the folder as it is now; empty if there is none.

    It is made in a folder of its own, which has copies of the files and reads the objects of the folder's
    repository, where git finds what the patch was made from.
    """
    repository = find_any(folder)
    if repository is None:
        return b""
    with tempfile.TemporaryDirectory(prefix="mailroom-merge-") as name:
        scratch = Path(name).resolve()
        git_folder = str(scratch / ".git")
        _git(["init", "--quiet", "--template="], scratch, git_folder)
        alternates = scratch / ".git" / "objects" / "info" / "alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        alternates.write_bytes(os.fsencode(repository.common / "objects") + b"\n")
        for file in _touched(patch):
            _copy_file(folder / file, scratch / file)
        _git(["add", "--all", "--force"], scratch, git_folder)
        tree = _git(["write-tree"], scratch, git_folder).stdout.decode().strip()
        merging = ["apply", "--3way", "--whitespace=nowarn", str(patch)]
        if not tree or _git(merging, scratch, git_folder).returncode:
            return b""
        shown = ["diff", "--cached", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", tree]
        return _git(shown, scratch, git_folder).stdout


def _touched(patch: Path) -> list[str]:
    """The files that a patch changes or reads, as far as git would accept them."""
    old = [
        line.removeprefix(begin).rstrip("\t")
        for line in patch.read_bytes().decode("utf-8", "surrogateescape").splitlines()
        for begin in ("--- a/", "rename from ", "copy from ")
        if line.startswith(begin)
    ]
    names = dict.fromkeys([*read_files(patch), *old])
    return [
        name for name in names if name[:1] not in ("", "/") and not {"..", ".git"} & set(Path(name).parts)
    ]


def _copy_file(source: Path, target: Path) -> None:
    if source.is_file() and not source.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


class PatchView(msgspec.Struct, frozen=True, kw_only=True):
    """A patch as people read it: ``diff`` is its text, ``files`` are the files it changes."""

    project: str
    path: str
    folder: str
    files: list[str]
    diff: str


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


def fit_delivered(patch: DeliveredPatch, folder: Path | None, goal_id: str) -> Fitting:
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
            f"{goal_id}, or apply it by hand: mailroom diff {goal_id} {patch.name}"
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
