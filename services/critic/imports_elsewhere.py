"""Imports of JavaScript, TypeScript and Go, found by their few fixed forms."""

import posixpath
import re
from collections.abc import Iterator

ROOTS = ("src", "lib", "python")
"""Folders that hold packages without being one."""

SUFFIXES = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")

SCRIPT = re.compile(
    r"""^\s*(?:import|export)\b[^'"`;()]*?\bfrom\s*["']([^"'\n]+)["']|^\s*import\s*["']([^"'\n]+)["']"""
    r"""|\b(?:require|import)\(\s*["']([^"'\n]+)["']\s*\)""",
    re.MULTILINE,
)
GO_BLOCK = re.compile(
    r"^import\s*\((.*?)^\)|^import\s+(?:[\w.]+\s+)?\"([^\"\n]+)\"", re.MULTILINE | re.DOTALL
)
GO_NAME = re.compile(r'^\s*(?:[\w.]+\s+)?"([^"\n]+)"', re.MULTILINE)


def read_script(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Line and name of each import: dotted from the root where the file is named relatively."""
    for match in SCRIPT.finditer(text):
        name = match[1] or match[2] or match[3]
        at = next(group for group in (1, 2, 3) if match[group])
        yield text.count("\n", 0, match.start(at)) + 1, _script_name(path, name)


def _script_name(path: str, name: str) -> str:
    if name.startswith("."):
        name = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    elif name.startswith(("@/", "~/")):
        name = f"src/{name[2:]}"
    elif name.startswith("@") or "/" not in name:
        return name
    stem = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)
    parts = stem.removesuffix("/index").split("/")
    return ".".join(parts[1:] if parts[0] in ROOTS and len(parts) > 1 else parts)


def read_go(text: str, go_mod: str) -> Iterator[tuple[int, str]]:
    """Line and name of each import: dotted from the root where it is of the module itself."""
    module = re.search(r"^module\s+(\S+)", go_mod, re.MULTILINE)
    prefix = f"{module[1]}/" if module else "\0"
    for block in GO_BLOCK.finditer(text):
        found = [(block.start(2), block[2])] if block[2] else []
        found += [(block.start(1) + name.start(1), name[1]) for name in GO_NAME.finditer(block[1] or "")]
        for start, name in found:
            inner = name.removeprefix(prefix)
            yield text.count("\n", 0, start) + 1, inner.replace("/", ".") if inner != name else name
