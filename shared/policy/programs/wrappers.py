"""Programs that run another command given in their words: it is judged in their place."""

import re
import shlex

from shared.policy.call import Call, Handler
from shared.policy.environment import judge_variable
from shared.policy.options import parse_options
from shared.policy.programs.information import judge_environment
from shared.policy.scope import Stream
from shared.policy.words import Word

_VALUED = {
    "nice": "n adjustment",
    "ionice": "c n p t class classdata",
    "nohup": "",
    "setsid": "",
    "stdbuf": "i o e input output error",
    "unbuffer": "",
    "chrt": "p T P D",
    "taskset": "",
    "setarch": "",
    "linux64": "",
    "linux32": "",
    "catchsegv": "",
    "timeout": "s k signal kill-after",
    "gtimeout": "s k signal kill-after",
    "time": "f o format output",
    "gtime": "f o",
    "watch": "n interval d",
    "busybox": "",
    "toybox": "",
    "then": "",
    "else": "",
    "do": "",
    "caffeinate": "t w",
    "eatmydata": "",
    "faketime": "f",
    "firejail": "",
    "dbus-run-session": "",
    "xvfb-run": "n s e a",
    "hyperfine": "r w m n p c",
    "strace": "e o p s a E u P O S b I",
    "ltrace": "e o p s n a",
    "valgrind": "",
    "gdbserver": "",
    "numactl": "m N C",
    "prlimit": "",
    "cpulimit": "l p e",
    "systemd-run": "p u",
    "softlimit": "",
    "rlwrap": "",
    "script": "c t T I O B E",
    "expect": "c",
    "chronic": "",
    "ifne": "",
    "errno": "",
    "entr": "",
    "reflex": "",
    "direnv": "",
    "cgexec": "g",
    "flock": "w E timeout conflict-exit-code c command",
    "unshare": "",
    "proot": "",
    "fakeroot": "",
    "setpriv": "",
    "run-parts": "",
    "start-stop-daemon": "",
    "xdotool": "",
}


def judge_wrapped(call: Call) -> Stream | None:
    """The command behind the wrapper's own options."""
    found = call.options(_VALUED.get(call.name, ""), permute=False)
    words = found.operands
    for word in found.of("o output") if call.name in {"time", "strace", "ltrace", "gtime"} else ():
        call.write(word)
    if call.name in {"strace", "ltrace"} and found.has("p"):
        call.find("process.inspect")
    if call.name in {"timeout", "gtimeout", "taskset", "chrt", "faketime"} and words:
        words = words[1:]
    if call.name == "flock" and words:
        call.write(words[0], gently=True)
        words = words[1:]
        for word in [*found.of("c command"), *(words[1:2] if words and words[0].text == "-c" else ())]:
            return call.script(word.text)
    if call.name in {"watch", "hyperfine"} and words and (len(words) == 1 or call.name == "hyperfine"):
        for word in [*words, *found.of("p c prepare cleanup setup")]:
            call.script(word.text)
        return None
    return call.run(words) if words else None


_MEASURES = {"stat", "record", "trace", "mem", "c2c", "sched", "lock", "kmem"}
_MEASURED = {"report", "annotate", "script", "list", "diff", "evlist", "bench", "test", "version", "help"}


def judge_perf(call: Call) -> Stream | None:
    """perf measures a command, or shows what it measured; processes that run already are looked into."""
    found = call.options("", permute=False)
    action = found.operands[0].text if found.operands else ""
    rest = parse_options(found.operands[1:], "e F o i c r p t C g call-graph output input", permute=False)
    call.apply(rest, "write o output; read i input")
    if action == "top" or (action in _MEASURES and rest.has("p t a all-cpus")):
        call.find("process.inspect")
    elif action in _MEASURES:
        return call.run(rest.operands) if rest.operands else None
    elif action not in _MEASURED or (action == "script" and rest.operands):
        call.find("unknown.use")
    return None


def judge_env(call: Call) -> Stream | None:
    """env sets variables and runs the rest; without a rest it lists them."""
    found = call.options("u S C unset split-string chdir a argv0", permute=False)
    words = list(found.operands)
    for word in found.of("S split-string"):
        try:
            words = [Word(part) for part in shlex.split(word.text)] + words
        except ValueError:
            call.find("unclear.command")
    scope = call.scope = call.scope.branch()
    for word in found.of("C chdir"):
        scope.cwd = call.path(word)
    while words and re.match(r"[A-Za-z_]\w*=", words[0].text):
        name, _, value = words.pop(0).text.partition("=")
        judge_variable(call, name, value)
        scope.assign(name, value)
    if not words:
        return judge_environment(call)
    return call.run(words)


def judge_busybox(call: Call) -> Stream | None:
    """busybox is the program that its first word names."""
    words = list(call.args)
    while words and words[0].text.startswith("-"):
        if words[0].text not in {"--list", "--help", "--list-full"}:
            call.find("unknown.use")
        words = words[1:]
    return call.run(words) if words else None


def judge_loader(call: Call) -> Stream | None:
    """The loader of programs runs one under its own name."""
    call.find("run.renamed")
    found = call.options("library-path preload audit argv0", permute=False)
    if found.has("preload audit"):
        call.find("run.preload")
    return call.run(found.operands)


def judge_entr(call: Call) -> Stream | None:
    """entr and its like run a command when files change."""
    found = call.options("s", permute=False)
    if found.has("s"):
        call.apply(found, "script s")
        return None
    return call.run([word for word in found.operands if word.text != "/_"])


PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys(
        "nice ionice nohup setsid stdbuf unbuffer chrt taskset setarch linux64 linux32 catchsegv "
        "timeout gtimeout time gtime watch then else do caffeinate eatmydata faketime "
        "dbus-run-session xvfb-run hyperfine strace ltrace valgrind numactl cpulimit softlimit "
        "rlwrap chronic ifne flock fakeroot !".split(),
        judge_wrapped,
    ),
    "env": judge_env,
    "perf": judge_perf,
    "busybox": judge_busybox,
    "toybox": judge_busybox,
    **dict.fromkeys(
        "ld.so ld-linux.so ld-linux-x86-64.so.2 ld-linux.so.2 ld-musl-x86_64.so.1 "
        "ld-linux-aarch64.so.1".split(),
        judge_loader,
    ),
    "entr": judge_entr,
}
