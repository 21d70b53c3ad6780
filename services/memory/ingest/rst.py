"""reStructuredText as Markdown: headings, code, notes and links; directives for the program are left out."""

import re
from dataclasses import dataclass
from typing import Literal

_RULE = re.compile(r"([=\-~^\"'`#*+.:_])\1+\s*$")
_DIRECTIVE = re.compile(r"\s*\.\. (?:(?P<name>[\w:-]+)::\s*(?P<words>.*)|.*)$")
_OPTION = re.compile(r"\s+:[\w-]+:")
_ROLE = re.compile(r":[\w:+.-]+:`~?([^`<]*?)\s*(?:<[^`>]*>)?`")
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]+>`__?|`([^`]+)`__?(?!\w)")
_CODE = frozenset("code code-block sourcecode literalinclude parsed-literal testcode doctest".split())
_TEXT = frozenset(
    "note warning tip hint important caution attention danger error seealso admonition topic sidebar"
    " versionadded versionchanged deprecated versionremoved rubric epigraph container".split()
)
"""Directives whose content is text; that of all others is for the program."""


@dataclass
class _Block:
    """What is indented further than ``indent``, and whether its code has begun."""

    indent: int
    mode: Literal["text", "code", "skip"]
    begun: bool = False


def convert_rst(text: str) -> str:
    """A reStructuredText as Markdown, line for line."""
    converted: list[str] = []
    blocks: list[_Block] = []
    for line in _convert_headings(text.split("\n")):
        depth = len(line) - len(line.lstrip())
        while blocks and line.strip() and depth <= blocks[-1].indent:
            _close(blocks.pop(), converted)
        converted.append(_convert(line, depth, blocks))
    while blocks:
        _close(blocks.pop(), [*converted, ""] if converted[-1] else converted)
    return "\n".join(converted)


def _convert_headings(lines: list[str]) -> list[str]:
    """The lines with the headings of Markdown; their levels are in the order in which their rules come."""
    rules: list[tuple[str, bool]] = []
    converted = list(lines)
    for number in range(1, len(lines)):
        rule, title = _RULE.match(lines[number]), lines[number - 1].strip()
        if not rule or not title or len(lines[number].strip()) < len(title) or _RULE.match(title):
            continue
        over = number > 1 and lines[number - 2].strip() == lines[number].strip()
        if (kind := (rule[1], over)) not in rules:
            rules.append(kind)
        converted[number - 1] = f"{'#' * min(6, 1 + rules.index(kind))} {title}"
        converted[number] = ""
        if over:
            converted[number - 2] = ""
    return converted


def _convert(line: str, depth: int, blocks: list[_Block]) -> str:
    block = blocks[-1] if blocks else None
    if block and block.mode == "skip":
        return ""
    if block and block.mode == "code":
        if block.begun:
            return line
        block.begun = not line.strip()
        return "" if line.strip() else "```"  # options, then the empty line before the code
    if directive := _DIRECTIVE.match(line):
        name = directive["name"] or ""
        mode: Literal["text", "code", "skip"] = (
            "code" if name in _CODE else "text" if name in _TEXT else "skip"
        )
        blocks.append(_Block(depth, mode))
        return _convert_inline(directive["words"]) if mode == "text" else ""
    if block and _OPTION.match(line):
        return ""
    if line.rstrip().endswith("::"):
        blocks.append(_Block(depth, "code"))
        line = line.rstrip()[:-1] if line.strip() != "::" else ""
    return _convert_inline(line.lstrip() if block else line)


def _close(block: _Block, converted: list[str]) -> None:
    """End code at the empty line before what follows it."""
    if block.mode == "code" and block.begun and not converted[-1].strip():
        converted[-1] = "```"


def _convert_inline(line: str) -> str:
    line = _ROLE.sub(r"`\1`", line)
    return _LINK.sub(lambda match: match[1] or match[2], line).replace("``", "`")
