"""Programs that run another command, given or fed to them: it is judged in their place."""

import re
import shlex

from shared.policy.call import Call, Handler
from shared.policy.environment import judge_variable
from shared.policy.expansion import UNKNOWN
from shared.policy.options import parse_options
from shared.policy.programs.shell_builtins import judge_environment
from shared.policy.scope import Stream
from shared.policy.words import Word

_VALUED = {
    "nice": "n adjustment", "ionice": "c n p t class classdata", "stdbuf": "i o e input output error",
    "chrt": "p T P D", "timeout": "s k signal kill-after", "gtimeout": "s k signal kill-after",
    "time": "f o format output", "gtime": "f o", "watch": "n interval d", "caffeinate": "t w",
    "faketime": "f",
    "xvfb-run": "n s e a", "hyperfine": "r w m n p c", "strace": "e o p s a E u P O S b I",
    "ltrace": "e o p s n a", "numactl": "m N C", "cpulimit": "l p e",
    "flock": "w E timeout conflict-exit-code c command",
}  # fmt: skip
"""Options of wrappers that take a value; the others have none."""
_TAKES_FIRST = frozenset("timeout gtimeout taskset chrt faketime".split())
"""Wrappers whose first operand is their own: a time, processors, a priority."""


def judge_wrapped(call: Call) -> Stream | None:
    """The command behind the wrapper's own options."""
    found = call.options(_VALUED.get(call.name, ""), permute=False)
    words = found.operands
    if call.name in {"time", "strace", "ltrace", "gtime"}:
        call.apply(found, "write o output")
    if call.name in {"strace", "ltrace"} and found.has("p"):
        call.find("process.inspect")
    if call.name in _TAKES_FIRST:
        words = words[1:]
    if call.name == "flock" and words:
        call.write(words[0], create=True)
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


_RUNNERS = frozenset("sh bash dash zsh ksh eval env sudo python python3 perl ruby node xargs".split())
_FED = Word(UNKNOWN, computed=True)


def judge_xargs(call: Call) -> Stream | None:
    """xargs runs a command on what it is fed."""
    found = call.options(
        "a d E I i L n P s arg-file delimiter max-args max-procs max-lines replace max-chars J R S",
        permute=False,
    )
    for word in found.of("a arg-file"):
        if word.text != "/dev/stdin":
            call.read(word)
    words = found.operands or [Word("echo")]
    if call.stdin.endless:
        call.find("exhaust.endless")
    fed = _fed_words(call)
    marks = [word.text for word in found.of("I replace J")] or (["{}"] if found.has("i replace") else [])
    if marks:
        lines = [Word(line) for line in (call.stdin.text or "").splitlines()[:8]] or fed[:1]
        for line in lines[1:]:
            call.run([_fill(word, marks[0], line) for word in words], stdin=Stream())
        full = [_fill(word, marks[0], lines[0]) for word in words]
        if marks[0] in words[0].text:
            call.find("unclear.command")
    else:
        full = [*words, *fed]
    if call.stdin.source == "network" or (
        call.stdin.source == "computed" and words[0].text.rsplit("/", 1)[-1] in _RUNNERS
    ):
        call.find("unclear.input", call.name)
    return call.run(full, stdin=Stream())


def _fill(word: Word, mark: str, fed: Word) -> Word:
    return Word(word.text.replace(mark, fed.text), True, word.obfuscated) if mark in word.text else word


def _fed_words(call: Call) -> list[Word]:
    stream = call.stdin
    if stream.text is not None:
        return [Word(text) for text in stream.text.split()[:32]] or [_FED]
    if stream.paths is not None:
        return [Word(path, True) for path in stream.paths] or [_FED]
    return [_FED]


def judge_parallel(call: Call) -> None:
    """parallel runs a command for each of its arguments."""
    found = call.options(
        "j S a I colsep arg-file jobs sshlogin joblog results tmpdir timeout delay N n L", permute=False
    )
    if found.has("S sshlogin"):
        call.find("network.remote")
    words, given = list(found.operands), []
    for position, word in enumerate(words):
        if word.text.startswith(":::"):
            given = [one for one in words[position + 1 :] if not one.text.startswith(":::")]
            words = words[:position]
            break
    given = given or _fed_words(call)
    if not words:
        for word in given:
            call.script(word.text)
        if not any(word.known for word in given):
            call.find("unclear.input", call.name)
        return
    if len(words) == 1 and " " in words[0].text:
        call.script(words[0].text.replace("{}", UNKNOWN if not given[0].known else given[0].text))
    for word in given[:32]:
        filled = [Word(re.sub(r"\{[./]*\}", word.text.replace("\\", "/"), one.text)) for one in words]
        call.run(filled if any("{" in one.text for one in words) else [*words, word])


PROGRAMS: dict[str, Handler] = {
    "nice ionice nohup setsid stdbuf unbuffer chrt taskset setarch linux64 linux32 catchsegv timeout "
    "gtimeout time gtime watch then else do caffeinate eatmydata faketime dbus-run-session xvfb-run "
    "hyperfine strace ltrace valgrind numactl cpulimit softlimit rlwrap chronic ifne "
    "flock fakeroot !": judge_wrapped,
    "env": judge_env,
    "perf": judge_perf,
    "busybox toybox": judge_busybox,
    "ld.so ld-linux.so ld-linux-x86-64.so.2 "
    "ld-linux.so.2 ld-musl-x86_64.so.1 ld-linux-aarch64.so.1": judge_loader,
    "entr": judge_entr,
    "xargs gxargs": judge_xargs,
    "parallel": judge_parallel,
}
