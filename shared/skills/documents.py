"""Documents: the text of Markdown, plain text, PDF and Word files that a person allows to be read."""

import asyncio
import sys
import tempfile
from pathlib import Path, PurePosixPath

import msgspec

from shared.contracts import Task
from shared.errors import ActionError
from shared.sandbox import run_command
from shared.sandbox.confined import ConfinedFolder
from shared.settings import Settings
from shared.skills import extraction
from shared.skills.skill import Skill
from shared.source import NO_BREAKS
from shared.tasks.actions import Outcome, register_action
from shared.tasks.context import find_workspace, workspace_path
from shared.tasks.said import is_named
from shared.web.quoting import clean, quote

PLAIN = frozenset(("", ".md", ".markdown", ".rst", ".txt", ".text"))
"""Suffixes of files that are read as they are; a file without a suffix is plain text."""
PACKED = {".pdf": "pdf", ".docx": "docx"}
"""Files parsed in the jail: their parsers are large, and the files may be hostile."""
SIZE = 50_000_000  # The most bytes of a file that is read
OUTPUT_LIMIT = 8_000_000
WRITTEN = 6
"""The most bytes that a character of text takes in the JSON of ``extraction``, and those of all the rest."""
SECONDS = 90.0  # Seconds that parsing one may take: well beyond the processor time it may use


class Extract(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file; ``pages`` is 0 if it has none, ``headings`` are titles and their lines.

    A web page has a ``title`` and the targets of its ``links``, as they are written. ``cut``: there is more
    than the text holds.
    """

    path: str = ""
    text: str = ""
    pages: int = 0
    headings: tuple[dict[str, object], ...] = ()
    title: str = ""
    links: tuple[str, ...] = ()
    cut: bool = False
    error: str = ""

    @property
    def lines(self) -> int:
        """How many lines the text has."""
        return len(self.text.splitlines())


class DocumentsSkill(Skill):
    """Reads documents."""

    @register_action(
        "Read a document: Markdown, reStructuredText, plain text, PDF or Word (docx)",
        {"path": "Its path in the workspace, or an absolute path that a person named"},
    )
    async def read_document(self, path: str) -> Outcome:
        """The text, quoted, in the output; ``outline``, ``lines`` and ``pages`` in the data."""
        document = await read_document(path, self.context.task, self.context.settings)
        return Outcome(
            output=quote(document.path, document.text),
            data={"outline": list(document.headings), "lines": document.lines, "pages": document.pages},
            evidence_refs=(f"{document.path}:1",),
        )


async def read_document(path: str, task: Task, settings: Settings) -> Extract:
    """The document at ``path``, beneath the workspace of ``task`` or where ``task`` names it.

    Raises ActionError if it may not be read, is not a document, is encrypted, damaged, or holds no text.
    """
    suffix = PurePosixPath(path).suffix.lower()
    if suffix not in PLAIN and suffix not in PACKED:
        raise ActionError(
            f"{clean(path, 200)} is not a document",
            "Markdown, reStructuredText, plain text, PDF and Word (docx) can be read",
        )
    root, name = locate(path, task, settings)
    if not root.is_dir():
        raise ActionError(
            f"There is no {clean(path, 200)!r} in the workspace", "Name a document by its absolute path"
        )
    content = await asyncio.to_thread(_read, root, name)
    if suffix in PACKED:
        document = await extract_text(content, PACKED[suffix], str(root / name))
    else:
        text = "" if b"\0" in content[:8192] else content.decode("utf-8-sig", "replace")
        document = Extract(path=str(root / name), text=text.replace("\r\n", "\n").translate(NO_BREAKS))
    if not document.text.strip():
        raise ActionError(f"{path} holds no text that can be read", "It is empty, binary, or made of images")
    return document


def locate(path: str, task: Task, settings: Settings) -> tuple[Path, str]:
    """The folder, and the name beneath it, that ``path`` stands for; raises ActionError.

    An absolute path outside of the workspace has to be named by a person; nothing hidden is ever read.
    """
    pure = PurePosixPath(Path(path).expanduser() if path.startswith("~/") else path)
    if not pure.is_absolute():
        return find_workspace(settings, task, path), path
    if "\0" in path or ".." in pure.parts:
        raise ActionError(f"{clean(path, 200)!r} is not the plain path of a file")
    # Those of the goal's other tasks too, whose results may name them
    workspaces = workspace_path(settings, task).parent
    if pure.is_relative_to(workspaces):
        return workspaces, str(pure.relative_to(workspaces))
    folder = Path(pure.parent).resolve()
    if _is_hidden(folder / pure.name, settings):
        raise ActionError(f"{path} is hidden, and hidden files are not read")
    if not is_named(str(pure), task):
        raise ActionError(
            f"{path} may not be read: it is not in the workspace and no person named it",
            "Name the file, or the folder it lies in, in the request",
        )
    if not (folder / pure.name).is_file() or (folder / pure.name).is_symlink():
        raise ActionError(f"{path} is not a regular file", "Check the path; links are not followed")
    return folder, pure.name


def _is_hidden(path: Path, settings: Settings) -> bool:
    """Whether a part of it begins with a dot; the office's own reports may lie in a hidden folder."""
    parts = path.relative_to(settings.outputs).parts if path.is_relative_to(settings.outputs) else path.parts
    return any(part.startswith(".") for part in parts)


def _read(root: Path, name: str) -> bytes:
    with ConfinedFolder(root) as folder:
        return folder.read(name, SIZE)


async def extract_text(
    content: bytes, kind: str, path: str, seconds: float = SECONDS, most: int = extraction.MOST_TEXT
) -> Extract:
    """At most ``most`` characters of a ``pdf``, ``docx`` or ``html`` file; sentences call it ``path``.

    Raises ActionError as ``extract_in_jail`` does.
    """
    extract = await extract_in_jail(content, kind, path, seconds, most)
    text = extract.text.replace("\r\n", "\n").replace("\f", "").translate(NO_BREAKS)
    return msgspec.structs.replace(extract, path=path, text=text)


async def extract_in_jail(
    content: bytes, kind: str, path: str, seconds: float = SECONDS, most: int = extraction.MOST_TEXT
) -> Extract:
    """What a ``pdf``, ``docx`` or ``html`` file holds, taken apart in the jail within ``seconds``.

    Raises ActionError if it is encrypted or damaged, takes too long, or the jail does not work here.
    """
    with tempfile.TemporaryDirectory(prefix="mailroom-document-") as scratch:
        folder = Path(scratch)
        (folder / "document").write_bytes(content)
        (folder / "extraction.py").write_bytes(Path(extraction.__file__).read_bytes())
        computing = str(max(extraction.SECONDS, round(seconds * extraction.SECONDS / SECONDS)))
        argv = [sys.executable, "-I", "extraction.py", "document", kind, str(most), computing]
        limit = OUTPUT_LIMIT + WRITTEN * most
        result = await run_command(
            argv, cwd=folder, timeout=seconds, output_limit=limit, separate_errors=True
        )
    if result.timed_out or result.exit_code < 0 or result.exit_code >= 128:
        raise ActionError(f"{path} cannot be read: it takes too long", "It may be damaged or made to do harm")
    try:
        extract = msgspec.json.decode(result.output, type=Extract)
    except msgspec.MsgspecError:
        why = clean(result.errors or result.output, 200) or f"exit code {result.exit_code}"
        raise ActionError(f"{path} cannot be read: taking it apart failed ({why})") from None
    if extract.error:
        raise ActionError(f"{path} cannot be read: {extract.error}")
    return extract
