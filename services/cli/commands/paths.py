"""Paths as people write them: relative ones and ``~`` are made absolute before agents read them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

RELATIVE_PATH = re.compile(
    r"""(?P<quote>["'`])(?P<quoted>(?:\.{1,2}|~[\w-]*)(?:/[^"'`\n]*)?)(?P=quote)"""
    r"""|(?<![^\s(\[{=:,])(?!\.{3})(?P<bare>(?:\.{1,2}|~[\w-]*)/[^\s"'`]*|\.{1,2}(?=$|[\s,;:!?)\]}]))"""
)
"""``.``, ``..``, ``./x``, ``../x`` and ``~/x``, in quotes or up to a space."""
TRAILING = ".,;:!?)]}"
NEEDS_QUOTES = re.compile(r"[\s,;()\[\]{}<>|]")
"""What ends a path in a text unless it is in quotes."""
Resolved = dict[str, str]
"""Absolute paths, by what was written for them."""


class FolderType(click.ParamType[Path]):
    """An existing folder, as an absolute path; ``~`` is the home folder, also where no shell expands it."""

    name = "folder"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The folder without links; a usage error if there is none."""
        path = _absolute(str(value))
        if path is None or not path.is_dir():
            what = "is a file, not a folder" if path and path.exists() else "is not a folder here"
            self.fail(f"{str(value)[:200]!r} {what} (in {Path.cwd()})", param, ctx)
        return path


def resolve_text(text: str) -> tuple[str, Resolved]:
    """``text`` with the relative paths of existing files and folders made absolute, and what they became."""
    resolved: Resolved = {}

    def replace(match: re.Match[str]) -> str:
        written = match["quoted"] or match["bare"]
        kept = written
        while (path := _absolute(kept)) is None or not path.exists():
            if match["quoted"] or kept[-1] not in TRAILING or len(kept) < 3:
                return match[0]
            kept = kept[:-1]
        resolved[kept] = str(path)
        sign = match["quote"] or ""
        shown = f"{sign}{path}{sign}" if sign and sign not in str(path) else quote(str(path))
        return shown + written[len(kept) :]

    return RELATIVE_PATH.sub(replace, text), resolved


def quote(path: str) -> str:
    """``path`` as a text for agents names it: in quotes if it has a space."""
    sign = "'" if "'" not in path else '"'
    return f"{sign}{path}{sign}" if NEEDS_QUOTES.search(path) else path


def resolve_context(context: Mapping[str, Any]) -> tuple[dict[str, Any], Resolved]:
    """The context of a goal with an absolute ``repo``, and ``folder`` if no action is named.

    An action's ``folder`` may be one of its workspace. Raises click.UsageError if a relative one is missing.
    """
    changed, resolved = dict(context), {}
    for key in ("repo",) if context.get("action") else ("repo", "folder"):
        value = context.get(key)
        if not isinstance(value, str) or not value or Path(value).is_absolute():
            continue
        path = _absolute(value)
        if path is None or not path.exists():
            raise click.UsageError(f"{key}={value[:200]}: there is no such folder in {Path.cwd()}")
        changed[key] = resolved[f"{key}={value}"] = str(path)
    return changed, resolved


def print_resolved(resolved: Resolved) -> None:
    """Print what each path became, to standard error."""
    for written, path in resolved.items():
        click.echo(f"{written} is {path}", err=True)


def _absolute(written: str) -> Path | None:
    try:
        return Path(written).expanduser().resolve()
    except (OSError, RuntimeError, ValueError):  # no such user, a circle of links, a zero byte
        return None
