"""Python given on the command line: what it calls, read from its syntax tree."""

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shared.sandbox.policy.expansion import UNKNOWN
from shared.sandbox.policy.words import Word

if TYPE_CHECKING:
    from shared.sandbox.policy.call import Call

LONGEST = 8_192
"""Characters of Python that is still judged."""

_RUNS = frozenset(
    "eval exec compile __import__ globals locals vars getattr setattr delattr breakpoint input memoryview "
    "import_module exec_module run_path run_module load_module find_spec spec_from_file_location".split()
)
_PROCESS = frozenset(
    "system popen run call check_call check_output getoutput getstatusoutput Popen spawn spawnl "
    "spawnv spawnve spawnlp spawnvp "
    "posix_spawn posix_spawnp execl execle execlp execv execve execvp execvpe startfile "
    "create_subprocess_shell create_subprocess_exec".split()
)
_DELETES = frozenset("remove unlink rmdir removedirs rmtree send2trash".split())
_WRITES = frozenset(
    "write_text write_bytes touch mkdir makedirs rename renames replace symlink link hardlink_to "
    "symlink_to copy copy2 copyfile "
    "copytree move chmod chown lchmod truncate mkfifo mknod extractall extract unpack_archive "
    "make_archive savetxt to_csv "
    "to_json to_parquet to_pickle dump writelines".split()
)
_NATIVE_WRITES = frozenset(("rename", "replace", "copy", "move", "link", "dump", "extract", "truncate"))
_OTHER = frozenset(
    "fork forkpty kill killpg setuid setgid seteuid setegid setresuid putenv unsetenv chroot abort "
    "_exit dup2 openpty urlopen urlretrieve "
    "connect bind listen sendto sendall create_connection create_server serve_forever loads_unsafe "
    "spawn_main start_new_thread "
    "CDLL cdll WinDLL PyDLL windll string_at memmove pythonapi settrace addaudithook signal setrlimit".split()
)
_MODULES = frozenset(
    "socket socketserver http urllib urllib3 requests httpx httpx2 aiohttp ftplib smtplib telnetlib "
    "poplib imaplib nntplib xmlrpc ssl "
    "paramiko fabric pexpect pty ctypes cffi multiprocessing pickle cPickle dill marshal shelve "
    "importlib builtins code codeop runpy "
    "webbrowser antigravity asyncio signal resource fcntl mmap winreg _winapi posix nt gc inspect "
    "sqlite3 boto3 keyring getpass pwd spwd crypt "
    "subprocess commands popen2 sh plumbum invoke psutil pyautogui pynput scapy zmq nats websocket "
    "websockets zipimport pkgutil "
    "ensurepip pip venv distutils setuptools cryptography nacl Crypto turtle tkinter threading "
    "concurrent _thread tarfile zipfile shutil "
    "tempfile pathlib os io codecs base64 binascii zlib bz2 lzma fileinput glob linecache tokenize "
    "cgi wsgiref site sysconfig imp "
    "operator functools types weakref".split()
)
_FINE_OF = {
    "os": frozenset(
        "getcwd path sep linesep name environ cpu_count listdir walk scandir stat getpid getppid uname "
        "pathsep curdir get_terminal_size times getenv access sched_getaffinity fspath "
        "urandom getloadavg".split()
    ),
    "pathlib": frozenset("Path PurePath PurePosixPath".split()),
    "shutil": frozenset("which disk_usage get_terminal_size".split()),
    "sqlite3": frozenset(["sqlite_version", "version"]),
    "ssl": frozenset(["OPENSSL_VERSION", "HAS_TLSv1_3", "OPENSSL_VERSION_INFO"]),
    "socket": frozenset(["gethostname", "AF_INET", "SOCK_STREAM"]),
    "urllib": frozenset(
        "parse quote unquote urlencode urlparse urlsplit quote_plus unquote_plus parse_qs urljoin".split()
    ),
    "http": frozenset(["HTTPStatus"]),
    "base64": frozenset(
        "b64encode b64decode urlsafe_b64encode urlsafe_b64decode b32encode b16encode".split()
    ),
    "binascii": frozenset("hexlify crc32 b2a_hex".split()),
    "zlib": frozenset(["crc32", "adler32"]),
    "io": frozenset(["StringIO", "BytesIO"]),
    "glob": frozenset(["glob", "iglob"]),
    "inspect": frozenset("signature getdoc getmembers isclass isfunction".split()),
    "functools": frozenset("reduce lru_cache partial cache wraps cmp_to_key".split()),
    "operator": frozenset("add mul sub itemgetter xor".split()),
    "types": frozenset(["SimpleNamespace"]),
    "asyncio": frozenset("run sleep gather".split()),
    "multiprocessing": frozenset(["cpu_count"]),
    "importlib": frozenset("metadata version resources distributions".split()),
    "getpass": frozenset(["getuser"]),
    "site": frozenset("getsitepackages getusersitepackages".split()),
    "sysconfig": frozenset("get_paths get_path get_config_var get_platform get_python_version".split()),
    "pwd": frozenset(),
    "codecs": frozenset(["encode"]),
    "pkgutil": frozenset(["iter_modules"]),
    "threading": frozenset(["active_count"]),
    "gc": frozenset(["collect", "get_count"]),
    "tempfile": frozenset(["gettempdir"]),
    "resource": frozenset(["getrusage", "RUSAGE_SELF"]),
    "signal": frozenset(["Signals"]),
    "psutil": frozenset("cpu_count virtual_memory cpu_percent disk_usage".split()),
    "zipfile": frozenset(["is_zipfile"]),
    "tarfile": frozenset(["is_tarfile"]),
    "ctypes": frozenset(["sizeof"]),
    "http.client": frozenset(["responses"]),
}
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
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        call.find("unclear.code", call.name)
        return
    _Code(call).judge(tree)


class _Code:
    """One piece of Python, and the modules its names stand for."""

    def __init__(self, call: "Call") -> None:
        self.call = call
        self.names: dict[str, str] = {}
        self.values: dict[str, str] = {}

    def judge(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        for node in nodes:
            self._bind(node)
        for node in nodes:
            if isinstance(node, ast.Call):
                self._judge_call(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _UNDER.match(node.value):
                self.call.find("unclear.code", "python")
            elif isinstance(node, ast.Attribute):
                self._judge_attribute(node)
            elif isinstance(node, ast.Name):
                self._judge_name(node)
            elif isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
                if not any(isinstance(inner, ast.Break | ast.Return | ast.Raise) for inner in ast.walk(node)):
                    self.call.find("exhaust.endless")
            elif isinstance(node, ast.BinOp):
                self._judge_size(node)

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._imported(alias.name)
                self.names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self._imported_from(node.module or "", alias.name)
                self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = self._text(node.value)
            if text is not None:
                self.values[node.targets[0].id] = text
            if isinstance(node.value, ast.Attribute | ast.Name) and (full := self._full(node.value)):
                self.names[node.targets[0].id] = full
        elif isinstance(node, ast.With):
            return

    def _imported(self, module: str) -> None:
        if module.split(".", maxsplit=1)[0] in {
            "antigravity",
            "pty",
            "ctypes",
            "pip",
            "ensurepip",
            "webbrowser",
            "pyautogui",
        }:
            self.call.find("unclear.code", "python")

    def _imported_from(self, module: str, name: str) -> None:
        root = module.split(".", maxsplit=1)[0]
        if name == "*" and root in _MODULES:
            self.call.find("unclear.code", "python")

    def _full(self, node: ast.AST) -> str:
        """The dotted name of what is called, its modules spelled out."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            parts.append(self.names.get(node.id, node.id))
        else:
            parts.append("")
        return ".".join(reversed(parts))

    def _judge_name(self, node: ast.Name) -> None:
        if (
            (node.id in _RUNS and isinstance(node.ctx, ast.Load))
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
        full = self._full(node)
        root = full.split(".")[0]
        if full in {"os.environ", "os.environb"}:
            self._judge_environment(node)
        if root in _MODULES and isinstance(node.value, ast.Name):
            fine = _FINE_OF.get(root, frozenset())
            if full.split(".")[1] not in fine and not self._is_literal_effect(node.attr):
                self.call.find("unclear.code", "python")

    def _is_literal_effect(self, name: str) -> bool:
        """Whether a call of that name is judged by its arguments."""
        return name in _PROCESS or name in _DELETES or name in _WRITES or name == "open"

    def _judge_environment(self, node: ast.Attribute) -> None:
        self.call.find("secret.environment", "python")

    def _judge_call(self, node: ast.Call) -> None:
        full = self._full(node.func)
        name = full.rsplit(".", 1)[-1]
        root = full.split(".")[0]
        if full.startswith(("sys.path.", "sys.modules", "sys.meta_path", "sys._")) or name == "truncate":
            self.call.find("unclear.code", "python")
        if root == "" and name in {"eval", "exec"}:
            self.call.find("unclear.code", "python")
        if name == "open" and root in ["", *"open io os codecs gzip bz2 lzma pathlib Path".split()]:
            self._judge_open(node)
        elif name in _PROCESS and (
            root in {"os", "subprocess", "asyncio", "commands", "pty", "sh", ""}
            or name not in {"run", "call"}
        ):
            self._judge_process(node, shell=root == "os")
        elif name in _DELETES and (root in {"os", "shutil", "pathlib", ""} or name != "remove"):
            self._judge_paths(node, "delete", name == "rmtree")
        elif (
            name in _WRITES
            and (root in {"os", "shutil", "pathlib", ""} or name not in _NATIVE_WRITES)
            and full != "json.dump"
        ):
            self._judge_paths(node, "write", False)
        elif name in _OTHER or (
            root in _MODULES and full != root and full.split(".")[1] not in _FINE_OF.get(root, frozenset())
        ):
            self.call.find("unclear.code", "python")
            self._judge_strings(node)
        elif (
            name in "read_text read_bytes read_csv read_json loadtxt getenv listdir walk scandir Path".split()
        ):
            self._judge_paths(node, "environment" if name == "getenv" else "read", False)

    def _texts(self, node: ast.AST) -> Iterator[str]:
        for inner in ast.walk(node):
            text = self._text(inner)
            if text is not None:
                yield text

    def _text(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name):
            return self.values.get(node.id)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self._text(node.left), self._text(node.right)
            return left + right if left is not None and right is not None else None
        return None

    def _judge_strings(self, node: ast.AST) -> None:
        """Whatever paths and commands stand among the arguments count."""
        for text in self._texts(node):
            if text.startswith(("/", "~", "..")):
                self.call.read(Word(text))

    def _first(self, node: ast.Call) -> str | None:
        target = (
            node.args[0] if node.args else (node.func.value if isinstance(node.func, ast.Attribute) else None)
        )
        if isinstance(target, ast.Call):
            return self._first(target)
        return self._text(target) if target is not None else None

    def _receiver(self, node: ast.Call) -> str | None:
        """The path of ``Path("x").unlink()``."""
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            return self._first(node.func.value)
        return None

    def _judge_open(self, node: ast.Call) -> None:
        path = self._receiver(node) or self._first(node)
        modes = [self._text(one) for one in node.args[1:2]] + [
            self._text(k.value) for k in node.keywords if k.arg in {"mode", "flags"}
        ]
        mode = (modes[0] if modes else "r") or "w"
        if self._receiver(node) and node.args:
            mode = self._text(node.args[0]) or "w"
        word = Word(path if path is not None else UNKNOWN)
        if set(mode) & set("wax+"):
            self.call.write(word)
        else:
            self.call.read(word)

    def _judge_process(self, node: ast.Call, shell: bool) -> None:
        self.call.find("unclear.code", "python")
        first = node.args[0] if node.args else None
        if isinstance(first, ast.List | ast.Tuple):
            words = [Word(text if (text := self._text(one)) is not None else UNKNOWN) for one in first.elts]
            if words:
                self.call.run(words)
        elif first is not None and (text := self._text(first)) is not None:
            self.call.script(text)

    def _judge_paths(self, node: ast.Call, effect: str, deep: bool) -> None:
        if effect == "delete":
            self.call.find("unclear.code", "python")
        texts = [
            text
            for text in (self._receiver(node), *(self._text(one) for one in node.args))
            if text is not None
        ]
        if effect == "environment":
            from shared.sandbox.policy.secrets import is_secret_variable

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
