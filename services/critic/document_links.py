"""Checks documents for what they are: links within the repository, anchors, order and spelling of titles."""

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import msgspec

from services.critic.file_tools import Sources, find_program
from services.critic.findings import Check, completed_check, make_finding
from shared.contracts.checkup import Finding, Severity
from shared.sandbox import run_command
from shared.source import CODE, Tree, is_test, read_text
from shared.text.markdown import read_blocks
from shared.text.prose import STOP_WORDS

NAME = "documents"
KIND = "document"
MOST = 500  # Documents whose spelling is looked at
LONGEST = 1_000_000  # Characters of a document that are read
NOT_OURS = re.compile(r"(?i)^(?:[a-z][a-z0-9+.-]*:|//|/|\$)|[{}<>*\\]")
"""Targets that lie elsewhere, or that a site generator fills in."""


async def check_documents(sources: Sources, *, timeout: float) -> Check:
    """Look at every Markdown document for at most ``timeout`` seconds in all; nothing is fetched."""
    files = [path for path in sources.files([KIND]) if not is_test(path)]
    ends = time.monotonic() + timeout
    findings: list[Finding] = []
    own = (path for path in sources.tree.files if not path.startswith("."))
    severity: Severity = "low" if any(path.endswith(CODE) for path in own) else "medium"
    places = {*sources.tree.files}
    places |= {str(parent) for path in sources.tree.files for parent in PurePosixPath(path).parents}
    problem = ""
    headings: dict[str, frozenset[str]] = {}
    for path in files:
        if time.monotonic() > ends:
            problem = f"not every document was read within {timeout:g} s"
            break
        findings += await asyncio.to_thread(_check_one, sources.tree, path, places, headings, severity)
    if severity == "medium" and files:
        findings += await _check_spelling(sources.tree, files, max(1.0, ends - time.monotonic()))
    return completed_check(NAME, "links and headings", findings, problem, files=len(files))


class _Typo(msgspec.Struct, frozen=True):
    type: str
    path: str = ""
    line_num: int = 0
    typo: str = ""
    corrections: tuple[str, ...] = ()


FOREIGN = 50
"""A document that has more than one word of so many misspelt is written in another language than English."""
ENGLISH = 0.15
"""The least share of English function words in a document of more than FOREIGN words that is checked."""


async def _check_spelling(tree: Tree, files: Sequence[str], timeout: float) -> list[Finding]:
    """The headings that are misspelt, as typos and the project's own settings for it say."""
    program = find_program("typos")
    if not program:
        return []
    command = [program, "--format", "json", "--", *(f"./{path}" for path in files[:MOST])]
    result = await run_command(command, cwd=tree.root, timeout=timeout, output_limit=5_000_000)
    typos: dict[str, list[_Typo]] = {}
    for row in result.output.splitlines():
        with contextlib.suppress(msgspec.MsgspecError, ValueError):
            typo = msgspec.json.decode(row, type=_Typo)
            typos.setdefault(typo.path.removeprefix("./"), []).append(typo)
    return [each for path in typos for each in await asyncio.to_thread(_name_typos, tree, path, typos[path])]


def _name_typos(tree: Tree, path: str, typos: Sequence[_Typo]) -> list[Finding]:
    text = read_text(tree.root, path, LONGEST)
    words = [word.lower() for word in re.findall(r"[^\W\d_]+", text)]
    share = sum(word in STOP_WORDS for word in words) / max(1, len(words))
    is_short = len(words) <= FOREIGN
    if (len(typos) > 2 and len(typos) * FOREIGN > len(words)) or (share < ENGLISH and not is_short):
        return []
    headings = [block for block in read_blocks(text) if block.kind == "heading"]
    lines = {number + 1 for block in headings for number in range(block.start, block.end)}
    found, rows = [], re.sub(r"`[^`\n]*`", "", text).splitlines()
    for typo in typos:
        if typo.line_num in lines and typo.typo in rows[typo.line_num - 1]:
            better = f": {' or '.join(typo.corrections[:3])}" if typo.corrections else ""
            said = f"The heading has {typo.typo!r}, which is misspelt{better}"
            found.append(make_finding(NAME, "heading-spelling", "low", path, typo.line_num, said))
    return found


def _check_one(
    tree: Tree, path: str, places: set[str], headings: dict[str, frozenset[str]], severity: Severity
) -> list[Finding]:
    text = read_text(tree.root, path, LONGEST)
    blocks = list(read_blocks(text))
    rows = text.splitlines()
    found: list[Finding] = []
    level, seen = 0, Counter[str]()
    for block in blocks:
        line = block.start + 1
        if block.kind == "heading" and not block.nested:
            if level and block.level > level + 1:
                said = f"The heading {block.text!r} is of level {block.level} below one of level {level}"
                found.append(make_finding(NAME, "heading-level", "low", path, line, said))
            level = block.level
            own = " / ".join((*block.path[:-1], block.text)).casefold()
            seen[own] += 1
            if seen[own] == 2 and block.text:
                said = f"The heading {block.text!r} stands twice in the same section"
                found.append(make_finding(NAME, "heading-twice", "low", path, line, said))
        inline = (each for cell in (block, *block.cells) for each in cell.inline)
        for target in _list_targets(inline):
            at = next((n for n in range(block.start, min(block.end, len(rows))) if target in rows[n]), None)
            if why := _find_fault(tree, path, target, places, headings):
                place = line if at is None else at + 1
                found.append(make_finding(NAME, "broken-link", severity, path, place, why))
    return found


def _list_targets(tokens: Any) -> Iterator[str]:
    for token in tokens or ():
        name = {"link_open": "href", "image": "src"}.get(token.type, "")
        if name and isinstance(target := token.attrGet(name), str):
            yield target
        yield from _list_targets(token.children)


def _find_fault(
    tree: Tree, path: str, target: str, places: set[str], headings: dict[str, frozenset[str]]
) -> str:
    """Why a link from ``path`` leads nowhere in the repository; empty if it does, or leads elsewhere."""
    if NOT_OURS.search(target):
        return ""
    place, _, anchor = target.partition("#")
    place = unquote(place.partition("?")[0])
    parts: list[str] = list(PurePosixPath(path).parent.parts) if place else [path]
    for part in PurePosixPath(place).parts:
        if part == ".." and not parts:
            return ""  # above the repository
        parts = parts[:-1] if part == ".." else parts if part == "." else [*parts, part]
    whole = "/".join(parts) or "."
    if whole not in places and not (tree.root / whole).exists():
        # A page of a site is named as it will be called.
        if f"{whole}.md" in places or f"{whole.removesuffix('.html')}.md" in places:
            return ""
        return f"The link to {target} leads nowhere: {whole} does not exist"
    if anchor and whole.lower().endswith((".md", ".markdown")):
        if whole not in headings:
            headings[whole] = frozenset(_list_anchors(read_text(tree.root, whole, LONGEST)))
        if unquote(anchor).lower() not in headings[whole]:
            return f"The link to {target} leads nowhere: {whole} has no heading {anchor}"
    return ""


def _list_anchors(text: str) -> Iterator[str]:
    """The anchors of a document: those that its headings get on GitHub, and those that it states."""
    often = Counter[str]()
    for block in read_blocks(text):
        if block.kind == "heading":
            plain = "".join(_texts(block.inline)) or block.text
            plain, _, own = plain.partition(" {#")
            anchor = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
            yield f"{anchor}-{often[anchor]}" if often[anchor] else anchor
            yield own.rstrip("} ").lower()
            often[anchor] += 1
    yield from (name.lower() for name in re.findall(r"""(?i)<\w+[^>]*\b(?:name|id)=["']?([^"'\s>]+)""", text))
    yield from re.findall(r"(?m)^\[\^([^\]]+)\]:", text)


def _texts(tokens: Any) -> Iterator[str]:
    for token in tokens or ():
        if token.children:
            yield from _texts(token.children)
        elif token.type in ("text", "code_inline", "emoji"):
            yield token.content
