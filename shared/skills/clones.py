"""Clones of projects: what a goal copies of one is its base, of which every task has a clone of its own.

A base is a bare repository outside of all workspaces. Clones read its objects (git's alternates), and no
command can write them. What a task changed is read from its files by git with the base's configuration:
nothing in the clone's own ``.git`` counts. Git runs in the jail.
"""

import contextlib
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from shared.errors import ActionError
from shared.sandbox import remove_tree, run_command
from shared.sandbox.confined import ConfinedFolder

ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    # In the jail all files seem to have a foreign owner; there is no other user to be protected from.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
"""Runs git without the settings of this machine and its users, and without prompts."""

AUTHOR = {
    "GIT_AUTHOR_NAME": "Mailroom",
    "GIT_AUTHOR_EMAIL": "mailroom@localhost",
    "GIT_COMMITTER_NAME": "Mailroom",
    "GIT_COMMITTER_EMAIL": "mailroom@localhost",
}
"""Who commits in working copies."""

SAME_TIME = {f"GIT_{who}_DATE": "@946684800 +0000" for who in ("AUTHOR", "COMMITTER")}
"""Commits of the same content are the same, whenever and wherever they are made."""

BASE = "refs/mailroom/base"  # Where a clone or a copy began
MAX_PATCH = 50_000_000  # The most bytes of a patch
SECONDS = 300.0  # The most that one step of git's takes
ATTRIBUTES = "* -text !ident !filter !working-tree-encoding"
"""Contents are left as they are, line ends too: else a patch would have others than the work tree."""

GIT = """
git() { command git -c core.hooksPath=/dev/null -c core.compression=0 -c gc.auto=0 "$@"; }
"""
COMMIT = f"""{GIT}
git init --quiet --template= || exit
mkdir -p .git/info && echo '{ATTRIBUTES}' > .git/info/attributes
git add --all
git add --force -- . ':(exclude,glob)node_modules/**' ':(exclude,glob)**/node_modules/**'
git commit --quiet --no-verify --allow-empty --message 'Working copy'
git update-ref "$1" HEAD
"""
"""Commits what was copied: ignored files too, since they are tracked there, but no installed packages."""
CHECK_OUT = f"""{GIT}
git init --quiet --template= "$3" && cd "$3" && mkdir -p .git/info .git/objects/info || exit
echo '{ATTRIBUTES}' > .git/info/attributes || exit
printf '%s\\n' "$1/objects" > .git/objects/info/alternates || exit
git reset --quiet --hard "$2" && git update-ref {BASE} HEAD
"""
RECORD = f"""{GIT}
export GIT_DIR="$1" GIT_WORK_TREE="$2" GIT_INDEX_FILE=/tmp/index GIT_AUTHOR_DATE='@946684800 +0000'
export GIT_COMMITTER_DATE="$GIT_AUTHOR_DATE" since="$3" out="$4" start="$5"; shift 4
cd "$GIT_WORK_TREE" && git read-tree "$start" || exit
if [ -e "$out/patch" ]; then git apply --cached --whitespace=nowarn "$out/patch"
else git add --all .
fi || exit
tree=$(git write-tree) && commit="$start" || exit
if [ $# -gt 1 ] || [ "$tree" != "$(git rev-parse "$start^{{tree}}")" ]; then
  for parent in "$@"; do set -- "$@" -p "$parent"; shift; done
  commit=$(git commit-tree -m 'What a task changed' "$@" "$tree") || exit
fi
set -- --binary --no-ext-diff --no-textconv --no-color --output="$out/change.patch"
git diff "$@" "$since" "$commit" || exit
printf %s "$commit" > "$out/commit"
"""
"""A commit of a work tree, or of a patch, onto ``start``, and the difference to ``since``.

Equal content gives an equal commit, whenever it is recorded.
"""
MERGE = f"""{GIT}
cd "$1" && out="$2" && shift 2 || exit
for tip in "$@"; do
  printf %s "$tip" > "$out/tip"
  if ! git -c merge.conflictStyle=diff3 merge --quiet --no-verify --no-edit "$tip"; then
    git diff --name-only --diff-filter=U -z > "$out/conflicts" && [ -s "$out/conflicts" ]
    exit
  fi
done
"""


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """How far a merge came: ``conflicts`` are the files in which ``tip`` does not go with those before."""

    tip: str = ""
    conflicts: tuple[str, ...] = ()


class Base:
    """The base of a project for a goal, in ``folder``; its methods raise ActionError with git's reason."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, bases: Path, source: Path) -> "Base":
        """The base of the project in ``source``, among the ``bases`` of a goal; it may not exist yet."""
        # What a person sent lies elsewhere on each host.
        _, is_sent, within = str(source).rpartition("/inputs/")
        name = within if is_sent and source.is_relative_to(bases.parents[2] / "inputs") else str(source)
        return cls(bases / sha256(os.fsencode(name)).hexdigest()[:16])

    @property
    def start(self) -> str:
        """The commit of what was copied; empty if there is no base."""
        try:
            return (self.folder / "start").read_text("ascii")
        except OSError:
            return ""

    def found(self, root: Path) -> bool:
        """Make the history of the copy in ``root``, which no command has touched yet, the base, and share it.

        False if there is a base by now, and if the copy has no history.
        """
        git = root / ".git"
        draft = self.folder.with_name(f"{self.folder.name}.{secrets.token_hex(4)}")
        try:
            commit = (git / BASE).read_text("ascii").strip()
        except OSError:
            return False
        try:
            (draft / "refs").mkdir(parents=True, mode=0o700)
            (draft / "info").mkdir()
            (draft / "tips").mkdir()
            (draft / "info" / "attributes").write_text(f"{ATTRIBUTES}\n")
            (draft / "HEAD").write_text("ref: refs/heads/base\n")
            (draft / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
            (draft / "start").write_text(commit)
            (git / "objects").rename(draft / "objects")
            draft.rename(self.folder)
            (git / "objects" / "info").mkdir(parents=True)
            (git / "objects" / "info" / "alternates").write_bytes(
                os.fsencode(self.folder / "objects") + b"\n"
            )
        except OSError as error:
            remove_tree(draft)
            if self.start:
                return False
            raise ActionError(
                f"{self.folder} cannot be made: {error.strerror}", "Free space on the disk"
            ) from None
        return True

    async def check_out(self, commit: str, target: Path) -> None:
        """A new clone in the folder ``target``, whose parent exists, with the files of ``commit``."""
        await _run(CHECK_OUT, self.folder, commit, target, writable=[target.parent], readable=[self.folder])

    async def record(
        self, tree: Path, start: str, *, since: str = "", joined: Sequence[str] = ()
    ) -> tuple[str, bytes]:
        """A commit of what the clone ``tree``, begun at ``start``, holds, and what differs from ``since``.

        ``joined`` are the commits that were merged into it; ``since`` is the start unless it is named. It is
        the start itself if nothing was changed. The patch is empty then.
        """
        async with _aside() as out:
            # The folder above: a program could put a link in place of the clone meanwhile.
            await self._record(tree, since or start, out, start, *joined, readable=[tree.parent])
            return _commit(out), _patch(out)

    async def adopt(self, patch: bytes) -> str:
        """A commit of a patch that was not made in a clone of this base; fails if it does not fit."""
        async with _aside() as out:
            (out / "patch").write_bytes(patch)
            await self._record(out, self.start, out, self.start)
            return _commit(out)

    async def merge(self, target: Path, tips: Sequence[str]) -> Merged:
        """Merge commits into the clone ``target``, in which no program has run, up to the first conflict."""
        async with _aside() as out:
            failure: ActionError | None = None
            try:
                await _run(MERGE, target, out, *tips, writable=[target.parent, out], readable=[self.folder])
            except ActionError as error:
                failure = error
            with ConfinedFolder(out) as confined:
                if failure is None and confined.stat("conflicts") is None:
                    return Merged()
                names = confined.read("conflicts", 1_000_000) if confined.stat("conflicts") else b""
                if not names:
                    raise failure or ActionError("git merge failed")
                tip = confined.read("tip", 100).decode("ascii")
            return Merged(tip=tip, conflicts=tuple(os.fsdecode(each) for each in names.split(b"\0") if each))

    def tip_of(self, patch: Path) -> str:
        """The commit that the delivered ``patch`` was made of; empty if it is not known."""
        try:
            return self._tip(patch).read_text("ascii")
        except OSError:
            return ""

    def note_tip(self, patch: Path, commit: str) -> None:
        """Remember of which commit ``patch`` is made."""
        try:
            self._tip(patch).write_text(commit)
        except OSError as error:
            raise ActionError(f"What {patch} is made of cannot be noted: {error.strerror}") from None

    def _tip(self, patch: Path) -> Path:
        # By its task and name: the folder is another on each host.
        return self.folder / "tips" / sha256(os.fsencode("/".join(patch.parts[-2:]))).hexdigest()[:32]

    async def _record(
        self, tree: Path, since: str, out: Path, *parents: str, readable: Sequence[Path] = ()
    ) -> None:
        writable = [self.folder, out]
        await _run(RECORD, self.folder, tree, since, out, *parents, writable=writable, readable=readable)


@contextlib.asynccontextmanager
async def _aside() -> AsyncIterator[Path]:
    """A folder of one run of git, for what it hands over."""
    out = Path(tempfile.mkdtemp(prefix="mailroom-clone-"))
    try:
        yield out
    finally:
        remove_tree(out)


def _commit(out: Path) -> str:
    return (out / "commit").read_text("ascii")


def _patch(out: Path) -> bytes:
    with ConfinedFolder(out) as confined:
        return confined.read("change.patch", MAX_PATCH)


async def _run(script: str, *words: Path | str, writable: Sequence[Path], readable: Sequence[Path]) -> None:
    result = await run_command(
        ["bash", "-c", script, "git", *map(str, words)],
        cwd=writable[0],
        timeout=SECONDS,
        writable=writable,
        readable=readable,
        env={**ENVIRONMENT, **AUTHOR},
    )
    if failure := result.find_failure():
        lines = [line for line in result.output.splitlines() if line.strip()]
        why = lines[-1].removeprefix("fatal: ").removeprefix("error: ")[:300] if lines else f"it {failure}"
        raise ActionError(f"git cannot do this: {why}", "Free space on the disk" if "No space" in why else "")
