"""Programs that run scripts and words as commands: shells, eval, source, trap, alias."""

import re

from shared.policy.call import Call, Handler
from shared.policy.checks import judge_script_name, judge_tasks
from shared.policy.executables import run_written
from shared.policy.expansion import UNKNOWN
from shared.policy.paths import Place
from shared.policy.programs.rows import HARMLESS, Step, row
from shared.policy.scope import NOTHING, Stream
from shared.policy.words import Word

_SHELLS = "sh bash dash zsh ksh mksh ash csh tcsh fish rbash pwsh powershell elvish nu oksh yash posh"

_SHORT = {"ls", "cd", "rm", "cp", "mv", "sh", "ps", "id", "su", "df", "du", "ln", "vi", "dd", "nc"}
"""Names of two letters that everybody takes for the program, not for an abbreviation."""


def judge_shell(call: Call) -> Stream | None:
    """A shell runs the text after -c, a file, or what it is fed."""
    found = call.options("o O rcfile init-file c Command", permute=False)
    if found.has("i rcfile init-file") and not found.has("c"):
        call.find("unclear.input")
    texts = found.of("c Command")
    clustered = next((flag for flag in found.flags if flag.endswith("c") and len(flag) > 1), "")
    if texts:
        return _run_text(call, texts[0], found.operands)
    if clustered and found.operands:
        return _run_text(call, found.operands[0], found.operands[1:])
    if found.has("version help n"):
        return None
    if call.name in {"pwsh", "powershell"} and found.operands and "." not in found.operands[0].text:
        return call.run_hidden(" ".join(word.text for word in found.operands))
    if found.operands and not found.has("s"):
        return run_file(call, found.operands[0])
    return _run_input(call)


def _run_text(call: Call, word: Word, words: list[Word]) -> Stream | None:
    if word.text == UNKNOWN or not word.text.strip("\0\"' "):
        call.find("run.download" if call.shell.fetched else "unclear.command")
        return None
    return call.script(word.text, words)


def run_file(call: Call, word: Word) -> Stream | None:
    """A script is run: one of the workspace may be, others are asked after."""
    path = call.path(word)
    if path is not None and path in call.scope.files:
        return run_written(call, path)
    where = call.place(word)
    if "://" in word.text:
        call.find("run.download")
    if word.text in {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}:
        return _run_input(call)
    if path is None or where is Place.UNKNOWN or UNKNOWN in path:
        call.find("unclear.command")
    elif call.scope.is_fetched(path):
        call.find("run.download")
    elif where is not Place.WORKSPACE:
        call.find("run.outside", path)
    else:
        judge_script_name(call, path)
    judge_tasks(call, call.args[1:])
    for argument in call.args[1:]:
        call.read(argument)
    return None


def _run_input(call: Call) -> Stream | None:
    stream = call.stdin
    if stream.source == "network":
        call.find("run.download")
    elif stream.text is None:
        call.find("unclear.input", call.name)
    elif stream is NOTHING and call.name in _SHELLS.split():
        # It has no input: it is interactive.
        call.find("unclear.command", call.name)
    else:
        return call.script(stream.text)
    return None


def judge_eval(call: Call) -> None:
    """Its words are put together and run."""
    words = [word for word in call.args if word.text != "--"]
    if not words:
        return
    text = " ".join(word.text for word in words)
    if any(not word.known for word in words):
        call.find("run.download" if call.shell.fetched else "unclear.eval", call.name)
    call.same_shell(text)


def judge_source(call: Call) -> None:
    """A file is run in this shell."""
    if not call.args:
        return
    run_file(call, call.args[0])


def judge_trap(call: Call) -> None:
    """A script is run when a signal comes."""
    words = [word for word in call.args if word.text not in {"--", "-l", "-p"}]
    if len(words) > 1 and words[0].text not in {"-", ""}:
        if words[0].known:
            call.script(words[0].text)
        else:
            call.find("unclear.command")


def judge_alias(call: Call) -> None:
    """A name gets another meaning: one that hides a program's own is never harmless."""
    for word in call.args:
        name, equals, text = word.text.partition("=")
        if equals:
            call.scope.aliases[name] = text
            call.script(text)
            known = call.is_program(name) and (len(name) > 2 or name in _SHORT)
            if known and not re.match(rf"\s*\\?{re.escape(name)}\b", text):
                call.find("run.renamed")


def judge_builtin(call: Call) -> Stream | None:
    """command, builtin, exec: the rest is a command."""
    found = call.options("a", permute=False) if call.name == "exec" else call.options("", permute=False)
    if call.name == "command" and found.has("v V"):
        return None
    return call.run(found.operands) if found.operands else None


PROGRAMS: dict[str, Handler] = {
    _SHELLS: judge_shell,
    "eval": judge_eval,
    "source .": judge_source,
    "trap": judge_trap,
    "alias": judge_alias,
    "unalias": HARMLESS,
    "command builtin exec coproc": judge_builtin,
    "enable": row("f", Step("run.preload", has="f n d")),
}
