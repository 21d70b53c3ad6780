"""Rules about code other than imports that reading it can check: lengths, calls, docstrings, tests."""

import ast
import contextlib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from services.critic.file_tools import KINDS
from services.critic.imports import Graph, is_within, module_name
from shared.source import is_test, parse_module

Place = tuple[str, int, str]  # Where a rule is broken: file, line, and how

COMMENT = re.compile(r"^\s*(?:#|//|\*|/\*|--)")
TEST_NAME = re.compile(
    r"test_.+\.py|.+_test\.(?:py|exs?|rb|dart|cc|cpp)|.+\.(?:test|spec)\.[cm]?[jt]sx?|.+_spec\.rb"
)
"""Names of test files; those of Go stand beside the code because the language wants it."""
CODE = tuple(suffix for name in KINDS if name != "document" for suffix in KINDS[name].suffixes)


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of code: its text and, of Python that can be parsed, its syntax tree."""

    path: str
    text: str
    tree: ast.Module | None = None

    @property
    def module(self) -> str:
        """Its dotted name."""
        return module_name(self.path)


class CodeRule(msgspec.Struct, frozen=True, kw_only=True):
    """What all have: how it was stated, where, and the modules it is ``within`` and ``outside`` of.

    ``python`` says that only Python is read for it, ``tests`` that tests are held to it too.
    """

    text: str = ""
    source: str = ""
    within: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    python = False
    tests = False

    def applies(self, file: SourceFile) -> bool:
        """Whether a file is held to the rule."""
        if (self.python and file.tree is None) or (not self.tests and is_test(file.path)):
            return False
        if any(is_within(file.module, name) for name in self.outside):
            return False
        return not self.within or any(is_within(file.module, name) for name in self.within)

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The places of ``file`` that break the rule."""
        raise NotImplementedError


class FileLength(CodeRule, frozen=True, kw_only=True):
    """No file has more than ``limit`` lines."""

    limit: int
    tests = True

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The file itself, with its length."""
        lines = len(file.text.splitlines())
        if lines > self.limit:
            yield file.path, 0, f"it has {lines:,} lines, {lines - self.limit:,} too many"


class LineLength(CodeRule, frozen=True, kw_only=True):
    """No line has more than ``limit`` characters."""

    limit: int
    tests = True

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The lines that are longer."""
        for number, line in enumerate(file.text.splitlines(), start=1):
            if len(line) > self.limit:
                yield file.path, number, f"the line has {len(line):,} characters"


class FunctionLength(CodeRule, frozen=True, kw_only=True):
    """No function has more than ``limit`` lines."""

    limit: int
    python = True

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The functions that are longer, without their decorators."""
        for node in _functions(file):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > self.limit:
                yield file.path, node.lineno, f"{node.name} has {lines:,} lines"


class NoUse(CodeRule, frozen=True, kw_only=True):
    """Nobody calls ``name``, such as print or console.log."""

    name: str

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The calls: from the syntax tree of Python, else from lines that are no comments."""
        if file.tree is not None:
            for node in ast.walk(file.tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == self.name:
                    yield file.path, node.lineno, f"{self.name} is called"
            return
        method = "" if file.path.endswith(".rs") else "."  # x.unwrap() is a call of unwrap
        declared = r"(?<!function )(?<!func )(?<!def )(?<!fn )"
        form = re.compile(rf"(?<![\w${method}]){declared}{re.escape(self.name)}!?\s*\(")
        for number, line in enumerate(file.text.splitlines(), start=1):
            if form.search(line) and not COMMENT.match(line):
                yield file.path, number, f"{self.name} is called"


class NoText(CodeRule, frozen=True, kw_only=True):
    """No line matches ``pattern``, such as TODO."""

    pattern: str
    what: str
    tests = True

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The lines that do."""
        form = re.compile(self.pattern)
        for number, line in enumerate(file.text.splitlines(), start=1):
            if form.search(line):
                yield file.path, number, f"there is {self.what}"


class NoLibrary(CodeRule, frozen=True, kw_only=True):
    """Nothing imports a library whose name matches ``pattern``."""

    pattern: str

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The imports of it, direct ones."""
        form = re.compile(self.pattern, re.IGNORECASE)
        for found in graph.by_file.get(file.path, ()):
            if not found.internal and form.search(found.imported):
                yield file.path, found.line, f"{found.importer} imports {found.imported}"


class Imports(CodeRule, frozen=True, kw_only=True):
    """No relative imports, or none of everything (``from x import *``)."""

    kind: Literal["relative", "wildcard"]
    python = True

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The imports of that kind."""
        for node in ast.walk(file.tree or ast.Module([], [])):
            if isinstance(node, ast.ImportFrom):
                everything = any(alias.name == "*" for alias in node.names)
                if (self.kind == "relative" and node.level) or (self.kind == "wildcard" and everything):
                    yield file.path, node.lineno, f"a {self.kind} import"


class NoCycles(CodeRule, frozen=True, kw_only=True):
    """No modules import each other in a circle."""

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The first import of the file that is part of a circle."""
        circle = next((names for names in graph.circles if file.module in names), frozenset())
        for found in graph.by_file.get(file.path, ()):
            if found.imported in circle and not found.typing:
                yield file.path, found.line, f"{found.importer} and {found.imported} import each other"
                return


class Docstrings(CodeRule, frozen=True, kw_only=True):
    """Each public module, class or function has a docstring."""

    kinds: tuple[str, ...]
    python = True

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """Those that have none; an empty module needs none."""
        tree = file.tree or ast.Module([], [])
        if "module" in self.kinds and tree.body and not ast.get_docstring(tree):
            yield file.path, 1, "the module has no docstring"
        for node in ast.walk(tree):
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if kind in self.kinds and not node.name.startswith("_") and not ast.get_docstring(node):
                yield file.path, node.lineno, f"{node.name} has no docstring"


class Typed(CodeRule, frozen=True, kw_only=True):
    """Each function has type hints: of what it takes and of what it returns."""

    python = True

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The functions that lack one."""
        for node in _functions(file):
            taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            bare = [arg.arg for arg in taken if arg.annotation is None and arg.arg not in ("self", "cls")]
            if bare or (node.returns is None and node.name != "__init__"):
                yield file.path, node.lineno, f"{node.name} lacks type hints"


class TestsIn(CodeRule, frozen=True, kw_only=True):
    """Tests are beneath ``folder``."""

    __test__ = False
    folder: str
    tests = True

    def find(self, file: SourceFile, graph: Graph) -> Iterator[Place]:
        """The file, if it is a test and lies elsewhere."""
        path = PurePosixPath(file.path)
        if TEST_NAME.fullmatch(path.name) and f"/{self.folder}/" not in f"/{path.parent}/":
            yield file.path, 0, f"it is a test, and not in {self.folder}/"


def read_file(path: str, text: str) -> SourceFile:
    """A file of code; its syntax tree if it is Python that can be parsed."""
    tree = None
    with contextlib.suppress(ValueError):
        tree = parse_module(text) if path.endswith(".py") else None
    return SourceFile(path=path, text=text, tree=tree)


def _functions(file: SourceFile) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(file.tree or ast.Module([], [])):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
