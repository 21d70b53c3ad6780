"""What Python's modules and functions do: those that run, delete, write, connect, and those that are fine."""

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
FINE_OF = {
    "os": frozenset(
        "getcwd path sep linesep name environ cpu_count listdir walk scandir stat getpid getppid uname "
        "pathsep curdir get_terminal_size times getenv access sched_getaffinity fspath "
        "urandom getloadavg".split()
    ),
    "pathlib": frozenset("Path PurePath PurePosixPath".split()),
    "shutil": frozenset("which disk_usage get_terminal_size".split()),
    "sqlite3": frozenset("sqlite_version version connect Row".split()),
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
    "timeit": frozenset(["default_timer"]),
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
