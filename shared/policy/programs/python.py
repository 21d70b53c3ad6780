"""Python's interpreter: code, a module, a program of the workspace, or what it is fed."""

from collections.abc import Sequence

from shared.policy.call import Call, Handler
from shared.policy.executables import judge_program_arguments
from shared.policy.expansion import UNKNOWN
from shared.policy.options import parse_options
from shared.policy.paths import Place
from shared.policy.programs.interpreters import judge_fed
from shared.policy.programs.packages import PIP
from shared.policy.programs.python_code import judge_python
from shared.policy.programs.shells import run_file
from shared.policy.scope import Stream
from shared.policy.words import Word

_RULES = {
    "network.listen": "http.server SimpleHTTPServer http smtpd aiosmtpd pyftpdlib updog uploadserver",
    "network.fetch": "ftplib webbrowser",
    "network.shell": "telnetlib",
    "unclear.code": "pty code idlelib pdb runpy",
    "package.publish": "twine",
    "package.install": "ensurepip",
    "database.change": "sqlite3",
    "write.unpack": "tarfile",
}
_MODULE_RULES = {module: rule for rule, modules in _RULES.items() for module in modules.split()}
"""Modules that do more than work on files of the workspace."""
_MODULE_LOOKS = {"twine": {"check"}, "tarfile": {"-l", "--list", "-t", "--test"}}
"""What they do with these as their first word is nothing but looking."""
_VALUED = {"-W", "-X", "--check-hash-based-pycs"}
_SETUP_INSTALLS = {"install", "develop", "upload", "register", "easy_install"}
_STEPS = {"continue", "c", "next", "n", "step", "s", "quit", "q", "where", "w", "bt", "list", "l"}
"""Commands of pdb that only step through a program."""
_RUNNERS = {"timeit", "cProfile", "trace", "pdb", "profile"}


def judge_python_call(call: Call) -> Stream | None:
    """python: code after -c, a module after -m, a file, or what it is fed."""
    words = list(call.args)
    while words and words[0].text.startswith("-") and words[0].text != "-":
        text = words.pop(0).text
        if text in _VALUED:
            words = words[1:]
        elif text.startswith("--") or text in {"-V", "-VV", "-h"}:
            return None
        elif (letter := next((one for one in text[1:] if one in "cm"), "")) != "":
            rest = text.partition(letter)[2]
            if rest:
                words = [Word(rest), *words]
            return _judge_given(call, letter, words)
        elif "i" in text:
            call.find("unclear.code", call.name)
    if words and words[0].text != "-":
        return _judge_file(call, words)
    if not call.args and call.stdin.text == "":
        return None
    return judge_fed(call, lambda code: judge_python(call, code))


def _judge_given(call: Call, letter: str, words: list[Word]) -> Stream:
    """What follows -c or -m, and the words after it."""
    first = words[0] if words else Word("")
    if letter == "m":
        _judge_module(call, first, words[1:])
    else:
        judge_python(call, first.text)
        for word in words[1:]:
            call.read(word)
    return Stream(source="computed")


def _judge_file(call: Call, words: Sequence[Word]) -> Stream | None:
    """A program of the workspace, or one that the script itself wrote."""
    call.args = words
    path = call.path(words[0]) or ""
    if path.endswith("setup.py") and any(word.text in _SETUP_INSTALLS for word in words[1:]):
        call.find("package.install")
    written = call.scope.files.get(path)
    if written is not None and written.source != "program" and UNKNOWN not in (written.text or UNKNOWN):
        judge_python(call, written.text or "")
        return None
    texts = [word.text for word in words[1:]]
    if texts[:1] in (["shell"], ["shell_plus"]) and {"-c", "--command"} & set(texts):
        judge_python(call, texts[-1])
        call.find("unclear.code", path.rsplit("/", 1)[-1])
    for word in words[1:]:
        call.read(word)
    return run_file(call, words[0])


def _judge_module(call: Call, module: Word, words: Sequence[Word]) -> None:
    name = module.text
    if not module.known:
        call.find("unclear.code", call.name)
    elif name in {"pip", "ensurepip"}:
        if name == "ensurepip":
            call.find("package.install")
        call.words, call.args, call.name = [Word("pip"), *words], words, "pip"
        PIP(call)
    elif name in _RUNNERS and words:
        _judge_runner(call, name, words)
    elif name == "http.server" and _is_loopback(words):
        for word in parse_options(words, "b bind d directory p protocol").of("d directory"):
            call.read(word, deep=True)
    elif rule := _MODULE_RULES.get(name) or _MODULE_RULES.get(name.split(".")[0]):
        if not words or words[0].text not in _MODULE_LOOKS.get(name, ()):
            call.find(rule)
    elif name == "venv":
        for word in words:
            if not word.text.startswith("-"):
                call.write(word, create=True)
    else:
        _judge_other(call, name, words)


def _judge_other(call: Call, name: str, words: Sequence[Word]) -> None:
    """A module that works on files of the workspace."""
    if name == "unittest" and any(call.place(word) is Place.SCRATCH for word in words):
        call.find("run.outside", "unittest")
    call.args = words
    judge_program_arguments(call)


def _is_loopback(words: Sequence[Word]) -> bool:
    """Whether a server listens to this very machine alone."""
    bound = parse_options(words, "b bind d directory p protocol").of("b bind")
    return bool(bound) and all(word.text in {"127.0.0.1", "localhost", "::1"} for word in bound)


def _judge_runner(call: Call, name: str, words: Sequence[Word]) -> None:
    """Modules that measure or trace a program, or code."""
    found = parse_options(words, "s n r u o m c setup", permute=False)
    if any(word.text not in _STEPS for word in found.of("c")):
        call.find("unclear.code", call.name)
    for word in found.of("s setup"):
        judge_python(call, word.text)
    if name == "timeit":
        judge_python(call, "\n".join(word.text for word in found.operands))
    elif found.operands and not found.has("m"):
        call.run([Word("python3"), *found.operands])
    call.apply(found, "write o")


PROGRAMS: dict[str, Handler] = {
    "python python2 python3 pypy pypy3 ipython bpython pythonw": judge_python_call
}
