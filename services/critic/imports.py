"""Which module imports which in Python, JavaScript, TypeScript, Go, Rust, Java, Kotlin; rules about that."""

import ast
import functools
import posixpath
import re
import sys
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePosixPath

import msgspec

from shared.projects.reading import ProjectFiles
from shared.source import Tree, is_test, is_vendored, parse_module, read_text

ROOTS = ("src", "lib", "python")  # Folders that hold packages without being one

SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")

SCRIPT_IMPORT = re.compile(
    r"""^\s*(?:import|export)\b[^'"`;()]*?\bfrom\s*["']([^"'\n]+)["']|^\s*import\s*["']([^"'\n]+)["']"""
    r"""|\b(?:require|import)\(\s*["']([^"'\n]+)["']\s*\)""",
    re.MULTILINE,
)
GO_BLOCK = re.compile(
    r"^import\s*\((.*?)^\)|^import\s+(?:[\w.]+\s+)?\"([^\"\n]+)\"", re.MULTILINE | re.DOTALL
)
JVM = (".java", ".kt", ".scala")
JVM_ROOT = re.compile(r"^(?:.*/)?src/(?:main|test)/(?:java|kotlin|scala)/")
JVM_IMPORT = re.compile(r"^\s*import\s+(?:static\s+)?([\w.]+)", re.MULTILINE)
RUST_USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:use|extern crate)\s+([^;]+);", re.MULTILINE)
RUST_PATH = re.compile(r"\b(crate(?:::\w+)+)")
GO_NAME = re.compile(r'^\s*(?:[\w.]+\s+)?"([^"\n]+)"', re.MULTILINE)


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """One module importing another; ``internal`` says whether the imported one is in the repository.

    ``typing`` is true if only a type checker executes it.
    """

    importer: str
    imported: str
    internal: bool
    file: str
    line: int
    typing: bool = False


class Graph(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The modules of a repository by dotted name (tests left out), folders included, and their imports."""

    modules: dict[str, str] = {}
    folders: frozenset[str] = frozenset()
    imports: tuple[Import, ...] = ()
    cut: str = ""

    @property
    def names(self) -> frozenset[str]:
        """Every module and folder of modules."""
        return self.folders | frozenset(self.modules)

    @cached_property
    def by_file(self) -> dict[str, list[Import]]:
        """The imports of each file."""
        found: dict[str, list[Import]] = {}
        for each in self.imports:
            found.setdefault(each.file, []).append(each)
        return found

    @cached_property
    def circles(self) -> tuple[frozenset[str], ...]:
        """The groups of modules that import each other in a circle; a type checker's imports do not count."""
        import rustworkx

        inner = [found for found in self.imports if found.internal and not found.typing]
        names = sorted({name for found in inner for name in (found.importer, found.imported)})
        numbers = {name: number for number, name in enumerate(names)}
        digraph: rustworkx.PyDiGraph[str, None] = rustworkx.PyDiGraph()
        digraph.add_nodes_from(names)
        digraph.add_edges_from_no_data([(numbers[each.importer], numbers[each.imported]) for each in inner])
        groups = rustworkx.strongly_connected_components(digraph)
        return tuple(frozenset(names[number] for number in group) for group in groups if len(group) > 1)


def read_imports(tree: Tree, *, seconds: float = 20.0) -> Graph:
    """Read the imports of all files of a language that is known, for at most ``seconds``."""
    read = (path for path in tree.files if path.endswith((".py", ".go", ".rs", *JVM, *SCRIPTS)))
    files = [path for path in read if not is_test(path) and not is_vendored(path)]
    index = _index(files)
    module_path = ProjectFiles(tree.root).text("go.mod")
    found: list[Import] = []
    cut = ""
    ends = time.monotonic() + seconds
    for path in files:
        if time.monotonic() > ends:
            cut = f"only the imports that could be read within {seconds:g} s were checked"
            break
        text = read_text(tree.root, path)
        if path.endswith(".py"):
            found += _read_python(path, text, index)
            continue
        if path.endswith(".go"):
            named = _go_imports(text, module_path)
        elif path.endswith(".rs"):
            named = _rust_imports(path, text)
        else:
            named = _matches(JVM_IMPORT, text) if path.endswith(JVM) else _script_imports(path, text)
        found += [_resolved(path, name, line, index) for line, name in named]
    modules = {module_name(path): path for path in files}
    names = (name.split(".") for name in modules)
    folders = frozenset(".".join(parts[:depth]) for parts in names for depth in range(1, len(parts)))
    return Graph(modules=modules, folders=folders, imports=tuple(found), cut=cut)


def module_name(path: str) -> str:
    """The dotted name of a file: ``src/pkg/mod.py`` is ``pkg.mod``, ``pkg/__init__.py`` is ``pkg``."""
    parts = list(PurePosixPath(JVM_ROOT.sub("", path)).with_suffix("").parts)
    if path.endswith("/mod.rs"):
        parts = parts[:-1]
    if len(parts) > 1 and parts[0] in ROOTS and parts[1] not in ("__init__", "index"):
        parts = parts[1:]
    if len(parts) > 1 and parts[-1] in ("__init__", "index"):
        parts = parts[:-1]
    return ".".join(parts)


def _index(files: list[str]) -> dict[str, str]:
    """Every name a module can be imported by, and its dotted name."""
    packages = {str(PurePosixPath(path).parent) for path in files if path.endswith("/__init__.py")}
    index: dict[str, str] = {}
    for path in files:
        name = module_name(path)
        parts = name.split(".")
        index[name] = name
        for depth in range(1, len(parts)):
            index.setdefault(".".join(parts[:depth]), ".".join(parts[:depth]))
        # a package that lies deeper than the root is imported by its own name
        top = PurePosixPath(path).parent
        while str(top) in packages and str(top.parent) in packages:
            top = top.parent
        if path.endswith(".rs") and "src" in PurePosixPath(path).parts[1:]:
            crate, _, module = name.partition(".src.")  # another crate knows it so
            index.setdefault(f"{crate.rsplit('.', 1)[-1].replace('-', '_')}.{module}", name)
        if str(top) in packages and path.endswith(".py"):
            inner = PurePosixPath(path).relative_to(top.parent).with_suffix("").parts
            index.setdefault(".".join(inner[:-1] if inner[-1] == "__init__" else inner), name)
    return index


def _read_python(path: str, text: str, index: dict[str, str]) -> Iterator[Import]:
    try:
        tree = parse_module(text)
    except ValueError:
        return
    package = path.endswith("/__init__.py")
    importer = module_name(path)
    typing: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for child in node.body:
                typing.update(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    for node in ast.walk(tree):
        for name in _imported(node, importer, package, index):
            resolved = _resolved(path, name, getattr(node, "lineno", 0), index)
            yield msgspec.structs.replace(resolved, typing=resolved.line in typing)


def _imported(node: ast.AST, importer: str, package: bool, index: dict[str, str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        parts = importer.split(".")
        kept = parts[: len(parts) - node.level + package] if node.level - package <= len(parts) else []
        base = ".".join([*kept, *([base] if base else [])])
    names = [f"{base}.{alias.name}" for alias in node.names]
    # `from package import module` imports the module, `from module import name` the module it is in
    return [name if name in index else base for name in names] if base else []


def _resolved(path: str, name: str, line: int, index: dict[str, str]) -> Import:
    parts = name.split(".") if "/" not in name else [name]
    names = (".".join(parts[:depth]) for depth in range(len(parts), 0, -1))
    known = next((index[each] for each in names if each in index), None)
    internal = known is not None
    return Import(importer=module_name(path), imported=known or name, internal=internal, file=path, line=line)


def _script_imports(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Line and name of each import: dotted from the root if the file is named relatively."""
    for match in SCRIPT_IMPORT.finditer(text):
        at = next(group for group in (1, 2, 3) if match[group])
        name = match[at]
        if name.startswith("."):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        elif name.startswith(("@/", "~/")):
            name = f"src/{name[2:]}"
        if name != match[at] or (not name.startswith("@") and "/" in name):
            stem = next((name.removesuffix(suffix) for suffix in SCRIPTS if name.endswith(suffix)), name)
            parts = stem.removesuffix("/index").split("/")
            name = ".".join(parts[1:] if parts[0] in ROOTS and len(parts) > 1 else parts)
        yield text.count("\n", 0, match.start(at)) + 1, name


def _go_imports(text: str, go_mod: str) -> Iterator[tuple[int, str]]:
    """Line and name of each import: dotted from the root if it belongs to the module itself."""
    module = re.search(r"^module\s+(\S+)", go_mod, re.MULTILINE)
    prefix = f"{module[1]}/" if module else "\0"
    for block in GO_BLOCK.finditer(text):
        found = [(block.start(2), block[2])] if block[2] else []
        found += [(block.start(1) + name.start(1), name[1]) for name in GO_NAME.finditer(block[1] or "")]
        for start, name in found:
            inner = name.removeprefix(prefix)
            yield text.count("\n", 0, start) + 1, inner.replace("/", ".") if inner != name else name


def _matches(form: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    for match in form.finditer(text):
        yield text.count("\n", 0, match.start(1)) + 1, match[1]


def _rust_imports(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Line and name of each path that is used: ``crate::`` is the crate's own folder, braces are unfolded."""
    parts = PurePosixPath(path).parts
    above = parts[: parts.index("src")] if "src" in parts else ()
    own = ".".join([*above, "src"]) if above else ""
    module = module_name(path)
    for line, words in [*_matches(RUST_USE, text), *_matches(RUST_PATH, text)]:
        head, _, inner = " ".join(words.split()).partition("{")
        tails = (
            [tail.partition(" as ")[0].strip() for tail in inner.rstrip("} ").split(",")] if inner else [""]
        )
        for tail in tails:
            names = [name for name in f"{head}{tail}".partition(" as ")[0].strip().split("::") if name]
            if names and names[0] == "crate":
                names = [*filter(None, [own]), *names[1:]]
            elif names and names[0] in ("self", "super"):
                base = module.split(".")[: -1 if names[0] == "super" else None]
                names = [*base, *names[1:]]
            if names:
                yield line, ".".join(names)


# --- rules about imports ------------------------------------------------------------------------------

THIRD_PARTY = "<third party>"
"""Stands among the objects of a rule for every package from elsewhere that is not of the standard library."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What all rules have: how it was stated, and where (``file:line``)."""

    text: str = ""
    source: str = ""
    typing: bool = False
    """Whether imports for a type checker alone count."""
    ignored: tuple[tuple[str, str], ...] = ()
    """Imports that the rule itself excepts, as patterns of importer and imported."""
    subjects: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


class Forbidden(Rule, frozen=True, kw_only=True):
    """None of ``subjects`` imports any of ``objects``."""

    def breaks(self, found: Import) -> bool:
        """Whether an import breaks the rule; what lies inside both belongs to the deeper one."""
        subject = _deepest(found.importer, self.subjects)
        target = _named(found, self.objects)
        if not subject or not target:
            return False
        if is_within(target, subject):
            return not is_within(found.importer, target)
        return not is_within(found.imported, subject)


class AllowedOnly(Rule, frozen=True, kw_only=True):
    """``subjects`` import themselves and ``objects``, and nothing else of the repository.

    Packages from elsewhere are bound too if ``objects`` names one of them.
    """

    outside: bool = False

    def breaks(self, found: Import) -> bool:
        """Whether an import breaks the rule; the standard library is always allowed."""
        subject = _deepest(found.importer, self.subjects)
        if not subject or _named(found, self.objects):
            return False
        if found.internal:
            return not is_within(found.imported, subject) and not is_within(subject, found.imported)
        return self.outside and not _is_standard(found)


class Protected(Rule, frozen=True, kw_only=True):
    """Nothing but ``subjects`` imports ``objects``."""

    def breaks(self, found: Import) -> bool:
        """Whether an import breaks the rule; a module may always import its own parts."""
        target = _named(found, self.objects)
        if not target or _deepest(found.importer, self.subjects):
            return False
        return not is_within(found.importer, target)


class Layers(Rule, frozen=True, kw_only=True):
    """No layer imports one above it; ``levels`` go from the top down.

    The members of a level in ``closed`` do not import each other either; a single such level makes them
    independent of one another.
    """

    levels: tuple[tuple[str, ...], ...]
    closed: frozenset[int] = frozenset()

    def breaks(self, found: Import) -> bool:
        """Whether an import goes upwards, or across a closed level."""
        importer, imported = self._place(found.importer), self._place(found.imported)
        if importer is None or imported is None or not found.internal:
            return False
        if importer[0] == imported[0]:
            return importer[0] in self.closed and importer[1] != imported[1]
        return imported[0] < importer[0]

    def _place(self, module: str) -> tuple[int, str] | None:
        named = [(level, name) for level, names in enumerate(self.levels) for name in names]
        places = [place for place in named if is_within(module, place[1])]
        return max(places, key=lambda place: len(place[1]), default=None)


AnyRule = Forbidden | AllowedOnly | Protected | Layers


def is_within(module: str, name: str) -> bool:
    """Whether ``module`` is ``name`` or a part of it."""
    return module == name or module.startswith(f"{name}.")


def is_broken_by(rule: AnyRule, found: Import) -> bool:
    """Whether ``found`` breaks ``rule``, exceptions considered."""
    if found.typing and not rule.typing:
        return False
    # import-linter sees of a package from elsewhere only its outermost name
    names = {found.imported, found.imported if found.internal else found.imported.split(".", maxsplit=1)[0]}
    excepted = any(
        compile_pattern(left).fullmatch(found.importer) and any(map(compile_pattern(right).fullmatch, names))
        for left, right in rule.ignored
    )
    return not excepted and rule.breaks(found)


@functools.cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """import-linter's patterns: ``*`` is one part of a name, ``**`` one or more of them."""
    parts = {"*": "[^.]+", "**": r"[^.]+(?:\.[^.]+)*"}
    return re.compile(r"\.".join(parts.get(part, re.escape(part)) for part in pattern.split(".")))


def _deepest(module: str, names: tuple[str, ...]) -> str:
    """The deepest of ``names`` that ``module`` belongs to; empty for none."""
    return max((name for name in names if is_within(module, name)), key=len, default="")


def _named(found: Import, names: tuple[str, ...]) -> str:
    if THIRD_PARTY in names and not found.internal and not _is_standard(found):
        return THIRD_PARTY
    return _deepest(found.imported, names)


def _is_standard(found: Import) -> bool:
    """Whether the imported package belongs to the language itself."""
    name = found.imported.split(".", maxsplit=1)[0]
    if found.file.endswith(".py"):
        return name in sys.stdlib_module_names
    if found.file.endswith(".go"):
        return "." not in found.imported.split("/", maxsplit=1)[0]
    return name.startswith("node:")
