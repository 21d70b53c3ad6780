"""Programs that end, slow down or look into running processes."""

import re

from shared.policy.call import Call, Handler
from shared.policy.secrets import guards_by_name


def judge_kill(call: Call) -> None:
    """Signals to its own jobs are everyday; to all, or to those of others, not."""
    words = [word.text for word in call.args]
    if not words or words[0] in {"-l", "-L", "--list", "-0"} or words[:2] in (["-s", "0"], ["-n", "0"]):
        return
    targets = [
        text
        for text in words
        if not text.startswith("-")
        or (text == "-1" and text != words[0])
        or (re.fullmatch(r"-\d{2,}", text) and text != words[0])
    ]
    if words[0] in {"-s", "-n", "--signal"}:
        targets = targets[1:]
    if any(text in {"-1", "1", "0"} for text in targets) or (words[-1] == "-1" and len(words) > 1):
        call.find("process.kill-all")
    elif not targets or not all(text.startswith("%") for text in targets):
        call.find("process.kill")


def judge_pkill(call: Call) -> None:
    """By name, or all of a user's."""
    found = call.options("u U g G P s t signal o y")
    if call.name == "fuser" and not any("k" in flag for flag in found.flags):
        return
    if (
        call.name == "killall5"
        or found.has("u U user")
        or not found.operands
        or any(word.text in {".", ".*", "-1"} for word in found.operands)
    ):
        call.find("process.kill-all")
    if any(guards_by_name(word.text) for word in found.operands):
        call.find("guard.tamper")
    call.find("process.kill")


_LOOKS = re.compile(
    r"\s*(bt|backtrace|where|info\s|thread|frame|list|disas\w*|run|r|quit|q|up|down|ptype|whatis|bt\sfull"
    r"|set\s+(pagination|confirm|width|height|print)\b|x/|(p|print)\s+[\w.>*&\[\]-]+$)[^|!>()]*$"
)
"""What shows the state of a program that is being debugged, or of what is left of it."""


def judge_debugger(call: Call) -> None:
    """Debuggers run and change processes; backtraces of core files do neither."""
    found = call.options("p pid ex eval-command x command iex o one-line")
    told = found.of("ex eval-command iex o one-line")
    if found.has("p pid"):
        call.find("process.inspect")
    elif not (found.has("batch") and told and all(_LOOKS.match(word.text) for word in told)):
        call.find("unknown.use")
    for word in [*found.of("x command"), *found.operands]:
        call.read(word)
    for word in told:
        text = re.sub(r"^\s*(!|shell\s|python\s)", "", word.text)
        if text != word.text:
            call.find("unclear.command")
            call.script(text)


PROGRAMS: dict[str, Handler] = {
    "kill": judge_kill,
    **dict.fromkeys("pkill killall killall5 skill snice xkill fuser".split(), judge_pkill),
    **dict.fromkeys("gdb lldb".split(), judge_debugger),
    "renice": lambda call: call.find("process.kill"),
    "reptyr": lambda call: call.find("process.inspect"),
}
