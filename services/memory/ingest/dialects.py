"""What Obsidian, Logseq and code hosts add to Markdown, taken away or written plainly, line for line."""

import operator
import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from services.memory.ingest.splitting import FENCE

_COMMENT = re.compile(r"(?<![\w%])%%(?!%)[^\n]*?%%|(?:^|(?<=\n))%%[ \t]*\n.*?\n%%[ \t]*(?=\n|$)", re.DOTALL)
_HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_QUERIES = frozenset(
    "dataview dataviewjs tasks query button toc {toctree} {contents} {include} {literalinclude} {image}"
    " {figure} {automodule} {autoclass} {autofunction} {currentmodule} {module} {index}".split()
)
"""The languages of blocks that are no text but a question to the program."""
_TAG = re.compile(
    r"`[^`\n]*`|</?(?:a|abbr|b|br|center|details|div|em|figcaption|figure|font|h[1-6]|hr|i|img|kbd|li|ol|p|picture|small|source"
    r"|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul|video)(?:\s[^<>]{0,2000})?/?>",
    re.IGNORECASE,
)
"""HTML in Markdown that shows nothing itself, and code, in which it is text."""
_ROLE = re.compile(r"\{[\w:+.-]+\}`~?([^`<\n]*?)\s*(?:<[^`\n]*>)?`")
_DIRECTIVE = re.compile(r"\s*(?::{3,}.*|\([\w:.-]+\)=|\[[^\]^][^\]]*\]:\s+<?(?:https?:|mailto:|[./#])\S*.*)$")
"""Fences, targets and the addresses of links: what MyST and Markdown do not show."""
_CALLOUT = re.compile(r"^(\s*(?:>\s*)+)\[!\w+\][+-]?\s*")
_BLOCK_ID = re.compile(r"\s\^[A-Za-z0-9-]+$")
# What is marked contains no such mark itself: a line of many open ones is read once, not once for each.
_HIGHLIGHT = re.compile(r"==(?=\S)((?:(?!==).)+)(?<=\S)==")
_STRUCK = re.compile(r"~~(?=\S)(?:(?!~~).)+(?<=\S)~~")
_NO_TEXT = re.compile(r"\s*(?:>\s*)*(?:[-*+]|\d+[.)])?\s*(?:\[[ xX]\])?\s*$")
_HIDDEN = re.compile(
    r"^\s*(?:[-*+]\s+)?(?:id|collapsed|icon|public|background-color|heading|query-[\w-]+|logseq\.[\w.-]+)::"
)
_PROPERTY = re.compile(r"^(\s*(?:[-*+]\s+)?[\w-]{1,40})::(?=\s)")
_STATE = re.compile(
    r"^(\s*[-*+]\s+)(?:(TODO|DOING|LATER|NOW|WAITING|WAIT)|(DONE|CANCELED|CANCELLED))\s+(?:\[#[A-C]\]\s+)?"
)
_PICTURES = re.compile(r"\s*(?:\[?!\[[^\[\]]*\]\([^()]*\)(?:\]\([^()]*\))?\s*)+$")


def normalise_markup(text: str) -> str:
    """The text without comments, HTML tags, what is struck out, queries, directives, ids of blocks, and lines
    of pictures alone; callouts, highlights, properties, roles and tasks as Markdown has them. It keeps its
    lines.
    """
    lines: list[str] = []
    for is_code, part in groupby(_mark_code(text.split("\n")), key=operator.itemgetter(0)):
        block = "\n".join(line for _, line in part)
        if not is_code:
            block = _drop_comments(block)
            block = _TAG.sub(_leave_lines, block) if "<" in block else block
            block = "\n".join(map(_normalise, block.split("\n")))
        lines.append(block)
    return "\n".join(lines)


def _drop_comments(block: str) -> str:
    block = _COMMENT.sub(_leave_lines, block)
    end = block.rfind("-->") + 3  # behind the last end every beginning would look for one up to the end
    return _HTML_COMMENT.sub(_leave_lines, block[:end]) + block[end:] if end > 2 else block


def _leave_lines(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("`") else "\n" * match[0].count("\n")


def _mark_code(lines: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Each line with whether it is of a block of code; those of a query are empty."""
    fence, is_query = "", False
    for line in lines:
        match = FENCE.match(line)
        if not fence:
            is_query = bool(match) and line.strip(" `~\t").lower().partition(" ")[0] in _QUERIES
            fence = match[1] if match else ""
            yield bool(match), "" if is_query else line
        else:
            yield True, "" if is_query else line
            if match and match[1].startswith(fence) and not line.strip(" `~\t"):
                fence = ""


def _normalise(line: str) -> str:
    if _HIDDEN.match(line) or _PICTURES.fullmatch(line) or _DIRECTIVE.match(line):
        return ""
    line = _ROLE.sub(r"`\1`", line)
    line = _CALLOUT.sub(r"\1", line)
    line = _BLOCK_ID.sub("", line)
    line = _HIGHLIGHT.sub(r"\1", line)
    line = _PROPERTY.sub(r"\1:", line)
    line = _STATE.sub(lambda state: f"{state[1]}[{' ' if state[2] else 'x'}] ", line)
    if not _STRUCK.search(line):
        return line
    left = re.sub(r"(?<=\S)  +", " ", _STRUCK.sub("", line))
    return "" if _NO_TEXT.match(left) else left
