"""What the names in a piece of Python stand for: modules, texts, paths, as far as that is known."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

_JOINS = {"os.path.join", "posixpath.join", "pathlib.Path", "pathlib.PurePath", "Path"}
_SAME = {"os.path.expanduser", "os.path.abspath", "os.path.realpath", "os.path.normpath", "str", "os.fspath"}
_HOMES = {"pathlib.Path.home", "Path.home"}


class Names:
    """``modules``: the dotted names that names stand for; ``texts``: those that are one known text."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self.modules: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        times: Counter[str] = Counter()
        for node in nodes:
            self._bind(node)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                times[node.id] += 1
        for name, count in times.items():
            if count > 1:
                # Which of its values counts is known only when it runs.
                self.texts.pop(name, None)

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                self.modules[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if (text := self.text(node.value)) is not None:
                self.texts[name] = text
            elif isinstance(node.value, ast.Attribute | ast.Name) and (full := self.full(node.value)):
                self.modules[name] = full

    def full(self, node: ast.AST) -> str:
        """The dotted name of what is called, its modules spelled out; with a dot first where it is made."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        parts.append(self.modules.get(node.id, node.id) if isinstance(node, ast.Name) else "")
        return ".".join(reversed(parts))

    def text(self, node: ast.AST | None) -> str | None:
        """The text or path that an expression is."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name):
            return self.texts.get(node.id)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
            sign = "" if isinstance(node.op, ast.Add) else "/"
            return self._together([node.left, node.right], sign)
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
            return self._together(parts, "")
        return self._made(node) if isinstance(node, ast.Call) else None

    def _together(self, nodes: list[ast.expr], sign: str) -> str | None:
        texts = [self.text(node) for node in nodes]
        return None if None in texts else sign.join(text or "" for text in texts)

    def _made(self, node: ast.Call) -> str | None:
        full = self.full(node.func)
        if full in _HOMES:
            return "~"
        if full in _JOINS and node.args:
            return self._together(node.args, "/")
        return self.text(node.args[0]) if full in _SAME and node.args else None

    def all_texts(self, node: ast.AST) -> Iterator[str]:
        """Every text within ``node``."""
        for inner in ast.walk(node):
            text = self.text(inner)
            if text is not None:
                yield text

    def first(self, node: ast.Call) -> str | None:
        """The text that a call is given first, or is made of: that of ``open(Path("x"))`` is ``x``."""
        own = node.func.value if isinstance(node.func, ast.Attribute) else None
        target = node.args[0] if node.args else own
        text = self.text(target)
        return self.first(target) if text is None and isinstance(target, ast.Call) else text

    def receiver(self, node: ast.Call) -> str | None:
        """The path of ``Path("x").unlink()``, or of ``p.unlink()`` where it is known what ``p`` is."""
        if not isinstance(node.func, ast.Attribute):
            return None
        own = node.func.value
        text = self.text(own)
        return self.first(own) if text is None and isinstance(own, ast.Call) else text
