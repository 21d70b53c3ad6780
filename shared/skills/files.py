"""Files of the workspace: read, write, patch, search and list them."""

import asyncio
import fnmatch
import io
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from shared.errors import ActionError
from shared.sandbox import remove_tree, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.skills.skill import Skill
from shared.skills.workspace import changing, open_workspace, require_existing
from shared.tasks.actions import Outcome, register_action

MAX_FILE = 10_000_000  # The most bytes of a file that are looked at
MAX_SHOWN = 18_000
"""The most characters of a file that one reading gives: a model is shown no more of one answer."""
MAX_WRITTEN = 2_000_000  # The most bytes that are written to a file at once
MAX_LISTED = 500
MAX_FOUND = 100  # The most lines a search gives
LONGEST_LINE = 180  # The most characters of a line that a search shows
SEARCH_SECONDS = 30.0
UNLISTED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
"""Folders that are named in a listing, but not looked into."""

PATH = "Path of the file, relative to the workspace"


class FilesSkill(Skill):
    """Reads and changes files, all of them beneath the workspace of the task."""

    @register_action(
        "Read a text file of the workspace, whole or some of its lines",
        {"path": PATH, "start": "First line, from 1", "end": "Last line; 0 for the end of the file"},
    )
    async def read_file(self, path: str, start: int = 1, end: int = 0) -> Outcome:
        """The text, in data what was read of how many lines; raises ActionError for what is no text."""
        if start < 1 or (end and end < start):
            raise ActionError(
                f"There are no lines {start} to {end}", "start is at least 1, end is not before it"
            )
        text = await asyncio.to_thread(_read_text, await open_workspace(self.context), path)
        lines = io.StringIO(text).readlines()  # as editors count them: splitlines breaks at other signs too
        if start > max(len(lines), 1):
            raise ActionError(f"{path} has only {len(lines)} lines")
        last = min(end or len(lines), len(lines))
        shown = "".join(lines[start - 1 : last])
        cut = len(shown) > MAX_SHOWN
        if cut:
            shown = shown[:MAX_SHOWN]
            last = start + shown.count("\n")
            shown += f"\n[cut in line {last} of {len(lines)}: read on with start={last}]"
        data = {"path": path, "start": start, "end": last, "lines": len(lines), "cut": cut}
        return Outcome(output=shown, data=data, evidence_refs=(f"{path}:{start}",))

    @register_action(
        "Write a file of the workspace, a new one or over one that is there",
        {"path": PATH, "content": "All that is to be in it"},
    )
    async def write_file(self, path: str, content: str) -> Outcome:
        """It is written whole or not at all; undo takes it back."""
        data = _encode(content)
        async with changing(self.context, f"write {path}", repeatable=True) as workspace:
            await asyncio.to_thread(_write, workspace, path, data)
        return Outcome(output=f"Wrote {len(data):,} bytes to {path}", data={"path": path, "bytes": len(data)})

    @register_action(
        "Replace a passage of a file of the workspace; the passage must stand there exactly once",
        {
            "path": PATH,
            "search": "The passage as it stands there, with its spaces",
            "replace": "What to put there",
        },
    )
    async def patch_file(self, path: str, search: str, replace: str) -> Outcome:
        """Raises ActionError, and changes nothing, if the passage is missing or not the only one."""
        text = await asyncio.to_thread(_read_text, await open_workspace(self.context), path)
        if "\r\n" in text and "\r" not in search:
            search, replace = search.replace("\n", "\r\n"), replace.replace("\n", "\r\n")
        line = _line_of_only(text, search, path)
        data = _encode(text.replace(search, replace, 1))
        async with changing(self.context, f"patch {path}:{line}: {search}") as workspace:
            await asyncio.to_thread(_write, workspace, path, data)
        return Outcome(output=f"Changed {path} at line {line}", data={"path": path, "line": line})

    @register_action(
        "Apply a unified diff to files of the workspace, all of it or nothing",
        {"diff": "The diff, with its --- and +++ lines", "folder": "Folder the diff's paths are relative to"},
    )
    async def apply_diff(self, diff: str, folder: str = ".") -> Outcome:
        """Raises ActionError with git's reason if it does not apply."""
        data = _encode(diff if diff.endswith("\n") else diff + "\n")
        async with changing(self.context, f"apply a diff in {folder}: {diff}") as workspace:
            touched = await apply_patch(workspace, await asyncio.to_thread(_folder, workspace, folder), data)
        listed = ", ".join(touched[:20]) + (f" and {len(touched) - 20} more" if len(touched) > 20 else "")
        return Outcome(output=f"Applied the diff: {listed}", data={"files": touched})

    @register_action(
        "Search the text files of the workspace for a regular expression",
        {
            "pattern": "An extended regular expression (grep -E)",
            "path": "The folder or file to search in",
            "glob": "Only files whose names fit, such as *.py",
            "ignore_case": "Whether upper and lower case are the same",
        },
    )
    async def search_files(
        self, pattern: str, path: str = ".", glob: str = "", ignore_case: bool = False
    ) -> Outcome:
        """Lines as ``path:line:text``, at most MAX_FOUND; no match is an answer too."""
        workspace = await open_workspace(self.context)
        place = await asyncio.to_thread(require_existing, workspace, path)
        options = ["-rnIE", *(["-i"] if ignore_case else []), *([f"--include={glob}"] if glob else [])]
        options += [f"--exclude-dir={name}" for name in sorted(UNLISTED)]
        # A foreign pattern can take for ever to match, so grep matches it and not Python.
        result = await run_command(
            ["grep", *options, "-e", pattern, "--", place],
            cwd=workspace,
            timeout=SEARCH_SECONDS,
            output_limit=1_000_000,
            separate_errors=True,
        )
        if result.timed_out:
            raise ActionError(
                f"The search took longer than {SEARCH_SECONDS:.0f} seconds", "Search a smaller folder"
            )
        if result.exit_code > 1 and not result.output:
            words = result.errors.strip().splitlines() or [f"exit code {result.exit_code}"]
            raise ActionError(f"The search failed: {words[0].removeprefix('grep: ')[:300]}")
        lines = [line.removeprefix("./") for line in result.output.splitlines()]
        shown = [line[:LONGEST_LINE] for line in lines[:MAX_FOUND]]
        more = f"\n[only the first {MAX_FOUND} lines]" if len(lines) > MAX_FOUND else ""
        return Outcome(
            output=("\n".join(shown) + more) if shown else f"Nothing matches {pattern!r}",
            data={"matches": len(shown), "cut": bool(more)},
            evidence_refs=cite_lines(shown),
        )

    @register_action(
        "List the files of the workspace",
        {"path": "The folder to list", "pattern": "Only paths that fit, such as *.py or src/*"},
    )
    async def list_files(self, path: str = ".", pattern: str = "*") -> Outcome:
        """Paths relative to the workspace, folders with a closing slash, links with their target."""
        found = await asyncio.to_thread(_list, await open_workspace(self.context), path, pattern)
        more = f"\n[only the first {MAX_LISTED:,}]" if len(found) > MAX_LISTED else ""
        listed = found[:MAX_LISTED]
        output = ("\n".join(listed) + more) if listed else f"There is nothing in {path}"
        return Outcome(output=output, data={"files": listed, "cut": bool(more)})


def _read_text(workspace: Path, path: str) -> str:
    with ConfinedFolder(workspace) as confined:
        data = confined.read(path, MAX_FILE)
    if b"\0" in data[:8192]:
        raise ActionError(f"{path} is not a text file", "Look at it with a command, such as: file, xxd")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ActionError(
            f"{path} is not UTF-8 text: byte {error.start} is no part of it", "Convert it with iconv first"
        ) from None


def _write(workspace: Path, path: str, data: bytes) -> None:
    with ConfinedFolder(workspace) as confined:
        confined.write(path, data)


def _encode(content: str) -> bytes:
    data = content.encode("utf-8", "replace")
    if len(data) > MAX_WRITTEN:
        raise ActionError(f"{len(data):,} bytes are more than the {MAX_WRITTEN:,} that are written at once")
    return data


def _line_of_only(text: str, search: str, path: str) -> int:
    if not search:
        raise ActionError(
            "search is empty", "Quote the passage that is to be replaced; write_file makes a new file"
        )
    count = text.count(search)
    if count != 1:
        cause = f"The passage stands in {path} {count} times" if count else f"The passage is not in {path}"
        raise ActionError(cause, "Read the file, and quote a passage that stands there exactly once")
    return text.count("\n", 0, text.index(search)) + 1


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
