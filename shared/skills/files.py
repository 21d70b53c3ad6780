"""Files of the workspace: read, write, edit, search and list them."""

import asyncio
import fnmatch
import os
import re
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from shared.agent.context import AgentContext
from shared.contracts import CommandVerdict
from shared.errors import ActionError, NotApproved
from shared.sandbox import CommandResult, remove_tree, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.skills.documents import locate
from shared.skills.editing import Edit, apply_edits, with_line_ends_of
from shared.skills.skill import Skill
from shared.skills.workspace import changing, goal_folder, open_workspace, outputs_path, require_existing
from shared.tasks.actions import Outcome, register_action
from shared.text.display import format_list

MAX_FILE = 10_000_000  # The most bytes of a file that is edited
MAX_READ = 200_000_000  # The most bytes of a file that is read, a log for one
MAX_SHOWN = 18_000
"""The most characters that one reading or search gives: a model is shown no more of one answer."""
MAX_WRITTEN = 2_000_000  # The most bytes that are written to a file at once
MAX_LISTED = 500
MAX_FOUND = 100  # The most matches, or files, a search gives
FOUND_LIMIT = 500_000  # Bytes of what grep finds that are read, half from the start and half from the end
MAX_CONTEXT = 20  # The most lines before and after a match
LONGEST_LINE = 1_000  # The most characters of a line that a reading shows
LONGEST_FOUND = 240  # The most characters of a line that a search shows
PIECE = 1 << 16  # The most bytes of a line that are read at once
SEARCH_SECONDS = 30.0
UNLISTED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
"""Folders that are named in a listing, but not looked into."""

PATH = {"path": "Relative to the workspace"}


class FilesSkill(Skill):
    """Reads and changes files, all of them beneath the workspace of the task."""

    @register_action(
        "Read a text file, with line numbers; also a log or a result by the absolute path you were given",
        {**PATH, "offset": "First line, from 1", "limit": "How many lines; 0: as many as fit"},
    )
    async def read_file(self, path: str, offset: int = 1, limit: int = 0) -> Outcome:
        """The lines, in data which of how many; raises ActionError for what is no text."""
        if offset < 1 or limit < 0:
            raise ActionError(f"There is no line {offset} or limit {limit}", "Count lines from 1")
        root = await _find_root(self.context, path)
        read = await asyncio.to_thread(_read_lines, root, path, offset, limit)
        if offset > max(read.total, 1):
            raise ActionError(f"{path} has only {read.total:,} lines")
        last = offset + len(read.lines) - 1
        cut = last < read.total and not (limit and len(read.lines) == limit)
        shown = [f"{number}\t{line}" for number, line in enumerate(read.lines, offset)]
        notes = [f"lines {offset}-{last} of {read.total:,}" if read.lines else "empty", *read.notes]
        if cut:
            notes.append(f"read on with offset={last + 1}")
        data = {"path": path, "start": offset, "end": last, "lines": read.total, "cut": cut}
        text = "\n".join([*shown, f"[{', '.join(notes)}]"])
        return Outcome(output=text, data=data, evidence_refs=(f"{path}:{offset}",))

    @register_action(
        "Write a whole file, a new one or over one that is there; edit_file changes parts",
        {**PATH, "content": "All that is to be in it"},
    )
    async def write_file(self, path: str, content: str) -> Outcome:
        """It is written whole or not at all; undo takes it back. CRLF at all line ends is kept."""
        before = await asyncio.to_thread(_read_windows, await open_workspace(self.context), path)
        data = _encode(with_line_ends_of(before, content))
        async with changing(self.context, f"write {path}", repeatable=True) as workspace:
            await asyncio.to_thread(_write, workspace, path, data)
        return Outcome(output=f"Wrote {len(data):,} bytes to {path}", data={"path": path, "bytes": len(data)})

    @register_action(
        "Replace passages of a file, all or none",
        {
            **PATH,
            "edits": "In order. old stands there exactly so, without line numbers, and once; all replaces it "
            "every time. An empty old makes a new file",
        },
    )
    async def edit_file(self, path: str, edits: tuple[Edit, ...]) -> Outcome:
        """Raises ActionError, which shows what is nearest, and changes nothing, unless all edits fit."""
        workspace = await open_workspace(self.context)
        before = await asyncio.to_thread(_read_text, workspace, path, new=any(not edit.old for edit in edits))
        after, lines = await asyncio.to_thread(apply_edits, before, edits, path)
        data = _encode(after)
        what = f"edit {path}: {msgspec.json.encode(edits).decode()}"
        async with changing(self.context, what, confined=True):
            await asyncio.to_thread(_write, workspace, path, data, before)
        where = format_list([str(line) for line in lines], 20)
        return Outcome(
            output=f"Changed {path} at line{'s' * (len(lines) > 1)} {where}",
            data={"path": path, "lines": lines},
        )

    @register_action(
        "Apply a unified diff to files of the workspace, all of it or nothing",
        {"diff": "The diff, with its --- and +++ lines", "folder": "Folder the diff's paths are relative to"},
    )
    async def apply_diff(self, diff: str, folder: str = ".") -> Outcome:
        """Raises ActionError with git's reason if it does not apply."""
        data = _encode(diff if diff.endswith("\n") else diff + "\n")
        async with changing(self.context, f"apply a diff in {folder}: {diff}", confined=True) as workspace:
            touched = await apply_patch(workspace, await asyncio.to_thread(_folder, workspace, folder), data)
        listed = ", ".join(touched[:20]) + (f" and {len(touched) - 20} more" if len(touched) > 20 else "")
        return Outcome(output=f"Applied the diff: {listed}", data={"files": touched})

    @register_action(
        "Search text files for a regular expression",
        {
            "pattern": "A Perl regular expression (grep -P)",
            "path": "The folder or file to search in",
            "glob": "Only files whose names fit, such as *.py or src/**/*.ts",
            "ignore_case": "Whether upper and lower case are the same",
            "context": "Lines to show before and after each match, 20 at most",
            "files_only": "Only name the files",
        },
    )
    async def search_files(
        self,
        pattern: str,
        path: str = ".",
        glob: str = "",
        ignore_case: bool = False,
        context: int = 0,
        files_only: bool = False,
    ) -> Outcome:
        """The lines by file, at most MAX_FOUND matches, and how many more; no match is an answer too."""
        root = await _find_root(self.context, path)
        place = await asyncio.to_thread(require_existing, root, path)
        around = min(context, MAX_CONTEXT)
        options = ["-rIPZ", "-l" if files_only else f"-nHC{around}" if around > 0 else "-nH"]
        options += [*(["-i"] if ignore_case else []), *([f"--include={PurePath(glob).name}"] if glob else [])]
        result = await _grep(root, place, [*options, "-e", pattern])
        paths = glob if "/" in glob else ""
        found = await asyncio.to_thread(_parse_found, result.output, paths, files_only=files_only)
        if root != await open_workspace(self.context):
            found = [file._replace(path=f"{root}/{file.path}") for file in found]
        shown, listed, matches = _format_found(found)
        total = sum(len(file.matches) for file in found) if not files_only else len(found)
        more = total - matches
        unit = "files" if files_only else f"matches; {len(found):,} files have any"
        note = f"\n[{more:,}{' or' * result.truncated} more {unit}: narrow the search]" if more else ""
        return Outcome(
            output="\n".join(shown) + note if shown else f"Nothing matches {pattern}",
            data={"matches": matches, "total": total, "cut": bool(more)},
            evidence_refs=tuple(listed[:50]),
        )

    @register_action(
        "List the files of the workspace",
        {"path": "The folder to list", "pattern": "Only paths that fit, such as *.py or src/*"},
    )
    async def list_files(self, path: str = ".", pattern: str = "*") -> Outcome:
        """Paths relative to the workspace, folders with a closing slash, links with their target."""
        root = await _find_root(self.context, path)
        found = await asyncio.to_thread(_list, root, path, pattern)
        if root != await open_workspace(self.context):
            found = [f"{root}/{each}" for each in found]
        more = f"\n[only the first {MAX_LISTED:,}]" if len(found) > MAX_LISTED else ""
        listed = found[:MAX_LISTED]
        output = ("\n".join(listed) + more) if listed else f"There is nothing in {path}"
        return Outcome(output=output, data={"files": listed, "cut": bool(more)})


async def _find_root(context: AgentContext, path: str) -> Path:
    """The folder beneath which ``path`` is read: the workspace, or where results lie that the task was given.

    These are what the goal delivers and logs, what the task's references name, and files that a person named
    and the policy allows to read. Raises ActionError for a path of none of them, if it is absolute.
    """
    workspace, outputs = await open_workspace(context), outputs_path(context).absolute()
    pure = Path(path)
    if not pure.is_absolute() or pure.is_relative_to(workspace):
        return workspace
    if pure.is_relative_to(outputs):
        return outputs
    given = [each for opened in context.current_task.references.values() for each in opened.output_paths]
    if path in given and (folder := goal_folder(context.settings, pure.parent)):
        return folder
    root, _ = await asyncio.to_thread(locate, path, context.task, context.settings)
    ruling = await context.judge_read(path, workspace=str(workspace))
    if ruling.verdict is not CommandVerdict.ALLOW:
        raise NotApproved(f"The policy does not allow to read {path} ({ruling.rule}): {ruling.why}")
    return root


class _Read(NamedTuple):
    lines: list[str]
    total: int
    notes: list[str]


def _read_lines(root: Path, path: str, offset: int, limit: int) -> _Read:
    """Lines from ``offset`` on, as many as fit and at most ``limit``; the file is read piece by piece."""
    lines: list[bytes] = []
    total = size = longest = 0
    windows, begins, full = False, True, False
    with ConfinedFolder(root) as confined, confined.open_file(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_READ:
            raise ActionError(f"{path} has more than {MAX_READ:,} bytes", "Look at a part of it by a command")
        if b"\0" in file.read(8192):
            raise ActionError(f"{path} is not a text file", "Look at it with a command, such as: file, xxd")
        file.seek(0)
        while piece := file.readline(PIECE):
            total += begins
            if total >= offset and not full and (not limit or total < offset + limit):
                length = min(len(piece), LONGEST_LINE + 1)
                if begins and lines and size + length > MAX_SHOWN:
                    full = True
                elif begins:
                    lines.append(piece)
                    size += length + 8
                windows = windows or piece.endswith(b"\r\n")
            begins = piece.endswith(b"\n")
    texts = [line.rstrip(b"\r\n").decode("utf-8", "replace") for line in lines]
    shown = [text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}[...]" for text in texts]
    longest = max(map(len, texts), default=0)
    facts = {
        "CRLF line ends": windows,
        "[...]: the rest of a long line, which a command such as cut -c shows": longest > LONGEST_LINE,
        "not all UTF-8": any("\ufffd" in text for text in texts),
    }
    return _Read(shown, total, [fact for fact, holds in facts.items() if holds])


def _read_text(workspace: Path, path: str, *, new: bool = False) -> str:
    """The text of a file, empty if there is none and it may be ``new``; raises ActionError."""
    with ConfinedFolder(workspace) as confined:
        if new and confined.stat(path) is None:
            return ""
        data = confined.read(path, MAX_FILE)
    if b"\0" in data[:8192]:
        raise ActionError(f"{path} is not a text file", "Look at it with a command, such as: file, xxd")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ActionError(
            f"{path} is not UTF-8 text: byte {error.start} is no part of it", "Convert it with iconv first"
        ) from None


def _read_windows(workspace: Path, path: str) -> str:
    """The text of a file whose line ends are to be kept; empty if there is none."""
    try:
        return _read_text(workspace, path, new=True)
    except ActionError:
        return ""


def _write(workspace: Path, path: str, data: bytes, before: str | None = None) -> None:
    """Write a file; raises ActionError, and leaves it, if it does not hold the text ``before`` any more."""
    with ConfinedFolder(workspace) as confined:
        if before is not None:
            there = confined.read(path, MAX_FILE) if confined.stat(path) else b""
            if there != before.encode():
                raise ActionError(f"{path} was changed meanwhile", "Read it again")
        confined.write(path, data)


def _encode(content: str) -> bytes:
    data = content.encode("utf-8", "replace")
    if len(data) > MAX_WRITTEN:
        raise ActionError(f"{len(data):,} bytes are more than the {MAX_WRITTEN:,} that are written at once")
    return data


async def _grep(root: Path, place: str, options: Sequence[str]) -> CommandResult:
    """Search ``place`` in ``root``. A foreign pattern can take for ever to match, so no Python does it.

    Raises ActionError if it takes too long, or grep does not take the pattern.
    """
    excluded = [f"--exclude-dir={name}" for name in sorted(UNLISTED)]
    result = await run_command(
        ["grep", *options, *excluded, "--", place],
        cwd=root,
        timeout=SEARCH_SECONDS,
        output_limit=FOUND_LIMIT,
        separate_errors=True,
    )
    if result.timed_out:
        raise ActionError(
            f"The search took longer than {SEARCH_SECONDS:.0f} seconds", "Search a smaller folder"
        )
    if result.exit_code > 1 and not result.output:
        words = result.errors.strip().splitlines() or [f"exit code {result.exit_code}"]
        raise ActionError(f"The search failed: {words[0].removeprefix('grep: ')[:300]}")
    return result


class _Found(NamedTuple):
    path: str
    lines: list[tuple[int, bool, str]]  # The number, whether it matches, and the text; 0 is a gap

    @property
    def matches(self) -> list[int]:
        return [number for number, matches, _ in self.lines if matches]


_NUMBER = re.compile(r"(\d+)([:-])(.*)", re.DOTALL)


def _parse_found(output: str, glob: str, *, files_only: bool) -> list[_Found]:
    """What grep printed with NUL behind the names of files, by file; ``glob`` is one of whole paths."""
    found: dict[str, _Found] = {}
    gap = False
    for line in output.split("\0" if files_only else "\n"):
        path, _, rest = line.removeprefix("./").partition("\0")
        part = _NUMBER.match(rest)
        if path and (part or files_only):
            name = path.replace("\n", "\\n")
            file = found.setdefault(name, _Found(name, []))
            if part:
                file.lines.extend([(0, False, "--")] * bool(gap and file.lines))
                file.lines.append((int(part[1]), part[2] == ":", part[3]))
        gap = path == "--"
    # A folder's mark may stand for none, and fnmatch's star for several; it may begin at any folder.
    wanted = f"*/{glob.replace('**/', '*').removeprefix('./')}"
    kept = [each for each in found.values() if not glob or fnmatch.fnmatchcase(f"/{each.path}", wanted)]
    return sorted(kept, key=lambda each: each.path)


def _format_found(found: Sequence[_Found]) -> tuple[list[str], list[str], int]:
    """Lines for a model, up to the bounds; the places of the matches among them; and how many these are."""
    shown: list[str] = []
    places: list[str] = []
    size = count = 0
    for file in found:
        block = [file.path]
        at: list[str] = []
        for number, matches, text in file.lines:
            line = text if len(text) <= LONGEST_FOUND else f"{text[:LONGEST_FOUND]}[...]"
            line = f"{number}{':' if matches else '-'}{line}" if number else line
            if count + len(at) + matches > MAX_FOUND or size + len(line) > MAX_SHOWN:
                break
            size += len(line) + 1
            block.append(line)
            if matches:
                at.append(f"{file.path}:{number}")
        if len(places) >= MAX_FOUND or (file.lines and not at):
            break
        size += len(file.path)
        count += len(at) if file.lines else 1
        places += at or [file.path]
        shown += block
    return shown, places, count


def cite_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """``path:line`` of the first 50 lines such as ``path:line: text``, each once."""
    return tuple(dict.fromkeys(":".join(line.split(":", 2)[:2]) for line in lines[:50]))


def _folder(workspace: Path, path: str) -> Path:
    with ConfinedFolder(workspace) as confined, confined.open_folder(confined.relative(path)):
        return workspace / confined.relative(path)


def _list(workspace: Path, path: str, pattern: str) -> list[str]:
    found: list[str] = []
    with ConfinedFolder(workspace) as confined:
        waiting = [confined.relative(path)]
        while waiting and len(found) <= MAX_LISTED:
            folder = waiting.pop(0)
            for name, mode in confined.entries(folder):
                shown = str(PurePosixPath(folder, name))
                line = _listed(shown, mode).replace("\n", "\\n")
                if fnmatch.fnmatchcase(shown, pattern) or fnmatch.fnmatchcase(name, pattern):
                    found.append(line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
                if stat.S_ISDIR(mode) and name not in UNLISTED:
                    waiting.append(shown)
    return sorted(found)


def _listed(path: str, mode: int) -> str:
    if stat.S_ISDIR(mode):
        return f"{path}/"
    if stat.S_ISLNK(mode):
        return f"{path} -> (link)"
    return path if stat.S_ISREG(mode) else f"{path} (special file)"


PATCH_SECONDS = 60.0


async def apply_patch(workspace: Path, folder: Path, diff: bytes) -> list[str]:
    """Apply a diff to the ``folder`` of a ``workspace``; returns the paths it touches. Raises ActionError."""
    aside = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="mailroom-diff-"))
    try:
        patch = aside / "patch.diff"
        await asyncio.to_thread(patch.write_bytes, diff)
        # Were the folder in a repository, git would take the paths from its top and skip those outside.
        env = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_DIR": "/nonexistent"}
        places: dict[str, Any] = {"cwd": workspace, "writable": [workspace], "readable": [aside]}
        for leniency in ([], ["--recount"]):  # models miscount the lines of their hunks
            git = ["git", "-C", str(folder), "apply", "--whitespace=nowarn", *leniency]
            listing = await run_command(
                [*git, "--numstat", "-z", str(patch)], timeout=PATCH_SECONDS, env=env, **places
            )
            done = await run_command([*git, str(patch)], timeout=PATCH_SECONDS, env=env, **places)
            if listing.exit_code == done.exit_code == 0:
                return [entry.split("\t")[-1] for entry in listing.output.split("\0") if "\t" in entry]
        words = done.output.strip().splitlines() or [f"exit code {done.exit_code}"]
        raise ActionError(
            f"The diff does not apply: {words[0].removeprefix('error: ')[:300]}",
            "Read the files as they are, and make the diff again",
        )
    finally:
        await asyncio.to_thread(remove_tree, aside)
