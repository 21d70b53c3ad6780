"""What Python's modules and functions do, and what the names in a piece of Python refer to."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

RUNS = frozenset(
    "eval exec compile __import__ globals locals vars getattr setattr delattr breakpoint input memoryview "
    "import_module exec_module run_path run_module load_module find_spec spec_from_file_location".split()
)
PROCESS = frozenset(
    "system popen run call check_call check_output getoutput getstatusoutput Popen spawn spawnl spawnv "
    "spawnve spawnlp spawnvp posix_spawn posix_spawnp execl execle execlp execv execve execvp execvpe "
    "startfile create_subprocess_shell create_subprocess_exec".split()
)
DELETES = frozenset("remove unlink rmdir removedirs rmtree send2trash".split())
WRITES = frozenset(
    "write_text write_bytes touch mkdir makedirs rename renames replace symlink link hardlink_to symlink_to "
    "copy copy2 copyfile copytree move chmod chown lchmod truncate mkfifo mknod extractall extract "
    "unpack_archive make_archive savetxt to_csv to_json to_parquet to_pickle dump writelines".split()
)
NATIVE_WRITES = frozenset(("rename", "replace", "copy", "move", "link", "dump", "extract", "truncate"))
OTHER = frozenset(
    "fork forkpty kill killpg setuid setgid seteuid setegid setresuid putenv unsetenv chroot abort _exit "
    "dup2 openpty urlopen urlretrieve connect bind listen sendto sendall create_connection create_server "
    "serve_forever loads_unsafe spawn_main start_new_thread CDLL cdll WinDLL PyDLL windll string_at memmove "
    "pythonapi settrace addaudithook signal setrlimit".split()
)
MODULES = frozenset(
    "socket socketserver http urllib urllib3 requests httpx httpx2 aiohttp ftplib smtplib telnetlib "
    "poplib imaplib nntplib xmlrpc ssl paramiko fabric pexpect pty ctypes cffi multiprocessing "
    "pickle cPickle dill marshal shelve importlib builtins code codeop runpy webbrowser antigravity "
    "asyncio signal resource fcntl mmap winreg _winapi posix nt gc inspect sqlite3 boto3 keyring "
    "getpass pwd spwd crypt subprocess commands popen2 sh plumbum invoke psutil pyautogui pynput "
    "scapy zmq nats websocket websockets zipimport pkgutil ensurepip pip venv distutils setuptools "
    "cryptography nacl Crypto turtle tkinter threading concurrent _thread tarfile zipfile shutil "
    "tempfile pathlib os io codecs base64 binascii zlib bz2 lzma fileinput glob linecache tokenize "
    "cgi wsgiref site sysconfig imp operator functools types weakref timeit cProfile profile pdb bdb "
    "trace pydoc test idlelib lib2to3 dbm faulthandler logging.handlers".split()
)
_FINE = {
    "os": "getcwd path sep linesep name environ cpu_count listdir walk scandir stat getpid getppid uname "
    "pathsep curdir get_terminal_size times getenv access sched_getaffinity fspath urandom getloadavg",
    "pathlib": "Path PurePath PurePosixPath", "shutil": "which disk_usage get_terminal_size",
    "sqlite3": "sqlite_version version connect Row",
    "ssl": "OPENSSL_VERSION HAS_TLSv1_3 OPENSSL_VERSION_INFO", "socket": "gethostname AF_INET SOCK_STREAM",
    "urllib": "parse quote unquote urlencode urlparse urlsplit quote_plus unquote_plus parse_qs urljoin",
    "http": "HTTPStatus",
    "base64": "b64encode b64decode urlsafe_b64encode urlsafe_b64decode b32encode b16encode",
    "binascii": "hexlify crc32 b2a_hex", "zlib": "crc32 adler32", "io": "StringIO BytesIO",
    "glob": "glob iglob", "inspect": "signature getdoc getmembers isclass isfunction",
    "functools": "reduce lru_cache partial cache wraps cmp_to_key", "operator": "add mul sub itemgetter xor",
    "types": "SimpleNamespace", "asyncio": "run sleep gather", "multiprocessing": "cpu_count",
    "importlib": "metadata version resources distributions", "getpass": "getuser",
    "site": "getsitepackages getusersitepackages",
    "sysconfig": "get_paths get_path get_config_var get_platform get_python_version",
    "timeit": "default_timer", "codecs": "encode", "pkgutil": "iter_modules", "threading": "active_count",
    "gc": "collect get_count", "tempfile": "gettempdir", "resource": "getrusage RUSAGE_SELF",
    "signal": "Signals", "psutil": "cpu_count virtual_memory cpu_percent disk_usage", "zipfile": "is_zipfile",
    "tarfile": "is_tarfile", "ctypes": "sizeof", "http.client": "responses",
}  # fmt: skip
FINE_OF = {module: frozenset(names.split()) for module, names in _FINE.items()}


_JOINS = {"os.path.join", "posixpath.join", "pathlib.Path", "pathlib.PurePath", "Path"}
_SAME = {"os.path.expanduser", "os.path.abspath", "os.path.realpath", "os.path.normpath", "str", "os.fspath"}
_HOMES = {"pathlib.Path.home", "Path.home"}


class Names:
    """``modules``: the dotted names that names refer to; ``texts``: those that are one known text."""

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
        """The dotted name of what is called, with full module names; a dot is first after an expression."""
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
        """The path of ``Path("x").unlink()``, or of ``p.unlink()`` if ``p`` is known."""
        if not isinstance(node.func, ast.Attribute):
            return None
        own = node.func.value
        text = self.text(own)
        return self.first(own) if text is None and isinstance(own, ast.Call) else text
