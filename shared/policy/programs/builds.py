"""make and cmake: what a workspace's own rules build, and what is told to them besides."""

import re

from shared.policy.call import Call, Handler
from shared.policy.checks import names_effect
from shared.policy.paths import Place
from shared.policy.programs.tools import judge_tool
from shared.policy.scope import Stream
from shared.policy.words import Word

_CMAKE_COMMANDS = {
    "rm": "rm", "remove": "rm", "remove_directory": "rm -rf", "copy": "cp", "copy_directory": "cp -r",
    "copy_if_different": "cp", "rename": "mv", "cat": "cat", "touch": "touch", "make_directory": "mkdir -p",
    "create_symlink": "ln -s", "create_hardlink": "ln", "env": "env", "tar": "tar", "time": "time",
    "md5sum": "md5sum", "sha256sum": "sha256sum", "compare_files": "cmp", "echo": "echo", "sleep": "sleep",
}  # fmt: skip


def judge_cmake(call: Call) -> Stream | None:
    """cmake builds; -E makes it one of the system's small programs, -P runs a script of its own."""
    words = list(call.args)
    if words and words[0].text == "-E":
        name = words[1].text if len(words) > 1 else ""
        if name == "chdir" and len(words) > 3:
            call.scope = call.scope.branch()
            call.scope.cwd = call.path(words[2])
            return call.run(words[3:])
        if name in _CMAKE_COMMANDS:
            return call.run([*(Word(part) for part in _CMAKE_COMMANDS[name].split()), *words[2:]])
        if name not in {"", "capabilities", "environment", "true", "false"}:
            call.find("unknown.use")
        elif name == "environment":
            return Stream(None, None, "environment")
        return None
    return judge_tool(call)


def judge_make(call: Call) -> None:  # noqa: PLR0912 - one branch a kind
    """make runs what the Makefile says; variables and text given to it may run more."""
    found = call.options("f C j I l o W file directory makefile jobs eval include-dir t")
    if found.has("eval"):
        call.find("unclear.command")
        for word in found.of("eval"):
            for inner in re.findall(r"\$\(shell ([^)]*)\)|\n\t@?(.*)", word.text):
                call.script("".join(inner))
    for word in found.of("f file makefile"):
        if word.text in {"-", "/dev/stdin"} or call.path(word) in call.scope.files:
            call.find("unclear.input", call.name)
        elif call.place(word) is not Place.WORKSPACE:
            call.find("run.outside", word.text)
    for word in found.of("C directory"):
        path = call.path(word) or ""
        if any(path == folder or path.startswith(folder + "/") for folder in call.scope.fetched):
            call.find("run.download")
        elif call.place(word) not in {Place.WORKSPACE, Place.UNKNOWN}:
            call.find("run.outside", word.text)
    rehearsed = found.has("n just-print dry-run recon q question p print-data-base")
    for word in () if rehearsed else found.operands:
        name, equals, value = word.text.partition("=")
        if equals and name in {"SHELL", "MAKEFLAGS", ".SHELLFLAGS"}:
            call.find("run.preload")
        elif equals and re.search(r"[;|&`]|\$\(", value):
            call.find("unclear.command")
            call.script(value)
        elif equals and name in {"DESTDIR", "PREFIX", "prefix"}:
            call.write(Word(value), gently=True)
        elif word.text in {"install", "uninstall"} and not any(
            one.text.startswith(("DESTDIR=", "PREFIX=", "prefix=")) for one in found.operands
        ):
            call.find("write.system", "make install")
        elif not equals and names_effect(word.text):
            call.find("task.effect")
    if rehearsed and any("=" in word.text for word in found.operands):
        call.find("unknown.use")
    _judge_cloned(call)
    _judge_makefile(call)


def _judge_makefile(call: Call) -> None:
    """A Makefile that this very script wrote."""
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if call.path(Word(name)) in call.scope.files:
            call.find("run.written", name)


def _judge_cloned(call: Call) -> None:
    cwd = call.scope.cwd or ""
    if any(cwd == folder or cwd.startswith(folder + "/") for folder in call.scope.fetched):
        call.find("run.download")


PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys("make gmake bmake".split(), judge_make),
    "cmake": judge_cmake,
}
