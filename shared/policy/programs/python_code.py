"""Python given on the command line: what it calls, read from its syntax tree."""

import ast
import re
import warnings
from typing import TYPE_CHECKING

from shared.policy.expansion import UNKNOWN
from shared.policy.programs.databases import judge_sql_text
from shared.policy.programs.python_names import (
    DELETES,
    FINE_OF,
    MODULES,
    NATIVE_WRITES,
    OTHER,
    PROCESS,
    RUNS,
    WRITES,
    Names,
)
from shared.policy.secrets import is_private, is_secret_variable
from shared.policy.words import Word

if TYPE_CHECKING:
    from shared.policy.call import Call

LONGEST = 8_192
"""Characters of Python that is still judged."""

_ABSOLUTE = re.compile(r"/[\w.-]+(/[\w.-]+)+").fullmatch
_NAMES_ONLY = frozenset(
    "print exists isfile isdir islink basename dirname join split splitext startswith endswith relpath "
    "format PurePath match fullmatch search sub quote".split()
)
"""Functions that use only the name of a path."""
_ACTS = {"antigravity", "pty", "ctypes", "pip", "ensurepip", "webbrowser", "pyautogui"}
"""Modules that do something when they are imported, or nothing but what is asked after."""
_QUERIES = {"execute", "executemany", "executescript"}
_UNDER = re.compile(
    r"^__(?!name__|file__|version__|doc__|main__|init__|len__|str__|repr__|all__|path__$)\w+__$"
)


def judge_python(call: "Call", code: str) -> None:
    """Judge Python source; what cannot be read, or reaches for more than computing, is not allowed."""
    if UNKNOWN in code:
        call.find("unclear.code", call.name)
        code = code.replace(UNKNOWN, "0")
    if len(code) > LONGEST:
        call.find("unclear.size", "the Python in it")
        return
    try:
        with warnings.catch_warnings():
            # Warnings about the style of the judged code do not matter here.
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        call.find("unclear.code", call.name)
        return
    _Code(call).judge(tree)


class _Code:
    """One piece of Python, and the modules its names refer to."""

    def __init__(self, call: "Call") -> None:
        self.call = call
        self.names = Names(())
        self.asked: set[int] = set()

    def judge(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        self.names = Names(nodes)
        self.asked = {id(inner) for node in nodes if (inner := self._plain_variable(node)) is not None}
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._judge_import(node)
            elif isinstance(node, ast.Call):
                self._judge_call(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._judge_text(node.value)
            elif isinstance(node, ast.Attribute):
                self._judge_attribute(node)
            elif isinstance(node, ast.Name):
                self._judge_name(node)
            elif isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
                if not any(isinstance(inner, ast.Break | ast.Return | ast.Raise) for inner in ast.walk(node)):
                    self.call.find("exhaust.endless")
            elif isinstance(node, ast.BinOp):
                self._judge_size(node)
                self._judge_text(self.names.text(node) or "")

    def _judge_text(self, text: str) -> None:
        if _UNDER.match(text):
            self.call.find("unclear.code", "python")
        elif "/" in text.strip() and " " not in text and is_private(text):
            self.call.find("secret.file", text)

    def _plain_variable(self, node: ast.AST) -> ast.AST | None:
        """``os.environ`` if one variable is read by a name that is no credential's."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            source, key = node.func.value, node.args[0] if node.args else None
        elif isinstance(node, ast.Subscript):
            source, key = node.value, node.slice
        else:
            return None
        name = self.names.text(key)
        return source if name is not None and not is_secret_variable(name) else None

    def _judge_import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            roots = {alias.name.split(".")[0] for alias in node.names}
        else:
            roots = {(node.module or "").split(".")[0]}
        private = any(root.startswith("_") and root != "__future__" for root in roots)
        everything = isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
        if private or (everything and roots & MODULES) or (isinstance(node, ast.Import) and roots & _ACTS):
            self.call.find("unclear.code", "python")

    def _judge_name(self, node: ast.Name) -> None:
        if (
            (node.id in RUNS and isinstance(node.ctx, ast.Load))
            or _UNDER.match(node.id)
            or node.id == "__builtins__"
        ) and node.id not in {"input", "vars", "locals", "globals"}:
            self.call.find("unclear.code", "python")

    def _judge_attribute(self, node: ast.Attribute) -> None:
        if _UNDER.match(node.attr) or node.attr in {
            "f_globals",
            "gi_frame",
            "f_builtins",
            "cr_frame",
            "__dict__",
        }:
            self.call.find("unclear.code", "python")
        full = self.names.full(node)
        root = full.split(".")[0]
        if full in {"os.environ", "os.environb"} and id(node) not in self.asked:
            self._judge_environment(node)
        told = node.attr in {"__version__", "__file__"}
        if root in MODULES and isinstance(node.value, ast.Name) and not told:
            fine = FINE_OF.get(root, frozenset())
            if full.split(".")[1] not in fine and not self._is_literal_effect(node.attr):
                self.call.find("unclear.code", "python")

    def _is_literal_effect(self, name: str) -> bool:
        """Whether a call of that name is judged by its arguments."""
        return name in PROCESS or name in DELETES or name in WRITES or name == "open"

    def _judge_environment(self, node: ast.Attribute) -> None:
        self.call.find("secret.environment", "python")

    def _judge_call(self, node: ast.Call) -> None:
        full = self.names.full(node.func)
        name = full.rsplit(".", 1)[-1]
        root = full.split(".")[0]
        if full.startswith(("sys.path.", "sys.modules", "sys.meta_path", "sys._")) or name == "truncate":
            self.call.find("unclear.code", "python")
        if root == "" and name in {"eval", "exec"}:
            self.call.find("unclear.code", "python")
        if name == "open" and root not in {"webbrowser", "dbm", "shelve"}:
            self._judge_open(node)
        elif full == "sqlite3.connect" or (name in _QUERIES and "sqlite3" in self.names.modules.values()):
            self._judge_database(node, name)
        elif name in PROCESS and (
            root in {"os", "subprocess", "asyncio", "commands", "pty", "sh", ""}
            or name not in {"run", "call"}
        ):
            self._judge_process(node, shell=root == "os")
        elif name in DELETES and (root in {"os", "shutil", "pathlib", ""} or name != "remove"):
            self._judge_paths(node, "delete", name == "rmtree")
        elif (
            name in WRITES
            and (root in {"os", "shutil", "pathlib", ""} or name not in NATIVE_WRITES)
            and full != "json.dump"
        ):
            self._judge_paths(node, "write", False)
        elif name in OTHER or (
            root in MODULES and full != root and full.split(".")[1] not in FINE_OF.get(root, frozenset())
        ):
            self.call.find("unclear.code", "python")
            self._judge_strings(node)
        elif (
            name in "read_text read_bytes read_csv read_json loadtxt getenv listdir walk scandir Path".split()
        ):
            self._judge_paths(node, "environment" if name == "getenv" else "read", False)
        elif name not in _NAMES_ONLY:
            for word in node.args:
                if isinstance(word, ast.Constant) and _ABSOLUTE(str(word.value)):
                    self.call.read(Word(str(word.value)))

    def _judge_strings(self, node: ast.AST) -> None:
        """Judge all paths and commands among the arguments."""
        for text in self.names.all_texts(node):
            if text.startswith(("/", "~", "..")):
                self.call.read(Word(text))

    def _judge_open(self, node: ast.Call) -> None:
        path = self.names.receiver(node) or self.names.first(node)
        modes = [self.names.text(one) for one in node.args[1:2]] + [
            self.names.text(k.value) for k in node.keywords if k.arg in {"mode", "flags"}
        ]
        mode = (modes[0] if modes else "r") or "w"
        given = self.names.text(node.args[0]) if node.args else None
        if isinstance(node.func, ast.Attribute) and given is not None and set(given) <= set("rwaxbtU+"):
            path, mode = self.names.receiver(node), given
        elif self.names.receiver(node) and node.args:
            mode = given or "w"
        word = Word(path if path is not None else UNKNOWN)
        if set(mode) & set("wax+"):
            self.call.write(word)
        else:
            self.call.read(word)

    def _judge_database(self, node: ast.Call, name: str) -> None:
        text = self.names.text(node.args[0]) if node.args else None
        if text is None:
            self.call.find("unclear.code", "python")
        elif name == "connect":
            self.call.read(Word(text))
        else:
            judge_sql_text(self.call, text, local=True)

    def _judge_process(self, node: ast.Call, shell: bool) -> None:
        self.call.find("unclear.code", "python")
        first = node.args[0] if node.args else None
        if isinstance(first, ast.List | ast.Tuple):
            words = [
                Word(text if (text := self.names.text(one)) is not None else UNKNOWN) for one in first.elts
            ]
            if words:
                self.call.run(words)
        elif first is not None and (text := self.names.text(first)) is not None:
            self.call.script(text)

    def _judge_paths(self, node: ast.Call, effect: str, deep: bool) -> None:
        if effect == "delete":
            self.call.find("unclear.code", "python")
        # What write_text is given is what it writes, not where.
        given = [] if self.names.full(node.func).endswith(("write_text", "write_bytes")) else node.args
        found = (self.names.receiver(node), *(self.names.text(one) for one in given))
        texts = [text for text in found if text is not None]
        if effect == "environment":
            if not texts or is_secret_variable(texts[0]):
                self.call.find("secret.environment", "python")
            return
        if not texts and effect != "read":
            self.call.find("unclear.code", "python")
        for text in texts[:2]:
            if effect == "delete":
                self.call.delete(Word(text), deep, deep)
            elif effect == "write":
                self.call.write(Word(text))
            else:
                self.call.read(Word(text))

    def _judge_size(self, node: ast.BinOp) -> None:
        numbers = [
            one.value
            for one in (node.left, node.right)
            if isinstance(one, ast.Constant) and isinstance(one.value, int)
        ]
        if (
            (isinstance(node.op, ast.Pow) and numbers and max(numbers) > 4_096)
            or (isinstance(node.op, ast.Mult) and any(n > 10**8 for n in numbers))
        ) or (
            isinstance(node.op, ast.Mult)
            and isinstance(node.right, ast.BinOp)
            and isinstance(node.right.op, ast.Pow)
        ):
            self.call.find("exhaust.large")
