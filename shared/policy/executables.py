"""Programs called by their path: the system's, the workspace's, and those the script itself wrote."""

import re
from typing import TYPE_CHECKING

from shared.policy.checks import judge_script_name, judge_tasks
from shared.policy.expansion import UNKNOWN
from shared.policy.paths import Place, place, resolve
from shared.policy.scope import UNREAD, Stream
from shared.policy.words import Word

if TYPE_CHECKING:
    from shared.policy.call import Call

_BINARIES = re.compile(r"/(usr/)?(local/)?s?bin/[^/]+$|/opt/homebrew/bin/[^/]+$")
_NOT_OURS = {Place.SYSTEM, Place.HOME, Place.DEVICE, Place.KERNEL}


def judge_path_call(call: "Call") -> Stream:
    """Judge a program by its place: the system's by its name, the workspace's by its arguments."""
    path = resolve(call.name, call.scope.cwd)
    if path is None:
        call.find("unclear.name", call.name)
        return UNREAD
    if path in call.scope.files:
        return run_written(call, path)
    where = place(path, call.shell.workspace)
    if _BINARIES.match(path):
        call.name = path.rsplit("/", 1)[-1]
        return call.judge_program()
    if where is Place.WORKSPACE:
        return _judge_own_program(call, path)
    call.find("unclear.name" if where in {Place.KERNEL, Place.DEVICE} else "run.outside", path)
    call.name = path.rsplit("/", 1)[-1]
    return call.judge_program()


def _judge_own_program(call: "Call", path: str) -> Stream:
    """A program of the workspace: by its name if that is known, else by its arguments."""
    if call.scope.is_fetched(path):
        call.find("run.download")
    call.name = path.rsplit("/", 1)[-1]
    handler = call.handler
    if handler is not None:
        return handler(call) or UNREAD
    judge_program_arguments(call)
    judge_script_name(call, path)
    judge_tasks(call, call.args)
    return UNREAD


def judge_program_arguments(call: "Call") -> None:
    """Arguments of a program that works in the workspace: what lies outside it may be changed."""
    for word in call.args:
        text = word.text
        if text.startswith("-") and "=" in text:
            text = text.partition("=")[2]
        value = Word(text, word.glob, word.obfuscated, word.hidden)
        call.read(value)
        path = resolve(text, call.scope.cwd) if "/" in text or text.startswith("~") else None
        if path and place(path, call.shell.workspace) in _NOT_OURS:
            call.find("unknown.use")


def run_written(call: "Call", path: str) -> Stream:
    """Judge that a file is run which the script itself wrote: by its text if that is known."""
    stream = call.scope.files[path]
    shown = path if not path.startswith("/dev/fd/") else "What a substitution gives"
    if stream.source == "network":
        call.find("run.download")
    elif stream.text is None or UNKNOWN in stream.text:
        call.find("run.renamed" if stream.source == "program" else "run.written", shown)
    else:
        run_script_file(call, stream.text)
    if stream.source == "program":
        call.name = stream.text or "sh"
        call.find("run.renamed", path)
        return call.judge_program()
    return UNREAD


def run_script_file(call: "Call", text: str) -> None:
    """Judge a file's text by the language its first line names; the shell's without one."""
    first = text.partition("\n")[0]
    if first.startswith("#!") and not re.search(r"\b(ba|da|z|k|a)?sh\b", first):
        words = [Word(part) for part in first[2:].split()]
        inner = call.scope.branch()
        inner.stdin = Stream(text.partition("\n")[2])
        call.shell.call(words or [Word("sh")], inner)
    else:
        call.script(text)
